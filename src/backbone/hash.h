// What a backbone is, in 64 digits: memories refuse to be used with another one.
#pragma once

#include <string>

#include "backbone/graph.h"

namespace contcore {

/// SHA-256 of a file's bytes, hexadecimal.
std::string hash_of(const std::string& bytes);

/// The same of everything a graph computes with, for graphs that are not read from a file.
std::string hash_of(const Graph& graph);

}  // namespace contcore
