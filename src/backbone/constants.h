// Operators computed on plain tensors, one number at a time: the shape arithmetic and constants of
// a graph, once, and the rare operator on the image's way for which a plan has no step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backbone/graph.h"

namespace contcore {

/// Whether evaluate() knows the operator.
bool can_evaluate(const std::string& op);

/// The node's outputs. inputs[i] is null where the node has no i-th input. Throws Error (kInput)
/// naming the node when its inputs do not fit together.
std::vector<Tensor> evaluate(const Node& node, std::int64_t opset,
                             std::span<const Tensor* const> inputs);

}  // namespace contcore
