// The search on a GPU, a chunk of queries at a time: products with all vectors bound the distances
// of each group of them (coreset/nearest_products.cuh), which leaves few groups to be measured
// (coreset/nearest_select.cuh). What the products are of, and what they bound, differs: see
// coreset/nearest_bytes.cuh and coreset/nearest_floats.cuh.
#include "coreset/nearest_gpu.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/rows.h"
#include "coreset/nearest_bytes.cuh"
#include "coreset/nearest_floats.cuh"
#include "coreset/nearest_select.cuh"
#include "coreset/nearest_staging.cuh"
#include "coreset/sketch.h"
#include "device/gpu.h"

namespace contcore {
namespace {

using nearest_gpu::Key;
using nearest_gpu::kTileRows;
using nearest_gpu::Queue;
using nearest_gpu::StagingPool;

constexpr std::size_t kMostQueries = 8192;                   // at a time
constexpr std::size_t kMostMinima = std::size_t{256} << 20;  // bytes of them, if 128 queries allow
constexpr std::size_t kMostQueued = std::size_t{16} << 20;   // bytes of keys
constexpr std::size_t kStagedRows = 64;                      // that a thread gathers together
constexpr std::size_t kManyThreads = 4;                      // that copy faster than the driver
constexpr std::size_t kPrepareThreads = 256;

constexpr std::size_t round_up_to(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

void check_launch() { check_cuda(cudaGetLastError(), "starting work on the GPU"); }

unsigned blocks_for(std::size_t threads) {
  return static_cast<unsigned>((threads + kPrepareThreads - 1) / kPrepareThreads);
}

double gamma_of(double n, double unit) { return n * unit / (1 - n * unit); }

// coreset/nearest_floats.cuh derives them.
nearest_gpu::Margins margins_of(std::size_t d, std::size_t width, bool query) {
  const double numbers = static_cast<double>(d);
  nearest_gpu::Margins margins{};
  margins.canonical = gamma_of(numbers / 32 + 11, kUnit);
  margins.rounding = 4 * margins.canonical + 64 * kUnit;
  margins.product = query ? (2 * static_cast<double>(width) + 64) * 0x1p-23 : 0;
  margins.underflow = numbers * kUnderflow;
  return margins;
}

// ---- vectors on the GPU --------------------------------------------------------------------

class CudaVectors final : public GpuVectors {
 public:
  CudaVectors(int device, std::size_t d, Scalar kind, const float* centre)
      : gpu_(device),
        d_(d),
        bytes_(kind == Scalar::kUint8),
        width_(round_up_to(bytes_ ? d : 2 * d, nearest_gpu::kStep)),
        spare_(gpu_, sizeof(Key)) {
    if (bytes_) return;
    centre_ = GpuBuffer(gpu_, d * sizeof(float));
    gpu_.upload(centre_.as<float>(), centre, centre_.bytes());
  }

  std::size_t slots() const override { return ids_.size(); }

  void append(const std::vector<HeldVector>& held, Compute& compute) override {
    gpu_.use();
    reserve(ids_.size() + held.size());
    const std::size_t each = d_ * (bytes_ ? 1 : sizeof(float));
    const std::size_t together =
        std::min(held.size(), std::max<std::size_t>(1, StagingPool::kBytes / each));
    const StagingPool::Lease staging(staging_, gpu_);
    const GpuBuffer raw(gpu_, bytes_ ? together * d_ : 0);
    for (std::size_t first = 0; first < held.size(); first += together) {
      const std::size_t n = std::min(together, held.size() - first);
      gpu_.wait();  // nothing is fetched from there any more
      compute.threads().run((n + kStagedRows - 1) / kStagedRows, [&](std::size_t b, std::size_t) {
        for (std::size_t i = b * kStagedRows; i < std::min(n, (b + 1) * kStagedRows); ++i) {
          stage(held[first + i].row, staging.data() + i * each);
        }
      });
      put(staging.data(), raw, ids_.size(), n);
      for (std::size_t i = 0; i < n; ++i) ids_.push_back(held[first + i].id);
    }
    gpu_.wait();
  }

  void drop(const std::vector<std::int64_t>& ids) override {
    if (ids.empty()) return;
    gpu_.use();
    std::vector<std::uint32_t> places;
    for (const std::int64_t id : ids) {
      const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
      places.push_back(static_cast<std::uint32_t>(at - ids_.begin()));
    }
    const GpuBuffer there(gpu_, places.size() * sizeof(places[0]));
    gpu_.upload(there.as<char>(), places.data(), there.bytes());
    const unsigned blocks = blocks_for(places.size() * nearest_gpu::kLanes);
    if (bytes_) {
      nearest_gpu::drop_bytes<<<blocks, kPrepareThreads, 0, gpu_.stream()>>>(
          there.as<std::uint32_t>(), places.size(), static_cast<int>(width_),
          operand_.as<std::uint8_t>(), norms_.as<int>());
    } else {
      nearest_gpu::drop_floats<<<blocks, kPrepareThreads, 0, gpu_.stream()>>>(
          there.as<std::uint32_t>(), places.size(), halves(), operand_.as<__half>(),
          norms_.as<nearest_gpu::Terms>());
    }
    check_launch();
    gpu_.wait();
  }

  NearestResult search(Gpu& gpu, VectorView queries, std::size_t k, Compute& compute,
                       const std::string& name, const Progress& progress) const override {
    gpu.use();
    const std::size_t room =
        std::clamp(kMostMinima / (groups() * sizeof(float)) / kTileRows * kTileRows,
                   std::size_t{kTileRows}, kMostQueries);
    Chunk chunk(gpu, *this, queries.scalar, std::min(queries.rows, room), k);
    NearestResult result;
    result.k = k;
    result.distances.assign(queries.rows * k, kInfinity);
    result.ids.assign(queries.rows * k, -1);
    for (std::size_t first = 0; first < queries.rows; first += room) {
      const std::size_t n = std::min(room, queries.rows - first);
      report(progress, part_done(first, queries.rows));
      chunk.search(gpu, *this, queries.part(first, n), k, compute);
      if (chunk.bad()) throw_bad_row(queries, name);
      for (std::size_t i = 0; i < n * k; ++i) {
        const Key key = chunk.key(i);
        if (key == nearest_gpu::kNoKey) continue;
        result.distances[first * k + i] =
            std::sqrt(std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32)));
        result.ids[first * k + i] = ids_[static_cast<std::uint32_t>(key)];
      }
      result.exact += chunk.measured();
      report(progress, part_done(first + n, queries.rows));
    }
    return result;
  }

