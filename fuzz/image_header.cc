// Headers of images, of all formats, before anything is decoded.
#include "image/header.h"

#include "fuzz.h"

using namespace contcore;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // On the heap and of its exact length, so that a byte too far is seen.
  const std::vector<std::uint8_t> bytes(data, data + size);
  fuzz::taken([&] {
    const ImageHeader header = read_image_header(bytes, "image");
    fuzz::expect(header.width > 0 && header.height > 0 && !header.format.empty());
    const auto picture = picture_of(bytes);
    fuzz::expect(!picture.empty() && picture.size() <= bytes.size());
    // What is handed to the decoder is still what was looked at.
    const ImageHeader again = read_image_header(picture, "picture");
    fuzz::expect(again.width == header.width && again.height == header.height);
  });
  return 0;
}
