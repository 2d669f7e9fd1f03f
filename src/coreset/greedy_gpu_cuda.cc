// The rounds of greedy sampling on a GPU: what stands where, and in which order the kernels run.
//
// In: points, base and options, checked. Out: picks, radii and what they took. Fails: values that
// cannot be used, too little memory of the GPU, a caller that says stop. The kernels are in
// greedy_gpu_prepare, greedy_gpu_products, greedy_gpu_update and greedy_gpu_round.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"
#include "coreset/directions.h"
#include "coreset/greedy_gpu.h"
#include "coreset/greedy_gpu_kernels.h"
#include "coreset/sketch.h"
#include "device/upload.h"

namespace contcore {
namespace {

namespace kernels = greedy_gpu;

// The vectors of a view, and what is known of each: in the GPU's memory as many at a time as there
// is room for. Where that is all of them, they are copied but once.
class GpuRows {
 public:
  GpuRows() = default;

  // Room for `each` of them at a time, and for codes or not.
  GpuRows(Gpu& gpu, VectorView view, bool coded, std::size_t each) : view_(view), each_(each) {
    set_.d = static_cast<std::uint32_t>(view.cols);
    set_.stride = static_cast<std::uint32_t>(stride_of(view.cols));
    if (each == 0) return;
    if (coded) {
      codes_ = GpuBuffer(gpu, each * set_.stride);
      norms_ = GpuBuffer(gpu, each * sizeof(std::uint32_t));
      set_.codes = codes_.as<std::uint8_t>();
      set_.norms = norms_.as<std::uint32_t>();
    }
    const bool bytes = view.scalar == Scalar::kUint8;
    if (bytes ? set_.stride != set_.d : view.scalar != Scalar::kFloat32) {
      copied_ =
          GpuBuffer(gpu, std::clamp<std::size_t>(kCopied / row_bytes(), 1, each) * row_bytes());
    }
    if (bytes) return;
    rows_ = GpuBuffer(gpu, each * view.cols * sizeof(float));
    set_.rows = rows_.as<float>();
    if (coded) errors_ = GpuBuffer(gpu, each * sizeof(float));
    set_.errors = errors_.as<float>();
  }

  // How many take no more than so many bytes. Parts begin where blocks of the mean do.
  static std::size_t fitting(VectorView view, bool coded, std::size_t bytes) {
    const std::size_t rows = bytes / bytes_each(view, coded);
    if (rows >= view.rows) return view.rows;
    const std::size_t blocks = std::max<std::size_t>(1, rows / Sketch::kMeanBlock);
    return std::min(view.rows, blocks * Sketch::kMeanBlock);
  }
  // Of one, with what a search needs of it.
  static std::size_t bytes_each(VectorView view, bool coded) {
    const std::size_t row = view.scalar == Scalar::kUint8 ? 0 : view.cols * sizeof(float);
    return row + (coded ? stride_of(view.cols) + 8 : 0) + 48;
  }

  std::size_t each() const { return each_; }
  std::size_t parts() const { return each_ == 0 ? 0 : (view_.rows + each_ - 1) / each_; }
  std::size_t part() const { return part_; }  // that is on the GPU
  const kernels::RowSet& set() const { return set_; }

  void load(Gpu& gpu, Compute& compute, std::size_t part, const kernels::Steps& steps,
            kernels::Tally* tally) {
    if (part == part_) return;
    part_ = part;
    const std::size_t first = part * each_;
    put(gpu, compute, view_.part(first, std::min(each_, view_.rows - first)), steps, tally);
  }

  // These of them, at most `each`, instead of a part.
  void gather(Gpu& gpu, Compute& compute, const std::vector<std::uint32_t>& ids,
              const kernels::Steps& steps, kernels::Tally* tally) {
    gathered_.resize(ids.size() * row_bytes());
    compute.threads().run(ids.size(), [&](std::size_t i, std::size_t) {
      std::memcpy(gathered_.data() + i * row_bytes(), view_.part(ids[i], 1).data, row_bytes());
    });
    put(gpu, compute, {gathered_.data(), ids.size(), view_.cols, view_.scalar}, steps, tally);
  }

