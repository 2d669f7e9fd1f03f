// Networks in 8 bits against their slow twin, which does what ONNX says, in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backbone/hash.h"
#include "backbone/naive_graph.h"
#include "backbone/net.h"
#include "backbone/onnx_writer.h"
#include "backbone/quantize.h"
#include "backbone/quantized_net.h"
#include "contcore/backbone.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using testing::Array;
using testing::Attributes;
using testing::Ints;
using testing::NaiveGraph;
using testing::Net;
using testing::QuantizedNet;
using testing::random_image;
using testing::TemporaryFile;
using Width = Tensor::Width;

constexpr float kNoStep = 0;

// How far a map is from its twin, in steps of the result: at most `most`, and more than a hundredth
// of one at no more than `share` of the places. Where a value is near the middle of two levels,
// float rounding decides, and it is off by one; nothing else may be.
struct Bound {
  float step = kNoStep;  // of the result's levels; kNoStep: it has none
  double most = 1.001;
  double share = 0.002;
};

void expect_twin(Graph graph, const std::string& layer, const Bound& bound, std::size_t height = 13,
                 std::size_t width = 17, std::size_t threads = 1) {
  graph.outputs = {layer};
  const TemporaryFile file(graph);
  const std::vector<float> image = random_image(height, width);
  const Array twin =
      NaiveGraph(graph)
          .run(image, static_cast<std::int64_t>(height), static_cast<std::int64_t>(width))
          .at(layer);
  const Backbone backbone(file.path(), {layer});
  auto runner = backbone.runner();
  Compute compute(threads, testing::device());
  for (int again = 0; again < 2; ++again) {
    const FeatureMap map = runner.run(image, height, width, compute).at(0);
    const std::size_t places = map.height * map.width;
    ASSERT_EQ(map.channels * places, twin.data.size());
    double step = static_cast<double>(bound.step), largest = 0, spread = 0;
    for (const double x : twin.data) spread = std::max(spread, std::abs(x));
    if (bound.step == kNoStep) step = 1e-4 * spread;
    std::size_t off = 0;
    for (std::size_t p = 0; p < places; ++p) {
      for (std::size_t c = 0; c < map.channels; ++c) {
        const double ours = static_cast<double>(map.data[p * map.channels + c]);
        const double steps = std::abs(ours - twin.data[c * places + p]) / step;
        if (!(steps <= largest)) largest = steps;  // not std::max: a NaN must not pass
        if (!(steps <= 0.01)) ++off;
      }
    }
    EXPECT_GT(spread, 4 * step);  // there is something to compare
    EXPECT_LE(largest, bound.most);
    if (bound.step != kNoStep) {
      EXPECT_LE(static_cast<double>(off), bound.share * static_cast<double>(twin.data.size()));
    }
  }
}

struct Form {
  std::int64_t in, out, kernel;
  Attributes attributes;
};

const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = {
      {16, 32, 1, {}},
      {16, 32, 3, {{"pads", Ints{1, 1, 1, 1}}}},
      {64, 64, 3, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}}},
      {19, 21, 3, {{"pads", Ints{0, 1, 2, 0}}, {"strides", Ints{2, 1}}}},
      {16, 24, 3, {{"dilations", Ints{2, 3}}, {"pads", Ints{2, 3, 2, 3}}}},
      {16, 16, 3, {{"group", std::int64_t{16}}, {"pads", Ints{1, 1, 1, 1}}}},
      {24, 48, 3, {{"group", std::int64_t{24}}, {"strides", Ints{2, 2}}}},
      {20,
       20,
       5,
       {{"group", std::int64_t{20}}, {"pads", Ints{2, 2, 2, 2}}, {"strides", Ints{2, 2}}}},
      {12, 8, 1, {{"group", std::int64_t{4}}}},
      {20, 7, 1, {{"strides", Ints{2, 2}}}},
      {3, 5, 7, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}}},
  };
  return kForms;
}

