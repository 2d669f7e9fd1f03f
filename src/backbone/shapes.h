// What operators that move numbers do to shapes, with all their defaults filled in. In all of these
// inputs[i] is null where the node has no i-th input or it is not constant.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backbone/graph.h"

namespace contcore {

using Inputs = std::span<const Tensor* const>;

const Tensor* optional_input(Inputs inputs, std::size_t i);

/// Throw Error (kInput) naming the node when the input is missing, or not of whole numbers.
const Tensor& required_input(const Node& node, Inputs inputs, std::size_t i);
const std::vector<std::int64_t>& int_input(const Node& node, Inputs inputs, std::size_t i);

/// The shape of a against b, as NumPy broadcasts. Throws Error (kInput).
Shape broadcast_shape(const Node& node, const Shape& a, const Shape& b);

/// Where a Reshape, Flatten, Squeeze or Unsqueeze leads; `inputs` as for evaluate(), inputs[0]
/// unread.
Shape reshaped(const Node& node, std::int64_t opset, const Shape& shape, Inputs inputs);

/// A Slice or a part of a Split with all its defaults filled in: first index, step and count an
/// axis.
struct Slice {
  std::vector<std::int64_t> starts, steps;
  Shape shape;
};
Slice sliced(const Node& node, std::int64_t opset, const Shape& shape, Inputs inputs);
std::vector<Slice> split(const Node& node, const Shape& shape, Inputs inputs);

/// The order of axes of a Transpose.
std::vector<std::int64_t> permutation(const Node& node, std::size_t rank);

/// The axes of a Reduce, sorted, from an attribute or an input; empty: all. Counted from the front.
std::vector<std::int64_t> reduced_axes(const Node& node, std::size_t rank, Inputs inputs);

/// What a Pad adds before (first half) and after (second half) each axis.
std::vector<std::int64_t> padding(const Node& node, std::size_t rank, Inputs inputs);
float padding_value(const Node& node, Inputs inputs);

}  // namespace contcore
