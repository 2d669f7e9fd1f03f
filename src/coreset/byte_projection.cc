#include "coreset/byte_projection.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "coreset/directions.h"
#include "coreset/sketch.h"

namespace contcore {
namespace {

constexpr std::size_t kFitted = 1024;    // rows that the directions are fitted to
constexpr std::size_t kDirections = 63;  // of the last level; its 64th number is the residual
constexpr std::size_t kSubspace = 128;   // that they are chosen from
constexpr double kMostScale = 1024;      // of W: keeps all sums in 32 bits
constexpr double kReachesOut = 3.5;      // standard deviations in 127 steps

// H y, but for the factor 1/√width.
void spread_evenly(std::int32_t* y, std::size_t width) {
  for (std::size_t half = 1; half < width; half *= 2) {
    for (std::size_t at = 0; at < width; at += 2 * half) {
      for (std::size_t j = at; j < at + half; ++j) {
        const std::int32_t a = y[j];
        const std::int32_t b = y[j + half];
        y[j] = a + b;
        y[j + half] = a - b;
      }
    }
  }
}

// The sample less its mean, which is rounded to bytes.
Vectors centred(const std::vector<const std::uint8_t*>& sample, std::size_t d,
                std::vector<std::uint8_t>* mean) {
  std::vector<std::uint32_t> sums(d, 0);
  for (const std::uint8_t* row : sample) {
    for (std::size_t j = 0; j < d; ++j) sums[j] += row[j];
  }
  mean->resize(d);
  const auto n = static_cast<std::uint32_t>(sample.size());
  for (std::size_t j = 0; j < d; ++j) {
    (*mean)[j] = static_cast<std::uint8_t>((sums[j] + n / 2) / n);
  }
  Vectors out(sample.size(), d);
  for (std::size_t i = 0; i < sample.size(); ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      out.row(i)[j] = static_cast<float>(int{sample[i][j]} - int{(*mean)[j]}) / 256.0f;
    }
  }
  return out;
}

// At least the largest eigenvalue of WᵀW.
std::int64_t largest_eigenvalue(const std::vector<std::vector<std::int8_t>>& columns) {
  const auto n = static_cast<Eigen::Index>(columns.size());
  Eigen::MatrixXd gram(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      const auto& a = columns[static_cast<std::size_t>(i)];
      const auto& b = columns[static_cast<std::size_t>(j)];
      std::int32_t dot = 0;
      for (std::size_t at = 0; at < a.size(); ++at) dot += a[at] * b[at];
      gram(i, j) = gram(j, i) = dot;
    }
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  const double largest = std::max(0.0, solver.eigenvalues().maxCoeff());
  return static_cast<std::int64_t>(largest * (1 + 1e-9)) + 1;
}

void set_byte(kernels::TileRow* tile, std::size_t j, std::size_t lane, std::int8_t value) {
  reinterpret_cast<std::int8_t*>(tile[j / 4].lanes + lane)[j % 4] = value;
}

}  // namespace

ByteProjection::ByteProjection(const std::vector<const std::uint8_t*>& rows, std::size_t d,
                               Compute& compute)
    : d_(d), matrix_(kernels::tile_rows(d)) {
  const std::size_t n = std::min(rows.size(), kFitted);
  std::vector<const std::uint8_t*> sample(n);
  for (std::size_t i = 0; i < n; ++i) sample[i] = rows[i * rows.size() / n];
  fit(principal_directions(centred(sample, d, &centre_), kSubspace, compute));
  choose_steps(sample);
}

// The directions in bytes. Those that are not finite, or zero, are left out.
void ByteProjection::fit(const Vectors& basis) {
  double largest = 0;
  for (std::size_t i = 0; i < d_; ++i) {
    for (std::size_t j = 0; j < kDirections; ++j) {
      const double x = std::abs(static_cast<double>(basis.row(i)[j]));
      if (std::isfinite(x)) largest = std::max(largest, x);
    }
  }
  const double scale = largest > 0 ? std::min(127 / largest, kMostScale) : 0;
  std::vector<std::vector<std::int8_t>> columns(kDirections, std::vector<std::int8_t>(d_));
  kernels::TileRow& starts = matrix_.back();
  for (std::size_t j = 0; j < kDirections; ++j) {
    std::int32_t along = 0;
    for (std::size_t i = 0; i < d_; ++i) {
      const double x = scale * static_cast<double>(basis.row(i)[j]);
      const auto w = static_cast<std::int8_t>(std::isfinite(x) ? std::lround(x) : 0);
      columns[j][i] = w;
      set_byte(matrix_.data(), i, j, w);
      along += w * int{centre_[i]};
    }
    starts.lanes[j] = -along;
  }
  lambda_ = largest_eigenvalue(columns);
  centre_squares_ = kernels::byte_norm(centre_.data(), d_).squares;
}

// Steps so that the sample stays within 127 of them, mostly.
void ByteProjection::choose_steps(const std::vector<const std::uint8_t*>& sample) {
  std::vector<std::int32_t> y(sample.size() * kernels::kTile);
  std::vector<std::int64_t> lengths(sample.size());
  std::vector<ProjectedBytes> unused(kernels::kScanPoints);
  for (std::size_t i = 0; i < sample.size(); i += kernels::kScanPoints) {
    products(sample.data() + i, std::min(kernels::kScanPoints, sample.size() - i),
             y.data() + i * kernels::kTile, lengths.data() + i, unused.data());
  }
  for (std::size_t level = 0; level < kByteLevels; ++level) {
    const auto n = static_cast<double>(sample.size());
    double mean = 0;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      mean += residual(level, y.data() + i * kernels::kTile, lengths[i]) / n;
    }
    levels_[level].middle = static_cast<std::int32_t>(mean);
    double squares = 0;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      const std::int32_t* at = y.data() + i * kernels::kTile;
      const Spread along = spread(level, at, residual(level, at, lengths[i]));
      for (std::size_t j = 0; j < kByteWidths[level]; ++j) {
        squares += static_cast<double>(along[j]) * static_cast<double>(along[j]);
      }
    }
    const double deviation = std::sqrt(squares / (n * static_cast<double>(kByteWidths[level])));
    levels_[level].step = static_cast<std::int32_t>(kReachesOut * deviation / 127) + 1;
  }
}

