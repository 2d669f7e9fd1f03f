// The backbone that needs no file: a fixed bank of oriented filters and pooling.
#pragma once

#include "backbone/graph.h"

namespace contcore {

/// Takes N × 3 × H × W, as contcore::prepare gives it, and has the outputs layer2 (a place for each
/// 8 pixels) and layer3 (for each 16). The same numbers on every machine: they are made of
/// additions, multiplications and square roots only.
///
///   image ─► luminance, red–green, blue–yellow ─► a pyramid of four scales
///   each scale ─► 8 orientations × {bar, edge} and spots, both signs ─► relu ─► in relation to the
///              mean response around ─► square root ─► averaged to stride 8 ─► layer2, with the
///              local mean colour
///   energy of each scale and orientation at stride 4 ─► edges and bars of it, both signs ─► relu
///              ─► averaged to stride 16 ─► layer3, with layer2 averaged once more
Graph builtin_graph();

}  // namespace contcore
