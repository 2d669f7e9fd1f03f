#include "contcore/backbone.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backbone/naive_graph.h"
#include "backbone/net.h"
#include "backbone/onnx_writer.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using testing::Array;
using testing::Attributes;
using testing::Ints;
using testing::NaiveGraph;
using testing::Net;
using testing::random_image;
using testing::TemporaryFile;

using Names = std::vector<std::string>;

void expect_error(const std::string& words, const auto& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected: " << words;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), Error::Kind::kInput) << e.what();
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}

// A map against (1, C, height, width), the last height · width of (1, tokens, C), or (1, C).
void expect_map(const FeatureMap& map, const Array& naive, const std::string& what) {
  const bool image = naive.shape.size() == 4;
  const std::size_t places = map.height * map.width;
  ASSERT_EQ(map.channels,
            static_cast<std::size_t>(naive.shape[image ? 1 : naive.shape.size() - 1]));
  if (image) {
    ASSERT_EQ(map.height, static_cast<std::size_t>(naive.shape[2])) << what;
    ASSERT_EQ(map.width, static_cast<std::size_t>(naive.shape[3])) << what;
  }
  const std::size_t skip = naive.data.size() - places * map.channels;
  double scale = 1e-3, most = 0;
  for (const double x : naive.data) scale = std::max(scale, std::abs(x));
  for (std::size_t p = 0; p < places; ++p) {
    for (std::size_t c = 0; c < map.channels; ++c) {
      const double ours = static_cast<double>(map.data[p * map.channels + c]);
      const double theirs = naive.data[image ? c * places + p : skip + p * map.channels + c];
      // Not std::max: a NaN must not pass.
      if (!(std::abs(ours - theirs) <= most)) most = std::abs(ours - theirs);
    }
  }
  EXPECT_LT(most / scale, 2e-5) << what;
}

void expect_naive(Graph graph, const Names& layers, std::size_t height = 13, std::size_t width = 17,
                  std::size_t threads = 1) {
  if (graph.outputs.empty()) graph.outputs = layers;
  const TemporaryFile file(graph);
  const std::vector<float> image = random_image(height, width);
  const auto naive = NaiveGraph(graph).run(image, static_cast<std::int64_t>(height),
                                           static_cast<std::int64_t>(width));
  const Backbone backbone(file.path(), layers);
  auto runner = backbone.runner();
  Compute compute(threads, testing::device());
  for (int again = 0; again < 2; ++again) {  // nothing of the first run may linger
    const std::vector<FeatureMap> maps = runner.run(image, height, width, compute);
    ASSERT_EQ(maps.size(), layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::string what = layers[i] + ":";
      for (const Node& node : graph.nodes) what += " " + node.op;
      expect_map(maps[i], naive.at(layers[i]), what);
    }
  }
}

// ---- weights -----------------------------------------------------------------------------------

// A ReLU makes zeros of NaN: without a look at the weights nobody would see it.
TEST(BackboneWeights, AreFinite) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    Net net;
    const std::string x = net.add("Relu", {net.same_conv("image", 3, 8, 3)});
    net.add("Relu", {net.same_conv(x, 8, 8, 3)}, {}, "late");
    net.graph().outputs = {x};
    const auto spoil = [&](std::size_t node, std::size_t input) {
      Graph graph = net.graph();
      Tensor& tensor = graph.weights.at(graph.nodes[node].inputs[input]);
      std::vector<float> values = *tensor.floats;
      values.back() = bad;
      tensor = Tensor::of(tensor.shape, std::move(values));
      return graph;
    };
    for (const std::size_t input : {1U, 2U}) {
      const TemporaryFile file(spoil(0, input));
      for (const std::string& words : {file.path(), "'" + net.graph().nodes[0].inputs[input] + "'",
                                       std::string("not finite; export")}) {
        expect_error(words, [&] { Backbone(file.path(), {x}); });
      }
    }
    const TemporaryFile late(spoil(2, 1));
    EXPECT_NO_THROW(Backbone(late.path(), {x}));  // what no layer needs is nobody's concern
    expect_error("not finite", [&] { Backbone(late.path(), {"late"}); });
  }
}

TEST(BackboneWeights, MayBeInfiniteBounds) {
  Net net;
  const std::string x = net.same_conv("image", 3, 8, 3);
  net.add("Clip", {x, net.number(0), net.number(HUGE_VALF)}, {}, "y");
  net.graph().outputs = {"y"};
  const TemporaryFile file(net.graph());
  EXPECT_NO_THROW(Backbone(file.path(), {"y"}));
}

// ---- operators ---------------------------------------------------------------------------------

