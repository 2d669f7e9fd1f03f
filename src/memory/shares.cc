#include "memory/shares.h"

#include <algorithm>
#include <numeric>

namespace contcore {

std::vector<std::size_t> equal_shares(const std::vector<std::size_t>& sizes, std::size_t m) {
  std::vector<std::size_t> smallest_first(sizes.size());
  std::iota(smallest_first.begin(), smallest_first.end(), std::size_t{0});
  std::stable_sort(smallest_first.begin(), smallest_first.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] < sizes[b]; });
  std::vector<std::size_t> shares = sizes;
  std::size_t left = m;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t sharers = sizes.size() - i;
    if (sizes[smallest_first[i]] <= left / sharers) {
      left -= sizes[smallest_first[i]];
      continue;
    }
    std::sort(smallest_first.begin() + static_cast<std::ptrdiff_t>(i), smallest_first.end());
    for (std::size_t j = i; j < sizes.size(); ++j) {
      shares[smallest_first[j]] = left / sharers + (j - i < left % sharers ? 1 : 0);
    }
    break;
  }
  return shares;
}

Admission admit(const std::vector<std::int32_t>& origin, const std::vector<float>& radius,
                std::size_t tasks, std::int32_t task, const std::vector<float>& picks,
                std::size_t m) {
  std::vector<std::vector<std::uint32_t>> own(tasks);
  for (std::uint32_t i = 0; i < origin.size(); ++i) {
    own[static_cast<std::size_t>(origin[i])].push_back(i);
  }
  std::vector<std::size_t> sizes(tasks);
  for (std::size_t k = 0; k < tasks; ++k) sizes[k] = own[k].size();
  if (!picks.empty()) sizes[static_cast<std::size_t>(task)] += picks.size();
  const std::vector<std::size_t> shares = equal_shares(sizes, m);

  Admission result;
  result.picks = picks.size();
  for (std::size_t k = 0; k < tasks; ++k) {
    std::size_t leave = sizes[k] - shares[k];
    if (leave == 0) continue;
    std::vector<std::uint32_t>& places = own[k];
    std::stable_sort(places.begin(), places.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return radius[a] > radius[b]; });
    const bool grows = static_cast<std::int32_t>(k) == task;
    for (; leave > 0; --leave) {
      // The picks came last, so of equals they go first.
      if (grows && result.picks > 0 &&
          (places.empty() || picks[result.picks - 1] <= radius[places.back()])) {
        --result.picks;
      } else {
        result.dropped.push_back(places.back());
        places.pop_back();
      }
    }
  }
  std::sort(result.dropped.begin(), result.dropped.end());
  return result;
}

}  // namespace contcore