 private:
  static constexpr std::size_t kCopied = std::size_t{128} << 20;  // bytes

  static std::size_t stride_of(std::size_t d) {
    return (d + kernels::kCodeChunk - 1) / kernels::kCodeChunk * kernels::kCodeChunk;
  }
  std::size_t row_bytes() const { return view_.cols * bytes_of(view_.scalar); }

  void put(Gpu& gpu, Compute& compute, VectorView rows, const kernels::Steps& steps,
           kernels::Tally* tally) {
    set_.n = static_cast<std::uint32_t>(rows.rows);
    copy(gpu, compute, rows);
    if (rows.scalar == Scalar::kUint8) {
      kernels::code_norms(gpu, set_, norms_.as<std::uint32_t>());
    } else {
      kernels::sketch_rows(gpu, set_, steps, codes_.as<std::uint8_t>(), norms_.as<std::uint32_t>(),
                           errors_.as<float>(), tally);
    }
  }

  // Rows that are laid out otherwise on the GPU go by way of `copied_`.
  void copy(Gpu& gpu, Compute& compute, VectorView rows) {
    const bool bytes = rows.scalar == Scalar::kUint8;
    if (copied_.bytes() == 0) {
      void* to = bytes ? codes_.as<void>() : rows_.as<void>();
      return upload_with_threads(gpu, compute, to, rows.data, rows.bytes());
    }
    const std::size_t most = copied_.bytes() / row_bytes();
    for (std::size_t first = 0; first < rows.rows; first += most) {
      const VectorView some = rows.part(first, std::min(most, rows.rows - first));
      upload_with_threads(gpu, compute, copied_.as<void>(), some.data, some.bytes());
      if (bytes) {
        kernels::pad_rows(gpu, copied_.as<std::uint8_t>(), some.rows, set_.d, set_.stride,
                          codes_.as<std::uint8_t>() + first * set_.stride);
      } else {
        kernels::widen(gpu, copied_.as<void>(), some.rows * set_.d,
                       rows_.as<float>() + first * set_.d);
      }
    }
  }

  VectorView view_;
  std::size_t each_ = 0;
  std::size_t part_ = std::numeric_limits<std::size_t>::max();
  GpuBuffer rows_, codes_, norms_, errors_, copied_;
  std::vector<std::byte> gathered_;
  kernels::RowSet set_;
};

// n of the rows, from `first` on.
kernels::RowSet part_of(kernels::RowSet rows, std::size_t first, std::size_t n) {
  rows.n = static_cast<std::uint32_t>(n);
  if (rows.ids != nullptr) {
    rows.ids += first;
    return rows;
  }
  if (rows.rows != nullptr) rows.rows += first * rows.d;
  if (rows.codes != nullptr) rows.codes += first * rows.stride;
  if (rows.norms != nullptr) rows.norms += first;
  if (rows.errors != nullptr) rows.errors += first;
  return rows;
}

class GpuGreedySampler {
 public:
  GpuGreedySampler(Gpu& gpu, VectorView points, VectorView base, const GreedyOptions& options,
                   Compute& compute, const GpuGreedyLimits& limits)
      : gpu_(gpu),
        points_view_(points),
        base_view_(base),
        options_(options),
        compute_(compute),
        limits_(limits),
        bytes_(points.scalar == Scalar::kUint8),
        count_(std::min(options.count, points.rows)) {}

  GreedyResult run(const std::vector<float>* initial) {
    prepare(initial == nullptr && base_view_.rows == 0 &&
            options_.start == GreedyOptions::Start::kMean);
    start(initial);
    report();
    while (!round()) report();
    report_progress(1.0);
    return result();
  }

 private:
  // ---- preparation -------------------------------------------------------------------------

