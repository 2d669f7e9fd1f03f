// The verdict on an image: its patches against a memory.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/image.h"
#include "contcore/memory.h"
#include "contcore/vectors.h"

namespace contcore {

struct InspectOptions {
  double false_alarms = 0.05;
  double strangers = 0.01;  ///< part of the good images that may be taken for no known product; 0:
                            ///< none, nothing is
  std::string task;         ///< the product, if it is known; empty: recognised
  bool map = true;          ///< whether the map is wanted
};

/// What was seen in one image.
struct Inspection {
  float score = 0;                     ///< image_score()
  std::optional<std::size_t> task;     ///< recognised, or named; an index into Memory::tasks()
  std::optional<Threshold> threshold;  ///< of that task
  bool rejected = false;               ///< score above threshold, or a stranger
  bool stranger = false;               ///< as a whole unlike that task
  bool unknown = false;                ///< a stranger, and no product was named
  /// What a stranger to the product that was named is like.
  std::optional<std::size_t> resembles;
  std::string reason;  ///< of the verdict, in words
  /// What lies above the threshold, in the image's own pixels, the largest score first; none where
  /// the score does not.
  std::vector<Region> regions;
  Map map;                 ///< in the image's own pixels
  float level = 0;         ///< map value that the threshold comes to; above: outlined
  std::size_t peak_x = 0;  ///< where the map is largest
  std::size_t peak_y = 0;
};

/// Score, product, verdict, its reason and regions, given the patches' distances to the memory; no
/// map. Whoever judges an image calls this. Distances are raised first where known defects of the
/// product are near (Memory::raise), so that a map made of them shows what the score says. The
/// product is one whose region the patches were seen through. Throws Error (kUsage) for a task that
/// is not in the memory, or has another.
Inspection judge(const Memory& memory, const Patches& patches, std::span<float> distances,
                 const InspectOptions& options, Compute& compute);

/// The regions that an image is to be seen through, one after the other, to be judged (none:
/// whole): that of the task that is named, or each that tasks have, in their order.
std::vector<SharedRegion> regions_to_see(const Memory& memory, const std::string& task);

/// How near the patches are to the product that they resemble most, of those with their region, and
/// how far half of its own images are; 0: not known. Nothing when there is none.
struct Resemblance {
  float distance = 0;
  float usual = 0;
};
std::optional<Resemblance> resemblance(const Memory& memory, const Patches& patches);

/// The image seen through the one of the regions by which it is most like a product, measured by
/// how alike that product's own images are (and where that is not known, by distance alone); of
/// several, the first. Each region costs a pass of the network. Regions of images of another shape
/// are passed over. Throws Error (kInput) where all are, and as Extractor::extract.
Patches best_view(const Extractor& extractor, const Image& image,
                  const std::vector<SharedRegion>& regions,
                  const std::function<std::optional<Resemblance>(const Patches&)>& resemblance_of,
                  Compute& compute);

/// Searches, judges, and draws the map over the image the patches are of. Throws Error (kInput)
/// when the memory is empty, and as judge().
Inspection inspect(const Memory& memory, const Patches& patches, const InspectOptions& options,
                   Compute& compute);

/// The verdict in a word: "good"; "defect"; "unknown" for what is no known product; "uncalibrated"
/// where there is no threshold yet.
const char* verdict(const Inspection& seen);

/// Whoever writes regions down writes so many, and the reason says how many there are.
inline constexpr std::size_t kMostRegions = 16;

/// A picture of what was seen: the image, the heat, the outline of what is above the threshold, and
/// the verdict. The same colour means the same in all pictures of a product.
Image draw_inspection(const Image& image, const Inspection& seen);

}  // namespace contcore
