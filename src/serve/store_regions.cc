// In: regions, or the text that they were kept as. Out: the other. Nothing fails.
#include "serve/store_regions.h"

#include <nlohmann/json.hpp>

#include "serve/store_checks.h"

namespace contcore {
namespace {

constexpr std::size_t kMostRegionsBytes = 4000;  // as many regions as are kept take less

}  // namespace

std::string regions_text(const std::vector<Region>& regions) {
  if (regions.empty()) return "";
  nlohmann::json list = nlohmann::json::array();
  for (const Region& r : regions) list.push_back({r.x, r.y, r.width, r.height, r.area, r.score});
  return list.dump();
}

std::vector<Region> regions_from(std::string_view text) {
  if (text.empty() || text.size() > kMostRegionsBytes) return {};
  const auto list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array() || list.size() > kMostStoredRegions) return {};
  std::vector<Region> regions;
  for (const auto& item : list) {
    if (!item.is_array() || item.size() != 6 || !item[5].is_number()) return {};
    std::size_t numbers[5];
    for (std::size_t i = 0; i < 5; ++i) {
      if (!item[i].is_number_unsigned()) return {};
      numbers[i] = item[i].get<std::size_t>();
    }
    regions.push_back(
        {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], item[5].get<float>()});
  }
  return regions;
}

}  // namespace contcore
