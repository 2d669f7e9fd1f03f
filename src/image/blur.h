// A map smoothed by a Gaussian.
#pragma once

#include "contcore/image.h"

namespace contcore {

/// The Gaussian reaches 4 σ and sees the map mirrored at its borders (d c b a | a b c d). The sums
/// are made by fused multiply-add in a fixed order, so that the bits are the same everywhere.
Map blur(const Map& map, double sigma);

}  // namespace contcore
