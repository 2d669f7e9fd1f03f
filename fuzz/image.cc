// Images of all formats, decoded whole.
#include "contcore/image.h"

#include "fuzz.h"

using namespace contcore;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // On the heap and of its exact length, so that a byte too far is seen.
  const std::vector<std::uint8_t> bytes(data, data + size);
  const ImageLimits limits{1 << 20, 100000};
  fuzz::taken([&] {
    const Image image = decode_image(bytes, "image", limits);
    fuzz::expect(image.width > 0 && image.height > 0);
    fuzz::expect(image.width * image.height <= limits.pixels);
    fuzz::expect(image.rgb.size() == image.width * image.height * 3);
  });
  return 0;
}
