// A camera's frame: format, size and padding in the first ten bytes, the frame's own behind them.
#include "camera/frame.h"

#include "fuzz.h"

using namespace contcore;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  const auto number = [&](int bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | fuzz::take(input);
    return value;
  };
  Frame frame;
  frame.format = number(4);
  frame.width = number(2);
  frame.height = number(2);
  frame.padding = number(2);
  frame.bytes.assign(input.begin(), input.end());
  const bool taken = fuzz::taken([&] {
    const Image image = image_of(frame);
    fuzz::expect(image.width == frame.width && image.height == frame.height);
    fuzz::expect(image.rgb.size() == frame.width * frame.height * 3);
    const std::vector<std::uint8_t> png = png_of(frame, image);
    fuzz::expect(decode_image(png, "png").rgb == image.rgb);
  });
  fuzz::expect(!taken || is_known_format(frame.format));
  return 0;
}