// y, and λ‖z'‖².
void ByteProjection::products(const std::uint8_t* const* rows, std::size_t n, std::int32_t* y,
                              std::int64_t* lengths, ProjectedBytes* out) const {
  kernels::tile_products(rows, n, matrix_.data(), d_, y);
  const std::uint8_t* centre = centre_.data();
  std::int32_t dots[kernels::kScanPoints];
  kernels::byte_products(&centre, 1, rows, n, d_, dots);
  for (std::size_t i = 0; i < n; ++i) {
    out[i].norm = kernels::byte_norm(rows[i], d_);
    const std::int32_t rest = out[i].norm.squares - 256 * out[i].norm.sum;  // never above zero
    lengths[i] = lambda_ * (centre_squares_ + rest - 2 * dots[i]);
  }
}

// r, rounded down.
std::int32_t ByteProjection::residual(std::size_t level, const std::int32_t* y,
                                      std::int64_t length) const {
  for (std::size_t j = 0; j + 1 < kByteWidths[level]; ++j) length -= std::int64_t{y[j]} * y[j];
  return static_cast<std::int32_t>(
      std::sqrt(static_cast<double>(std::max(length, std::int64_t{0}))));
}

// φ after the Hadamard matrix, √width times as long.
ByteProjection::Spread ByteProjection::spread(std::size_t level, const std::int32_t* y,
                                              std::int32_t r) const {
  const std::size_t width = kByteWidths[level];
  Spread out;
  std::copy(y, y + width - 1, out.begin());
  out[width - 1] = r - levels_[level].middle;
  spread_evenly(out.data(), width);
  return out;
}

void ByteProjection::round(std::size_t level, const Spread& spread, ByteSteps* out) const {
  const std::int32_t step = levels_[level].step;
  const float steps = 1.0f / static_cast<float>(step);
  std::int32_t norm = 0;
  float lost = 0;
  for (std::size_t j = 0; j < kByteWidths[level]; ++j) {
    const std::int32_t cut = std::clamp(spread[j], -127 * step, 127 * step);
    const float exact = static_cast<float>(cut) * steps;
    const auto k = static_cast<std::int32_t>(exact + (exact < 0 ? -0.5f : 0.5f));
    const float off = static_cast<float>(cut - k * step) * steps;
    lost += off * off;
    norm += k * k;
    out->bytes[j] = static_cast<std::uint8_t>(k + 128);
  }
  // The floats may be off by a few units, the residual by one.
  const auto width = static_cast<float>(kByteWidths[level]);
  out->norm = norm;
  out->error = std::sqrt(lost) * (1 + 0x1p-14f) + 1.5f * std::sqrt(width) * steps;
}

void ByteProjection::project(const std::uint8_t* const* rows, std::size_t n,
                             ProjectedBytes* out) const {
  std::int32_t y[kernels::kScanPoints * kernels::kTile];
  std::int64_t lengths[kernels::kScanPoints];
  products(rows, n, y, lengths, out);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t* at = y + i * kernels::kTile;
    for (std::size_t level = 0; level < kByteLevels; ++level) {
      const std::int32_t r = residual(level, at, lengths[i]);
      round(level, spread(level, at, r), &out[i].levels[level]);
    }
  }
}

void ByteProjection::coordinates(const ByteSteps& of, float* out) {
  std::int32_t y[kByteWidths[0]];
  for (std::size_t j = 0; j < kByteWidths[0]; ++j) y[j] = int{of.bytes[j]} - 128;
  spread_evenly(y, kByteWidths[0]);
  std::copy(y, y + kByteWidths[0], out);
}

// −½‖k_b‖², rounded up, less 128 Σ k_b.
std::int32_t ByteProjection::start(const ByteSteps& b, std::size_t width) {
  std::int32_t sum = 0;
  for (std::size_t j = 0; j < width; ++j) sum += int{b.bytes[j]} - 128;
  return -b.norm / 2 - 128 * sum;
}

// ‖k_a − k_b‖ > R + E_a + E_b  ⇔  k_a·k_b − ½‖k_b‖² < ½‖k_a‖² − ½(R + E_a + E_b)². A whole number
// that float32 rounds to `best` is at most best (1 + 2⁻²⁴).
std::int32_t ByteProjection::gate(std::size_t level, const ByteSteps& a, float best,
                                  float error) const {
  constexpr double kAll = 1 << 24;  // more than any two vectors of steps are apart, squared
  const double width = static_cast<double>(kByteWidths[level]);
  const double step = static_cast<double>(levels_[level].step);
  const double length = width * static_cast<double>(lambda_) * static_cast<double>(best);
  const double reach = std::sqrt(length * (1 + 0x1p-23)) / step;
  const double sum = reach + static_cast<double>(a.error) + static_cast<double>(error);
  const double apart = std::min(sum * sum * (1 + 0x1p-30), kAll);
  return static_cast<std::int32_t>(std::floor(0.5 * (static_cast<double>(a.norm) - apart)));
}

}  // namespace contcore
