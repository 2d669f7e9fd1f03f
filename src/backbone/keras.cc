#include "backbone/keras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/refuse.h"
#include "contcore/error.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

namespace contcore {
namespace {

constexpr std::size_t kLargestManifest = std::size_t{8} << 20;
constexpr std::size_t kLargestShard = std::size_t{64} << 20;
constexpr std::size_t kMostWeights = std::size_t{1} << 30;
constexpr std::size_t kMostDimensions = 8;

// What Keras trained with. The package's model.json says 1e-3, the default of the layer, which is
// not what the weights were made for.
constexpr double kEpsilon = 1.001e-5;

// ImageNet's deviations, RGB.
constexpr std::array<float, 3> kDeviation = {0.229f, 0.224f, 0.225f};

using Shape = std::vector<std::int64_t>;

// ---- Reading -----------------------------------------------------------------------------------

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == file.npos ? "" : file.substr(0, slash + 1);
}

// The shards of a group, one after the other.
std::vector<std::uint8_t> read_shards(const std::string& file, const nlohmann::json& paths) {
  std::vector<std::uint8_t> bytes;
  for (const nlohmann::json& path : paths) {
    const std::string name = path.get<std::string>();
    if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos ||
        name == "." || name == "..") {
      refuse(file, fmt::format("names a shard \"{}\", which is not a file beside it", name));
    }
    const std::vector<std::uint8_t> shard =
        read_whole(folder_of(file) + name, "a shard of weights", kLargestShard);
    if (bytes.size() + shard.size() > kMostWeights) refuse(file, "has more than 1 GiB of weights");
    bytes.insert(bytes.end(), shard.begin(), shard.end());
  }
  return bytes;
}

Shape read_shape(const std::string& file, const std::string& name, const nlohmann::json& json) {
  Shape shape = json.get<Shape>();
  if (shape.size() > kMostDimensions) refuse(file, name + " has too many dimensions");
  return shape;
}

// How many bytes a weight of that shape takes, if no more than `left` do.
std::size_t bytes_of(const std::string& file, const std::string& name, const Shape& shape,
                     std::size_t left) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    if (size <= 0) refuse(file, fmt::format("{} has a size of {}", name, size));
    if (static_cast<std::uint64_t>(size) > left / sizeof(float) / count) {
      refuse(file, fmt::format("the shards end before {} of shape {}", name, shape));
    }
    count *= static_cast<std::size_t>(size);
  }
  if (count > left / sizeof(float)) {
    refuse(file, fmt::format("the shards end before {} of shape {}", name, shape));
  }
  return count * sizeof(float);
}

// ---- Folding -----------------------------------------------------------------------------------

// A convolution with its bias: kernel out × in × height × width.
struct FoldedConvolution {
  Shape shape;
  std::vector<float> kernel;
  std::vector<float> bias;
};

double wide(float value) { return static_cast<double>(value); }

// A Keras convolution, whose kernel is height × width × in × out, with the batch norm after it:
// γ · (k * x + b − µ) / √(σ² + ε) + β.
FoldedConvolution fold(const KerasWeights& weights, const std::string& conv,
                       const std::string& norm, const Shape& shape) {
  const auto [out, in, height, width] = std::array{shape[0], shape[1], shape[2], shape[3]};
  const auto kernel = weights.get(conv + "/kernel", {height, width, in, out});
  const auto bias = weights.get(conv + "/bias", {out});
  const auto gamma = weights.get(norm + "/gamma", {out});
  const auto beta = weights.get(norm + "/beta", {out});
  const auto mean = weights.get(norm + "/moving_mean", {out});
  const auto variance = weights.get(norm + "/moving_variance", {out});
  FoldedConvolution folded{shape, std::vector<float>(kernel.size()),
                           std::vector<float>(bias.size())};
  const std::size_t outs = bias.size();
  const std::size_t ins = static_cast<std::size_t>(in);
  const std::size_t taps = static_cast<std::size_t>(height * width);
  for (std::size_t o = 0; o < outs; ++o) {
    const double scale = wide(gamma[o]) / std::sqrt(wide(variance[o]) + kEpsilon);
    if (!std::isfinite(scale)) {
      throw Error(Error::Kind::kInput,
                  fmt::format("{}: channel {} has a variance of {}", norm, o, variance[o]));
    }
    folded.bias[o] = static_cast<float>((wide(bias[o]) - wide(mean[o])) * scale + wide(beta[o]));
    for (std::size_t i = 0; i < ins; ++i) {
      for (std::size_t t = 0; t < taps; ++t) {
        folded.kernel[(o * ins + i) * taps + t] =
            static_cast<float>(wide(kernel[(t * ins + i) * outs + o]) * scale);
      }
    }
  }
  return folded;
}