TEST(BackboneConv, HasAllAttributes) {
  struct Case {
    std::int64_t in, out, kernel;
    Attributes attributes;
  };
  const Case cases[] = {
      {3, 16, 3, {}},
      {3, 5, 7, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}}},
      {16, 32, 3, {{"pads", Ints{0, 1, 2, 0}}, {"strides", Ints{2, 1}}}},
      {16, 24, 3, {{"dilations", Ints{2, 3}}, {"pads", Ints{2, 3, 2, 3}}}},
      {16, 16, 3, {{"group", std::int64_t{16}}, {"pads", Ints{1, 1, 1, 1}}}},
      {24, 48, 3, {{"group", std::int64_t{24}}, {"strides", Ints{2, 2}}}},
      {12, 8, 1, {{"group", std::int64_t{4}}}},
      {20, 7, 1, {{"strides", Ints{2, 2}}}},
      {8, 8, 4, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{3, 3}}}},
      {8, 8, 4, {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{3, 2}}}},
      {8, 8, 3, {{"auto_pad", std::string("VALID")}}},
  };
  for (const Case& c : cases) {
    for (const bool bias : {true, false}) {
      Net net;
      const std::string x = c.in == 3 ? "image" : net.conv("image", 3, c.in, 1);
      expect_naive(net.graph(),
                   {x == "image" ? net.conv(x, 3, c.out, c.kernel, c.attributes, bias)
                                 : net.conv(x, c.in, c.out, c.kernel, c.attributes, bias)});
      expect_naive(net.graph(), {net.graph().nodes.back().outputs[0]});
    }
  }
}

TEST(BackbonePool, HasAllAttributes) {
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const std::int64_t ceil : {0, 1}) {
      for (const std::int64_t with_pads : {0, 1}) {
        for (const std::int64_t stride : {1, 2, 3}) {
          for (const Ints& pads : {Ints{0, 0, 0, 0}, Ints{1, 1, 1, 1}, Ints{0, 1, 2, 0}}) {
            Attributes attributes = {{"kernel_shape", Ints{3, 3}},
                                     {"strides", Ints{stride, stride}},
                                     {"pads", pads},
                                     {"ceil_mode", ceil}};
            if (*op == 'A') attributes["count_include_pad"] = with_pads;
            Net net;
            const std::string y = net.add(op, {net.conv("image", 3, 16, 1)}, attributes);
            expect_naive(net.graph(), {y}, 8, 9);
          }
        }
      }
    }
  }
  Net net;
  const std::string x = net.conv("image", 3, 24, 1);
  expect_naive(net.graph(), {net.add("GlobalAveragePool", {x})});
  expect_naive(net.graph(), {net.add("MaxPool", {x},
                                     {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{3, 2}}})});
}

// Each after a convolution (fused), on its own value (kept beside it), and on the bare image.
TEST(BackboneFunctions, AreRight) {
  const std::vector<std::pair<std::string, Attributes>> functions = {
      {"Relu", {}},
      {"LeakyRelu", {{"alpha", 0.2f}}},
      {"Sigmoid", {}},
      {"HardSigmoid", {}},
      {"HardSigmoid", {{"alpha", 1 / 6.0f}, {"beta", 0.5f}}},
      {"HardSwish", {}},
      {"Tanh", {}},
      {"Gelu", {}},
      {"Erf", {}},
  };
  for (const auto& [op, attributes] : functions) {
    Net net;
    const std::string x = net.conv("image", 3, 16, 1);
    const std::string y = net.add(op, {x}, attributes);
    const std::string z = net.add(op, {"image"}, attributes);
    expect_naive(net.graph(), {y});
    expect_naive(net.graph(), {y, x, z});
  }
}

TEST(BackboneFunctions, ClipHasAnyLimits) {
  for (const auto& [low, high] : {std::pair(0.0f, 6.0f), std::pair(-0.3f, 0.2f)}) {
    Net net;
    const std::string x = net.conv("image", 3, 16, 1);
    const std::string limit = net.number(low);
    expect_naive(net.graph(), {net.add("Clip", {x, limit, net.number(high)})});
    expect_naive(net.graph(), {net.add("Clip", {x, limit})});
    expect_naive(net.graph(), {net.add("Clip", {x, "", net.number(high)})});
    Net old;
    old.graph().opset = 9;
    const std::string y = old.conv("image", 3, 16, 1);
    expect_naive(old.graph(), {old.add("Clip", {y}, {{"min", low}, {"max", high}})});
  }
}

