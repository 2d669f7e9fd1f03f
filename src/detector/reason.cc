// In: what was seen. Out: a line that says why it was judged so. Nothing fails.
#include "detector/reason.h"

#include <fmt/format.h>

#include <algorithm>

namespace contcore {
namespace {

std::string of_regions(const std::vector<Region>& regions) {
  const auto largest =
      std::max_element(regions.begin(), regions.end(),
                       [](const Region& a, const Region& b) { return a.area < b.area; });
  const bool one = regions.size() == 1;
  return fmt::format("{}{} × {} px at ({}, {})",
                     one ? "1 region, " : fmt::format("{} regions, largest ", regions.size()),
                     largest->width, largest->height, largest->x, largest->y);
}

std::string of_stranger(const Inspection& seen, const Memory& memory) {
  const std::string& task = memory.tasks()[*seen.task].name;
  if (seen.unknown) {
    return memory.tasks().size() == 1
               ? fmt::format("not like {}", task)
               : fmt::format("like no known product; {} is the nearest", task);
  }
  return seen.resembles
             ? fmt::format("not like {}; looks like {}", task, memory.tasks()[*seen.resembles].name)
             : fmt::format("not like {}, nor any known product", task);
}

std::string why(const Inspection& seen, const Memory& memory) {
  if (seen.stranger) return of_stranger(seen, memory);
  if (!seen.regions.empty()) return of_regions(seen.regions);
  if (seen.threshold) return fmt::format("nothing above {:.4g}", seen.threshold->score);
  if (seen.task) {
    return fmt::format("{} has no threshold yet", memory.tasks()[*seen.task].name);
  }
  return "the product is not recognised, and none was named";
}

}  // namespace

std::string reason_of(const Inspection& seen, const Memory& memory) {
  return fmt::format("{}: {}", verdict(seen), why(seen, memory));
}

}  // namespace contcore