std::string first(QuantizedNet& net, std::int64_t channels) {
  return channels == 3 ? "image" : net.conv("image", 3, channels, 1);
}

TEST(QuantizedConv, IsItsTwin) {
  for (const Form& form : forms()) {
    for (const auto& [zero, width] : {std::pair<std::int64_t, Width>{0, Width::kUint8},
                                      {117, Width::kUint8},
                                      {-128, Width::kInt8},
                                      {3, Width::kInt8}}) {
      for (const bool per_channel : {true, false}) {
        SCOPED_TRACE(::testing::Message()
                     << form.in << "->" << form.out << " k" << form.kernel << " zero " << zero);
        QuantizedNet net;
        const std::string x = net.rounded(first(net, form.in), 0.021f, zero, width);
        const std::string y =
            net.integer_conv(x, form.in, form.out, form.kernel, form.attributes, per_channel);
        expect_twin(net.graph(), y, {});  // floats
        expect_twin(net.graph(), net.rounded(y, 0.023f, 117), {0.023f});
        expect_twin(net.graph(), net.rounded(net.add("Relu", {y}), 0.013f, -128, Width::kInt8),
                    {0.013f});
      }
    }
  }
}

TEST(QuantizedConv, TakesAnyForm) {
  QuantizedNet net;
  const std::string x = net.rounded(net.conv("image", 3, 24, 1), 0.02f, 100);
  // Unsigned weights, a bias of whole numbers, a batch norm behind, and functions of all kinds.
  const std::string y =
      net.integer_conv(x, 24, 16, 3, {{"pads", Ints{1, 1, 1, 1}}}, false, Width::kUint8);
  expect_twin(net.graph(), net.rounded(net.batch_norm(y, 16), 0.03f, 99), {0.03f});
  const std::string bias = net.add("DequantizeLinear",
                                   {net.constant(Tensor::of({16}, Ints(16, -700), Width::kInt32)),
                                    net.scales(std::vector<float>(16, 0.0005f))},
                                   {{"axis", std::int64_t{0}}});
  const std::string z = net.add("Conv", {x, net.codes({16, 24, 1, 1}, true, 0.3f), bias});
  expect_twin(net.graph(), net.rounded(z, 0.02f, 128), {0.02f});
  const std::string clip = net.add("Clip", {z, net.number(0), net.number(1.5f)});
  expect_twin(net.graph(), net.rounded(clip, 0.006f, 0), {0.006f});
  const std::string swish = net.add("Mul", {z, net.add("Sigmoid", {z})});
  expect_twin(net.graph(), net.rounded(swish, 0.02f, 14), {0.02f});
  const std::string twice = net.add("Mul", {net.add("HardSwish", {z}), net.number(2)});
  expect_twin(net.graph(), net.rounded(twice, 0.02f, 40), {0.02f});
  // Weights of floats that pass through 8 bits when the model is read.
  const std::string s = net.scales({0.004f}), n = net.zeros({0}, Width::kInt8);
  const std::string w =
      net.add("DequantizeLinear",
              {net.add("QuantizeLinear", {net.weight({8, 24, 1, 1}, 0.2f), s, n}), s, n});
  expect_twin(net.graph(), net.rounded(net.add("Conv", {x, w}), 0.02f, 128), {0.02f});
}

// Sums as large as 8 bits make them: pairs of products do not fit 16 bits.
TEST(QuantizedConv, NeverSaturatesOnTheWay) {
  QuantizedNet net;
  const std::string big = net.add(
      "Add", {net.add("Mul", {net.conv("image", 3, 64, 1), net.number(0)}), net.number(100)});
  const std::string x = net.rounded(big, 0.01f, 0);  // 255 everywhere
  const std::string w =
      net.constant(Tensor::of({16, 64, 3, 3}, Ints(16 * 64 * 9, 127), Width::kInt8));
  const std::string y = net.add("Conv", {x, net.add("DequantizeLinear", {w, net.scales({0.01f})})});
  expect_twin(net.graph(), y, {});
}