TEST(BackboneBinary, BroadcastsBothWays) {
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    Net net;
    const std::string x = net.add("Sigmoid", {net.conv("image", 3, 16, 1)});
    const std::string y = net.add("Sigmoid", {net.conv("image", 3, 16, 1)});
    const std::string channel = net.add("GlobalAveragePool", {y});
    const Names others = {y,
                          channel,
                          net.number(1.5f),
                          net.positive({16, 1, 1}),
                          net.positive({1, 16, 1, 1}),
                          net.positive({13, 17}),
                          net.positive({17}),
                          net.positive({1, 1, 13, 1})};
    for (const std::string& other : others) {
      expect_naive(net.graph(), {net.add(op, {x, other})});
      expect_naive(net.graph(), {net.add(op, {other, x})});
    }
    expect_naive(net.graph(), {net.add(op, {channel, net.positive({1, 1, 13, 17})})});
    expect_naive(net.graph(), {net.add(op, {x, x})});
  }
}

TEST(BackboneMoves, AreRight) {
  Net net;
  const std::string x = net.conv("image", 3, 24, 1);
  const std::string y = net.conv("image", 3, 20, 1);
  const std::string both = net.add("Concat", {x, y, "image"}, {{"axis", std::int64_t{1}}});
  expect_naive(net.graph(), {both, net.same_conv(both, 47, 16, 3)});
  expect_naive(net.graph(), {net.add("Concat", {x, x}, {{"axis", std::int64_t{2}}})});
  const std::string turned = net.add("Transpose", {x}, {{"perm", Ints{0, 1, 3, 2}}});
  expect_naive(net.graph(), {turned, net.add("Relu", {turned})});
  const std::string cut = net.add("Slice", {x, net.ints({5}), net.ints({21}), net.ints({1})});
  expect_naive(net.graph(), {cut, net.same_conv(cut, 16, 8, 3)});
  expect_naive(
      net.graph(),
      {net.add("Slice", {x, net.ints({1}), net.ints({12}), net.ints({2}), net.ints({2})})});
  expect_naive(net.graph(),
               {net.add("Gather", {x, net.ints({3, 0, 7, 7})}, {{"axis", std::int64_t{1}}})});
  expect_naive(net.graph(), {net.add("Reshape", {x, net.ints({0, 12, -1, 17})})});
  expect_naive(net.graph(), {net.add("ReduceMean", {x}, {{"axes", Ints{1}}})});
  expect_naive(net.graph(), {net.add("ReduceMean", {x}, {{"axes", Ints{-1}}})});
}

TEST(BackboneHead, GivesOneVector) {
  Net net;
  const std::string x = net.add("GlobalAveragePool", {net.conv("image", 3, 24, 3)});
  const std::string flat = net.add("Flatten", {x});
  const std::string y = net.add("Gemm", {flat, net.weight({10, 24}), net.weight({10})},
                                {{"transB", std::int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}});
  expect_naive(net.graph(), {flat, y});
}

// ---- what is fused -----------------------------------------------------------------------------

TEST(BackboneFusing, FoldsBatchNorm) {
  Net net;
  std::string x = net.same_conv("image", 3, 16, 3, false);
  x = net.batch_norm(x, 16);
  x = net.add("Relu", {x});
  const std::string first = x;
  x = net.same_conv(x, 16, 16, 3);
  x = net.batch_norm(net.batch_norm(x, 16), 16);
  x = net.add("Mul", {x, net.weight({16, 1, 1})});
  x = net.add("Add", {net.weight({1, 16, 1, 1}), x});
  x = net.add("Sub", {net.weight({16, 1, 1}), x});
  x = net.add("Clip", {x, net.number(-0.5f), net.number(0.5f)});
  expect_naive(net.graph(), {x});
  expect_naive(net.graph(), {first, x});
  // Not after a convolution, and before one that pads: nothing to fold it into.
  Net dense;
  std::string y = dense.conv("image", 3, 24, 1);
  std::string z = dense.add("Relu", {dense.batch_norm(y, 24)});
  z = dense.same_conv(z, 24, 8, 3);
  y = dense.add("Concat", {y, z}, {{"axis", std::int64_t{1}}});
  z = dense.add("Relu", {dense.batch_norm(y, 32)});
  z = dense.same_conv(z, 32, 8, 3);
  y = dense.add("Concat", {y, z}, {{"axis", std::int64_t{1}}});
  expect_naive(dense.graph(), {dense.batch_norm(y, 40), y});
  expect_naive(dense.graph(), {dense.batch_norm("image", 3)});
}

