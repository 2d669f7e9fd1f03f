// Numbers as a few levels, scale · (code − zero), with codes of 8 bits: what QuantizeLinear and
// DequantizeLinear mean.
//
// In: a node with its constant inputs. Out: its levels, or the result on plain tensors. Fails with
// Error (kInput), naming the node: scales that are not positive numbers, zero points of the wrong
// type or number, axes that are not there.
#pragma once

#include <cstdint>
#include <vector>

#include "backbone/graph.h"
#include "backbone/shapes.h"

namespace contcore {

/// The levels of a whole tensor, codes from 0 to 255. Signed codes from −128 to 127 are the same
/// levels with a zero point larger by 128.
struct Grid {
  float scale = 1;
  std::int32_t zero = 0;

  float lowest() const { return scale * static_cast<float>(0 - zero); }
  float highest() const { return scale * static_cast<float>(255 - zero); }
  bool operator==(const Grid&) const = default;
};

/// What a node's scale and zero point say: one of each, or one for each index of an axis.
struct Levels {
  std::vector<float> scale;
  std::vector<std::int64_t> zero;  // as many
  std::size_t axis = 0;
  Tensor::Width width = Tensor::Width::kUint8;  // of the codes

  bool per_axis() const { return scale.size() > 1; }
  std::int64_t lowest() const { return width == Tensor::Width::kInt8 ? -128 : 0; }
  std::int64_t highest() const { return width == Tensor::Width::kInt8 ? 127 : 255; }
  /// Of one scale.
  Grid grid() const;
};

/// The levels of a node on a tensor of this shape. inputs[0] is not read.
Levels levels_of(const Node& node, const Shape& shape, Inputs inputs);

/// The nodes on plain tensors; weights keep the codes they were made of.
Tensor quantized(const Node& node, std::int64_t opset, Inputs inputs);
Tensor dequantized(const Node& node, std::int64_t opset, Inputs inputs);

}  // namespace contcore