 private:
  // What a chunk of queries needs: all of it is taken at once.
  class Chunk {
   public:
    Chunk(Gpu& gpu, const CudaVectors& to, Scalar scalar, std::size_t queries, std::size_t k)
        : keys_(kBefore + queries * k) {
      const std::size_t padded = round_up_to(queries, kTileRows);
      const std::size_t numbers = queries * to.d_;
      const std::pair<Part*, std::size_t> parts[] = {
          {&raw_, numbers * bytes_of(scalar)},
          {&widened_, scalar == Scalar::kFloat16 ? numbers * sizeof(float) : 0},
          {&operand_, padded * to.width_},
          {&norms_, padded * to.norm_bytes()},
          {&minima_, padded * to.groups() * sizeof(float)},
          {&found_, keys_.size() * sizeof(Key)},
          {&pairs_, to.queue_room() * sizeof(Queue::Pair)},
          {&jobs_, queries * sizeof(Queue::Job)},
          {&queued_, kMostQueued}};
      constexpr std::size_t kAligned = 256;
      std::size_t all = 0;
      for (const auto& [part, bytes] : parts) all += round_up_to(bytes, kAligned);
      room_ = GpuBuffer(gpu, all);
      char* at = room_.as<char>();
      for (const auto& [part, bytes] : parts) {
        part->data = at;
        at += round_up_to(bytes, kAligned);
      }
    }