TEST(QuantizedSum, IsFused) {
  for (const std::int64_t zero : {0, 90}) {
    for (const bool relu : {true, false}) {
      for (const char* form : {"identity", "branch", "floats", "shared", "itself"}) {
        SCOPED_TRACE(::testing::Message() << form << zero << relu);
        QuantizedNet net;
        const std::string x = net.rounded(net.conv("image", 3, 32, 1), 0.02f, zero);
        const std::string y =
            net.rounded(net.add("Relu", {net.integer_conv(x, 32, 48, 1)}), 0.01f, 0);
        const std::string z = net.integer_conv(y, 48, 32, 3, {{"pads", Ints{1, 1, 1, 1}}});
        std::string other = x;
        if (*form == 'b') other = net.integer_conv(x, 32, 32, 1);
        if (*form == 'f') other = net.conv("image", 3, 32, 1);
        if (*form == 'i' && form[1] == 't') other = z;
        std::string sum = net.add("Add", {other, z});
        if (relu) sum = net.add("Relu", {sum});
        const std::string out = net.rounded(sum, 0.03f, relu ? 0 : 128);
        if (*form == 's') {  // the summand is needed afterwards too
          expect_twin(net.graph(), net.add("Concat", {out, x}, {{"axis", std::int64_t{1}}}),
                      {0.01f, 3.001});
        }
        expect_twin(net.graph(), out, {0.03f});
        expect_twin(net.graph(), sum, {kNoStep, 100 * 1.001});  // of which one is a hundredth
      }
    }
  }
}

// Rounding that other tools put before a function or a sum is left out, its bounds are not.
TEST(QuantizedSum, RoundsOnceWhereOtherToolsRoundThrice) {
  for (const bool bounded : {true, false}) {
    QuantizedNet net;
    const float step = 0.02f;
    const std::string x = net.rounded(net.conv("image", 3, 32, 1), step, 128);
    const std::string y = net.integer_conv(x, 32, 32, 1);
    const std::string rounded = net.rounded(y, step, bounded ? 0 : 128);  // a relu, or none
    expect_twin(net.graph(), net.rounded(net.add("Relu", {rounded}), step, 0), {step, 1.001, 1});
    const std::string sum = net.rounded(net.add("Add", {rounded, x}), step, 128);
    expect_twin(net.graph(), sum, {step, 1.001, 1});
    expect_twin(net.graph(), net.rounded(net.add("Relu", {sum}), step, 0), {step, 1.001, 1});
  }
}

TEST(QuantizedMoves, StayOnTheirLevels) {
  const Attributes pool = {
      {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}};
  for (const bool integer : {true, false}) {
    QuantizedNet net;
    const std::string x = net.rounded(net.conv("image", 3, 16, 1), 0.02f, 128);
    const std::string y = integer ? net.integer_conv(x, 16, 16, 1) : net.conv("image", 3, 16, 1);
    const std::string q = net.rounded(y, 0.03f, 128);
    const std::string top = net.add("MaxPool", {q}, pool);
    expect_twin(net.graph(), top, {0.03f});
    expect_twin(net.graph(), net.rounded(top, 0.03f, 128), {0.03f});  // no rounding to be done
    expect_twin(net.graph(), net.integer_conv(top, 16, 24, 1), {kNoStep, 200});
    const std::string both = net.add("Concat", {q, q}, {{"axis", std::int64_t{1}}});
    expect_twin(net.graph(), both, {0.03f});
    const std::string mixed = net.add("Concat", {q, x}, {{"axis", std::int64_t{1}}});
    expect_twin(net.graph(), net.rounded(mixed, 0.05f, 128), {0.05f});
    const std::string mean = net.add("AveragePool", {q}, pool);
    expect_twin(net.graph(), net.rounded(mean, 0.01f, 128), {0.01f, 3.001, 0.02});
  }
}