// Concatenations of concatenations, whose parts share memory: with a part that is used after, one
// that occurs twice, one that comes from elsewhere, and one in two of them at different places.
TEST(BackboneFusing, ConcatenatesInPlace) {
  const auto joined = [](Net& net, std::vector<std::string> parts) {
    return net.add("Concat", std::move(parts), {{"axis", std::int64_t{1}}});
  };
  Net net;
  std::vector<std::string> features = {
      net.add("MaxPool", {net.same_conv("image", 3, 32, 3)}, {{"kernel_shape", Ints{2, 2}}})};
  std::vector<std::string> all = features;
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::string x = i == 0 ? features[0] : joined(net, features);
    std::string y = net.add("Relu", {net.batch_norm(x, 32 * (i + 1))});
    y = net.add("Relu", {net.batch_norm(net.conv(y, 32 * (i + 1), 64, 1), 64)});
    features.push_back(net.same_conv(y, 64, 32, 3));
    all.insert(all.end(), {x, features.back()});
  }
  const std::string block = joined(net, features);
  const std::string odd = joined(net, {features[2], features[1], features[1], block, features[3]});
  const std::string relu = net.add("Relu", {features[2]});
  const std::string mixed = joined(net, {relu, features[2], net.weight({1, 16, 11, 12}), relu});
  const std::string end =
      net.conv(joined(net, {net.conv(odd, 288, 16, 1), net.conv(mixed, 112, 16, 1)}), 32, 8, 1);
  all.insert(all.end(), {block, odd, relu, mixed, end});
  for (const std::size_t threads : {1u, 2u}) {
    expect_naive(net.graph(), {end}, 12, 13, threads);
    expect_naive(net.graph(), {block, end}, 12, 13, threads);
    expect_naive(net.graph(), all, 12, 13, threads);
  }
}

TEST(BackboneConv, TakesWinogradsWayWithoutHarm) {
  Net net;
  std::string x = net.conv("image", 3, 64, 1);
  std::vector<std::string> all = {x};
  for (const std::int64_t channels : {64, 128, 64}) {
    const std::int64_t before = all.size() == 1 ? 64 : channels == 64 ? 128 : 64;
    x = net.add("Relu", {net.batch_norm(net.same_conv(x, before, channels, 3), channels)});
    x = net.add("Relu", {net.add("Add", {net.same_conv(x, channels, channels, 3), x})});
    all.push_back(x);
  }
  for (const std::size_t side : {7u, 14u}) {
    expect_naive(net.graph(), {x}, side, side + 1);
    expect_naive(net.graph(), all, side, side, 2);
  }
}

TEST(BackboneFusing, AddsResidualsWithoutHarm) {
  const auto block = [](Net& net, const std::string& x, bool swapped) {
    std::string y = net.add("Relu", {net.batch_norm(net.conv(x, 32, 16, 1, {}, false), 16)});
    y = net.batch_norm(net.same_conv(y, 16, 32, 3, false), 32);
    y = swapped ? net.add("Add", {x, y}) : net.add("Add", {y, x});
    return net.add("Relu", {y});
  };
  for (const bool swapped : {false, true}) {
    Net net;
    const std::string a = net.add("Relu", {net.same_conv("image", 3, 32, 3)});
    const std::string b = block(net, a, swapped);
    const std::string c = block(net, b, swapped);
    // Both sides made by convolutions, the residual used again later, and x + f(x) of one conv.
    const std::string d = net.add("Add", {net.conv(c, 32, 32, 1), net.conv(c, 32, 32, 1)});
    const std::string e = net.add("Add", {net.conv(d, 32, 32, 1), d});
    const std::string f = net.add("Add", {net.conv(e, 32, 32, 1), b});
    const std::string g = net.add("Add", {net.conv(f, 32, 32, 1), net.weight({1, 32, 13, 17})});
    expect_naive(net.graph(), {g});
    expect_naive(net.graph(), {b, g});
    expect_naive(net.graph(), {a, b, c, d, e, f, g});
  }
}

TEST(BackboneFusing, FindsSwish) {
  Net net;
  const std::string x = net.conv("image", 3, 16, 1);
  const std::string swish = net.add("Mul", {x, net.add("Sigmoid", {x})});
  const std::string hard =
      net.add("Mul", {net.add("HardSigmoid", {swish}, {{"alpha", 1 / 6.0f}}), swish});
  const std::string y = net.conv(hard, 16, 16, 1);
  const std::string clipped =
      net.add("Clip", {net.add("Add", {y, net.number(3)}), net.number(0), net.number(6)});
  const std::string z = net.add("Div", {net.add("Mul", {y, clipped}), net.number(6)});
  expect_naive(net.graph(), {z});
  expect_naive(net.graph(), {x, swish, hard, y, clipped, z});
  // A gate on another value is no swish.
  const std::string other = net.conv("image", 3, 16, 1);
  expect_naive(net.graph(), {net.add("Mul", {x, net.add("Sigmoid", {other})})});
}

