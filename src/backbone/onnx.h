// Reading ONNX files. Every byte may be hostile: sizes are checked before anything is allocated.
#pragma once

#include <cstddef>
#include <string>

#include "backbone/graph.h"

namespace contcore {

/// Reads a whole file. Throws Error (kInput) naming the file when it cannot be read or is over 2
/// GiB.
std::string read_model_file(const std::string& file);

/// The graph in the bytes of an ONNX file, nodes sorted so that each stands after those that make
/// its inputs. Throws Error (kInput) whose message does not name the file.
Graph parse_onnx(const void* data, std::size_t bytes);

/// Sorts nodes, keeping the order they are in where it serves. Throws Error (kInput) on a cycle, an
/// input that nobody makes and a tensor made twice.
void sort_nodes(Graph& graph);

}  // namespace contcore