TEST(QuantizedMoves, MayStandBetweenTheTwoOperators) {
  QuantizedNet net;
  const std::string s = net.scales({0.03f}), z = net.zeros({-5}, Width::kInt8);
  const std::string q = net.add("QuantizeLinear", {net.conv("image", 3, 16, 1), s, z});
  const std::string top = net.add("MaxPool", {q}, {{"kernel_shape", Ints{2, 2}}});
  expect_twin(net.graph(), net.add("DequantizeLinear", {top, s, z}), {0.03f});
  const std::string joined = net.add("Concat", {q, q}, {{"axis", std::int64_t{1}}});
  expect_twin(net.graph(), net.add("DequantizeLinear", {joined, s, z}), {0.03f});
  // The codes may mean something else behind them, and have a scale for each channel.
  expect_twin(net.graph(),
              net.add("DequantizeLinear", {q, net.scales({0.05f}), net.zeros({7}, Width::kInt8)}),
              {0.05f});
  std::vector<float> scales(16);
  Ints zeros(16);
  for (std::size_t i = 0; i < 16; ++i) {
    scales[i] = 0.01f + 0.003f * static_cast<float>(i);
    zeros[i] = static_cast<std::int64_t>(i) * 9;
  }
  const std::string many = net.scales(scales), points = net.zeros(zeros, Width::kUint8);
  const std::string by_channel =
      net.add("QuantizeLinear", {net.conv("image", 3, 16, 1), many, points});
  expect_twin(net.graph(), net.add("DequantizeLinear", {by_channel, many, points}),
              {0.01f, 6.001, 0.002});
}