// Keras's weights want BGR from 0 to 255 with a mean taken out, ours get RGB with ImageNet's mean
// taken out and divided by its deviation. The channels change places and the kernel takes in the
// scale. Both means are the mean pixel of the same images and differ by less than half a grey
// level, so zero stays zero: then the zeros that pad the border mean to the network what they
// always did.
void take_rgb(FoldedConvolution& first) {
  const std::size_t taps = static_cast<std::size_t>(first.shape[2] * first.shape[3]);
  for (std::size_t at = 0; at < first.kernel.size(); at += 3 * taps) {
    float* blue = first.kernel.data() + at;
    std::swap_ranges(blue, blue + taps, blue + 2 * taps);
    for (std::size_t i = 0; i < 3 * taps; ++i) {
      blue[i] = blue[i] * (255 * kDeviation[i / taps]);
    }
  }
}

// ---- Writing -----------------------------------------------------------------------------------

class Writer {
 public:
  Writer() {
    model_.set_ir_version(7);
    model_.set_producer_name("contcore");
    model_.add_opset_import()->set_version(13);
    graph().set_name("resnet");
    declare(*graph().add_input(), "input", 3);
  }

  std::string conv(const std::string& name, const std::string& input,
                   const FoldedConvolution& weights, std::int64_t stride) {
    add_tensor(name + ".w", weights.shape, weights.kernel);
    add_tensor(name + ".b", {weights.shape[0]}, weights.bias);
    onnx::NodeProto& node = add("Conv", name, {input, name + ".w", name + ".b"});
    const std::int64_t kernel = weights.shape[2];
    set(node, "kernel_shape", {kernel, kernel});
    set(node, "strides", {stride, stride});
    const std::int64_t pad = kernel / 2;
    set(node, "pads", {pad, pad, pad, pad});
    return name;
  }

  // Keras pads with zeros, ONNX with −∞: after a relu the largest of either is the same.
  std::string max_pool(const std::string& name, const std::string& input) {
    onnx::NodeProto& node = add("MaxPool", name, {input});
    set(node, "kernel_shape", {3, 3});
    set(node, "strides", {2, 2});
    set(node, "pads", {1, 1, 1, 1});
    return name;
  }

  std::string relu(const std::string& name, const std::string& input) {
    add("Relu", name, {input});
    return name;
  }

  std::string sum(const std::string& name, const std::string& a, const std::string& b) {
    add("Add", name, {a, b});
    return name;
  }

  void output(const std::string& name, std::int64_t channels) {
    declare(*graph().add_output(), name, channels);
  }

  std::string bytes() const { return model_.SerializeAsString(); }

 private:
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  static void declare(onnx::ValueInfoProto& value, const std::string& name, std::int64_t channels) {
    value.set_name(name);
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    type.mutable_shape()->add_dim()->set_dim_param("batch");
    type.mutable_shape()->add_dim()->set_dim_value(channels);
    const std::string prefix = name == "input" ? "" : name + "_";
    type.mutable_shape()->add_dim()->set_dim_param(prefix + "height");
    type.mutable_shape()->add_dim()->set_dim_param(prefix + "width");
  }

  onnx::NodeProto& add(const std::string& op, const std::string& name,
                       const std::vector<std::string>& inputs) {
    onnx::NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name(name);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(name);
    return node;
  }

  static void set(onnx::NodeProto& node, const std::string& name, const Shape& values) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
  }

  void add_tensor(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    static_assert(std::endian::native == std::endian::little, "raw_data is little endian");
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t size : shape) tensor.add_dims(size);
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  }

  onnx::ModelProto model_;
};

