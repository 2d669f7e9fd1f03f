#include "coreset/vector_index.h"

#include <fmt/format.h>

#include <limits>

#include "contcore/error.h"

namespace contcore {

void VectorIndex::check(const VectorView& vectors, const std::string& name,
                        const char* holder) const {
  if (vectors.cols != d_) {
    throw Error(Error::Kind::kInput, fmt::format("{} has {} dimensions, but the {} has {}", name,
                                                 vectors.cols, holder, d_));
  }
  const auto bytes = [](Scalar kind) { return kind == Scalar::kUint8; };
  const auto word = [&](Scalar kind) { return bytes(kind) ? "bytes (uint8)" : "floats"; };
  if (bytes(vectors.scalar) != bytes(kind_)) {
    throw Error(Error::Kind::kInput,
                fmt::format("{} has vectors of {}, but the {} has vectors of {}; both must be of "
                            "one kind",
                            name, word(vectors.scalar), holder, word(kind_)));
  }
}

std::int64_t VectorIndex::add(VectorView vectors, Compute& compute, const std::string& name) {
  check(vectors, name, "index");
  if (places() + vectors.rows >= std::numeric_limits<std::uint32_t>::max()) {
    throw Error(Error::Kind::kInput, fmt::format("{}: more than 4 billion vectors", name));
  }
  know_places();
  const std::int64_t first_id = next_id_;
  put(vectors, first_id, compute, name);
  next_id_ += static_cast<std::int64_t>(vectors.rows);
  return first_id;
}

void VectorIndex::drop(std::span<const std::int64_t> ids) {
  know_places();
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {  // all of them first: all or none are dropped
    if (place_of_.count(sorted[i]) == 0 || (i > 0 && sorted[i] == sorted[i - 1])) {
      throw Error(Error::Kind::kUsage,
                  fmt::format("the index holds no vector with id {}", sorted[i]));
    }
  }
  for (const std::int64_t id : sorted) {
    const auto at = place_of_.find(id);
    clear(at->second);
    place_of_.erase(at);
  }
}

void VectorIndex::relocate(const VectorView& vectors, const std::vector<std::uint32_t>& rows,
                           std::int64_t first) {
  know_places();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    move(place_of_.at(first + static_cast<std::int64_t>(i)), vectors.part(rows[i], 1));
  }
}

void VectorIndex::know_places() {
  if (places_known_) return;
  for (std::size_t place = 0; place < places(); ++place) {
    if (id_at(place) != kFree) place_of_[id_at(place)] = static_cast<std::uint32_t>(place);
  }
  places_known_ = true;
}

void VectorIndex::forget_places() {
  place_of_.clear();
  places_known_ = false;
}

}  // namespace contcore
