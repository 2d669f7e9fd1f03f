#include "coreset/sketch.h"

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "contcore/error.h"
#include "coreset/kernels.h"

namespace contcore {
namespace {

constexpr std::size_t kSampleRows = 2048;
// Higham's γ_n: the relative error of n roundings in a row, in any order.
double gamma(double n) { return n * kUnit / (1.0 - n * kUnit); }

// d × w, row after row, to panels of kPanel columns, each d × kPanel; missing columns are zero.
Vectors pack_panels(const float* matrix, std::size_t d, std::size_t w, std::size_t stride) {
  const std::size_t panels = (w + kernels::kPanel - 1) / kernels::kPanel;
  Vectors packed(panels * d, kernels::kPanel);
  for (std::size_t p = 0; p < panels; ++p) {
    const std::size_t columns = std::min(kernels::kPanel, w - p * kernels::kPanel);
    for (std::size_t i = 0; i < d; ++i) {
      const float* from = matrix + i * stride + p * kernels::kPanel;
      std::copy(from, from + columns, packed.row(p * d + i));
    }
  }
  return packed;
}

Vectors multiply(const Vectors& a, const Vectors& b, Compute& compute) {
  const Vectors panels = pack_panels(b.data(), b.rows(), b.cols(), b.cols());
  const std::size_t padded = (b.cols() + kernels::kPanel - 1) / kernels::kPanel * kernels::kPanel;
  Vectors out(a.rows(), padded);
  const std::size_t blocks = (a.rows() + kernels::kProjectRows - 1) / kernels::kProjectRows;
  compute.threads().run(blocks, [&](std::size_t block, std::size_t) {
    const std::size_t first = block * kernels::kProjectRows;
    const std::size_t n = std::min(kernels::kProjectRows, a.rows() - first);
    const float* rows[kernels::kProjectRows];
    for (std::size_t i = 0; i < n; ++i) rows[i] = a.row(first + i);
    kernels::project(rows, n, a.cols(), panels.data(), padded, out.row(first), padded);
  });
  return out;
}

Vectors transpose(const Vectors& a, Compute& compute) {
  constexpr std::size_t kBlock = 32;
  Vectors out(a.cols(), a.rows());
  compute.threads().run((a.cols() + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t) {
    const std::size_t j1 = std::min(a.cols(), (block + 1) * kBlock);
    for (std::size_t i0 = 0; i0 < a.rows(); i0 += kBlock) {
      const std::size_t i1 = std::min(a.rows(), i0 + kBlock);
      for (std::size_t j = block * kBlock; j < j1; ++j) {
        for (std::size_t i = i0; i < i1; ++i) out.row(j)[i] = a.row(i)[j];
      }
    }
  });
  return out;
}

// Makes the columns of z (d × k) orthonormal by three rounds of Cholesky's QR. A column that
// depends on those before it becomes zero. Near enough is enough: what remains is measured.
void orthonormalise(Vectors& z, Compute& compute) {
  const std::size_t k = z.cols();
  for (int round = 0; round < 3; ++round) {
    const Vectors gram = multiply(transpose(z, compute), z, compute);
    std::vector<double> lower(k * k, 0.0);  // Cholesky factor L of the Gram matrix
    for (std::size_t j = 0; j < k; ++j) {
      const double diagonal = static_cast<double>(gram.row(j)[j]);
      double pivot = diagonal;
      for (std::size_t p = 0; p < j; ++p) pivot -= lower[j * k + p] * lower[j * k + p];
      if (!(pivot > 1e-5 * diagonal)) continue;  // dependent, to working precision
      const double root = std::sqrt(pivot);
      lower[j * k + j] = root;
      for (std::size_t i = j + 1; i < k; ++i) {
        double sum = static_cast<double>(gram.row(i)[j]);
        for (std::size_t p = 0; p < j; ++p) sum -= lower[i * k + p] * lower[j * k + p];
        lower[i * k + j] = sum / root;
      }
    }
    // z ← z L⁻ᵀ: column j of L⁻ᵀ solves L's transpose against the unit vector j.
    Vectors inverse(k, k);
    std::vector<double> x(k);
    for (std::size_t j = 0; j < k; ++j) {
      if (lower[j * k + j] == 0) continue;
      std::fill(x.begin(), x.end(), 0.0);
      for (std::size_t i = j + 1; i-- > 0;) {
        if (lower[i * k + i] == 0) continue;
        double sum = i == j ? 1.0 : 0.0;
        for (std::size_t p = i + 1; p <= j; ++p) sum -= lower[p * k + i] * x[p];
        x[i] = sum / lower[i * k + i];
        inverse.row(i)[j] = static_cast<float>(x[i]);
      }
    }
    z = multiply(z, inverse, compute);
  }
}

// Rotates an orthonormal basis of a subspace so that its directions come in the order of the
// sample's variance along them.
Vectors sort_by_variance(const Vectors& sample, const Vectors& basis, Compute& compute) {
  const Vectors along = multiply(sample, basis, compute);
  const Vectors gram = multiply(transpose(along, compute), along, compute);
  const auto k = static_cast<Eigen::Index>(basis.cols());
  Eigen::MatrixXd symmetric(k, k);
  for (Eigen::Index i = 0; i < k; ++i) {
    for (Eigen::Index j = 0; j < k; ++j) {
      symmetric(i, j) = static_cast<double>(gram.row(static_cast<std::size_t>(i))[j]);
    }
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(symmetric);
  Vectors rotation(basis.cols(), basis.cols());
  for (Eigen::Index i = 0; i < k; ++i) {
    for (Eigen::Index j = 0; j < k; ++j) {
      rotation.row(static_cast<std::size_t>(i))[j] =
          static_cast<float>(solver.eigenvectors()(i, k - 1 - j));
    }
  }
  return multiply(basis, rotation, compute);
}

bool all_finite(const Vectors& v) {
  const float* p = v.data();
  for (std::size_t i = 0; i < v.rows() * v.cols(); ++i) {
    if (!std::isfinite(p[i])) return false;
  }
  return true;
}

}  // namespace

Vectors principal_directions(const Vectors& sample, std::size_t width, Compute& compute) {
  Random random(0x5ce7c4);
  Vectors start(sample.cols(), width);
  for (std::size_t i = 0; i < start.rows() * width; ++i) {
    start.data()[i] = static_cast<float>(random.uniform() - 0.5);
  }
  const Vectors transposed = transpose(sample, compute);
  Vectors basis = multiply(transposed, multiply(sample, start, compute), compute);
  orthonormalise(basis, compute);
  basis = sort_by_variance(sample, basis, compute);
  orthonormalise(basis, compute);
  return basis;
}

namespace {

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
    : d_(vectors.cols), widths_(std::move(widths)), centre_(vectors.cols, 0.0f) {
  canonical_error_ = gamma(static_cast<double>(d_) / 32 + 10);
  for (const std::size_t w : widths_) dot_error_.push_back(gamma(static_cast<double>(w) + 16));
  underflow_ = static_cast<double>(d_) * kUnderflow;
  reach_scale_ = kSlack / (1 - canonical_error_);
  const std::size_t others = std::min(more.rows, kSampleRows / 3);
  const std::size_t own = std::min(vectors.rows, kSampleRows - others);
  const std::size_t n = own + others;
  if (n == 0) {
    widths_.clear();
    return;
  }
  Vectors sample(widths_.empty() ? 0 : n, d_);
  std::vector<double> sums(d_, 0.0);
  std::vector<float> scratch(d_);
  for (std::size_t i = 0; i < n; ++i) {
    const float* row = i < own ? vectors.row(i * vectors.rows / own, scratch.data())
                               : more.row((i - own) * more.rows / others, scratch.data());
    // A bad row must not spoil the centre: it is reported when it is embedded.
    if (!std::all_of(row, row + d_, [](float x) { return std::isfinite(x); })) continue;
    kernels::add_columns(&row, 1, d_, sums.data());
    if (!widths_.empty()) std::copy(row, row + d_, sample.row(i));
  }
  for (std::size_t j = 0; j < d_; ++j) {
    centre_[j] = static_cast<float>(sums[j] / static_cast<double>(n));
  }
  if (widths_.empty()) return;

  // Scaled to a largest norm of one, so that products of small or large values stay in range.
  float largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float norm = kernels::subtract(sample.row(i), centre_.data(), d_, sample.row(i));
    largest = std::max(largest, norm);
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(largest));
  for (std::size_t i = 0; i < n * d_; ++i) {
    sample.data()[i] = static_cast<float>(static_cast<double>(sample.data()[i]) * scale);
  }
  Vectors basis(d_, total_width());
  if (std::isfinite(scale) && all_finite(sample)) {
    basis = principal_directions(sample, total_width(), compute);
    if (!all_finite(basis)) basis = Vectors(d_, total_width());
  }
  panels_ = pack_panels(basis.data(), d_, total_width(), basis.cols());