// Blocks as in the networks that are used, several in a row: what is off by one step at first may
// be off by a few later, at few places.
TEST(QuantizedNetworks, AreTheirTwins) {
  QuantizedNet net;
  std::string x = net.rounded("image", 0.03f, 128);
  x = net.integer_conv(x, 3, 32, 7, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}});
  x = net.rounded(net.add("Relu", {x}), 0.02f, 0);
  x = net.add("MaxPool", {x},
              {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  for (int block = 0; block < 2; ++block) {  // ResNet
    std::string y = net.rounded(net.add("Relu", {net.integer_conv(x, 32, 16, 1)}), 0.02f, 0);
    y = net.rounded(net.add("Relu", {net.integer_conv(y, 16, 16, 3, {{"pads", Ints{1, 1, 1, 1}}})}),
                    0.02f, 0);
    const std::string shortcut = block == 0 ? net.integer_conv(x, 32, 32, 1) : x;
    x = net.rounded(net.add("Relu", {net.add("Add", {net.integer_conv(y, 16, 32, 1), shortcut})}),
                    0.02f, 0);
  }
  expect_twin(net.graph(), x, {0.02f, 3.001, 0.02}, 33, 29, 2);
  std::string wide = net.integer_conv(x, 32, 96, 1);  // MobileNet
  wide = net.rounded(net.add("Clip", {wide, net.number(0), net.number(6)}), 0.02f, 0);
  wide =
      net.integer_conv(wide, 96, 96, 3, {{"group", std::int64_t{96}}, {"pads", Ints{1, 1, 1, 1}}});
  wide = net.rounded(net.add("Clip", {wide, net.number(0), net.number(6)}), 0.02f, 0);
  const std::string narrow =
      net.rounded(net.add("Add", {net.integer_conv(wide, 96, 32, 1), x}), 0.03f, 120);
  expect_twin(net.graph(), narrow, {0.03f, 4.001, 0.05}, 33, 29, 2);
  // EfficientNet's squeeze and excite
  const std::string gate =
      net.add("Sigmoid", {net.conv(net.add("GlobalAveragePool", {narrow}), 32, 32, 1)});
  const std::string gated = net.rounded(net.add("Mul", {narrow, gate}), 0.02f, 120);
  expect_twin(net.graph(), net.rounded(net.integer_conv(gated, 32, 16, 1), 0.03f, 128),
              {0.03f, 4.001, 0.1}, 33, 29);
  // DenseNet's
  std::string dense = gated;
  for (std::int64_t i = 0; i < 3; ++i) {
    std::string y = net.rounded(net.add("Relu", {net.batch_norm(dense, 32 + 16 * i)}), 0.02f, 0);
    y = net.rounded(net.integer_conv(y, 32 + 16 * i, 16, 3, {{"pads", Ints{1, 1, 1, 1}}}), 0.02f,
                    128);
    dense = net.add("Concat", {dense, y}, {{"axis", std::int64_t{1}}});
  }
  expect_twin(net.graph(), dense, {0.02f, 8.001, 0.2}, 33, 29);
}

// The same bits whatever the machine sums with. This runs once with all that it has and once held
// to AVX2, where there is nothing for sums of bytes; the numbers are those of oneDNN's integer
// kernels.
TEST(QuantizedNetworks, HaveTheSameBitsOnEveryMachine) {
  QuantizedNet net;
  const Attributes pads = {{"pads", Ints{1, 1, 1, 1}}};
  std::string x = net.rounded("image", 0.03f, 113);
  x = net.integer_conv(x, 3, 64, 7, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}});
  x = net.rounded(net.add("Relu", {x}), 0.02f, 0);
  x = net.add("MaxPool", {x},
              {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  for (int block = 0; block < 3; ++block) {
    std::string y = net.rounded(net.add("Relu", {net.integer_conv(x, 64, 96, 1)}), 0.02f, 0);
    y = net.rounded(net.integer_conv(y, 96, 96, 3, pads), 0.02f, 90);  // signed
    Attributes depthwise = pads;
    depthwise["group"] = std::int64_t{96};
    y = net.rounded(
        net.add("Clip", {net.integer_conv(y, 96, 96, 3, depthwise), net.number(0), net.number(4)}),
        0.02f, 0);
    const std::string shortcut = block == 0 ? net.integer_conv(x, 64, 64, 1) : x;
    x = net.rounded(net.add("Relu", {net.add("Add", {net.integer_conv(y, 96, 64, 1), shortcut})}),
                    0.02f, 0);
  }
  // Sums beyond what a float holds exactly: all weights are large and of one sign.
  const std::string heavy = net.constant(Tensor::of(
      {8, 64, 3, 3},
      [] {
        Ints codes;
        for (std::int64_t i = 0; i < 8 * 64 * 9; ++i) codes.push_back(127 - i % 7);
        return codes;
      }(),
      Width::kInt8));
  const std::string y =
      net.add("Conv", {x, net.add("DequantizeLinear", {heavy, net.scales({0.01f})})}, pads);
  net.graph().outputs = {x, net.integer_conv(x, 64, 24, 1), net.rounded(y, 1.7f, 3), y};
  const TemporaryFile file(net.graph());
  const Backbone backbone(file.path(), net.graph().outputs);
  auto runner = backbone.runner();
  for (const std::size_t threads : {1u, 2u, 3u}) {
    Compute compute(threads, testing::device());
    std::vector<std::string> hashes;
    for (const FeatureMap& map : runner.run(random_image(41, 38), 41, 38, compute)) {
      const std::size_t bytes = map.channels * map.height * map.width * sizeof(float);
      hashes.push_back(
          hash_of(std::string(reinterpret_cast<const char*>(map.data), bytes)).substr(0, 16));
    }
    EXPECT_EQ(hashes, (std::vector<std::string>{"ed6c1267154091eb", "4085378e97f7532d",
                                                "838c2c98bc951d5f", "a94e5e6ff79323b5"}));
  }
}

// Roundings anywhere in random graphs, any of whose tensors may be asked for. One that is left out
// or decided by float rounding moves a result by a step or two; a lost function, a wrong zero point
// or a buffer written over moves it by far more.
TEST(QuantizedNetworks, KeepTheMeaningOfRandomGraphs) {
  constexpr std::int64_t kChannels = 16;
  const Attributes pads = {{"pads", Ints{1, 1, 1, 1}}};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    QuantizedNet net(seed);
    Random& random = net.random();
    std::vector<std::string> values = {net.conv("image", 3, kChannels, 1)};
    const auto recent = [&] {
      return values[values.size() - 1 - random.below(std::min<std::size_t>(3, values.size()))];
    };
    const auto rounded = [&](const std::string& x) {
      const std::int64_t zeros[] = {0, 40, 128};
      return net.rounded(x, 0.03f, zeros[random.below(3)]);
    };
    for (int i = 0; i < 14; ++i) {
      const std::string x = recent();
      switch (random.below(9)) {
        case 0:
          values.push_back(net.integer_conv(x, kChannels, kChannels, 1));
          break;
        case 1:
          values.push_back(net.integer_conv(rounded(x), kChannels, kChannels, 3, pads));
          break;
        case 2: {
          Attributes depthwise = pads;
          depthwise["group"] = kChannels;
          values.push_back(net.integer_conv(rounded(x), kChannels, kChannels, 3, depthwise));
          break;
        }
        case 3:
          values.push_back(net.add("Relu", {x}));
          break;
        case 4:
          values.push_back(net.add("Add", {x, recent()}));
          break;
        case 5:
          values.push_back(net.batch_norm(x, kChannels));
          break;
        case 6:
          values.push_back(
              net.add("MaxPool", {x}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}));
          break;
        default:
          values.push_back(rounded(x));
      }
    }
    Graph graph = net.graph();
    graph.outputs = {values.back(), values[random.below(values.size() - 1)]};
    if (graph.outputs[0] == graph.outputs[1]) graph.outputs.pop_back();
    const TemporaryFile file(graph);
    const std::vector<float> image = random_image(7, 6);
    const auto twin = NaiveGraph(graph).run(image, 7, 6);
    const Backbone backbone(file.path(), graph.outputs);
    auto runner = backbone.runner();
    Compute compute(1 + seed % 2, testing::device());
    const auto maps = runner.run(image, 7, 6, compute);
    for (std::size_t m = 0; m < maps.size(); ++m) {
      const Array& theirs = twin.at(graph.outputs[m]);
      double sum = 0, size = 0;
      for (std::size_t p = 0; p < 42; ++p) {
        for (std::size_t c = 0; c < kChannels; ++c) {
          const double x = theirs.data[c * 42 + p];
          sum += std::abs(static_cast<double>(maps[m].data[p * kChannels + c]) - x);
          size += std::abs(x) + 0.03;
        }
      }
      EXPECT_LT(sum / size, 0.03) << graph.outputs[m];
    }
  }
}

