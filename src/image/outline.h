// A line around what lies above a level.
#pragma once

#include <cstdint>
#include <vector>

#include "contcore/image.h"

namespace contcore {

enum class Ink : std::uint8_t { kNone, kEdge, kLine };

/// For each pixel of the map, row after row: the line runs over the outermost pixels above `level`
/// (those at the map's border included) and grows with the map; it has an edge on both sides.
std::vector<Ink> outline(const Map& map, float level);

}  // namespace contcore
