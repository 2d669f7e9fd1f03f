#include "coreset/sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "contcore/error.h"
#include "coreset/directions.h"
#include "coreset/kernels.h"

namespace contcore {
namespace {

// Higham's γ_n: the relative error of n roundings in a row, in any order.
double gamma(double n) { return n * kUnit / (1.0 - n * kUnit); }

// The blocks' column sums, added in order and divided.
std::vector<float> mean_of_blocks(const std::vector<double>& sums, std::size_t rows,
                                  std::size_t d) {
  std::vector<float> mean(d);
  for (std::size_t j = 0; j < d; ++j) {
    double sum = 0;
    for (std::size_t at = j; at < sums.size(); at += d) sum += sums[at];
    mean[j] = static_cast<float>(sum / static_cast<double>(rows));
  }
  return mean;
}

}  // namespace

Sketch::Sketch(VectorView vectors, VectorView more, std::vector<std::size_t> widths,
               Compute& compute)
    : Sketch(fit_directions(vectors, more, widths.empty() ? 0 : widths.back(), compute), widths,
             compute) {}

Sketch::Sketch(const Directions& directions, std::vector<std::size_t> widths, Compute& compute)
    : d_(directions.centre.size()), widths_(std::move(widths)), centre_(directions.centre) {
  canonical_error_ = gamma(static_cast<double>(d_) / 32 + 10);
  for (const std::size_t w : widths_) dot_error_.push_back(gamma(static_cast<double>(w) + 16));
  underflow_ = static_cast<double>(d_) * kUnderflow;
  reach_scale_ = kSlack / (1 - canonical_error_);
  if (directions.basis.rows() == 0) widths_.clear();
  if (widths_.empty()) return;
  panels_ = pack_panels(directions.basis.data(), d_, total_width(), directions.basis.cols());

  // The Frobenius norm of VᵀV − I over the directions that are not zero, at each level.
  const Vectors rows = transpose(directions.basis, compute);
  std::vector<double> defect(total_width(), 0.0);
  compute.threads().run(total_width(), [&](std::size_t i, std::size_t) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double dot = kernels::dot64(rows.row(i), rows.row(j), d_);
      if (i != j) defect[i] += 2 * dot * dot;
      if (i == j && dot > 0) defect[i] += (dot - 1) * (dot - 1);
    }
  });
  double sum = 0;
  std::size_t i = 0;
  for (const std::size_t w : widths_) {
    for (; i < w; ++i) sum += defect[i];
    orthogonality_.push_back(std::sqrt(sum) + 1e-12);
  }
}

Vectors Sketch::embed(VectorView vectors, const std::string& name, Compute& compute,
                      std::vector<float>* mean, const Progress& progress) const {
  Vectors out(vectors.rows, row_floats());
  project(vectors, name, compute, mean, progress, [&](const Projected& rows, std::size_t) {
    for (std::size_t i = 0; i < rows.n; ++i) {
      finish_row(rows.y + i * rows.stride, rows.norms[i], out.row(rows.first + i));
    }
  });
  return out;
}

void Sketch::project(VectorView vectors, const std::string& name, Compute& compute,
                     std::vector<float>* mean, const Progress& progress,
                     const UseProjected& use) const {
  constexpr std::size_t kRows = kernels::kProjectRows;
  const std::size_t width = total_width();
  const std::size_t padded = (width + kernels::kPanel - 1) / kernels::kPanel * kernels::kPanel;

  // Without a mean to take, blocks may be as small as it needs to keep every thread busy.
  const std::size_t each = vectors.rows / (8 * compute.threads().count()) / kRows * kRows;
  const std::size_t block_rows = mean != nullptr ? kMeanBlock : std::clamp(each, kRows, kMeanBlock);
  const std::size_t blocks = (vectors.rows + block_rows - 1) / block_rows;
  Vectors differences(compute.threads().count() * kRows,
                      d_ + 16);  // not a power of two: spares the cache
  Vectors widened(vectors.scalar != Scalar::kFloat32 ? compute.threads().count() * kRows : 0, d_);
  Vectors projected(compute.threads().count() * kRows, padded);
  std::vector<double> sums(mean != nullptr ? blocks * d_ : 0, 0.0);
  std::atomic<bool> bad{false};
  run_with_progress(blocks, compute, progress, [&](std::size_t block, std::size_t worker) {
    const std::size_t end = std::min(vectors.rows, (block + 1) * block_rows);
    for (std::size_t first = block * block_rows; first < end; first += kRows) {
      const std::size_t n = std::min(kRows, end - first);
      const float* raw[kRows];
      const float* rows[kRows];
      float norms[kRows];
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t slot = worker * kRows + i;
        float* scratch = widened.rows() == 0 ? nullptr : widened.row(slot);
        raw[i] = vectors.row(first + i, scratch);
        rows[i] = differences.row(slot);
        norms[i] = kernels::subtract(raw[i], centre(), d_, differences.row(slot));
        if (!(norms[i] <= kLargestSquaredNorm)) bad.store(true, std::memory_order_relaxed);
      }
      if (mean != nullptr) kernels::add_columns(raw, n, d_, sums.data() + block * d_);
      for (std::size_t i = first + kRows; i < std::min(end, first + 2 * kRows); ++i) {
        prefetch_row(vectors, i);  // arrives while this group is projected
      }
      float* y = projected.row(worker * kRows);
      if (width > 0) kernels::project(rows, n, d_, panels_.data(), padded, y, padded);
      use({first, n, y, padded, norms}, worker);
    }
  });
  if (bad) throw_bad_row(vectors, name);
  if (mean != nullptr) *mean = mean_of_blocks(sums, vectors.rows, d_);
}

