#include "backbone/onnx.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <queue>
#include <set>
#include <unordered_map>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

#include "backbone/attributes.h"
#include "base/half.h"
#include "base/refuse.h"

namespace contcore {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

constexpr std::int64_t kMostTensorBytes = std::int64_t{2} << 30;
constexpr std::int64_t kOldestOpset = 7;  // before it, Add and Mul broadcast in another way

// ---- tensors -----------------------------------------------------------------------------------

// A count that the data can bear out: every number takes a byte at least.
std::size_t checked_count(const TensorProto& proto) {
  if (const auto count = numbers_in(proto.dims(), kMostTensorBytes)) {
    return static_cast<std::size_t>(*count);
  }
  refuse(fmt::format("tensor '{}' claims the shape [{}], more than a file can hold", proto.name(),
                     fmt::join(proto.dims(), ", ")));
}

[[noreturn]] void wrong_size(const TensorProto& proto, std::size_t have, const char* what) {
  refuse(fmt::format("tensor '{}' of shape [{}] comes with {} {}; the file is damaged",
                     proto.name(), fmt::join(proto.dims(), ", "), have, what));
}

template <typename From>
std::vector<From> raw_numbers(const TensorProto& proto, std::size_t count) {
  static_assert(std::endian::native == std::endian::little);
  const std::string& raw = proto.raw_data();
  if (raw.size() != count * sizeof(From)) wrong_size(proto, raw.size(), "bytes");
  std::vector<From> numbers(count);
  if (count > 0) std::memcpy(numbers.data(), raw.data(), raw.size());
  return numbers;
}

template <typename To, typename Field>
std::vector<To> field_numbers(const TensorProto& proto, const Field& field, std::size_t count) {
  if (static_cast<std::size_t>(field.size()) != count) {
    wrong_size(proto, static_cast<std::size_t>(field.size()), "numbers");
  }
  std::vector<To> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<To>(field.Get(static_cast<int>(i)));
  }
  return numbers;
}

template <typename To, typename From>
std::vector<To> converted(const std::vector<From>& from) {
  std::vector<To> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = static_cast<To>(from[i]);
  return to;
}

std::vector<float> widened(const std::vector<std::uint16_t>& halves) {
  std::vector<float> wide(halves.size());
  widen_half(halves.data(), halves.size(), wide.data());
  return wide;
}

template <typename From>
std::vector<std::int64_t> integers(const TensorProto& proto, std::size_t count) {
  if (proto.has_raw_data()) return converted<std::int64_t>(raw_numbers<From>(proto, count));
  auto numbers = field_numbers<std::int64_t>(proto, proto.int32_data(), count);
  for (const std::int64_t x : numbers) {
    if (x != static_cast<From>(x)) {
      refuse(fmt::format("tensor '{}' holds {}, which its data type does not; the file is damaged",
                         proto.name(), x));
    }
  }
  return numbers;
}

