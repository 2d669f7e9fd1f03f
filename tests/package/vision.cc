// A program of another project: the built-in backbone, and an image there and back.
#include <contcore/backbone.h>
#include <contcore/image.h>

#include <cstdio>

int main() {
  const contcore::Backbone backbone("builtin");
  contcore::Image image{8, 4, std::vector<std::uint8_t>(8 * 4 * 3, 128)};
  const auto png = contcore::encode_png(image);
  const contcore::Image back = contcore::decode_image(png, "made");
  const auto shapes = backbone.info(64, 64);
  std::printf("builtin has %zu layers, the image %zu x %zu\n", shapes.layers.size(), back.width,
              back.height);
  return !shapes.layers.empty() && back.rgb == image.rgb ? 0 : 1;
}
