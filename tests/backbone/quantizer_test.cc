#include "backbone/quantizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "backbone/builtin.h"
#include "backbone/magnitudes.h"
#include "backbone/net.h"
#include "backbone/onnx.h"
#include "backbone/onnx_writer.h"
#include "contcore/backbone.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using testing::Ints;
using testing::Net;

constexpr std::size_t kSide = 32;

std::string bytes_of(const Graph& graph) { return testing::to_proto(graph).SerializeAsString(); }

std::vector<float> some_image() {
  Random random(3);
  std::vector<float> image(3 * kSide * kSide);
  for (float& value : image) value = std::clamp(random.gaussian(), -2.11f, 2.64f);  // as pixels are
  return image;
}

// A small residual network: batch norms, a pool, a linear bottleneck, squeeze and excite.
Graph residual_net() {
  Net net;
  std::string x = net.conv("image", 3, 16, 3, {{"pads", Ints{1, 1, 1, 1}}}, false);
  x = net.add("Relu", {net.batch_norm(x, 16)}, {}, "stem");
  x = net.add("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, "pool");
  std::string y = net.batch_norm(net.same_conv(x, 16, 16, 3, false), 16);
  y = net.same_conv(net.add("Relu", {y}), 16, 16, 1);
  x = net.add("Relu", {net.add("Add", {x, y})}, {}, "layer2");
  std::string gate = net.add("GlobalAveragePool", {x});
  gate = net.add("Sigmoid", {net.conv(gate, 16, 16, 1)});
  x = net.add("Mul", {x, gate}, {}, "excited");
  // A linear bottleneck: signed, since there is nothing behind it.
  x = net.add("Conv", {x, net.weight({24, 16, 1, 1}, 0.25f), net.weight({24}, 0.1f)}, {},
              "bottleneck");
  x = net.conv(x, 24, 24, 3, {{"group", std::int64_t{24}}, {"pads", Ints{1, 1, 1, 1}}});
  x = net.add("Relu", {x}, {}, "layer3");
  net.graph().outputs = {"layer2", "layer3"};
  return net.graph();
}

struct Quantized {
  std::string bytes;
  std::map<std::string, float> ranges;
};

Quantized quantized(const std::string& model) {
  const Quantizer quantizer(model);
  const Backbone floats = Backbone::of_bytes("net", model, quantizer.tensors());
  Compute compute(1);
  auto runner = floats.runner();
  const auto maps = runner.run(some_image(), kSide, kSide, compute);
  Quantized out;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    Magnitudes magnitudes;
    magnitudes.add({maps[i].data, maps[i].channels * maps[i].height * maps[i].width});
    out.ranges[quantizer.tensors()[i]] = magnitudes.quantile(1);
  }
  out.bytes = quantizer.file(out.ranges, "origin");
  return out;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::size_t count_nodes(const Graph& graph, const std::string& op) {
  return static_cast<std::size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                                [&](const Node& node) { return node.op == op; }));
}

TEST(Quantizer, PutsPairsWhereConvolutionsRead) {
  const std::string model = bytes_of(residual_net());
  const Quantizer quantizer(model);
  EXPECT_EQ(quantizer.convolutions(), 5u);
  ASSERT_EQ(quantizer.stay_float().size(), 1u);
  EXPECT_NE(quantizer.stay_float()[0].why.find("squeeze"), std::string::npos);
  // The pool works on the bytes of what it reads; the sum's result has none: nobody convolves it.
  const std::vector<std::string>& tensors = quantizer.tensors();
  const auto has = [&](const char* name) {
    return std::find(tensors.begin(), tensors.end(), name) != tensors.end();
  };
  EXPECT_TRUE(has("stem"));
  EXPECT_TRUE(has("excited"));
  EXPECT_TRUE(has("bottleneck"));
  EXPECT_FALSE(has("pool"));
  EXPECT_FALSE(has("layer2"));
  EXPECT_FALSE(has("layer3"));

  const Quantized made = quantized(model);
  const Graph graph = parse_onnx(made.bytes.data(), made.bytes.size());
  EXPECT_EQ(count_nodes(graph, "BatchNormalization"), 0u);
  // And one pair for the image, whose levels are always the same.
  EXPECT_EQ(count_nodes(graph, "QuantizeLinear"), tensors.size() + 1);
  EXPECT_EQ(count_nodes(graph, "DequantizeLinear"), tensors.size() + 1 + quantizer.convolutions());
  const float scale = graph.weights.at("image.scale").floats->front();
  const auto zero = static_cast<float>(graph.weights.at("image.zero").ints->front());
  EXPECT_LT((0 - zero) * scale, -0.485f / 0.229f);         // black
  EXPECT_GT((255 - zero) * scale, (1 - 0.406f) / 0.225f);  // white
  EXPECT_EQ(graph.weights.at("stem.zero").ints->front(), 0);
  EXPECT_EQ(graph.weights.at("bottleneck.zero").ints->front(), 128);
  EXPECT_TRUE(is_quantized(graph));
  EXPECT_LT(made.bytes.size(), model.size());
}

