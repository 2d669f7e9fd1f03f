// The rounds of greedy sampling on a GPU: what stands where, and in which order the kernels run.
//
// In: points, base and options, checked. Out: picks, radii and what they took. Fails: values that
// cannot be used, too little memory of the GPU, a caller that says stop. The kernels are in
// greedy_gpu_prepare, greedy_gpu_products, greedy_gpu_update and greedy_gpu_round.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
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

// Vectors in the GPU's memory, and what is known of each.
class GpuRows {
 public:
  GpuRows() = default;

  // Room for them, and for codes or not.
  GpuRows(Gpu& gpu, VectorView view, bool coded) : view_(view) {
    const std::size_t chunks = (view.cols + kernels::kCodeChunk - 1) / kernels::kCodeChunk;
    set_.n = static_cast<std::uint32_t>(view.rows);
    set_.d = static_cast<std::uint32_t>(view.cols);
    set_.stride = static_cast<std::uint32_t>(chunks * kernels::kCodeChunk);
    if (coded) {
      codes_ = GpuBuffer(gpu, view.rows * set_.stride);
      norms_ = GpuBuffer(gpu, view.rows * sizeof(std::uint32_t));
      set_.codes = codes_.as<std::uint8_t>();
      set_.norms = norms_.as<std::uint32_t>();
    }
    if (view.scalar == Scalar::kUint8) return;
    rows_ = GpuBuffer(gpu, view.rows * view.cols * sizeof(float));
    set_.rows = rows_.as<float>();
    if (coded) errors_ = GpuBuffer(gpu, view.rows * sizeof(float));
    set_.errors = errors_.as<float>();
  }

  const kernels::RowSet& set() const { return set_; }

  void upload(Gpu& gpu, Compute& compute) {
    if (view_.rows == 0) return;
    if (view_.scalar != Scalar::kUint8) return upload_floats(gpu, compute);
    upload_bytes(gpu, compute);
    kernels::code_norms(gpu, set_, norms_.as<std::uint32_t>());
  }

  // Of floats.
  void sketch(Gpu& gpu, const kernels::Steps& steps, kernels::Tally* tally) {
    kernels::sketch_rows(gpu, set_, steps, codes_.as<std::uint8_t>(), norms_.as<std::uint32_t>(),
                         errors_.as<float>(), tally);
  }

  // n rows from `first` on.
  kernels::RowSet part(std::size_t first, std::size_t n) const {
    kernels::RowSet part = set_;
    part.n = static_cast<std::uint32_t>(n);
    if (part.rows != nullptr) part.rows += first * part.d;
    if (part.codes != nullptr) part.codes += first * part.stride;
    if (part.norms != nullptr) part.norms += first;
    if (part.errors != nullptr) part.errors += first;
    return part;
  }

 private:
  static constexpr std::size_t kUploaded = std::size_t{512} << 20;  // bytes

  // Hands out the view in parts of kUploaded that are on the GPU for as long as the call: rows that
  // are laid out otherwise there.
  void in_parts(
      Gpu& gpu, Compute& compute,
      const std::function<void(const void* part, std::size_t first, std::size_t n)>& use) const {
    const std::size_t row_bytes = view_.cols * bytes_of(view_.scalar);
    const std::size_t each = std::clamp<std::size_t>(kUploaded / row_bytes, 1, view_.rows);
    const GpuBuffer buffer(gpu, each * row_bytes);
    for (std::size_t first = 0; first < view_.rows; first += each) {
      const VectorView part = view_.part(first, std::min(each, view_.rows - first));
      upload_with_threads(gpu, compute, buffer.as<void>(), part.data, part.bytes());
      use(buffer.as<void>(), first, part.rows);
    }
  }

  void upload_bytes(Gpu& gpu, Compute& compute) {
    auto* codes = codes_.as<std::uint8_t>();
    if (set_.stride == set_.d) {
      return upload_with_threads(gpu, compute, codes, view_.data, view_.bytes());
    }
    in_parts(gpu, compute, [&](const void* part, std::size_t first, std::size_t n) {
      kernels::pad_rows(gpu, static_cast<const std::uint8_t*>(part), n, set_.d, set_.stride,
                        codes + first * set_.stride);
    });
  }

  void upload_floats(Gpu& gpu, Compute& compute) {
    auto* rows = rows_.as<float>();
    if (view_.scalar == Scalar::kFloat32) {
      return upload_with_threads(gpu, compute, rows, view_.data, view_.bytes());
    }
    in_parts(gpu, compute, [&](const void* part, std::size_t first, std::size_t n) {
      kernels::widen(gpu, part, n * set_.d, rows + first * set_.d);
    });
  }

