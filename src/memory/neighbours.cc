#include "memory/neighbours.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "contcore/distance.h"
#include "coreset/row_distances.h"

namespace contcore {
namespace {

constexpr std::size_t kShort = 16;  // entries of a new list
constexpr std::size_t kRoom = 48;   // least entries at which a list is cut short again
constexpr std::size_t kBlock = 64;  // vectors that are measured together

}  // namespace

Neighbours::Neighbours(const Vectors& slots)
    : slots_(&slots),
      lists_(slots.rows()),
      bounds_(slots.rows(), std::numeric_limits<float>::infinity()),
      rooms_(slots.rows(), kRoom),
      stamps_(slots.rows(), 0) {}

void Neighbours::start(const SlotIndex& index, std::size_t count, Compute& compute) {
  const std::size_t k = kShort + 2;  // the vector itself, and one more whose distance is the bound
  const std::vector<std::uint32_t> found = index.nearest(slots_->view().part(0, count), k, compute);
  compute.threads().run(count, [&](std::size_t i, std::size_t) {
    std::vector<Near>& list = lists_[i];
    for (std::size_t j = 0; j < k; ++j) {
      const std::uint32_t other = found[i * k + j];
      if (other == SlotIndex::kNone || other == i) continue;
      list.push_back(
          {squared_distance(slots_->view(), i, slots_->view(), other), other, stamps_[other]});
    }
    if (count <= k) return;
    bounds_[i] = list.back().squared;
    std::erase_if(list, [&](const Near& near) { return near.squared >= bounds_[i]; });
  });
}

std::vector<float> Neighbours::all_distances(const std::vector<std::uint32_t>& from,
                                             const std::vector<std::uint32_t>& to,
                                             Compute& compute) const {
  const std::size_t n = from.size();
  std::vector<float> squared(n * to.size());
  compute.threads().run((to.size() + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t) {
    const std::size_t first = block * kBlock;
    const std::size_t many = std::min(kBlock, to.size() - first);
    std::vector<float> out(n * many);
    squared_distances(slots_->view(), from, slots_->view(), std::span(to).subspan(first, many),
                      out.data());
    for (std::size_t i = 0; i < n; ++i) {
      std::copy_n(out.data() + i * many, many, squared.data() + i * to.size() + first);
    }
  });
  return squared;
}

void Neighbours::add(const std::vector<std::uint32_t>& added, const std::vector<std::uint32_t>& all,
                     Compute& compute) {
  std::vector<bool> is_new(slots_->rows(), false);
  for (const std::uint32_t slot : added) is_new[slot] = true;
  const std::vector<float> squared = all_distances(added, all, compute);
  compute.threads().run((all.size() + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t) {
    const std::size_t end = std::min(all.size(), (block + 1) * kBlock);
    for (std::size_t j = block * kBlock; j < end; ++j) {
      if (is_new[all[j]]) continue;
      for (std::size_t i = 0; i < added.size(); ++i) {
        const float distance = squared[i * all.size() + j];
        if (distance < bounds_[all[j]]) insert(all[j], added[i], distance);
      }
    }
  });
  compute.threads().run(added.size(), [&](std::size_t i, std::size_t) {
    fill(added[i], all, squared.data() + i * all.size(), 0);
  });
}

void Neighbours::drop(std::uint32_t slot) {
  ++stamps_[slot];
  lists_[slot].clear();
}

void Neighbours::fill(std::uint32_t slot, const std::vector<std::uint32_t>& all,
                      const float* squared, float at_least) {
  std::vector<float> sorted;
  sorted.reserve(all.size());
  for (std::size_t j = 0; j < all.size(); ++j) {
    if (all[j] != slot) sorted.push_back(squared[j]);
  }
  float bound = std::numeric_limits<float>::infinity();
  if (sorted.size() > kShort) {
    std::nth_element(sorted.begin(), sorted.begin() + kShort, sorted.end());
    bound = sorted[kShort];
    if (bound <= at_least) {
      bound = std::nextafter(at_least, std::numeric_limits<float>::infinity());
    }
  }
  std::vector<Near>& list = lists_[slot];
  list.clear();
  for (std::size_t j = 0; j < all.size(); ++j) {
    if (all[j] != slot && squared[j] < bound) list.push_back({squared[j], all[j], stamps_[all[j]]});
  }
  std::sort(list.begin(), list.end(),
            [](const Near& a, const Near& b) { return a.squared < b.squared; });
  bounds_[slot] = bound;
  rooms_[slot] = static_cast<std::uint32_t>(std::max(kRoom, 2 * list.size()));
}

void Neighbours::insert(std::uint32_t slot, std::uint32_t other, float squared) {
  std::vector<Near>& list = lists_[slot];
  const auto at =
      std::upper_bound(list.begin(), list.end(), squared,
                       [](float value, const Near& near) { return value < near.squared; });
  list.insert(at, {squared, other, stamps_[other]});
  if (list.size() <= rooms_[slot]) return;
  std::erase_if(list, [&](const Near& near) { return near.stamp != stamps_[near.slot]; });
  if (list.size() <= rooms_[slot]) return;
  // What is at the cut's distance goes too: a list holds all that is nearer than its bound.
  const float cut = list[rooms_[slot] / 2].squared;
  std::erase_if(list, [&](const Near& near) { return near.squared >= cut; });
  bounds_[slot] = cut;
}

}  // namespace contcore
