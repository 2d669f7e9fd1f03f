#include "memory/consolidate_online.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "base/rows.h"
#include "memory/consolidate.h"
#include "memory/farthest_first.h"

namespace contcore {
namespace {

using Near = Neighbours::Near;

// Canonical squared distance of each vector to the nearest other one.
std::vector<float> nearest_squared(const std::vector<std::uint32_t>& joined, Neighbours& neighbours,
                                   Compute& compute) {
  std::vector<float> squared(joined.size());
  const auto look = [&](std::size_t i) {
    return neighbours.nearest(joined[i], [&](const Near& near) {
      squared[i] = near.squared;
      return true;
    });
  };
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < joined.size(); ++i) {
    if (!look(i)) unknown.push_back(i);
  }
  std::vector<std::uint32_t> slots;
  for (const std::size_t i : unknown) slots.push_back(joined[i]);
  neighbours.renew(
      slots, joined, [](std::uint32_t) { return true; }, compute);
  for (const std::size_t i : unknown) look(i);
  return squared;
}

// A vector that greedy sampling may take: how far it is from the chosen.
struct Candidate {
  float squared = 0;
  bool open = false;
};

constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

// Greedy sampling where the distance of every candidate to the base is within its list: then a pick
// can only bring a candidate nearer that has the pick in its list, before the base's vector.
class NeighbourGreedy {
 public:
  NeighbourGreedy(const std::vector<std::uint32_t>& joined, const std::vector<std::uint32_t>& rest,
                  std::size_t slots, Neighbours& neighbours, Compute& compute)
      : joined_(joined), place_(slots, kBase), state_(joined.size()) {
    for (const std::uint32_t at : rest) place_[joined[at]] = at;
    find_base(rest, neighbours, compute);
    link(rest, neighbours);
  }

  // Picks `count` and writes their slots behind `kept`.
  void pick(std::size_t count, std::vector<std::uint32_t>& kept) {
    for (std::size_t i = 0; i < count && !heap_.empty();) {
      const FarthestFirst top = heap_.top();
      heap_.pop();
      Candidate& candidate = state_[top.at];
      if (!candidate.open || candidate.squared != top.squared) continue;  // an old entry
      if (top.squared == 0) break;
      candidate.open = false;
      kept.push_back(joined_[top.at]);
      bring_nearer(top.at);
      ++i;
    }
  }

 private:
  static constexpr std::uint32_t kBase = ~std::uint32_t{0};

  void find_base(const std::vector<std::uint32_t>& rest, Neighbours& neighbours, Compute& compute) {
    const auto look = [&](std::uint32_t at) {
      return neighbours.nearest(joined_[at], [&](const Near& near) {
        if (place_[near.slot] != kBase) return false;
        state_[at] = {near.squared, true};
        return true;
      });
    };
    std::vector<std::uint32_t> unknown;
    std::vector<std::uint32_t> slots;
    for (const std::uint32_t at : rest) {
      if (look(at)) continue;
      unknown.push_back(at);
      slots.push_back(joined_[at]);
    }
    neighbours.renew(
        slots, joined_, [&](std::uint32_t slot) { return place_[slot] == kBase; }, compute);
    for (const std::uint32_t at : unknown) look(at);
  }

  void link(const std::vector<std::uint32_t>& rest, const Neighbours& neighbours) {
    nearer_.resize(joined_.size());
    for (const std::uint32_t at : rest) {
      neighbours.nearest(joined_[at], [&](const Near& near) {
        const std::uint32_t other = place_[near.slot];
        if (other == kBase) return true;
        nearer_[other].push_back({near.squared, at});
        return false;
      });
      heap_.push({state_[at].squared, at});
    }
  }

  void bring_nearer(std::uint32_t pick) {
    for (const FarthestFirst& entry : nearer_[pick]) {
      Candidate& candidate = state_[entry.at];
      if (!candidate.open || entry.squared >= candidate.squared) continue;
      candidate.squared = entry.squared;
      heap_.push(entry);
    }
  }

  const std::vector<std::uint32_t>& joined_;
  std::vector<std::uint32_t> place_;  // by slot: the place in M̂ of a candidate, kBase otherwise
  std::vector<Candidate> state_;      // by place in M̂
  std::vector<std::vector<FarthestFirst>>
      nearer_;  // by place: the candidates that have it in their lists
  std::priority_queue<FarthestFirst> heap_;
};

}  // namespace

OnlineConsolidation consolidate_online(const std::vector<std::uint32_t>& joined, std::size_t m,
                                       double q, Neighbours& neighbours, std::size_t slots,
                                       Compute& compute) {
  const std::vector<float> squared = nearest_squared(joined, neighbours, compute);
  std::vector<std::uint32_t> order(joined.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return squared[a] > squared[b]; });
  order.resize(nearest_share(q, m));

  OnlineConsolidation result;
  result.kept = choose(joined, order);
  const std::vector<std::uint32_t> rest = others(joined.size(), order);
  NeighbourGreedy greedy(joined, rest, slots, neighbours, compute);
  greedy.pick(m - order.size(), result.kept);
  std::vector<std::uint32_t> place(slots, kNowhere);
  for (std::size_t i = 0; i < result.kept.size(); ++i) {
    place[result.kept[i]] = static_cast<std::uint32_t>(i);
  }
  for (const std::uint32_t at : rest) {
    if (place[joined[at]] != kNowhere) continue;
    // The first live entry that is kept; of several at that distance, the first in the order.
    OnlineConsolidation::Dropped dropped{joined[at], joined[at], 0};
    std::uint32_t best = kNowhere;
    neighbours.nearest(joined[at], [&](const Near& near) {
      if (best != kNowhere && near.squared > dropped.squared) return true;
      if (place[near.slot] < best) {
        best = place[near.slot];
        dropped.nearest = near.slot;
        dropped.squared = near.squared;
      }
      return false;
    });
    result.dropped.push_back(dropped);
  }
  return result;
}

}  // namespace contcore
