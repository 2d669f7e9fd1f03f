// Where in one block of memory each buffer goes, so that those alive at the same time never
// overlap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace contcore {

struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0, last = 0;  ///< steps, both included
  std::size_t offset = 0;           ///< the answer
};

/// Places the large ones first, each at the lowest offset that is free for its whole life. Returns
/// the size of the block.
inline std::size_t plan_arena(std::vector<Lifetime>& buffers) {
  constexpr std::size_t kAlign = 64;
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  std::vector<std::size_t> placed;  // by offset
  std::size_t total = 0;
  for (const std::size_t i : order) {
    Lifetime& buffer = buffers[i];
    std::size_t at = 0;
    for (const std::size_t j : placed) {
      const Lifetime& other = buffers[j];
      if (other.last < buffer.first || other.first > buffer.last) continue;
      if (at + buffer.bytes <= other.offset) break;
      at = std::max(at, (other.offset + other.bytes + kAlign - 1) / kAlign * kAlign);
    }
    buffer.offset = at;
    total = std::max(total, at + buffer.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](std::size_t a, std::size_t b) {
                                     return buffers[a].offset < buffers[b].offset;
                                   }),
                  i);
  }
  return total;
}

}  // namespace contcore