TEST(BackboneFusing, FoldsPaddingWhereItIsExact) {
  const auto padded = [](Net& net, const std::string& x, float value, Ints pads) {
    return net.add("Pad", {x, net.ints(std::move(pads)), net.number(value)});
  };
  const Ints around = {0, 0, 1, 0, 0, 0, 1, 2};
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, 0.7f, -infinity}) {
    for (const bool positive : {true, false}) {
      Net net;
      std::string x = net.conv("image", 3, 16, 1);
      if (positive) x = net.add("Relu", {x});
      const std::string max = net.add("MaxPool", {padded(net, x, value, around)},
                                      {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}});
      expect_naive(net.graph(), {max});
      if (value == -infinity) continue;
      const std::string mean = net.add("AveragePool", {padded(net, x, value, around)},
                                       {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}});
      const std::string conv = net.same_conv(padded(net, x, value, around), 16, 8, 3);
      expect_naive(net.graph(), {mean, conv});
      expect_naive(net.graph(),
                   {net.same_conv(padded(net, x, value, {0, 0, -1, 2, 0, 0, 0, -3}), 16, 8, 3)});
      expect_naive(net.graph(), {padded(net, x, value, {0, 1, 0, 0, 0, 2, 0, 0})});
    }
  }
}

// Chains of random operators, any of whose tensors may be asked for: fusing may never go across one
// that is.
TEST(BackboneFusing, KeepsRandomGraphsAsTheyAre) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Net net(seed);
    Random& random = net.random();
    std::vector<std::pair<std::string, std::int64_t>> values = {
        {net.same_conv("image", 3, 16, 3), 16}};
    for (int i = 0; i < 14; ++i) {
      const auto [x, channels] =
          values[values.size() - 1 - random.below(std::min<std::size_t>(3, values.size()))];
      const auto same = [&, c = channels] {
        std::vector<std::string> all;
        for (const auto& [name, n] : values) {
          if (n == c) all.push_back(name);
        }
        return all[random.below(all.size())];
      };
      switch (random.below(11)) {
        case 0:
        case 1:
          values.emplace_back(net.same_conv(x, channels, channels, 3), channels);
          break;
        case 2: {
          const auto out = static_cast<std::int64_t>(8 * (1 + random.below(4)));
          values.emplace_back(net.conv(x, channels, out, 1), out);
          break;
        }
        case 3:
          values.emplace_back(net.batch_norm(x, channels), channels);
          break;
        case 4:
          values.emplace_back(net.add("Relu", {x}), channels);
          break;
        case 5:
        case 6:
          values.emplace_back(net.add("Add", {x, same()}), channels);
          break;
        case 7:
          values.emplace_back(
              net.add("Mul", {x, net.add("Sigmoid", {random.below(2) ? x : same()})}), channels);
          break;
        case 8:
          values.emplace_back(
              net.add("MaxPool", {x}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}),
              channels);
          break;
        case 9: {
          const std::string gate = net.add("Sigmoid", {net.add("GlobalAveragePool", {x})});
          values.emplace_back(net.add("Mul", {x, gate}), channels);
          break;
        }
        default:
          if (channels > 64) break;
          values.emplace_back(net.add("Concat", {x, same()}, {{"axis", std::int64_t{1}}}),
                              2 * channels);
      }
    }
    std::set<std::string> layers = {values.back().first};
    for (std::size_t i = random.below(4); i > 0; --i)
      layers.insert(values[random.below(values.size())].first);
    SCOPED_TRACE(seed);
    expect_naive(net.graph(), Names(layers.begin(), layers.end()), 7, 6, 1 + seed % 2);
  }
}

// ---- vision transformers -----------------------------------------------------------------------

std::string decomposed_layer_norm(Net& net, const std::string& x, std::int64_t width) {
  const Attributes last = {{"axes", Ints{-1}}};
  const std::string centred = net.add("Sub", {x, net.add("ReduceMean", {x}, last)});
  const std::string squared = net.add("Pow", {centred, net.number(2)});
  const std::string variance = net.add("ReduceMean", {squared}, last);
  const std::string root = net.add("Sqrt", {net.add("Add", {variance, net.number(1e-6f)})});
  const std::string scaled =
      net.add("Mul", {net.add("Div", {centred, root}), net.positive({width})});
  return net.add("Add", {scaled, net.weight({width}, 0.1f)});
}

std::string linear(Net& net, const std::string& x, std::int64_t in, std::int64_t out) {
  const std::string product = net.add("MatMul", {x, net.weight({in, out}, 0.2f)});
  return net.add("Add", {net.weight({out}, 0.1f), product});
}

