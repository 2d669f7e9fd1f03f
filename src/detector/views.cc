// In: an image, and a memory whose tasks look at different parts of their images. Out: the patches
// of the view that it is judged by. Fails where no task looks at images of its shape.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "contcore/verdict.h"

namespace contcore {

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

std::vector<Patches> views_of(const Extractor& extractor, const Image& image,
                              const std::vector<SharedRegion>& regions, Compute& compute) {
  const auto fits = [&](const SharedRegion& region) {
    return !region || fits_region(*region, image.width, image.height);
  };
  const bool none = std::none_of(regions.begin(), regions.end(), fits);
  std::vector<Patches> views;
  for (const SharedRegion& region : regions) {
    // Where none fits, the first says so.
    if (fits(region) || none) views.push_back(extractor.extract(image, compute, region));
  }
  return views;
}

Patches best_view(const Memory& memory, std::vector<Patches> views) {
  std::size_t best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; views.size() > 1 && i < views.size(); ++i) {
    const auto found = memory.resemblance(views[i].vectors.view(), views[i].grid().region());
    if (!found || found->distance >= least) continue;
    best = i;
    least = found->distance;
  }
  return std::move(views[best]);
}

}  // namespace contcore