    void search(Gpu& gpu, const CudaVectors& in, const VectorView& queries, std::size_t k,
                Compute& compute) {
      upload(gpu, in, queries, compute);
      gpu.fill(found_.as<char>(), 0, kBefore * sizeof(Key));
      if (in.bytes_) {
        run(gpu, in, queries.rows, k, prepared_bytes(gpu, in, queries.rows));
      } else {
        run(gpu, in, queries.rows, k, prepared_floats(gpu, in, queries));
      }
      gpu.download(keys_.data(), found_.as<Key>(), (kBefore + queries.rows * k) * sizeof(Key));
    }

    bool bad() const { return keys_[1] != 0; }
    std::uint64_t measured() const { return keys_[0]; }
    Key key(std::size_t i) const { return keys_[kBefore + i]; }

   private:
    // The number of measured vectors; whether a query is bad; how much is queued.
    static constexpr std::size_t kBefore = 3;

    void upload(Gpu& gpu, const CudaVectors& in, const VectorView& queries, Compute& compute) {
      const std::size_t bytes = queries.bytes();
      if (nearest_gpu::is_pinned(queries.data, queries.bytes())) {
        nearest_gpu::start_upload(gpu, raw_.as<char>(), queries.data, bytes);
      } else if (compute.threads().count() >= kManyThreads && bytes <= StagingPool::kBytes) {
        if (!staging_) staging_.emplace(in.staging_, gpu);
        nearest_gpu::copy_shared(staging_->data(), queries.data, bytes, compute);
        nearest_gpu::start_upload(gpu, raw_.as<char>(), staging_->data(), bytes);
      } else {
        gpu.upload(raw_.as<char>(), queries.data, bytes);
      }
    }

    nearest_gpu::Bytes prepared_bytes(Gpu& gpu, const CudaVectors& in, std::size_t n) {
      in.prepare(gpu, raw_.as<std::uint8_t>(), n, round_up_to(n, kTileRows),
                 operand_.as<std::uint8_t>(), norms_.as<int>());
      return {operand_.as<std::uint8_t>(),
              norms_.as<int>(),
              in.operand_.as<std::uint8_t>(),
              in.norms_.as<int>(),
              static_cast<int>(in.width_),
              minima_.as<int>(),
              in.groups()};
    }

    nearest_gpu::Floats prepared_floats(Gpu& gpu, const CudaVectors& in,
                                        const VectorView& queries) {
      const float* rows = raw_.as<float>();
      if (queries.scalar == Scalar::kFloat16) {
        const std::size_t numbers = queries.rows * queries.cols;
        nearest_gpu::widen_halves<<<blocks_for(numbers), kPrepareThreads, 0, gpu.stream()>>>(
            raw_.as<__half>(), numbers, widened_.as<float>());
        check_launch();
        rows = widened_.as<float>();
      }
      in.prepare(gpu, rows, queries.rows, round_up_to(queries.rows, kTileRows), true,
                 operand_.as<__half>(), norms_.as<nearest_gpu::Terms>(), found_.as<Key>() + 1);
      return {rows,
              norms_.as<nearest_gpu::Terms>(),
              in.rows_.as<float>(),
              in.norms_.as<nearest_gpu::Terms>(),
              static_cast<int>(in.d_),
              minima_.as<float>(),
              in.groups()};
    }

