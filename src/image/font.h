// The shapes of letters.
#pragma once

#include <string_view>

namespace contcore {

/// Heights above the line that letters stand on, in units of the font.
inline constexpr double kCapitalHeight = 12;
inline constexpr double kSmallHeight = 8;

/// The strokes of a printable ASCII character, parted by '|'; each a list of points "x,y" to go
/// through, and "(x,y)" to go towards: between two of those the curve goes through their middle.
/// Strokes are the middles of lines, from x = 0 to the right, and y = 0 upwards. A stroke of one
/// point draws nothing and only takes up room.
std::string_view strokes_of(char c);

}  // namespace contcore
