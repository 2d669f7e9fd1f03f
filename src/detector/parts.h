// What a detector is made of, and what it does with the patches of one image.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contcore/detector.h"
#include "detector/extractor.h"
#include "memory/journal.h"

namespace contcore {

struct Detector::Parts {
  Parts(Backbone backbone, const Geometry& geometry, const PatchEmbedding& embedding, Memory m)
      : extractor(std::move(backbone), geometry, embedding), memory(std::move(m)) {}
  Extractor extractor;
  Memory memory;
  std::string path;                   // it was opened from; empty: none
  std::optional<JournalMark> folded;  // what of the journal beside that is in the memory

  /// The backbone that `memory`, of the file `path`, was learned with. Throws Error as
  /// Detector::open.
  static std::unique_ptr<Parts> with_backbone(Memory memory, const std::string& path,
                                              const std::string& backbone);
};

/// What the backbone of a memory is, for people.
std::string backbone_text(const Memory& memory);

/// Score, product and verdict of an image, given its patches' distances to the memory; no map.
Inspection judge(const Memory& memory, VectorView patches, const std::vector<float>& distances,
                 const InspectOptions& options);

/// Map value that the threshold comes to where the map's peak is `peak`: smoothing lowers the peak,
/// and the threshold goes down with it, so that an image has something outlined exactly when it is
/// rejected. Infinite without a threshold.
float outline_level(float score, std::optional<float> threshold, float peak);

/// Where heat begins and is full.
struct HeatRange {
  float low;
  float high;
};
HeatRange heat_range(const Map& map, float level);

/// Part of an image's patches that expansion takes online, unless another is asked for.
inline constexpr double kOnlineRatio = 0.1;

/// Learns one image of a task online, or holds it out to calibrate with when its turn has come:
/// then true.
bool learn_patches(Memory& memory, VectorView patches, const LearnOptions& options,
                   const std::string& time, Compute& compute);

/// Whether image i of n is held out: evenly spread, at most 64.
bool is_held_out(std::size_t i, std::size_t n, double part);

}  // namespace contcore