Tensor read_tensor(const TensorProto& proto) {
  if (proto.data_location() == TensorProto::EXTERNAL || proto.external_data_size() > 0) {
    refuse(
        fmt::format("tensor '{}' keeps its numbers in another file; save the model as one file "
                    "(onnx.save_model with save_as_external_data=False)",
                    proto.name()));
  }
  const std::size_t count = checked_count(proto);
  const Shape shape(proto.dims().begin(), proto.dims().end());
  const bool raw = proto.has_raw_data();
  switch (proto.data_type()) {
    case TensorProto::FLOAT:
      return Tensor::of(shape, raw ? raw_numbers<float>(proto, count)
                                   : field_numbers<float>(proto, proto.float_data(), count));
    case TensorProto::DOUBLE:
      return Tensor::of(shape, raw ? converted<float>(raw_numbers<double>(proto, count))
                                   : field_numbers<float>(proto, proto.double_data(), count));
    case TensorProto::FLOAT16:
      return Tensor::of(
          shape, widened(raw ? raw_numbers<std::uint16_t>(proto, count)
                             : field_numbers<std::uint16_t>(proto, proto.int32_data(), count)));
    case TensorProto::INT64:
      return Tensor::of(shape, raw ? raw_numbers<std::int64_t>(proto, count)
                                   : field_numbers<std::int64_t>(proto, proto.int64_data(), count));
    case TensorProto::INT32:
      return Tensor::of(shape, integers<std::int32_t>(proto, count), Tensor::Width::kInt32);
    case TensorProto::INT8:
      return Tensor::of(shape, integers<std::int8_t>(proto, count), Tensor::Width::kInt8);
    case TensorProto::UINT8:
      return Tensor::of(shape, integers<std::uint8_t>(proto, count), Tensor::Width::kUint8);
    case TensorProto::BOOL:
      return Tensor::of(shape, integers<std::uint8_t>(proto, count));
    default:
      refuse(
          fmt::format("tensor '{}' has the data type {}, which is not supported; export the model "
                      "in float32",
                      proto.name(), proto.data_type()));
  }
}

// ---- nodes -------------------------------------------------------------------------------------

void read_attribute(const AttributeProto& proto, Node& node) {
  auto& out = node.attributes[proto.name()];
  switch (proto.type()) {
    case AttributeProto::INT:
      out = static_cast<std::int64_t>(proto.i());
      break;
    case AttributeProto::FLOAT:
      out = proto.f();
      break;
    case AttributeProto::STRING:
      out = proto.s();
      break;
    case AttributeProto::INTS:
      out = std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
      break;
    case AttributeProto::FLOATS:
      out = std::vector<float>(proto.floats().begin(), proto.floats().end());
      break;
    case AttributeProto::TENSOR:
      out = read_tensor(proto.t());
      break;
    default:  // graphs, strings …: of operators that are refused when they are needed
      node.attributes.erase(proto.name());
  }
}

Node read_node(const onnx::NodeProto& proto) {
  Node node;
  const std::string& domain = proto.domain();
  node.op =
      domain.empty() || domain == "ai.onnx" ? proto.op_type() : domain + "." + proto.op_type();
  node.name = proto.name();
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (const auto& attribute : proto.attribute()) read_attribute(attribute, node);
  return node;
}

std::int64_t read_opset(const onnx::ModelProto& model) {
  std::int64_t opset = 0;
  for (const auto& import : model.opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") opset = import.version();
  }
  if (opset < kOldestOpset) {
    refuse(
        fmt::format("written for operator set {}, older than {}; export it again with a newer one "
                    "(13 to 17 serve well)",
                    opset, kOldestOpset));
  }
  return opset;
}

void read_input(const onnx::GraphProto& proto, Graph& graph) {
  const onnx::ValueInfoProto* image = nullptr;
  for (const auto& input : proto.input()) {
    if (graph.weights.contains(input.name())) continue;
    if (image != nullptr) {
      refuse(fmt::format("has two inputs, '{}' and '{}'; a backbone takes one, the image",
                         image->name(), input.name()));
    }
    image = &input;
  }
  if (image == nullptr) refuse("has no input for the image");
  graph.input = image->name();
  if (!image->type().has_tensor_type()) {
    refuse(fmt::format("its input '{}' is not a tensor", graph.input));
  }
  const auto& type = image->type().tensor_type();
  if (type.elem_type() != TensorProto::FLOAT && type.elem_type() != TensorProto::UNDEFINED) {
    refuse(fmt::format("its input '{}' has the data type {}; export the model with a float32 input",
                       graph.input, type.elem_type()));
  }
  if (!type.has_shape()) {
    graph.input_shape = {-1, 3, -1, -1};
    return;
  }
  for (const auto& dim : type.shape().dim()) {
    graph.input_shape.push_back(dim.has_dim_value() && dim.dim_value() > 0 ? dim.dim_value() : -1);
  }
  if (graph.input_shape.size() != 4) {
    refuse(fmt::format("its input '{}' has {} dimensions; an image has 4 (N, 3, height, width)",
                       graph.input, graph.input_shape.size()));
  }
}