// One bottleneck block, named as Keras does ("2a": stage 2, first block). The stride sits on the
// first 1×1 convolution, as in the first ResNet paper.
std::string add_block(Writer& writer, const KerasWeights& weights, const std::string& block,
                      const std::string& input, std::int64_t in, std::int64_t width,
                      std::int64_t stride, const std::string& output) {
  const auto conv = [&](const std::string& branch, const std::string& from, const Shape& shape,
                        std::int64_t step) {
    const std::string name = block + "_branch" + branch;
    return writer.conv("res" + name, from, fold(weights, "res" + name, "bn" + name, shape), step);
  };
  const std::int64_t out = 4 * width;
  std::string x = conv("2a", input, {width, in, 1, 1}, stride);
  x = conv("2b", writer.relu("relu" + block + "_2a", x), {width, width, 3, 3}, 1);
  x = conv("2c", writer.relu("relu" + block + "_2b", x), {out, width, 1, 1}, 1);
  // Only the first block of a stage changes the number of channels, and has a shortcut of its own.
  const bool first = block.back() == 'a';
  const std::string shortcut = first ? conv("1", input, {out, in, 1, 1}, stride) : input;
  return writer.relu(output, writer.sum("add" + block, x, shortcut));
}

}  // namespace

KerasWeights::KerasWeights(const std::string& model_json) : file_(model_json) {
  const std::vector<std::uint8_t> text = read_whole(file_, "a Keras model.json", kLargestManifest);
  try {
    const nlohmann::json model = nlohmann::json::parse(text.begin(), text.end());
    for (const nlohmann::json& group : model.at("weightsManifest")) {
      const std::vector<std::uint8_t> bytes = read_shards(file_, group.at("paths"));
      std::size_t at = 0;
      for (const nlohmann::json& entry : group.at("weights")) {
        const std::string name = entry.at("name").get<std::string>();
        if (entry.at("dtype") != "float32" || entry.contains("quantization")) {
          refuse(file_, name + " is not plain float32");
        }
        Weight weight{read_shape(file_, name, entry.at("shape")), {}};
        const std::size_t size = bytes_of(file_, name, weight.shape, bytes.size() - at);
        weight.values.resize(size / sizeof(float));
        std::memcpy(weight.values.data(), bytes.data() + at, size);
        at += size;
        if (!weights_.emplace(name, std::move(weight)).second) {
          refuse(file_, name + " is there twice");
        }
      }
      if (at != bytes.size()) {
        refuse(file_, fmt::format("the shards hold {} bytes, the weights {}", bytes.size(), at));
      }
    }
  } catch (const nlohmann::json::exception& e) {
    refuse(file_, fmt::format("not a TensorFlow.js model: {}", e.what()));
  }
}

std::span<const float> KerasWeights::get(const std::string& name, const Shape& shape) const {
  const auto found = weights_.find(name);
  if (found == weights_.end()) refuse(file_, fmt::format("has no weight {}", name));
  const Weight& weight = found->second;
  if (weight.shape != shape) {
    refuse(file_, fmt::format("{} has the shape {} instead of {}", name, weight.shape, shape));
  }
  for (const float value : weight.values) {
    if (!std::isfinite(value)) refuse(file_, name + " has values that are not finite");
  }
  return weight.values;
}

std::string convert_resnet(const KerasWeights& weights, const ResNetShape& shape) {
  Writer writer;
  FoldedConvolution first = fold(weights, "conv1", "bn_conv1", {shape.stem, 3, 7, 7});
  take_rgb(first);
  std::string x = writer.conv("conv1", "input", first, 2);
  x = writer.max_pool("pool1", writer.relu("relu1", x));
  std::int64_t channels = shape.stem;
  for (std::size_t stage = 0; stage < shape.widths.size(); ++stage) {
    const std::string layer = fmt::format("layer{}", stage + 1);
    for (std::size_t i = 0; i < shape.blocks[stage]; ++i) {
      const std::string block = fmt::format("{}{}", stage + 2, static_cast<char>('a' + i));
      const bool last = i + 1 == shape.blocks[stage];
      x = add_block(writer, weights, block, x, channels, shape.widths[stage],
                    stage > 0 && i == 0 ? 2 : 1, last ? layer : "relu" + block);
      channels = 4 * shape.widths[stage];
    }
    writer.output(layer, channels);
  }
  return writer.bytes();
}

}  // namespace contcore