std::string attention(Net& net, const std::string& x, std::int64_t tokens, std::int64_t width) {
  const std::int64_t heads = 2, each = width / heads;
  std::string qkv = linear(net, x, width, 3 * width);
  qkv = net.add("Reshape", {qkv, net.ints({1, tokens, 3, heads, each})});
  qkv = net.add("Transpose", {qkv}, {{"perm", Ints{2, 0, 3, 1, 4}}});
  std::string parts[3];
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::string index = net.constant(Tensor::of({}, Ints{i}));
    parts[i] = net.add("Gather", {qkv, index}, {{"axis", std::int64_t{0}}});
  }
  const std::string q = net.add("Mul", {parts[0], net.number(0.3f)});
  const std::string k = net.add("Transpose", {parts[1]}, {{"perm", Ints{0, 1, 3, 2}}});
  const std::string weights =
      net.add("Softmax", {net.add("MatMul", {q, k})}, {{"axis", std::int64_t{-1}}});
  std::string y = net.add("MatMul", {weights, parts[2]});
  y = net.add("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
  y = net.add("Reshape", {y, net.ints({1, tokens, width})});
  return linear(net, y, width, width);
}

std::string decomposed_gelu(Net& net, const std::string& x, bool half_first) {
  std::string erf = net.add("Erf", {net.add("Div", {x, net.number(1.41421356f)})});
  erf = net.add("Add", {erf, net.number(1)});
  if (half_first) return net.add("Mul", {net.add("Mul", {x, net.number(0.5f)}), erf});
  return net.add("Mul", {net.add("Mul", {x, erf}), net.number(0.5f)});
}

TEST(BackboneTransformer, GivesPatchTokensAsAMap) {
  const std::int64_t width = 16, tokens = 1 + 3 * 4;
  Net net;
  std::string x = net.conv("image", 3, width, 4, {{"strides", Ints{4, 4}}});
  x = net.add("Reshape", {x, net.ints({1, width, 12})});
  x = net.add("Transpose", {x}, {{"perm", Ints{0, 2, 1}}});
  x = net.add("Concat", {net.weight({1, 1, width}), x}, {{"axis", std::int64_t{1}}});
  x = net.add("Add", {x, net.weight({1, tokens, width}, 0.1f)});
  Names layers;
  for (const bool half_first : {false, true}) {
    std::string y = attention(net, decomposed_layer_norm(net, x, width), tokens, width);
    x = net.add("Add", {x, net.add("Mul", {y, net.weight({width})})});
    layers.push_back(x);
    y = net.add("LayerNormalization", {x, net.positive({width}), net.weight({width}, 0.1f)});
    y = linear(net, decomposed_gelu(net, linear(net, y, width, 4 * width), half_first), 4 * width,
               width);
    x = net.add("Add", {x, y});
    layers.push_back(x);
  }
  layers.push_back(decomposed_layer_norm(net, x, width));
  expect_naive(net.graph(), {layers.back()}, 12, 16);
  expect_naive(net.graph(), layers, 12, 16, 2);
  // Every tensor of the shape asked for one by one: no fusing goes across it.
  const TemporaryFile file(net.graph());
  Names all;
  net.graph().outputs = {x};
  const TemporaryFile with_output(net.graph());
  const Backbone backbone(with_output.path());
  const BackboneInfo info = backbone.info(12, 16);
  for (const LayerShape& layer : info.layers) {
    if (layer.height == 3 && layer.width == 4 && layer.channels > 1) all.push_back(layer.name);
  }
  EXPECT_GT(all.size(), 30u);
  expect_naive(net.graph(), all, 12, 16);
}

TEST(BackboneTransformer, TakesChannelsLastImages) {
  Net net;
  net.graph().input_shape = {-1, -1, -1, 3};
  const std::string turned = net.add("Transpose", {"image"}, {{"perm", Ints{0, 3, 1, 2}}});
  const std::string x = net.same_conv(turned, 3, 16, 3);
  expect_naive(net.graph(), {x});
  net.add("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}}, "last");
  net.graph().outputs = {"last"};
  const TemporaryFile file(net.graph());
  const Backbone backbone(file.path(), {"last", x});
  const auto image = random_image(6, 5);
  auto runner = backbone.runner();
  Compute one(1, testing::device());
  const auto maps = runner.run(image, 6, 5, one);
  ASSERT_EQ(maps[0].channels, 16u);
  ASSERT_EQ(maps[0].height, 6u);
  EXPECT_TRUE(std::equal(maps[0].data, maps[0].data + 6 * 5 * 16, maps[1].data));
}

// ---- sizes and runners -------------------------------------------------------------------------

Net small_net() {
  Net net(3);
  std::string x = net.add(
      "Relu", {net.conv("image", 3, 16, 7, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}})});
  x = net.add("MaxPool", {x},
              {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  x = net.add("Add", {x, net.same_conv(net.add("Relu", {net.same_conv(x, 16, 16, 3)}), 16, 16, 3)},
              {}, "layer2");
  net.add("Relu", {net.conv(x, 16, 32, 3, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}})},
          {}, "layer3");
  net.graph().outputs = {"layer2", "layer3"};
  return net;
}

