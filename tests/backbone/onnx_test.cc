#include "backbone/onnx.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backbone/net.h"
#include "backbone/onnx_writer.h"
#include "contcore/backbone.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using testing::Ints;
using testing::Net;
using testing::TemporaryFile;

void expect_error(const std::string& words, const auto& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected: " << words;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), Error::Kind::kInput) << e.what();
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}

Graph parse(const std::string& bytes) { return parse_onnx(bytes.data(), bytes.size()); }

void expect_refused(const onnx::ModelProto& model, const std::string& words) {
  expect_error(words, [&] { parse(model.SerializeAsString()); });
}

// A bit of everything: shapes computed in the graph, a residual, a pool, a head.
Graph sample() {
  Net net(5);
  std::string x = net.same_conv("image", 3, 16, 3);
  x = net.add("Relu", {net.batch_norm(x, 16)});
  const std::string y = net.same_conv(x, 16, 16, 3);
  x = net.add("Add", {x, y}, {}, "layer2");
  x = net.add("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  x = net.add("Clip", {x, net.number(0), net.number(6)}, {}, "layer3");
  const std::string shape = net.add("Shape", {x});
  const std::string batch = net.add("Slice", {shape, net.ints({0}), net.ints({2}), net.ints({0})});
  const std::string form = net.add("Concat", {batch, net.ints({-1})}, {{"axis", std::int64_t{0}}});
  const std::string rows = net.add("Reshape", {x, form});
  net.add("Softmax", {net.add("Transpose", {rows}, {{"perm", Ints{0, 2, 1}}})}, {}, "tokens");
  net.graph().outputs = {"layer2", "layer3", "tokens"};
  return net.graph();
}

TEST(OnnxFile, RoundTrips) {
  const Graph before = sample();
  const Graph after = parse(testing::to_proto(before).SerializeAsString());
  ASSERT_EQ(after.nodes.size(), before.nodes.size());
  EXPECT_EQ(after.input, "image");
  EXPECT_EQ(after.input_shape, (Shape{1, 3, -1, -1}));
  EXPECT_EQ(after.outputs, before.outputs);
  EXPECT_EQ(after.opset, before.opset);
  for (std::size_t i = 0; i < before.nodes.size(); ++i) {
    EXPECT_EQ(after.nodes[i].op, before.nodes[i].op);
    EXPECT_EQ(after.nodes[i].inputs, before.nodes[i].inputs);
    EXPECT_EQ(after.nodes[i].attributes.size(), before.nodes[i].attributes.size());
  }
  for (const auto& [name, tensor] : before.weights) {
    ASSERT_TRUE(after.weights.contains(name));
    EXPECT_EQ(after.weights.at(name).shape, tensor.shape);
    if (tensor.is_float()) {
      EXPECT_EQ(*after.weights.at(name).floats, *tensor.floats);
    } else {
      EXPECT_EQ(*after.weights.at(name).ints, *tensor.ints);
    }
  }
}

TEST(OnnxFile, ReadsEveryKindOfNumber) {
  auto model = testing::to_proto(sample());
  const auto add = [&](const std::string& name, int type) -> onnx::TensorProto& {
    auto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    tensor.add_dims(2);
    return tensor;
  };
  add("half", onnx::TensorProto::FLOAT16).set_raw_data(std::string("\x00\x3c\x00\xc0", 4));
  auto& halves = add("half_field", onnx::TensorProto::FLOAT16);
  halves.add_int32_data(0x3c00);
  halves.add_int32_data(0xc000);
  auto& doubles = add("double", onnx::TensorProto::DOUBLE);
  doubles.add_double_data(1);
  doubles.add_double_data(-2);
  auto& floats = add("float", onnx::TensorProto::FLOAT);
  floats.add_float_data(1);
  floats.add_float_data(-2);
  add("int8", onnx::TensorProto::INT8).set_raw_data("\x01\xfe");
  add("int32", onnx::TensorProto::INT32).set_raw_data(std::string("\1\0\0\0\xfe\xff\xff\xff", 8));
  auto& wide = add("int64", onnx::TensorProto::INT64);
  wide.add_int64_data(1);
  wide.add_int64_data(-2);
  const Graph graph = parse(model.SerializeAsString());
  for (const char* name : {"half", "half_field", "double", "float"}) {
    EXPECT_EQ(*graph.weights.at(name).floats, (std::vector<float>{1, -2})) << name;
  }
  for (const char* name : {"int8", "int32", "int64"}) {
    EXPECT_EQ(*graph.weights.at(name).ints, (Ints{1, -2})) << name;
  }
}

TEST(OnnxFile, SortsNodesKeepingTheirOrder) {
  Graph graph = sample();
  std::vector<std::string> order;
  for (const Node& node : graph.nodes) order.push_back(node.outputs[0]);
  std::swap(graph.nodes.front(), graph.nodes.back());
  sort_nodes(graph);
  std::vector<std::string> sorted;
  for (const Node& node : graph.nodes) sorted.push_back(node.outputs[0]);
  EXPECT_EQ(sorted, order);
}

TEST(OnnxFile, RefusesBrokenGraphs) {
  const auto model = testing::to_proto(sample());
  auto broken = model;
  broken.mutable_graph()->mutable_node(0)->set_input(0, "layer3");
  expect_refused(broken, "cycle");
  broken = model;
  broken.mutable_graph()->mutable_node(2)->set_input(0, "nowhere");
  expect_refused(broken, "needs 'nowhere', which nobody makes");
  broken = model;
  broken.mutable_graph()->mutable_node(1)->set_output(0, "layer3");
  expect_refused(broken, "makes 'layer3', which exists already");
  broken = model;
  broken.mutable_graph()->mutable_output(0)->set_name("nothing");
  expect_refused(broken, "the output 'nothing' is made by nobody");
  broken = model;
  *broken.mutable_graph()->add_initializer() = model.graph().initializer(0);
  expect_refused(broken, "has two constants named");
  broken = model;
  broken.mutable_graph()->clear_input();
  expect_refused(broken, "no input");
  broken = model;
  *broken.mutable_graph()->add_input() = model.graph().input(0);
  broken.mutable_graph()->mutable_input(1)->set_name("mask");
  expect_refused(broken, "has two inputs, 'image' and 'mask'");
  broken = model;
  broken.mutable_opset_import(0)->set_version(6);
  expect_refused(broken, "operator set 6");
}

TEST(OnnxFile, BelievesNoSizeThatTheFileDoesNotBear) {
  const auto model = testing::to_proto(sample());
  const auto altered = [&](const auto& change) {
    auto copy = model;
    change(*copy.mutable_graph()->mutable_initializer(0));
    return copy;
  };
  using Proto = onnx::TensorProto;
  expect_refused(altered([](Proto& t) { t.add_dims(1 << 30); }), "more than a file can hold");
  expect_refused(altered([](Proto& t) { t.set_dims(0, std::int64_t{1} << 62); }),
                 "more than a file can hold");
  expect_refused(altered([](Proto& t) { t.set_dims(0, -1); }), "more than a file can hold");
  for (const bool first : {true, false}) {
    expect_refused(altered([&](Proto& t) {
                     t.clear_dims();
                     if (first) t.add_dims(0);
                     t.add_dims(std::int64_t{1} << 40);
                     t.add_dims(std::int64_t{1} << 40);
                     if (!first) t.add_dims(0);
                     t.clear_raw_data();
                   }),
                   "more than a file can hold");
  }
  expect_refused(altered([](Proto& t) { t.set_dims(0, t.dims(0) + 1); }), "the file is damaged");
  expect_refused(altered([](Proto& t) { t.clear_raw_data(); }), "the file is damaged");
  expect_refused(altered([](Proto& t) { t.mutable_raw_data()->pop_back(); }),
                 "the file is damaged");
  expect_refused(altered([](Proto& t) { t.set_data_type(Proto::STRING); }), "data type 8");
  expect_refused(altered([](Proto& t) { t.set_data_location(Proto::EXTERNAL); }),
                 "save the model as one file");
}

TEST(OnnxFile, RefusesWrongShapesAndTypes) {
  const auto refused = [](const Graph& graph, const std::string& words) {
    const TemporaryFile file(graph);
    expect_error(words, [&] { Backbone(file.path()).info(16, 16); });
    expect_error(file.path(), [&] { Backbone(file.path()).info(16, 16); });
  };
  Graph graph = sample();
  graph.weights.at(graph.nodes[0].inputs[1]).shape = {16, 9, 3, 1};
  refused(graph, "do not fit");
  graph = sample();
  graph.nodes[0].attributes["strides"] = Ints{0, 1};
  refused(graph, "strides");
  graph = sample();
  graph.nodes[0].attributes["strides"] = std::string("2");
  refused(graph, "wrong type");
  graph = sample();
  graph.nodes[0].attributes["pads"] = Ints{0, 0, 0, std::int64_t{1} << 60};
  refused(graph, "pads");
  graph = sample();
  graph.nodes[0].attributes["group"] = std::int64_t{0};
  refused(graph, "groups");
  graph = sample();
  graph.nodes[0].attributes["dilations"] = Ints{100, 100};
  refused(graph, "larger images");
  graph = sample();
  graph.nodes[1].inputs.pop_back();
  refused(graph, "constant float numbers");
  graph = sample();
  graph.input_shape = {1, 5, -1, -1};
  refused(graph, "takes 5 channels");
}

TEST(OnnxFile, MissingAndForeignFilesAreNamed) {
  expect_error("/no/such/model.onnx: cannot be read", [] { Backbone("/no/such/model.onnx"); });
  expect_error("cannot be read", [] { Backbone("/"); });
  const TemporaryFile text(std::string("This is not a network at all, but it has some length."));
  expect_error("not an ONNX model", [&] { Backbone(text.path()); });
  const TemporaryFile empty{std::string()};
  expect_error("not an ONNX model", [&] { Backbone(empty.path()); });
}

// All that may happen to damaged bytes: an error, or a network that still runs.
void try_all(const std::string& bytes) {
  const TemporaryFile file(bytes);
  try {
    const Backbone backbone(file.path());
    backbone.info(8, 8);
    const std::vector<float> image = testing::random_image(8, 8);
    Compute one(1);
    backbone.runner().run(image, 8, 8, one);
  } catch (const Error&) {
  }
}

TEST(OnnxFile, SurvivesTruncation) {
  const std::string bytes = testing::to_proto(sample()).SerializeAsString();
  for (std::size_t n = 0; n < bytes.size(); n += n < 100 ? 1 : 97) try_all(bytes.substr(0, n));
}

TEST(OnnxFile, SurvivesFlippedBits) {
  const std::string bytes = testing::to_proto(sample()).SerializeAsString();
  // Most bytes are weights, which may be anything: aim at the nodes and headers around them.
  const std::size_t start = bytes.find("Conv") - 100;
  Random random(11);
  for (int i = 0; i < 600; ++i) {
    std::string damaged = bytes;
    for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      const std::size_t at =
          i % 3 == 0 ? random.below(bytes.size()) : start % bytes.size() + random.below(1000);
      damaged[at % bytes.size()] ^= static_cast<char>(1 << random.below(8));
    }
    try_all(damaged);
  }
}

}  // namespace
}  // namespace contcore
