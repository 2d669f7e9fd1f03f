#include "image/webp.h"

#include <webp/decode.h>

namespace contcore {

Image decode_webp(const ImageBytes& file) {
  file.need(8, file.little32(4));  // the length, as the file gives it
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(file.data(), file.size(), &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) file.cut_short();
  if (status != VP8_STATUS_OK) file.undecodable("");
  if (features.has_animation != 0) file.unread("an animated WebP");
  const auto width = static_cast<std::size_t>(features.width);
  const auto height = static_cast<std::size_t>(features.height);
  file.check_size(width, height);
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  if (WebPDecodeRGBInto(file.data(), file.size(), image.rgb.data(), image.rgb.size(),
                        features.width * 3) == nullptr) {
    file.undecodable("");
  }
  return image;
}

}  // namespace contcore
