// Building small networks in a test, node by node.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backbone/graph.h"
#include "base/random.h"
#include "contcore/device.h"

namespace contcore::testing {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

/// Where networks run: on the processor, or, where the tests of GPUs say so, on one of these.
inline Device device() {
  const char* name = std::getenv("CONTCORE_TEST_DEVICE");
  return name == nullptr ? Device() : Device::parse(name);
}

class Net {
 public:
  explicit Net(std::uint64_t seed = 1) : random_(seed) {
    graph_.input = "image";
    graph_.input_shape = {1, 3, -1, -1};
  }

  Graph& graph() { return graph_; }
  Random& random() { return random_; }

  /// Adds a node and returns the name of what it makes.
  std::string add(const std::string& op, std::vector<std::string> inputs,
                  Attributes attributes = {}, std::string output = {}) {
    if (output.empty()) output = "t" + std::to_string(next_++);
    graph_.nodes.push_back(
        {op, op + "_" + output, std::move(inputs), {output}, std::move(attributes)});
    return output;
  }
  std::string constant(Tensor tensor) {
    const std::string name = "w" + std::to_string(next_++);
    graph_.weights[name] = std::move(tensor);
    return name;
  }
  std::string weight(Shape shape, float scale = 1, float shift = 0) {
    std::int64_t n = 1;
    for (const std::int64_t dim : shape) n *= dim;
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) value = random_.gaussian() * scale + shift;
    return constant(Tensor::of(std::move(shape), std::move(values)));
  }
  std::string positive(Shape shape) {
    std::int64_t n = 1;
    for (const std::int64_t dim : shape) n *= dim;
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) value = 0.5f + static_cast<float>(random_.uniform());
    return constant(Tensor::of(std::move(shape), std::move(values)));
  }
  std::string number(float value) { return constant(Tensor::of({}, std::vector<float>{value})); }
  std::string ints(Ints values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return constant(Tensor::of({n}, std::move(values)));
  }
  std::string conv(const std::string& x, std::int64_t in, std::int64_t out, std::int64_t kernel,
                   Attributes attributes = {}, bool bias = true) {
    const auto group =
        attributes.contains("group") ? std::get<std::int64_t>(attributes["group"]) : 1;
    const std::int64_t taps = in / group * kernel * kernel;
    const float scale = 1.0f / static_cast<float>(taps > 4 ? taps / 4 : 1);
    std::vector<std::string> inputs = {x, weight({out, in / group, kernel, kernel}, scale)};
    if (bias) inputs.push_back(weight({out}, 0.1f));
    return add("Conv", std::move(inputs), std::move(attributes));
  }
  std::string same_conv(const std::string& x, std::int64_t in, std::int64_t out,
                        std::int64_t kernel, bool bias = true) {
    const std::int64_t pad = kernel / 2;
    return conv(x, in, out, kernel, {{"pads", Ints{pad, pad, pad, pad}}}, bias);
  }
  std::string batch_norm(const std::string& x, std::int64_t channels) {
    return add("BatchNormalization",
               {x, weight({channels}, 0.5f, 1), weight({channels}, 0.2f), weight({channels}, 0.2f),
                positive({channels})},
               {{"epsilon", 1e-3f}});
  }

 private:
  Graph graph_;
  Random random_;
  int next_ = 0;
};

inline std::vector<float> random_image(std::size_t height, std::size_t width,
                                       std::uint64_t seed = 7) {
  Random random(seed);
  std::vector<float> chw(3 * height * width);
  for (float& value : chw) value = random.gaussian();
  return chw;
}

}  // namespace contcore::testing