// ---- files that make no sense ------------------------------------------------------------------

void expect_refused(const Graph& graph, const std::string& words) {
  const TemporaryFile file(graph);
  for (const std::string& expected : {words, file.path(), std::string("node '")}) {
    try {
      const Backbone backbone(file.path());
      Compute one(1, testing::device());
      backbone.runner().run(random_image(8, 8), 8, 8, one);
      ADD_FAILURE() << "nothing was thrown; expected: " << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), Error::Kind::kInput) << e.what();
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
    }
  }
}

TEST(QuantizedFiles, WithImpossibleNumbersAreRefused) {
  const auto with = [](Tensor scale, std::optional<Tensor> zero, Attributes attributes = {}) {
    QuantizedNet net;
    std::vector<std::string> numbers = {"image", net.constant(std::move(scale))};
    if (zero) numbers.push_back(net.constant(std::move(*zero)));
    std::vector<std::string> back = numbers;
    back[0] = net.add("QuantizeLinear", numbers, attributes);
    net.graph().outputs = {net.add("DequantizeLinear", back, attributes)};
    return net.graph();
  };
  const auto one = [](float x) { return Tensor::of({}, std::vector<float>{x}); };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float scale : {0.0f, -1.0f, infinity, std::nanf(""), 1e-40f, 3e38f}) {
    expect_refused(with(one(scale), std::nullopt), "its scale is");
    QuantizedNet net;  // of weights
    const std::string w =
        net.add("DequantizeLinear", {net.zeros(Ints(6, 3), Width::kInt8), net.number(scale)});
    net.graph().outputs = {
        net.add("Conv", {"image", net.add("Reshape", {w, net.ints({2, 3, 1, 1})})})};
    expect_refused(net.graph(), "its scale is");
  }
  const Tensor good = one(0.1f);
  expect_refused(with(Tensor::of({}, Ints{1}), std::nullopt), "must be of float numbers");
  expect_refused(with(Tensor::of({0}, std::vector<float>{}), std::nullopt), "has no scale");
  expect_refused(with(good, Tensor::of({}, Ints{3})), "zero point must be of type");
  expect_refused(with(good, one(3)), "zero point must be of type");
  expect_refused(with(good, Tensor::of({}, Ints{0}, Width::kInt32)), "zero point must be of type");
  expect_refused(with(good, Tensor::of({2}, Ints{1, 2}, Width::kUint8)),
                 "2 zero points for 1 scales");
  expect_refused(with(Tensor::of({2}, std::vector<float>{1, 2}), std::nullopt),
                 "2 scales for axis 1");
  expect_refused(
      with(Tensor::of({3}, std::vector<float>{1, 2, 3}), std::nullopt, {{"axis", std::int64_t{4}}}),
      "axis 4 is outside");
  expect_refused(with(Tensor::of({1, 3}, std::vector<float>{1, 2, 3}), std::nullopt), "[1, 3]");
  expect_refused(with(good, std::nullopt, {{"block_size", std::int64_t{2}}}), "blocks");
  const TemporaryFile file(with(good, Tensor::of({}, Ints{300}, Width::kUint8)));
  EXPECT_THROW(Backbone{file.path()}, Error);  // no uint8
}