void Sketch::finish_row(const float* y, float norm, float* row) const {
  std::copy(y, y + total_width(), row);
  float* r = row + total_width();
  double squared = 0;
  std::size_t j = 0;
  for (std::size_t level = 0; level < levels(); ++level) {
    for (; j < widths_[level]; ++j)
      squared += static_cast<double>(y[j]) * static_cast<double>(y[j]);
    const Rest rest = rest_of(level, norm, squared);
    r[level] = rest.r;
    r[levels() + level] = rest.e;
  }
  r[2 * levels()] = norm;
}

Sketch::Rest Sketch::rest_of(std::size_t level, float norm, double squared) const {
  const double n = static_cast<double>(norm);
  const float r = static_cast<float>(std::sqrt(std::max(0.0, n - squared)));
  return {r, round_up(error(level, n, static_cast<double>(r)))};
}

// A bound on ‖φ̂(z) − φ(z)‖ + |‖z'‖ error|: see docs/method.md, "Margins".
double Sketch::error(std::size_t level, double norm, double r) const {
  const double d = static_cast<double>(d_);
  const double w = static_cast<double>(widths_[level]);
  const double canonical = canonical_error_;
  const double segment = static_cast<double>(kernels::kProjectSegment);
  const double product = gamma(std::min(d, segment) + std::ceil(d / segment) + 2);
  const double omega = orthogonality_[level];
  const double squared = norm * (1 + 2 * canonical) + d * kUnderflow;
  const double length = std::sqrt(squared);
  const double of_y = (product * std::sqrt(w) * (1 + omega) + omega) * length + w * d * kUnderflow;
  const double of_rest = canonical * squared + 2 * of_y * length + of_y * of_y + 1e-12 * squared;
  double of_r = std::sqrt(of_rest);
  if (r > 0) of_r = std::min(of_r, of_rest / r * (1 + 4 * kUnit));
  return (of_y + of_r + 2 * kUnit * length) * kSlack;
}

float Sketch::half_norm(std::size_t level, const float* b) const {
  const double n = static_cast<double>(norm(b));
  const double error = static_cast<double>(e(b, level));
  const double margin = 0.5 * (1 + 1 / kSplit) * error * error;
  const double rounding = dot_error_[level] * (n + margin) * 1.001;
  return round_up(-0.5 * n * (1 - 8 * kUnit) + (margin + rounding) * kSlack + 1e-37);
}

void run_with_progress(std::size_t items, Compute& compute, const Progress& progress,
                       const std::function<void(std::size_t, std::size_t)>& work) {
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> done{0};
  compute.threads().run(items, [&](std::size_t item, std::size_t worker) {
    if (stop.load(std::memory_order_relaxed)) return;
    work(item, worker);
    const std::size_t finished = done.fetch_add(1, std::memory_order_relaxed) + 1;
    // Worker 0 is the calling thread, the only one to report from.
    if (worker == 0 && progress &&
        !progress(static_cast<double>(finished) / static_cast<double>(items))) {
      stop.store(true, std::memory_order_relaxed);
    }
  });
  if (stop) throw Error(Error::Kind::kCancelled, "stopped");
}

std::vector<float> mean_of(VectorView vectors, Compute& compute) {
  const std::size_t blocks = (vectors.rows + Sketch::kMeanBlock - 1) / Sketch::kMeanBlock;
  std::vector<double> sums(blocks * vectors.cols, 0.0);
  Vectors scratch(compute.threads().count(), vectors.cols);
  compute.threads().run(blocks, [&](std::size_t block, std::size_t worker) {
    const std::size_t end = std::min(vectors.rows, (block + 1) * Sketch::kMeanBlock);
    for (std::size_t i = block * Sketch::kMeanBlock; i < end; ++i) {
      const float* row = vectors.row(i, scratch.row(worker));
      kernels::add_columns(&row, 1, vectors.cols, sums.data() + block * vectors.cols);
    }
  });
  return mean_of_blocks(sums, vectors.rows, vectors.cols);
}

void throw_not_finite(const std::string& name, std::size_t row, std::size_t column, float value) {
  throw Error(Error::Kind::kInput,
              fmt::format("{}: row {}, column {} is {}; remove or repair that row", name, row,
                          column, std::isnan(value) ? "not a number (NaN)" : "infinite"));
}

void throw_bad_row(VectorView vectors, const std::string& name) {
  std::vector<float> scratch(vectors.cols);
  for (std::size_t i = 0; i < vectors.rows; ++i) {
    const float* row = vectors.row(i, scratch.data());
    for (std::size_t j = 0; j < vectors.cols; ++j) {
      if (std::isfinite(row[j])) continue;
      throw_not_finite(name, i, j, row[j]);
    }
  }
  throw Error(Error::Kind::kInput,
              fmt::format("{}: values so large that squared distances overflow float32; scale the "
                          "vectors down (norms up to 1e18 are fine)",
                          name));
}

}  // namespace contcore
