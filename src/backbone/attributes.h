// Reading a node's attributes, with ONNX's defaults, and complaining about a node by name.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backbone/graph.h"
#include "contcore/error.h"

namespace contcore {

/// Throws Error (kInput): "node 'name' (Conv): what".
[[noreturn]] inline void fail(const Node& node, const std::string& what) {
  const std::string& name =
      !node.name.empty() || node.outputs.empty() ? node.name : node.outputs.front();
  throw Error(Error::Kind::kInput, fmt::format("node '{}' ({}): {}", name, node.op, what));
}

template <typename T>
const T* find_attribute(const Node& node, const char* name) {
  const auto at = node.attributes.find(name);
  if (at == node.attributes.end()) return nullptr;
  if (const T* value = std::get_if<T>(&at->second)) return value;
  fail(node, fmt::format("attribute '{}' has the wrong type; the file is damaged", name));
}

template <typename T>
T attribute(const Node& node, const char* name, T otherwise) {
  const T* value = find_attribute<T>(node, name);
  return value == nullptr ? std::move(otherwise) : *value;
}

inline std::int64_t int_attribute(const Node& node, const char* name, std::int64_t otherwise) {
  return attribute<std::int64_t>(node, name, otherwise);
}
inline float float_attribute(const Node& node, const char* name, float otherwise) {
  return attribute<float>(node, name, otherwise);
}
inline std::string string_attribute(const Node& node, const char* name, std::string otherwise) {
  return attribute<std::string>(node, name, std::move(otherwise));
}
inline std::vector<std::int64_t> ints_attribute(const Node& node, const char* name,
                                                std::vector<std::int64_t> otherwise) {
  return attribute<std::vector<std::int64_t>>(node, name, std::move(otherwise));
}

/// An axis counted from the front; throws Error (kInput) when it is outside `rank`.
inline std::size_t axis_of(const Node& node, std::int64_t axis, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  if (axis < -dims || axis >= dims) {
    fail(node, fmt::format("axis {} is outside a tensor of {} dimensions", axis, rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + dims : axis);
}

/// More numbers than any one tensor may have: 2 GiB of float32.
#ifdef CONTCORE_FUZZ  // a small limit makes whatever escapes it visible, and the search fast
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 20;
#else
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 29;
#endif

/// How many numbers there are in a shape; nothing if that is negative anywhere, or more than `most`
/// but for its zeros: they must not hide what the other dimensions come to, since strides and parts
/// of the shape are products of those.
template <typename Dims>
std::optional<std::int64_t> numbers_in(const Dims& shape, std::int64_t most) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    empty = empty || dim == 0;
    if (dim == 0) continue;
    if (dim > most / product) return std::nullopt;
    product *= dim;
  }
  return empty ? 0 : product;
}

/// How many numbers a tensor of this shape has. Throws Error (kInput) on a negative dimension and
/// above kMostNumbers.
inline std::int64_t count_of(const Node& node, const Shape& shape) {
  if (const auto count = numbers_in(shape, kMostNumbers)) return *count;
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t dim) { return dim < 0; })) {
    fail(node, fmt::format("makes a tensor of impossible shape [{}]", fmt::join(shape, ", ")));
  }
  fail(node,
       fmt::format("makes a tensor of shape [{}], over the limit of 2 GiB; use smaller images",
                   fmt::join(shape, ", ")));
}

}  // namespace contcore