  // The Frobenius norm of VᵀV − I over the directions that are not zero, at each level.
  const Vectors rows = transpose(basis, compute);
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
  constexpr std::size_t kRows = kernels::kProjectRows;
  const std::size_t width = total_width();
  const std::size_t padded = (width + kernels::kPanel - 1) / kernels::kPanel * kernels::kPanel;
  Vectors out(vectors.rows, row_floats());

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
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> done{0};

  compute.threads().run(blocks, [&](std::size_t block, std::size_t worker) {
    if (stop.load(std::memory_order_relaxed)) return;
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
      for (std::size_t i = 0; i < n; ++i) {
        finish_row(y + i * padded, norms[i], out.row(first + i));
      }
    }
    const std::size_t finished = done.fetch_add(1, std::memory_order_relaxed) + 1;
    if (worker == 0 && progress &&
        !progress(static_cast<double>(finished) / static_cast<double>(blocks))) {
      stop.store(true, std::memory_order_relaxed);
    }
  });
  if (stop) throw Error(Error::Kind::kCancelled, "stopped");
  if (bad) throw_bad_row(vectors, name);
  if (mean != nullptr) *mean = mean_of_blocks(sums, vectors.rows, d_);
  return out;
}

void Sketch::finish_row(const float* y, float norm, float* row) const {
  std::copy(y, y + total_width(), row);
  float* r = row + total_width();
  double rest = static_cast<double>(norm);
  std::size_t j = 0;
  for (std::size_t level = 0; level < levels(); ++level) {
    for (; j < widths_[level]; ++j) rest -= static_cast<double>(y[j]) * static_cast<double>(y[j]);
    r[level] = static_cast<float>(std::sqrt(std::max(0.0, rest)));
    r[levels() + level] =
        round_up(error(level, static_cast<double>(norm), static_cast<double>(r[level])));
  }
  r[2 * levels()] = norm;
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

// ‖a − b‖² ≤ ‖y_a − y_b‖² + (r_a + r_b)² = ‖φ(a) − φ(b)‖² + 4 r_a r_b, and the errors add up.
float Sketch::upper(std::size_t level, const float* a, const float* b, float dot) const {
  const double d = static_cast<double>(d_);
  const double ea = static_cast<double>(e(a, level));
  const double eb = static_cast<double>(e(b, level));
  const double norms = static_cast<double>(norm(a)) + static_cast<double>(norm(b));
  const double rounding = (8 * kUnit + dot_error_[level]) * norms;
  const double residuals = static_cast<double>(r(a, level)) * static_cast<double>(r(b, level));
  const double squared = norms - 2 * static_cast<double>(dot) + 4 * residuals + 2 * rounding +
                         ea * ea + eb * eb + 1e-37;
  const double distance = std::sqrt(std::max(0.0, squared)) + ea + eb;
  return round_up(distance * distance * (1 + 2 * canonical_error_) * kSlack + d * kUnderflow);
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