    template <typename Kind>
    void run(Gpu& gpu, const CudaVectors& in, std::size_t n, std::size_t k, const Kind& kind) {
      const int query_tiles = static_cast<int>(round_up_to(n, kTileRows) / kTileRows);
      const nearest_gpu::Operands operands{operand_.as<std::uint8_t>(),
                                           in.operand_.as<std::uint8_t>(),
                                           static_cast<int>(in.width_), query_tiles, in.tiles()};
      constexpr int kThreads = nearest_gpu::kTileThreads<Kind>;
      const auto shared = static_cast<int>(nearest_gpu::shared_bytes<Kind>(operands.width));
      check_cuda(cudaFuncSetAttribute(nearest_gpu::minima<Kind>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(nearest_gpu::kMostShared)),
                 "preparing a search on the GPU");
      int at_once = 1;
      check_cuda(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, nearest_gpu::minima<Kind>,
                                                        kThreads, static_cast<std::size_t>(shared)),
          "preparing a search on the GPU");
      const std::size_t most = gpu.processors() * static_cast<std::size_t>(std::max(1, at_once));
      const std::size_t all =
          static_cast<std::size_t>(query_tiles) * static_cast<std::size_t>(operands.vector_tiles);
      nearest_gpu::minima<Kind><<<static_cast<unsigned>(std::min(most, all)), kThreads,
                                  static_cast<std::size_t>(shared), gpu.stream()>>>(operands, kind);
      check_launch();
      choose(gpu, in, n, static_cast<int>(k), kind);
    }

    template <typename Kind>
    void choose(Gpu& gpu, const CudaVectors& in, std::size_t n, int k, const Kind& kind) {
      Key* measured = found_.as<Key>();
      Key* keys = measured + kBefore;
      auto* taken = reinterpret_cast<unsigned*>(measured + 2);
      const Queue queue{taken,
                        taken + 1,
                        pairs_.as<Queue::Pair>(),
                        jobs_.as<Queue::Job>(),
                        queued_.as<Key>(),
                        static_cast<std::uint32_t>(in.queue_room())};
      constexpr int kThreads = nearest_gpu::kSelectThreads;
      nearest_gpu::select<Kind><<<static_cast<unsigned>(n), kThreads, 0, gpu.stream()>>>(
          kind, static_cast<std::uint32_t>(in.groups()), k, queue, keys, measured);
      check_launch();
      const auto blocks = static_cast<unsigned>(8 * gpu.processors());
      nearest_gpu::measure_queue<Kind>
          <<<blocks, kThreads, 0, gpu.stream()>>>(kind, k, queue, keys, measured);
      check_launch();
      nearest_gpu::finish_queue<Kind><<<blocks, kThreads, 0, gpu.stream()>>>(k, queue, keys);
      check_launch();
    }

    struct Part {
      char* data = nullptr;
      template <typename T>
      T* as() const {
        return reinterpret_cast<T*>(data);
      }
    };
    GpuBuffer room_;
    Part raw_, widened_, operand_, norms_, minima_, found_, pairs_, jobs_, queued_;
    std::vector<Key> keys_;  // of found_, on the host
    std::optional<StagingPool::Lease> staging_;
  };

  std::size_t tile_vectors() const {
    return static_cast<std::size_t>(bytes_ ? nearest_gpu::kTileVectors<nearest_gpu::Bytes>
                                           : nearest_gpu::kTileVectors<nearest_gpu::Floats>);
  }
  int tiles() const {
    return static_cast<int>(round_up_to(slots(), tile_vectors()) / tile_vectors());
  }
  std::size_t groups() const {
    return static_cast<std::size_t>(tiles()) * tile_vectors() / nearest_gpu::kGroup *
           (bytes_ ? nearest_gpu::Bytes::kGroups : nearest_gpu::Floats::kGroups);
  }
  std::size_t queue_room() const {
    return kMostQueued / sizeof(Key) /
           static_cast<std::size_t>(bytes_ ? nearest_gpu::Bytes::kMembers
                                           : nearest_gpu::Floats::kMembers);
  }
  int halves() const { return static_cast<int>(width_ / sizeof(__half)); }
  std::size_t norm_bytes() const { return bytes_ ? sizeof(int) : sizeof(nearest_gpu::Terms); }

  void prepare(Gpu& on, const std::uint8_t* from, std::size_t n, std::size_t all, std::uint8_t* to,
               int* norms) const {
    nearest_gpu::
        prepare_bytes<<<blocks_for(all * nearest_gpu::kLanes), kPrepareThreads, 0, on.stream()>>>(
            from, n, all, static_cast<int>(d_), static_cast<int>(width_), to, norms);
    check_launch();
  }