  // Nearly all memory is taken before anything is copied: where there is not enough, that is soon
  // known. Nothing is reported before all of it is, for the processor may have to begin anew.
  void prepare(bool from_mean) {
    if (!bytes_) choose_steps(fit_directions(points_view_, base_view_, 0, compute_).centre);
    take_memory(from_mean);
    gpu_.fill(tally(), 0, sizeof(kernels::Tally));
    gpu_.fill(survivors_.as<void>(), 0, survivors_.bytes());
    for_each_part(points_, [&](const kernels::RowSet& points, std::size_t first) {
      if (!from_mean) return;
      double* to = sums_.as<double>() + first / Sketch::kMeanBlock * points.d;
      kernels::find_sums(gpu_, points, to);
    });
    if (!bytes_ && tally_now().bad != 0) throw_bad_row(points_view_, options_.points_name);
    if (!bytes_) for_each_part(base_, [](const kernels::RowSet&, std::size_t) {});
    if (!bytes_ && tally_now().bad != 0) throw_bad_row(base_view_, options_.base_name);
  }

  // Hands out the rows as they come to be on the GPU, with the number of the first; beginning with
  // those that are there.
  template <class Use>
  void for_each_part(GpuRows& rows, Use use) {
    const std::size_t parts = rows.parts();
    const bool back = rows.part() == parts - 1;
    for (std::size_t k = 0; k < parts; ++k) {
      const std::size_t part = back ? parts - 1 - k : k;
      rows.load(gpu_, compute_, part, steps_, tally());
      use(rows.set(), part * rows.each());
      report();
    }
  }

  // The step is such that all but a thousandth of a sample's numbers are within 100.
  void choose_steps(const std::vector<float>& centre) {
    const std::size_t d = points_view_.cols;
    centre_ = GpuBuffer(gpu_, d * sizeof(float));
    gpu_.upload(centre_.as<float>(), centre.data(), centre_.bytes());
    const double roundings = static_cast<double>(d) / 32 + 10;
    steps_.centre = centre_.as<float>();
    steps_.canonical = 2 * roundings * kUnit + 1e-9;
    steps_.underflow = 2 * static_cast<double>(d) * kUnderflow;
    if (!limits_.codes || d < kLeastCodes || d > kernels::kMostCodes) return;
    constexpr std::size_t kSample = 64;
    const std::size_t n = std::min(kSample, points_view_.rows);
    std::vector<float> scratch(d), sizes;
    for (std::size_t i = 0; i < n; ++i) {
      const float* row = points_view_.row(i * points_view_.rows / n, scratch.data());
      for (std::size_t j = 0; j < d; ++j) {
        const float size = std::abs(row[j] - centre[j]);
        if (std::isfinite(size)) sizes.push_back(size);
      }
    }
    if (sizes.empty()) return;
    const auto large = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 1000);
    std::nth_element(sizes.begin(), large, sizes.end(), std::greater<>());
    if (*large > 0) steps_.inverse = 100 / static_cast<double>(*large);
  }

  void take_memory(bool from_mean) {
    const std::size_t n = points_view_.rows;
    const std::size_t blocks = (n + Sketch::kMeanBlock - 1) / Sketch::kMeanBlock;
    if (from_mean) sums_ = GpuBuffer(gpu_, blocks * points_view_.cols * sizeof(double));
    tally_ = GpuBuffer(gpu_, sizeof(kernels::Tally));
    most_survivors_ = std::min<std::size_t>(n, kernels::kMostSurvivors);
    bounds_ = GpuBuffer(gpu_, n * sizeof(std::uint32_t));
    picks_ = GpuBuffer(gpu_, count_ * sizeof(std::uint32_t));
    radii_ = GpuBuffer(gpu_, count_ * sizeof(std::uint32_t));
    selection_ = GpuBuffer(gpu_, sizeof(kernels::Selection));
    survivors_ = GpuBuffer(gpu_, most_survivors_ * sizeof(std::uint32_t));
    matrix_ = GpuBuffer(gpu_, most_survivors_ * stride_of(most_survivors_) * sizeof(float));
    // Not all that is free: others have use for some, and it is in pieces.
    std::size_t room = limits_.resident != 0 ? limits_.resident : gpu_.free_memory() / 8 * 7;
    for (bool taken = false; !taken; room /= 2) {
      try {
        take_rows(room);
        taken = true;
      } catch (const GpuMemoryError&) {
        if (room < kLeastRoom) throw;
      }
    }
  }