TEST(Quantizer, KeepsTheNamesAndTheFeatures) {
  const std::string model = bytes_of(residual_net());
  const std::string eight_bit = quantized(model).bytes;
  Compute compute(1);
  const std::vector<std::string> layers = {"stem", "layer2", "excited", "bottleneck", "layer3"};
  const Backbone a = Backbone::of_bytes("float", model, layers);
  const Backbone b = Backbone::of_bytes("8bit", eight_bit, layers);
  auto first = a.runner(), second = b.runner();
  const auto x = first.run(some_image(), kSide, kSide, compute);
  const auto y = second.run(some_image(), kSide, kSide, compute);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    ASSERT_EQ(x[l].channels, y[l].channels);
    double difference = 0, length = 0;
    for (std::size_t i = 0; i < x[l].channels * x[l].height * x[l].width; ++i) {
      const auto value = static_cast<double>(x[l].data[i]);
      difference += std::pow(value - static_cast<double>(y[l].data[i]), 2);
      length += value * value;
    }
    EXPECT_LT(std::sqrt(difference / length), 0.05) << layers[l];
  }
}

TEST(Quantizer, MakesTheSameBytes) {
  const std::string model = bytes_of(residual_net());
  const Quantized once = quantized(model);
  EXPECT_EQ(once.bytes, quantized(model).bytes);
  EXPECT_EQ(quantized_origin(once.bytes), "origin");
  EXPECT_EQ(quantized_origin(model), "");
  EXPECT_EQ(quantized_origin("junk"), "");
  EXPECT_EQ(quantized_origin(once.bytes.substr(0, once.bytes.size() / 2)), "");
}

TEST(Quantizer, SharesAScaleAcrossAConcatenation) {
  Net net;
  const std::string x = net.add("Relu", {net.conv("image", 3, 8, 1)});
  const std::string a = net.add("Relu", {net.conv(x, 8, 8, 1)}, {}, "a");
  const std::string b = net.add("Relu", {net.conv(x, 8, 8, 1)}, {}, "b");
  net.conv(net.add("Concat", {a, b}, {{"axis", std::int64_t{1}}}, "ab"), 16, 8, 1);
  net.graph().outputs = {net.graph().nodes.back().outputs[0]};
  const Quantizer quantizer(bytes_of(net.graph()));
  const std::string file = quantizer.file({{x, 1.0f}, {"a", 2.0f}, {"b", 51.0f}}, "");
  const Graph graph = parse_onnx(file.data(), file.size());
  std::map<std::string, std::string> scale_of;  // what is rounded, by which constant
  for (const Node& node : graph.nodes) {
    if (node.op == "QuantizeLinear") scale_of[node.inputs[0]] = node.inputs[1];
  }
  ASSERT_EQ(scale_of.size(), 4u);
  EXPECT_EQ(scale_of.at("a.float"), scale_of.at("b.float"));
  EXPECT_FLOAT_EQ(graph.weights.at(scale_of.at("a.float")).floats->front(), 0.2f);
}

// What the network makes of the image before its first convolution is not the image.
TEST(Quantizer, LeavesAnImageThatTheNetworkPreparesInFloat) {
  Net net;
  const std::string prepared = net.add("Mul", {"image", net.number(255)});
  const std::string x = net.add("Relu", {net.conv(prepared, 3, 8, 1)});
  net.graph().outputs = {net.add("Add", {net.conv(x, 8, 8, 1), net.conv("image", 3, 8, 1)})};
  const Quantizer quantizer(bytes_of(net.graph()));
  EXPECT_EQ(quantizer.convolutions(), 2u);  // that of features, and that of the image itself
  ASSERT_EQ(quantizer.stay_float().size(), 1u);
  EXPECT_NE(quantizer.stay_float()[0].why.find("prepares"), std::string::npos);
  const std::string file = quantizer.file({{x, 1.0f}}, "");
  const Graph graph = parse_onnx(file.data(), file.size());
  const auto mul = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                [](const Node& node) { return node.op == "Mul"; });
  ASSERT_NE(mul, graph.nodes.end());
  EXPECT_EQ(mul->inputs[0], "image");  // not rounded
}

