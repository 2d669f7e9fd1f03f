// ONNX files: read, brought to 8 bits, applied, shaped, and run if that is little work.
#include "backbone/onnx.h"

#include "backbone/quantizer.h"
#include "contcore/backbone.h"
#include "fuzz.h"

using namespace contcore;

namespace {

constexpr std::size_t kSide = 16;
constexpr double kMostGflops = 1e-4;
constexpr std::size_t kMostNumbers = 1 << 16;

bool is_small(const BackboneInfo& info) {
  for (const LayerShape& layer : info.layers) {
    if (layer.channels * layer.height * layer.width > kMostNumbers) return false;
  }
  return info.gflops < kMostGflops;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Most inputs end here, without a file.
  if (!fuzz::taken([&] { parse_onnx(data, size); })) return 0;
  // Brought to 8 bits, where it can be, it is a network again.
  fuzz::taken([&] {
    const Quantizer quantizer(std::string(reinterpret_cast<const char*>(data), size));
    std::map<std::string, float> ranges;
    for (const std::string& tensor : quantizer.tensors()) ranges[tensor] = 1;
    const std::string file = quantizer.file(ranges, "");
    fuzz::expect(is_quantized(parse_onnx(file.data(), file.size())));
  });
  static fuzz::MemoryFile file;
  fuzz::taken([&] {
    const Backbone backbone(file.holding({data, size}));
    if (!is_small(backbone.info(kSide, kSide))) return;
    const std::vector<float> image(3 * kSide * kSide, 0.5F);
    auto runner = backbone.runner();
    Compute one(1);
    for (const FeatureMap& map : runner.run(image, kSide, kSide, one)) {
      float sum = 0;
      for (std::size_t i = 0; i < map.channels * map.height * map.width; ++i) sum += map.data[i];
      volatile float kept = sum;
      (void)kept;
    }
  });
  return 0;
}
