#include "memory/parents.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>
#include <utility>

#include "base/rows.h"
#include "contcore/distance.h"
#include "coreset/row_distances.h"
#include "coreset/sketch.h"

namespace contcore {
namespace {

// A task's slots in their order, and the places in it of those without a parent.
struct Orphans {
  std::vector<std::uint32_t> own;
  std::vector<std::uint32_t> places;
};

Orphans orphans_of(VectorStore& store, std::int32_t task, std::size_t first) {
  Orphans found;
  for (std::size_t at = 0; at < store.size(); ++at) {
    const std::uint32_t slot = store.order()[at];
    if (store.origin()[slot] != task) continue;
    if (at >= first && store.parent()[slot] == VectorStore::kNoParent) {
      found.places.push_back(static_cast<std::uint32_t>(found.own.size()));
    }
    found.own.push_back(slot);
  }
  return found;
}

// Most have an earlier one among their nearest few; the others stay orphans.
void search_parents(VectorStore& store, std::int32_t task, Orphans& orphans, Compute& compute) {
  constexpr std::size_t kFew = 8;
  const auto& [own, places] = orphans;
  std::vector<std::uint32_t> place(store.slots());
  for (std::uint32_t k = 0; k < own.size(); ++k) place[own[k]] = k;
  const std::vector<std::uint32_t> found =
      store.index_of(task, compute)
          .nearest(gather(store.vectors(), choose(own, places)).view(), kFew, compute);
  std::vector<std::uint32_t> rest;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto few = std::span(found).subspan(i * kFew, kFew);
    const auto first = std::find_if(few.begin(), few.end(), [&, at = places[i]](auto slot) {
      return slot != SlotIndex::kNone && place[slot] < at;
    });
    if (first == few.end()) {
      rest.push_back(places[i]);
      continue;
    }
    const std::uint32_t slot = own[places[i]];
    store.parent()[slot] = *first;
    store.radius()[slot] =
        std::sqrt(squared_distance(store.vectors(), slot, store.vectors(), *first));
  }
  orphans.places = std::move(rest);
}

void measure_parents(VectorStore& store, const Orphans& orphans, Compute& compute) {
  constexpr std::size_t kAtOnce = 16;  // a kernel makes the most of several vectors at once
  const std::vector<std::uint32_t>& own = orphans.own;
  const std::vector<std::uint32_t>& places = orphans.places;
  compute.threads().run(
      (places.size() + kAtOnce - 1) / kAtOnce, [&](std::size_t block, std::size_t) {
        const std::size_t begin = block * kAtOnce;
        const std::size_t n = std::min(kAtOnce, places.size() - begin);
        const std::vector<std::uint32_t> asked =
            choose(own, std::vector<std::uint32_t>(&places[begin], &places[begin] + n));
        const std::size_t most = places[begin + n - 1];
        std::vector<float> squared(n * most);
        squared_distances(store.vectors(), asked, store.vectors(), std::span(own).first(most),
                          squared.data());
        for (std::size_t i = 0; i < n; ++i) {
          const float* row = squared.data() + i * most;
          const std::uint32_t k = places[begin + i];
          const float* nearest = std::min_element(row, row + k);
          store.radius()[own[k]] = k == 0 ? kInfinity : std::sqrt(*nearest);
          store.parent()[own[k]] =
              k == 0 ? VectorStore::kNoParent : own[static_cast<std::size_t>(nearest - row)];
        }
      });
}

}  // namespace

void renew_parents(VectorStore& store, const std::vector<std::int32_t>& of,
                   const std::vector<std::uint32_t>& places, Compute& compute) {
  std::set<std::int32_t> done;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!done.insert(of[i]).second) continue;
    const std::size_t first = places[i] - i;  // what came before has lost nothing
    Orphans orphans = orphans_of(store, of[i], first);
    if (orphans.places.empty()) continue;
    if (store.worth_an_index(of[i], orphans.places.size() * orphans.own.size() / 2)) {
      search_parents(store, of[i], orphans, compute);
    }
    measure_parents(store, orphans, compute);
  }
}

}  // namespace contcore