TEST(Quantizer, RefusesWhatCannotBe) {
  Net patches;  // as a transformer begins
  patches.graph().outputs = {patches.conv("image", 3, 8, 4, {{"strides", Ints{4, 4}}})};
  EXPECT_NE(message_of([&] { Quantizer{bytes_of(patches.graph())}; }).find("--precision float"),
            std::string::npos);
  Net strange;
  const std::string behind = strange.add("Frobnicate", {strange.same_conv("image", 3, 8, 3)});
  strange.graph().outputs = {strange.same_conv(behind, 8, 8, 3)};
  EXPECT_NE(message_of([&] { Quantizer{bytes_of(strange.graph())}; }).find("operator Frobnicate"),
            std::string::npos);
  const std::string model = bytes_of(residual_net());
  const Quantized made = quantized(model);
  EXPECT_NE(message_of([&] { Quantizer{made.bytes}; }).find("8 bits already"), std::string::npos);
  EXPECT_NE(message_of([&] { Quantizer{std::string("junk")}; }), "nothing was thrown");
  for (const float range :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f}) {
    auto ranges = made.ranges;
    ranges.begin()->second = range;
    EXPECT_NE(message_of([&] { Quantizer(model).file(ranges, ""); }).find("not finite"),
              std::string::npos);
  }
  Graph broken = residual_net();
  for (auto& [name, tensor] : broken.weights) {
    if (tensor.shape != Shape{24, 1, 3, 3}) continue;
    std::vector<float> values = *tensor.floats;
    values[5] = std::numeric_limits<float>::infinity();
    tensor = Tensor::of(tensor.shape, std::move(values));
  }
  EXPECT_NE(message_of([&] { Quantizer{bytes_of(broken)}; }).find("not finite"),
            std::string::npos);  // before anything is measured
  Graph old = residual_net();
  old.opset = 11;
  EXPECT_NO_THROW(Quantizer{bytes_of(old)});
  old.nodes.push_back({"Squeeze", "s", {"layer3"}, {"squeezed"}, {{"axes", Ints{0}}}});
  old.outputs.push_back("squeezed");
  EXPECT_NE(message_of([&] { Quantizer{bytes_of(old)}; }).find("operator set 11"),
            std::string::npos);
}

// Tensors and channels that are nothing but zero divide by nothing.
TEST(Quantizer, BearsZeros) {
  Graph graph = residual_net();
  for (auto& [name, tensor] : graph.weights) {
    if (tensor.shape == Shape{24, 16, 1, 1}) {
      tensor = Tensor::of(tensor.shape, std::vector<float>(tensor.size(), 0.0f));
    }
  }
  const Quantized made = quantized(bytes_of(graph));
  Compute compute(1);
  const Backbone backbone = Backbone::of_bytes("8bit", made.bytes, {"layer3"});
  auto runner = backbone.runner();
  const FeatureMap map = runner.run(some_image(), kSide, kSide, compute)[0];
  for (std::size_t i = 0; i < map.channels * map.height * map.width; ++i) {
    ASSERT_TRUE(std::isfinite(map.data[i]));
  }
}

TEST(Quantizer, TakesTheBuiltinNetwork) {
  const Quantizer quantizer(onnx_file(builtin_graph()));
  EXPECT_EQ(quantizer.convolutions(), 15u);
  EXPECT_EQ(quantizer.stay_float().size(), 0u);
}

TEST(Magnitudes, AreCoarse) {
  Magnitudes magnitudes;
  EXPECT_EQ(magnitudes.quantile(1), 0);
  std::vector<float> values(10000, 0.0f);
  magnitudes.add(values);
  EXPECT_EQ(magnitudes.quantile(0.9999), 0);  // nothing but zeros
  values.assign(10000, 1.0f);
  values[0] = 1.3f;
  values[1] = -100;
  magnitudes.add(values);
  EXPECT_EQ(magnitudes.quantile(0.999), 1.125f);
  EXPECT_EQ(magnitudes.quantile(0.4), 1.125f);  // not zero
  EXPECT_EQ(magnitudes.quantile(1), 104.0f);
  EXPECT_TRUE(magnitudes.negative());
  EXPECT_TRUE(magnitudes.finite());
  Magnitudes other = magnitudes;
  other.add(magnitudes);
  EXPECT_EQ(other.count(), 40000u);
  EXPECT_EQ(other.quantile(0.99995), magnitudes.quantile(0.99995));
  const float bad = std::numeric_limits<float>::quiet_NaN();
  magnitudes.add({&bad, 1});
  EXPECT_FALSE(magnitudes.finite());
}

}  // namespace
}  // namespace contcore
