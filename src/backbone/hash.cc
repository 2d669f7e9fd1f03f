#include "backbone/hash.h"

#include <bit>
#include <cstddef>
#include <span>
#include <type_traits>

#include "base/sha256.h"

namespace contcore {
namespace {

// A graph as bytes, little-endian on every machine. A length stands before each string and list, so
// that no two graphs have the same bytes.
class Bytes {
 public:
  void number(std::uint64_t value) {
    for (unsigned i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  void text(const std::string& value) {
    number(value.size());
    bytes_ += value;
  }
  void names(const std::vector<std::string>& values) {
    number(values.size());
    for (const auto& value : values) text(value);
  }
  void ints(const std::vector<std::int64_t>& values) {
    number(values.size());
    for (const std::int64_t value : values) number(static_cast<std::uint64_t>(value));
  }
  void floats(const std::vector<float>& values) {
    number(values.size());
    for (const float value : values) number(std::bit_cast<std::uint32_t>(value));
  }
  void tensor(const Tensor& tensor) {
    ints(tensor.shape);
    if (tensor.is_float()) {
      floats(*tensor.floats);
    } else {
      ints(*tensor.ints);
    }
  }
  void attribute(const Attribute& attribute) {
    number(attribute.index());
    std::visit(
        [this](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::int64_t>) ints({value});
          if constexpr (std::is_same_v<T, float>) floats({value});
          if constexpr (std::is_same_v<T, std::string>) text(value);
          if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) ints(value);
          if constexpr (std::is_same_v<T, std::vector<float>>) floats(value);
          if constexpr (std::is_same_v<T, Tensor>) tensor(value);
        },
        attribute);
  }
  void node(const Node& node) {
    text(node.op);
    text(node.name);
    names(node.inputs);
    names(node.outputs);
    number(node.attributes.size());
    for (const auto& [name, value] : node.attributes) {
      text(name);
      attribute(value);
    }
  }
  const std::string& all() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

std::string hash_of(const std::string& bytes) {
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
  return sha256({&part, 1});
}

std::string hash_of(const Graph& graph) {
  Bytes bytes;
  bytes.text(graph.input);
  bytes.ints(graph.input_shape);
  bytes.names(graph.outputs);
  bytes.number(static_cast<std::uint64_t>(graph.opset));
  bytes.number(graph.nodes.size());
  for (const Node& node : graph.nodes) bytes.node(node);
  bytes.number(graph.weights.size());
  for (const auto& [name, tensor] : graph.weights) {
    bytes.text(name);
    bytes.tensor(tensor);
  }
  return hash_of(bytes.all());
}

}  // namespace contcore