  VectorView view_;
  GpuBuffer rows_, codes_, norms_, errors_;
  kernels::RowSet set_;
};

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
    prepare();
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
  void prepare() {
    if (!bytes_) choose_steps(fit_directions(points_view_, base_view_, 0, compute_).centre);
    const bool coded = bytes_ || steps_.inverse > 0;
    points_ = GpuRows(gpu_, points_view_, coded);
    base_ = GpuRows(gpu_, base_view_, coded);
    take_memory(coded);
    gpu_.fill(tally(), 0, sizeof(kernels::Tally));
    points_.upload(gpu_, compute_);
    if (!bytes_) look_at(points_, points_view_, options_.points_name);
    base_.upload(gpu_, compute_);
    if (!bytes_) look_at(base_, base_view_, options_.base_name);
  }

  void look_at(GpuRows& rows, VectorView view, const std::string& name) {
    rows.sketch(gpu_, steps_, tally());
    if (tally_now().bad != 0) throw_bad_row(view, name);
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

  void take_memory(bool coded) {
    const std::size_t n = points_view_.rows;
    tally_ = GpuBuffer(gpu_, sizeof(kernels::Tally));
    most_survivors_ = std::min<std::size_t>(n, kernels::kMostSurvivors);
    bounds_ = GpuBuffer(gpu_, n * sizeof(std::uint32_t));
    picks_ = GpuBuffer(gpu_, count_ * sizeof(std::uint32_t));
    radii_ = GpuBuffer(gpu_, count_ * sizeof(std::uint32_t));
    selection_ = GpuBuffer(gpu_, sizeof(kernels::Selection));
    survivors_ = GpuBuffer(gpu_, most_survivors_ * sizeof(std::uint32_t));
    matrix_ = GpuBuffer(gpu_, most_survivors_ * stride_of(most_survivors_) * sizeof(float));
    if (bytes_ || !coded) return;
    constexpr std::size_t kMostPairs = std::size_t{1} << 25;
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
    if (base_view_.rows > 0) return compare_with_base();
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
    const std::size_t blocks = (points_view_.rows + Sketch::kMeanBlock - 1) / Sketch::kMeanBlock;
    const GpuBuffer sums(gpu_, blocks * points_view_.cols * sizeof(double));
    const GpuBuffer mean(gpu_, points_view_.cols * sizeof(float));
    kernels::find_mean(gpu_, points_.set(), sums.as<double>(), mean.as<float>());
    kernels::find_farthest(gpu_, points_.set(), mean.as<float>(), tally());
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
    kernels::RowSet survivors = points_.set();
    survivors.ids = ids;
    survivors.count = &tally()->survivors;
    survivors.n = wanted;
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
    if (last_.picks - before > wanted / 16) usual_survivors_ *= 2;
    return false;
  }

  // More survivors make fewer rounds of more picks, and cost the square of their number. The first
  // centres are near to so many that few picks come from any number of survivors.
  std::size_t survivors_wanted() const {
    const std::size_t wanted = limits_.survivors != 0 ? limits_.survivors : usual_survivors_;
    return std::clamp<std::size_t>(wanted, 1, most_survivors_);
  }

  static std::size_t stride_of(std::size_t survivors) { return (survivors + 3) / 4 * 4; }

  void compare_with_base() {
    for (std::size_t first = 0; first < base_view_.rows; first += limits_.centres) {
      compare(base_.part(first, std::min(limits_.centres, base_view_.rows - first)));
      report();
    }
  }

  // With those that points have not been compared with yet.
  void compare_with_picks(std::size_t end) {
    while (compared_ < end) {
      kernels::RowSet centres = points_.set();
      centres.ids = picks_.as<std::uint32_t>() + compared_;
      centres.n = static_cast<std::uint32_t>(std::min(limits_.centres, end - compared_));
      compare(centres);
      compared_ += centres.n;
    }
  }

  void compare(const kernels::RowSet& centres) {
    const kernels::RowSet& points = points_.set();
    if (bytes_) return kernels::lower_by_bytes(gpu_, points, centres, bounds());
    if (points.codes != nullptr) {
      kernels::find_nearest_codes(gpu_, points, centres, search_);
      kernels::measure_nearest(gpu_, points, centres, steps_, search_, bounds(), tally());
      if (centres.n > 1) {
        kernels::find_pairs(gpu_, points, centres, search_, tally());
        kernels::measure_pairs(gpu_, points, centres, search_, bounds(), tally());
      }
    }
    kernels::measure_all(gpu_, points, centres, search_, bounds(), tally());
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
  GpuBuffer centre_, tally_, bounds_, picks_, radii_, selection_, survivors_, matrix_;
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
