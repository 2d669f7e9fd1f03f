// Keras's ResNet, as TensorFlow.js stores it, turned into an ONNX file.
//
//   model.json             {"weightsManifest": [{"paths": ["shard1.bin", …],
//                            "weights": [{"name": "conv1/kernel", "shape": [7, 7, 3, 64],
//                                         "dtype": "float32"}, …]}, …], …}
//   shard1.bin …           beside it: a group's weights one after the other, float32 little endian,
//                          cut into files without regard to where a weight ends
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace contcore {

class KerasWeights {
 public:
  /// Reads model.json and the shards beside it. Throws Error (kInput) if they do not fit together:
  /// the manifest is believed only as far as the sizes of the shards bear it out.
  explicit KerasWeights(const std::string& model_json);

  /// A weight by its name. Throws Error (kInput) if it is not there or has another shape.
  std::span<const float> get(const std::string& name, const std::vector<std::int64_t>& shape) const;

 private:
  struct Weight {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  std::string file_;
  std::map<std::string, Weight> weights_;
};

/// Which ResNet: bottleneck blocks of width w → w → 4w, up to the last stage wanted.
struct ResNetShape {
  std::int64_t stem = 64;
  std::vector<std::int64_t> widths = {64, 128, 256};
  std::vector<std::size_t> blocks = {3, 4, 6};
};

/// The network up to its last stage as an ONNX model (opset 13), the stages' outputs named layer1,
/// layer2, …, batch norms folded, for RGB images with ImageNet's mean and deviation taken out.
/// Returns the bytes of the file.
std::string convert_resnet(const KerasWeights& weights, const ResNetShape& shape = {});

}  // namespace contcore
