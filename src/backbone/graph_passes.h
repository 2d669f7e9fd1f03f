// Passes over a graph before any image size is known.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backbone/graph.h"

namespace contcore {

/// The nodes `targets` (tensor names) depend on, by index, in order.
std::vector<std::size_t> needed_nodes(const Graph& graph, const std::vector<std::string>& targets);

/// Computes, once for all sizes, what depends on weights alone. A node that fails stays: its fault
/// is reported when it is needed.
void fold_constants(Graph& graph);

/// Throws Error (kInput) if one of these nodes reads a weight that is no number, or multiplies by
/// an infinite one: a ReLU behind it would make zeros of that, and nobody would see it.
void check_weights(const Graph& graph, const std::vector<std::size_t>& nodes);

}  // namespace contcore
