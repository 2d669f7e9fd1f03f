// Layers by name: what users write, and the tensors of a graph that they mean.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backbone/graph.h"

namespace contcore {

/// The tensor that a layer's name means: the tensor of that name, the first output of the node of
/// that name, or the last tensor made in the module of that name. It depends on the image.
std::optional<std::string> find_layer(const Graph& graph, const std::string& layer);

/// layer2 and layer3, as far as they are there, or else the graph's outputs. Throws Error (kInput)
/// if it has none.
std::vector<std::string> default_layers(const Graph& graph);

/// Throws Error (kInput) that lists some of the layers there are.
[[noreturn]] void throw_unknown_layer(const Graph& graph, const std::string& layer);

}  // namespace contcore