TEST(QuantizedFiles, WithWholeNumbersWhereFloatsBelongAreRefused) {
  QuantizedNet net;
  const std::string s = net.scales({0.1f}), z = net.zeros({3}, Width::kInt8);
  const std::string q = net.add("QuantizeLinear", {"image", s, z});
  const auto refused = [&](const std::string& output, const std::string& words) {
    Graph graph = net.graph();
    graph.outputs = {output};
    expect_refused(graph, words);
  };
  refused(net.add("Relu", {q}), "put a DequantizeLinear before it");
  refused(net.conv(q, 3, 4, 1), "put a DequantizeLinear before it");
  refused(net.add("Concat", {q, "image"}, {{"axis", std::int64_t{1}}}),
          "joins whole numbers and floats");
  refused(net.add("DequantizeLinear", {"image", s, z}), "no QuantizeLinear made");
  refused(net.add("DequantizeLinear", {q, s, net.zeros({3}, Width::kUint8)}), "not of the type");
  const std::string moving = net.add("GlobalAveragePool", {"image"});
  refused(net.add("QuantizeLinear", {"image", moving}), "missing or not constant");
}

// All that may happen to a damaged file: an error, or a network that still runs.
TEST(QuantizedFiles, SurviveFlippedBits) {
  QuantizedNet net;
  const std::string x = net.rounded("image", 0.02f, 120);
  const std::string y = net.rounded(net.add("Relu", {net.integer_conv(x, 3, 3, 1)}), 0.02f, 0);
  const std::string z = net.add("Add", {net.integer_conv(y, 3, 3, 1), x});
  net.graph().outputs = {net.rounded(z, 0.03f, 4, Width::kInt8)};
  const std::string bytes = testing::to_proto(net.graph()).SerializeAsString();
  Random random(5);
  for (int i = 0; i < 600; ++i) {
    std::string damaged = bytes;
    for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      damaged[random.below(bytes.size())] ^= static_cast<char>(1 << random.below(8));
    }
    const TemporaryFile file(damaged);
    try {
      const Backbone backbone(file.path());
      Compute one(1, testing::device());
      backbone.runner().run(random_image(8, 8), 8, 8, one);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace contcore
