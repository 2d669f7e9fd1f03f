#include "serve/thumbnail.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "image/jpeg.h"
#include "image/resize.h"
#include "serve/api_common.h"

namespace contcore {

std::string thumbnail(std::string_view image, std::size_t side) {
  const Image whole = decode(image);
  const std::size_t longer = std::max(whole.width, whole.height);
  const auto shrunk = [&](std::size_t pixels) {
    return longer <= side ? pixels : std::max<std::size_t>(1, pixels * side / longer);
  };
  const std::vector<std::uint8_t> jpeg =
      encode_jpeg(resize_image(whole, shrunk(whole.width), shrunk(whole.height)));
  return {jpeg.begin(), jpeg.end()};
}

}  // namespace contcore