TEST(BackboneRunner, TakesAnySize) {
  Net net = small_net();
  for (const auto& [h, w] :
       {std::pair<std::size_t, std::size_t>(32, 32), {33, 47}, {7, 5}, {1, 1}}) {
    expect_naive(net.graph(), {"layer2", "layer3"}, h, w);
  }
  // One runner, more sizes than it keeps, each more than once.
  const TemporaryFile file(net.graph());
  const Backbone backbone(file.path());
  auto runner = backbone.runner();
  Compute one(1, testing::device());
  for (int round = 0; round < 2; ++round) {
    for (std::size_t side = 9; side < 16; ++side) {
      const auto image = random_image(side, side + 2);
      const auto maps = runner.run(image, side, side + 2, one);
      const auto naive =
          NaiveGraph(net.graph())
              .run(image, static_cast<std::int64_t>(side), static_cast<std::int64_t>(side + 2));
      expect_map(maps[0], naive.at("layer2"), "layer2");
      expect_map(maps[1], naive.at("layer3"), "layer3");
    }
  }
}

TEST(BackboneRunner, ABatchIsItsImages) {
  Net net;
  const std::string x = net.add("Relu", {net.same_conv("image", 3, 8, 3)});
  const std::string y = net.add("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}});
  net.graph().outputs = {x, y};
  const TemporaryFile file(net.graph());
  const Backbone backbone(file.path(), {x, y});
  auto runner = backbone.runner(), other = backbone.runner();
  Compute one(1, testing::device());
  EXPECT_TRUE(runner.run_batch({}, 11, 14, one).empty());
  const std::vector<std::vector<float>> images = {random_image(11, 14, 1), random_image(11, 14, 2),
                                                  random_image(11, 14, 3)};
  const auto batch = runner.run_batch({images.begin(), images.end()}, 11, 14, one);
  ASSERT_EQ(batch.size(), images.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto alone = other.run(images[i], 11, 14, one);
    ASSERT_EQ(batch[i].size(), alone.size());
    for (std::size_t k = 0; k < alone.size(); ++k) {
      const std::size_t count = alone[k].channels * alone[k].height * alone[k].width;
      for (std::size_t n = 0; n < count; ++n) ASSERT_EQ(batch[i][k].data[n], alone[k].data[n]);
    }
  }
  const std::vector<float> small(5);
  EXPECT_THROW(runner.run_batch({images[0], small}, 11, 14, one), Error);
}

TEST(BackboneRunner, SeveralRunAtOnce) {
  Net net = small_net();
  const TemporaryFile file(net.graph());
  const Backbone backbone(file.path());
  constexpr std::size_t kRunners = 4, kImages = 12;
  const auto run = [&](std::size_t seed, std::size_t threads, std::vector<float>& out) {
    auto runner = backbone.runner();
    Compute compute(threads, testing::device());
    for (std::size_t i = 0; i < kImages; ++i) {
      const std::size_t side = 20 + 3 * (i % 3);
      const auto maps = runner.run(random_image(side, side, seed * 100 + i), side, side, compute);
      for (const FeatureMap& map : maps) {
        out.insert(out.end(), map.data, map.data + map.channels * map.height * map.width);
      }
    }
  };
  std::vector<std::vector<float>> alone(kRunners), together(kRunners);
  for (std::size_t i = 0; i < kRunners; ++i) run(i, 1, alone[i]);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kRunners; ++i) {
    threads.emplace_back([&, i] { run(i, 1 + i % 2, together[i]); });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < kRunners; ++i) EXPECT_EQ(alone[i], together[i]) << i;
}

TEST(BackboneRunner, RefusesWhatItCannotRun) {
  Net net = small_net();
  const TemporaryFile file(net.graph());
  const Backbone backbone(file.path());
  auto runner = backbone.runner();
  Compute one(1, testing::device());
  const auto image = random_image(8, 8);
  EXPECT_THROW(runner.run(image, 8, 9, one), Error);
  expect_error("sides go from 1", [&] { runner.run({}, 0, 0, one); });
  // An image size the graph was not made for: the node is named.
  Net fixed;
  const std::string x = fixed.conv("image", 3, 4, 1);
  fixed.add("Reshape", {x, fixed.ints({1, 4, 64})}, {}, "rows");
  fixed.add("MatMul", {"rows", fixed.weight({64, 8})}, {}, "y");
  fixed.graph().outputs = {x};
  const TemporaryFile fixed_file(fixed.graph());
  const Backbone head(fixed_file.path(), {"y"});
  expect_error("Reshape_rows", [&] { head.info(9, 9); });
  expect_error(fixed_file.path(), [&] { head.info(9, 9); });
  // The layers before it take any size, and the list ends where the size does not fit.
  const BackboneInfo info = Backbone(fixed_file.path()).info(9, 9);
  EXPECT_EQ(info.layers.size(), 1u);
}

