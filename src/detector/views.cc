// In: an image, and a memory whose tasks look at different parts of their images. Out: the patches
// of the view that it is judged by. Fails where no task looks at images of its shape.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "contcore/verdict.h"

namespace contcore {
namespace {

bool is_nearer(const Resemblance& a, const Resemblance& b) {
  if (a.usual > 0 && b.usual > 0) {
    return static_cast<double>(a.distance) * static_cast<double>(b.usual) <
           static_cast<double>(b.distance) * static_cast<double>(a.usual);
  }
  return a.distance < b.distance;
}

}  // namespace

std::vector<SharedRegion> regions_to_see(const Memory& memory, const std::string& task) {
  if (!task.empty()) return {memory.region_of(task)};
  std::vector<SharedRegion> regions;
  for (const TaskRecord& known : memory.tasks()) {
    const bool is_new = std::none_of(regions.begin(), regions.end(), [&](const auto& region) {
      return same_region(region, known.region);
    });
    if (is_new) regions.push_back(known.region);
  }
  if (regions.empty()) regions.push_back(nullptr);
  return regions;
}

std::optional<Resemblance> resemblance(const Memory& memory, const Patches& patches) {
  const auto found = memory.resemblance(patches.vectors.view(), patches.grid().region());
  if (!found) return std::nullopt;
  const auto usual = memory.strangeness(found->task, {}, 0.5);
  return Resemblance{found->distance, usual ? usual->limit : 0};
}

Patches best_view(const Extractor& extractor, const Image& image,
                  const std::vector<SharedRegion>& regions,
                  const std::function<std::optional<Resemblance>(const Patches&)>& resemblance_of,
                  Compute& compute) {
  std::vector<SharedRegion> fitting;
  for (const SharedRegion& region : regions) {
    if (!region || fits_region(*region, image.width, image.height)) fitting.push_back(region);
  }
  if (fitting.empty()) fitting.push_back(regions.front());  // it says so
  if (fitting.size() == 1) return extractor.extract(image, compute, fitting.front());
  std::optional<Patches> best;
  std::optional<Resemblance> nearest;
  for (const SharedRegion& region : fitting) {
    std::optional<Patches> view;
    try {
      view = extractor.extract(image, compute, region);
    } catch (const Error& error) {
      // Of an image of this size nothing may be inside of one, and something of the others.
      if (error.kind() != Error::Kind::kInput || (!best && region == fitting.back())) throw;
      continue;
    }
    const auto seen = resemblance_of(*view);
    if (best && (!seen || (nearest && !is_nearer(*seen, *nearest)))) continue;
    best = std::move(view);
    nearest = seen;
  }
  return std::move(*best);
}

}  // namespace contcore