  // Points and base within so many bytes, in parts where need be.
  void take_rows(std::size_t room) {
    const bool coded = bytes_ || steps_.inverse > 0;
    for (GpuRows* rows : {&base_, &points_, &gathered_}) *rows = GpuRows();
    base_ = GpuRows(gpu_, base_view_, coded, GpuRows::fitting(base_view_, coded, room / 2));
    room -= std::min(room, base_.each() * GpuRows::bytes_each(base_view_, coded));
    points_ = GpuRows(gpu_, points_view_, coded, GpuRows::fitting(points_view_, coded, room));
    if (points_.parts() > 1) {
      gathered_ = GpuRows(gpu_, points_view_, coded, most_survivors_);
      usual_survivors_ = most_survivors_;
    }
    if (bytes_ || !coded) return;
    constexpr std::size_t kMostPairs = std::size_t{1} << 25;
    const std::size_t n = points_.each();
    const std::size_t pairs =
        limits_.pairs != 0 ? limits_.pairs : std::clamp<std::size_t>(4 * n, 1 << 16, kMostPairs);
    nearest_ = GpuBuffer(gpu_, n * sizeof(std::uint64_t));
    gates_ = GpuBuffer(gpu_, n * sizeof(std::uint32_t));
    list_ = GpuBuffer(gpu_, n * sizeof(std::uint32_t));
    pairs_ = GpuBuffer(gpu_, pairs * sizeof(std::uint64_t));
    search_ = {nearest_.as<std::uint64_t>(), gates_.as<std::uint32_t>(), list_.as<std::uint32_t>(),
               pairs_.as<std::uint64_t>(), static_cast<std::uint32_t>(pairs)};
  }

  void start(const std::vector<float>* initial) {
    if (initial != nullptr) {
      gpu_.upload(bounds_.as<float>(), initial->data(), bounds_.bytes());
      return;
    }
    kernels::set_bounds(gpu_, bounds(), points_view_.rows, kInfinity);
    if (base_view_.rows > 0) {
      return for_each_part(
          base_, [&](const kernels::RowSet& base, std::size_t) { compare_all_with(base); });
    }
    const auto first = static_cast<std::uint32_t>(first_pick());
    const auto radius = std::bit_cast<std::uint32_t>(kInfinity);
    kernels::Tally one = tally_now();
    one.picks = 1;
    gpu_.upload(tally(), &one, sizeof(one));
    gpu_.upload(picks_.as<std::uint32_t>(), &first, sizeof(first));
    gpu_.upload(radii_.as<std::uint32_t>(), &radius, sizeof(radius));
    compare_with_picks(1);
  }

  std::size_t first_pick() {
    switch (options_.start) {
      case GreedyOptions::Start::kRandom:
        return Random(options_.seed).below(points_view_.rows);
      case GreedyOptions::Start::kIndex:
        return options_.start_index;
      case GreedyOptions::Start::kMean:
        break;
    }
    const GpuBuffer mean(gpu_, points_view_.cols * sizeof(float));
    kernels::find_mean(gpu_, sums_.as<double>(), points_view_.rows, points_view_.cols,
                       mean.as<float>());
    sums_ = GpuBuffer();
    for_each_part(points_, [&](const kernels::RowSet& points, std::size_t first) {
      kernels::find_farthest(gpu_, points, first, mean.as<float>(), tally());
    });
    return ~static_cast<std::uint32_t>(tally_now().farthest);
  }