  void prepare(Gpu& on, const float* from, std::size_t n, std::size_t all, bool query, __half* to,
               nearest_gpu::Terms* terms, Key* bad) const {
    nearest_gpu::
        prepare_floats<<<blocks_for(all * nearest_gpu::kLanes), kPrepareThreads, 0, on.stream()>>>(
            from, n, all, static_cast<int>(d_), centre_.as<float>(),
            margins_of(d_, static_cast<std::size_t>(halves()), query), kLargestSquaredNorm,
            halves(), to, terms, bad);
    check_launch();
  }

  // A row as it is kept, in bytes or floats.
  void stage(const VectorView& row, char* to) const {
    if (bytes_) {
      std::memcpy(to, row.data, d_);
      return;
    }
    auto* floats = reinterpret_cast<float*>(to);
    const float* from = row.row(0, floats);
    if (from != floats) std::memcpy(to, from, d_ * sizeof(float));
  }

  // n staged rows become the slots from `first` on.
  void put(const char* staged, const GpuBuffer& raw, std::size_t first, std::size_t n) {
    void* to = bytes_ ? raw.as<void>() : rows_.as<float>() + first * d_;
    nearest_gpu::start_upload(gpu_, to, staged, n * d_ * (bytes_ ? 1 : sizeof(float)));
    prepare_slots(raw, first, n, n);
  }

  // The slots from `first` on, `all` of them: n rows, the others none.
  void prepare_slots(const GpuBuffer& raw, std::size_t first, std::size_t n, std::size_t all) {
    char* to = operand_.as<char>() + first * width_;
    char* norms = norms_.as<char>() + first * norm_bytes();
    if (all == 0) return;
    if (bytes_) {
      prepare(gpu_, raw.as<std::uint8_t>(), n, all, reinterpret_cast<std::uint8_t*>(to),
              reinterpret_cast<int*>(norms));
    } else {
      prepare(gpu_, rows_.as<float>() + first * d_, n, all, false, reinterpret_cast<__half*>(to),
              reinterpret_cast<nearest_gpu::Terms*>(norms), spare_.as<Key>());
    }
  }

  // Room for so many, and for more if it was not enough before. What is behind the last is none.
  void reserve(std::size_t slots) {
    if (slots <= capacity_) return;
    const std::size_t more = capacity_ == 0 ? 0 : slots / 4;
    const std::size_t capacity = round_up_to(slots + more, tile_vectors());
    grow(operand_, capacity * width_);
    grow(norms_, capacity * norm_bytes());
    if (!bytes_) grow(rows_, capacity * d_ * sizeof(float));
    capacity_ = capacity;
    prepare_slots({}, ids_.size(), 0, capacity - ids_.size());
  }

  void grow(GpuBuffer& buffer, std::size_t bytes) {
    GpuBuffer larger(gpu_, bytes);
    if (buffer.bytes() > 0) {
      check_cuda(cudaMemcpyAsync(larger.as<char>(), buffer.as<char>(), buffer.bytes(),
                                 cudaMemcpyDeviceToDevice, gpu_.stream()),
                 "copying on the GPU");
    }
    buffer = std::move(larger);
  }

  Gpu gpu_;  // on whose stream the vectors are changed
  std::size_t d_;
  bool bytes_;
  std::size_t width_;  // bytes of a row that is multiplied
  std::size_t capacity_ = 0;
  std::vector<std::int64_t> ids_;  // of each slot, increasing
  GpuBuffer spare_;                // where it is said that a vector is too large; none is
  GpuBuffer centre_, operand_, norms_, rows_;
  mutable StagingPool staging_;
};

}  // namespace

std::unique_ptr<GpuVectors> make_gpu_vectors(int device, std::size_t d, Scalar kind,
                                             const float* centre) {
  return std::make_unique<CudaVectors>(device, d, kind, centre);
}

}  // namespace contcore