// Who makes each tensor; -1: nobody needs to.
std::unordered_map<std::string, std::ptrdiff_t> find_producers(const Graph& graph) {
  std::unordered_map<std::string, std::ptrdiff_t> producers;
  producers[graph.input] = -1;
  for (const auto& [name, tensor] : graph.weights) {
    if (!producers.emplace(name, -1).second) {
      refuse(fmt::format("'{}' is both the input and a constant", name));
    }
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string& name : graph.nodes[i].outputs) {
      if (name.empty()) continue;
      if (!producers.emplace(name, static_cast<std::ptrdiff_t>(i)).second) {
        fail(graph.nodes[i], fmt::format("makes '{}', which exists already", name));
      }
    }
  }
  return producers;
}

}  // namespace

void sort_nodes(Graph& graph) {
  const auto producers = find_producers(graph);
  std::vector<std::vector<std::size_t>> users(graph.nodes.size());
  std::vector<std::size_t> waiting(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string& name : graph.nodes[i].inputs) {
      if (name.empty()) continue;
      const auto producer = producers.find(name);
      if (producer == producers.end()) {
        fail(graph.nodes[i], fmt::format("needs '{}', which nobody makes", name));
      }
      if (producer->second < 0) continue;
      users[static_cast<std::size_t>(producer->second)].push_back(i);
      ++waiting[i];
    }
  }
  for (const std::string& name : graph.outputs) {
    if (!producers.contains(name)) refuse(fmt::format("the output '{}' is made by nobody", name));
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<Node> sorted;
  sorted.reserve(graph.nodes.size());
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    for (const std::size_t user : users[i]) {
      if (--waiting[user] == 0) ready.push(user);
    }
    sorted.push_back(std::move(graph.nodes[i]));
  }
  if (sorted.size() < graph.nodes.size()) {
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i] > 0) fail(graph.nodes[i], "is part of a cycle; the file is damaged");
    }
  }
  graph.nodes = std::move(sorted);
}

std::string read_model_file(const std::string& file) {
  std::error_code problem;
  const std::uintmax_t size = std::filesystem::file_size(file, problem);
  if (problem) refuse(fmt::format("{}: cannot be read: {}", file, problem.message()));
  if (size > static_cast<std::uintmax_t>(kMostTensorBytes)) {
    refuse(fmt::format("{}: {} bytes, over the limit of 2 GiB for a model", file, size));
  }
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  if (!stream.read(bytes.data(), static_cast<std::streamsize>(size))) {
    refuse(fmt::format("{}: cannot be read", file));
  }
  return bytes;
}

Graph parse_onnx(const void* data, std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    refuse("over the limit of 2 GiB for a model");
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(data, static_cast<int>(bytes)) || !model.has_graph()) {
    refuse("not an ONNX model, or one that is cut short");
  }
  Graph graph;
  graph.opset = read_opset(model);
  auto& proto = *model.mutable_graph();
  if (proto.sparse_initializer_size() > 0) {
    refuse("has sparse weights, which are not supported; export it with dense ones");
  }
  for (auto& initializer : *proto.mutable_initializer()) {
    if (!graph.weights.emplace(initializer.name(), read_tensor(initializer)).second) {
      refuse(fmt::format("has two constants named '{}'", initializer.name()));
    }
    initializer.Clear();  // the file is held twice as it is
  }
  read_input(proto, graph);
  graph.nodes.reserve(static_cast<std::size_t>(proto.node_size()));
  for (const auto& node : proto.node()) graph.nodes.push_back(read_node(node));
  for (const auto& output : proto.output()) graph.outputs.push_back(output.name());
  sort_nodes(graph);
  return graph;
}

}  // namespace contcore