  // ---- rounds ------------------------------------------------------------------------------

  // Returns whether it was the last.
  bool round() {
    const auto wanted = static_cast<std::uint32_t>(survivors_wanted());
    const auto stride = static_cast<std::uint32_t>(stride_of(wanted));
    auto* ids = survivors_.as<std::uint32_t>();
    auto* matrix = matrix_.as<std::uint32_t>();
    auto* selection = selection_.as<kernels::Selection>();
    kernels::find_survivors(gpu_, bounds(), points_view_.rows, wanted, selection, ids, tally());
    kernels::RowSet survivors = rows_at(ids, wanted);
    survivors.count = &tally()->survivors;
    if (bytes_) {
      kernels::measure_byte_survivors(gpu_, survivors, matrix, stride);
    } else {
      kernels::measure_float_survivors(gpu_, survivors, matrix, stride);
    }
    kernels::pick(gpu_, ids, matrix, stride, selection, static_cast<std::uint32_t>(count_),
                  bounds(), picks_.as<std::uint32_t>(), radii_.as<std::uint32_t>(), tally());
    const std::size_t before = last_.picks;
    last_ = tally_now();
    if (last_.finished != 0) return true;
    compare_with_picks(last_.picks);
    if (last_.picks - before > wanted / 16) {
      usual_survivors_ = std::min(2 * usual_survivors_, most_survivors_);
    }
    return false;
  }

  // More survivors make fewer rounds of more picks, and cost the square of their number. The first
  // centres are near to so many that few picks come from any number of survivors.
  std::size_t survivors_wanted() const {
    const std::size_t wanted = limits_.survivors != 0 ? limits_.survivors : usual_survivors_;
    return std::clamp<std::size_t>(wanted, 1, most_survivors_);
  }

  static std::size_t stride_of(std::size_t survivors) { return (survivors + 3) / 4 * 4; }

  // The points of these numbers, all of which are numbers of points.
  kernels::RowSet rows_at(const std::uint32_t* ids, std::size_t n) {
    if (points_.parts() > 1) {
      std::vector<std::uint32_t> numbers(n);
      gpu_.download(numbers.data(), ids, n * sizeof(std::uint32_t));
      gathered_.gather(gpu_, compute_, numbers, steps_, tally());
      return gathered_.set();
    }
    kernels::RowSet rows = points_.set();
    rows.ids = ids;
    rows.n = static_cast<std::uint32_t>(n);
    return rows;
  }

  // With those that points have not been compared with yet: at most as many as survived a round.
  void compare_with_picks(std::size_t end) {
    compare_all_with(rows_at(picks_.as<std::uint32_t>() + compared_, end - compared_));
    compared_ = end;
  }

  void compare_all_with(const kernels::RowSet& centres) {
    for_each_part(points_, [&](const kernels::RowSet& points, std::size_t first) {
      for (std::size_t at = 0; at < centres.n; at += limits_.centres) {
        const std::size_t n = std::min(limits_.centres, centres.n - at);
        compare(points, part_of(centres, at, n), bounds() + first);
      }
    });
  }

  void compare(const kernels::RowSet& points, const kernels::RowSet& centres,
               std::uint32_t* bounds) {
    if (bytes_) return kernels::lower_by_bytes(gpu_, points, centres, bounds);
    if (points.codes != nullptr) {
      kernels::find_nearest_codes(gpu_, points, centres, search_);
      kernels::measure_nearest(gpu_, points, centres, steps_, search_, bounds, tally());
      if (centres.n > 1) {
        kernels::find_pairs(gpu_, points, centres, search_, tally());
        kernels::measure_pairs(gpu_, points, centres, search_, bounds, tally());
      }
    }
    kernels::measure_all(gpu_, points, centres, search_, bounds, tally());
    kernels::count_batch(gpu_, points, centres, search_.most_pairs, tally());
  }

  // ---- bookkeeping -------------------------------------------------------------------------

