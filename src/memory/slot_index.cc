#include "memory/slot_index.h"

#include <utility>

namespace contcore {

SlotIndex::SlotIndex(const Vectors& slots, std::vector<std::uint32_t> which, Compute& compute)
    : slots_(&slots),
      slot_of_id_(std::move(which)),
      first_(slot_of_id_.size()),
      index_(slots.view(), slot_of_id_, compute) {
  id_of_slot_.reserve(first_);
  for (std::size_t id = 0; id < first_; ++id) {
    id_of_slot_[slot_of_id_[id]] = static_cast<std::int64_t>(id);
  }
}

void SlotIndex::add(const std::vector<std::uint32_t>& slots, Compute& compute) {
  std::int64_t id = index_.add(slots_->view(), slots, compute);
  for (const std::uint32_t slot : slots) id_of_slot_[slot] = id++;
  slot_of_id_.insert(slot_of_id_.end(), slots.begin(), slots.end());
}

void SlotIndex::drop(const std::vector<std::uint32_t>& slots) {
  std::vector<std::int64_t> ids;
  for (const std::uint32_t slot : slots) {
    const auto at = id_of_slot_.find(slot);
    if (at == id_of_slot_.end()) continue;
    ids.push_back(at->second);
    id_of_slot_.erase(at);
  }
  if (!ids.empty()) index_.drop(ids);
}

std::vector<float> SlotIndex::distances(VectorView patches, Compute& compute,
                                        const Progress& progress) const {
  return index_.search(patches, 1, compute, "patches", progress).distances;
}

std::vector<std::uint32_t> SlotIndex::nearest(VectorView patches, std::size_t k,
                                              Compute& compute) const {
  const NearestResult found = index_.search(patches, k, compute, "patches");
  std::vector<std::uint32_t> slots(found.ids.size(), kNone);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (found.ids[i] >= 0) slots[i] = slot_of_id_[static_cast<std::size_t>(found.ids[i])];
  }
  return slots;
}

}  // namespace contcore