TEST(BackboneRunner, BoundsItsMemory) {
  Net net;
  std::string x = "image";
  x = net.conv(x, 3, 64, 1);
  net.graph().outputs = {x};
  const TemporaryFile file(net.graph());
  const Backbone backbone(file.path());
  expect_error("smaller images", [&] { backbone.info(16384, 16384); });
}

// ---- layers ------------------------------------------------------------------------------------

TEST(BackboneLayers, AreFoundByTensorNodeAndModule) {
  Net net = small_net();
  Graph& graph = net.graph();
  graph.outputs = {"layer3"};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    graph.nodes[i].name = (i < 4 ? "/stem/op" : "/net/block.1/op") + std::to_string(i);
  }
  graph.nodes.back().name = "/net/block.1/more/inner/op";
  const TemporaryFile file(graph);
  const std::string stem = graph.nodes[3].outputs[0];
  const std::string inner = graph.nodes[2].outputs[0];
  const Backbone backbone(file.path(), {"stem", stem, "/stem/op2", "block.1", "net"});
  EXPECT_EQ(backbone.layers(), (Names{"stem", stem, "/stem/op2", "block.1", "net"}));
  EXPECT_EQ(Backbone(file.path(), {"more.inner"}).info(8, 8).layers.back().chosen, true);
  auto runner = backbone.runner();
  Compute one(1, testing::device());
  const auto image = random_image(12, 12);
  const auto naive = NaiveGraph(graph).run(image, 12, 12);
  const auto maps = runner.run(image, 12, 12, one);
  expect_map(maps[0], naive.at(stem), "stem");
  expect_map(maps[1], naive.at(stem), "stem tensor");
  expect_map(maps[2], naive.at(inner), "inner");
  expect_map(maps[3], naive.at("layer3"), "block");
  expect_map(maps[4], naive.at("layer3"), "net");

  EXPECT_EQ(Backbone(file.path()).layers(), (Names{"layer2", "layer3"}));
  expect_error("has no layer 'layer4'; some that it has: layer3",
               [&] { Backbone(file.path(), {"layer4"}); });
  expect_error("has no layer 'tem'", [&] { Backbone(file.path(), {"tem"}); });
}

TEST(BackboneLayers, WithoutLayer2And3AreTheOutputs) {
  Net net;
  const std::string x = net.conv("image", 3, 8, 1);
  const std::string y = net.add("Relu", {x});
  net.graph().outputs = {y, x};
  const TemporaryFile file(net.graph());
  EXPECT_EQ(Backbone(file.path()).layers(), (Names{y, x}));
}

TEST(BackboneLayers, OnlyWhatTheyNeedIsRun) {
  Net net = small_net();
  net.add("Mystery", {"layer3"}, {}, "odd");
  const TemporaryFile file(net.graph());
  const Backbone both(file.path());
  const Backbone first(file.path(), {"layer2"});
  const BackboneInfo all = both.info(32, 32);
  const BackboneInfo part = first.info(32, 32);
  EXPECT_LT(part.parameters, all.parameters);
  EXPECT_LT(part.gflops, all.gflops);
  const double stem = 2.0 * 16 * 16 * 16 * 3 * 49, block = 2 * 2.0 * 8 * 8 * 16 * 16 * 9;
  EXPECT_NEAR(part.gflops, (stem + block) * 1e-9, 1e-12);
  EXPECT_EQ(part.parameters, 16u * 3 * 49 + 16 + 2 * (16 * 16 * 9 + 16));
  EXPECT_EQ(all.layers.back().name, "layer3");
  EXPECT_EQ(all.layers.back().channels, 32u);
  EXPECT_EQ(all.layers.back().height, 4u);
  EXPECT_EQ(all.layers.size(), part.layers.size());
  expect_error("node 'Mystery_odd' (Mystery)", [&] { Backbone(file.path(), {"odd"}); });
}

TEST(BackboneHash, IsThatOfTheBytes) {
  Net net = small_net();
  const std::string bytes = testing::to_proto(net.graph()).SerializeAsString();
  const TemporaryFile a(bytes), b(bytes), c(bytes + std::string("\x08\x08", 2));
  EXPECT_EQ(Backbone(a.path()).hash(), Backbone(b.path()).hash());
  EXPECT_NE(Backbone(a.path()).hash(), Backbone(c.path()).hash());
  EXPECT_EQ(Backbone(a.path()).hash().size(), 64u);
}

}  // namespace
}  // namespace contcore