  kernels::Tally* tally() const { return tally_.as<kernels::Tally>(); }
  std::uint32_t* bounds() const { return bounds_.as<std::uint32_t>(); }

  kernels::Tally tally_now() {
    kernels::Tally now;
    gpu_.download(&now, tally(), sizeof(now));
    return now;
  }

  void report() {
    const double part = static_cast<double>(last_.picks) / static_cast<double>(count_);
    report_progress(kPrepared + (1 - kPrepared) * part * 0.999);
  }

  void report_progress(double done) {
    if (options_.progress && !options_.progress(done)) {
      throw Error(Error::Kind::kCancelled, "stopped");
    }
  }

  GreedyResult result() {
    GreedyResult result;
    std::vector<std::uint32_t> picks(last_.picks), radii(last_.picks);
    gpu_.download(picks.data(), picks_.as<void>(), picks.size() * sizeof(std::uint32_t));
    gpu_.download(radii.data(), radii_.as<void>(), radii.size() * sizeof(std::uint32_t));
    result.picks.assign(picks.begin(), picks.end());
    for (const std::uint32_t bits : radii) {
      result.radii.push_back(std::sqrt(std::bit_cast<float>(bits)));
    }
    result.covering_radius = std::sqrt(std::bit_cast<float>(last_.covering));
    const std::uint64_t all =
        static_cast<std::uint64_t>(points_view_.rows) * (base_view_.rows + picks.size());
    const std::uint64_t exact = bytes_ ? all : std::min(all, tally_now().exact);
    if (exact < all) {
      result.stages.push_back({fmt::format("sketch {}", points_view_.cols), all - exact});
    }
    result.stages.push_back({"exact", exact});
    result.full_distances = tally_now().full + (bytes_ ? all : 0);
    return result;
  }

  static constexpr double kPrepared = 0.3;        // the part of the progress that preparing is
  static constexpr std::size_t kLeastCodes = 64;  // fewer numbers are measured as quickly
  static constexpr std::size_t kLeastRoom = std::size_t{1} << 20;

  Gpu& gpu_;
  VectorView points_view_;
  VectorView base_view_;
  const GreedyOptions& options_;
  Compute& compute_;
  const GpuGreedyLimits& limits_;
  bool bytes_;
  std::size_t count_;
  std::size_t most_survivors_ = 0;
  std::size_t usual_survivors_ = 1024;
  std::size_t compared_ = 0;  // picks that all points' bounds account for

  GpuRows points_, base_;
  GpuRows gathered_;  // points that are wanted while others are on the GPU
  GpuBuffer centre_, tally_, sums_, bounds_, picks_, radii_, selection_, survivors_, matrix_;
  GpuBuffer nearest_, gates_, list_, pairs_;
  kernels::Steps steps_;
  kernels::PairSearch search_;
  kernels::Tally last_;
};

}  // namespace

constexpr std::size_t kMostNumbers = std::size_t{1} << 20;  // of a point, that kernels count

bool greedy_pays_on_gpu(VectorView points, VectorView base, const GreedyOptions& options) {
  if (points.scalar == Scalar::kUint8 && points.cols > greedy_gpu::kMostCodes) return false;
  if (points.rows > std::numeric_limits<std::int32_t>::max()) return false;
  if (points.cols > kMostNumbers) return false;
  constexpr double kWork = 1e7;  // numbers, of all points with all centres
  const auto centres = static_cast<double>(base.rows + std::min(points.rows, options.count));
  return static_cast<double>(points.rows) * static_cast<double>(points.cols) * centres > kWork;
}

GreedyResult greedy_sample_on_gpu(Gpu& gpu, VectorView points, VectorView base,
                                  const GreedyOptions& options, Compute& compute,
                                  const GpuGreedyLimits& limits,
                                  const std::vector<float>* initial) {
  return GpuGreedySampler(gpu, points, base, options, compute, limits).run(initial);
}

}  // namespace contcore
