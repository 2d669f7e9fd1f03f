// Resize and Upsample: maps brought to another size, position embeddings to another grid.
#pragma once

#include <cstdint>
#include <span>

#include "backbone/graph.h"

namespace contcore {

/// Nearest, linear and cubic, separably, axis after axis. inputs[0] is a float tensor.
Tensor resize(const Node& node, std::int64_t opset, std::span<const Tensor* const> inputs);

}  // namespace contcore
