#include "coreset/vector_index.h"

#include <fmt/format.h>

#include <atomic>
#include <limits>

#include "contcore/error.h"
#include "coreset/kernels.h"
#include "device/gpu.h"

namespace contcore {
namespace {

constexpr std::size_t kFewDropped = 1024;    // for which a GPU's vectors are not copied anew
constexpr std::size_t kMostOfGpu = 32;       // neighbours that a GPU looks for
constexpr std::size_t kMostNumbers = 65536;  // of a vector of floats there
constexpr std::size_t kMostVectors = std::size_t{1} << 29;
constexpr double kLeastWork = 0x1p27;  // products of numbers that take a GPU less time

std::atomic<bool> always_on_gpu{false};

}  // namespace

void force_gpu_search(bool force) { always_on_gpu = force; }

bool pays_on_gpu(std::size_t queries, std::size_t vectors, std::size_t d, Scalar kind,
                 std::size_t k) {
  const std::size_t most = kind == Scalar::kUint8 ? kernels::kMostExactBytes : kMostNumbers;
  if (queries == 0 || vectors == 0 || vectors > kMostVectors) return false;
  if (k > kMostOfGpu || d > most) return false;
  return always_on_gpu ||
         static_cast<double>(queries) * static_cast<double>(vectors) * static_cast<double>(d) >=
             kLeastWork;
}

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
  for (Mirror& mirror : mirrors_) mirror.dropped.reserve(mirror.dropped.size() + sorted.size());
  for (const std::int64_t id : sorted) {
    const auto at = place_of_.find(id);
    clear(at->second);
    place_of_.erase(at);
  }
  for (Mirror& mirror : mirrors_) {
    for (const std::int64_t id : sorted) {
      if (id < mirror.next_id) mirror.dropped.push_back(id);
    }
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

// ---- on a GPU ----------------------------------------------------------------------------------

std::optional<NearestResult> VectorIndex::search_on_gpu(VectorView queries, std::size_t k,
                                                        Compute& compute, const std::string& name,
                                                        const Progress& progress) const {
  if (compute.device().is_cpu() || !pays_on_gpu(queries.rows, size(), d_, kind_, k)) return {};
  try {
    Gpu* gpu = compute.gpu();
    if (gpu == nullptr) return {};
    return mirror(gpu->number(), compute).search(*gpu, queries, k, compute, name, progress);
  } catch (const GpuError&) {  // the processor can
    count_gpu_fallback();
    return {};
  }
}

const GpuVectors& VectorIndex::mirror(int device, Compute& compute) const {
  const std::lock_guard lock(mirrors_mutex_);
  auto at = std::find_if(mirrors_.begin(), mirrors_.end(),
                         [&](const Mirror& mirror) { return mirror.device == device; });
  if (at == mirrors_.end()) at = mirrors_.insert(at, Mirror{device, 0, {}, nullptr});
  try {
    bring_up_to_date(*at, compute);
  } catch (...) {
    mirrors_.erase(at);  // it may be half done
    throw;
  }
  return *at->vectors;
}

// Nobody searches the mirror while it is behind: it was up to date before the index was changed,
// and nobody searched then.
void VectorIndex::bring_up_to_date(Mirror& mirror, Compute& compute) const {
  if (mirror.vectors != nullptr &&
      mirror.vectors->slots() > std::max(2 * size(), size() + kFewDropped)) {
    mirror = {mirror.device, 0, {}, nullptr};
  }
  if (mirror.vectors == nullptr) {
    mirror.vectors = make_gpu_vectors(mirror.device, d_, kind_, centre());
  }
  if (!mirror.dropped.empty()) mirror.vectors->drop(mirror.dropped);
  mirror.dropped.clear();
  if (mirror.next_id == next_id_) return;
  mirror.vectors->append(held_from(mirror.next_id), compute);
  mirror.next_id = next_id_;
}

// The vectors with ids from first_id on, in the order of their ids.
std::vector<HeldVector> VectorIndex::held_from(std::int64_t first_id) const {
  std::vector<HeldVector> held;
  if (places_known_ && first_id > 0) {
    for (std::int64_t id = first_id; id < next_id_; ++id) {
      const auto at = place_of_.find(id);
      if (at != place_of_.end()) held.push_back({id, vector_at(at->second)});
    }
    return held;
  }
  for (std::size_t place = 0; place < places(); ++place) {
    const std::int64_t id = id_at(place);
    if (id >= first_id) held.push_back({id, vector_at(place)});
  }
  std::sort(held.begin(), held.end(),
            [](const HeldVector& a, const HeldVector& b) { return a.id < b.id; });
  return held;
}

}  // namespace contcore
