#include "coreset/step_sketch.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "coreset/directions.h"
#include "coreset/kernels.h"

namespace contcore {
namespace {

constexpr double kMost = 127;    // steps
constexpr double kUsual = 100;   // where all but a thousandth of the sample's numbers lie
constexpr double kSpare = 1e-3;  // steps: covers float32 where numbers become steps

// The columns of a basis that are not zero, less the last of `width`, turned among themselves so
// that each has a part of all: one size of steps then suits them all. (The discrete Hartley
// transform.)
Vectors spread_columns(const Vectors& basis, std::size_t width, Compute& compute) {
  std::vector<std::size_t> columns;
  for (std::size_t j = 0; j < basis.cols() && columns.size() + 1 < width; ++j) {
    bool zero = true;
    for (std::size_t i = 0; i < basis.rows() && zero; ++i) zero = basis.row(i)[j] == 0;
    if (!zero) columns.push_back(j);
  }
  const std::size_t n = columns.size();
  Vectors turn(basis.cols(), width);
  const double angle = 2 * std::numbers::pi / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double x = angle * static_cast<double>(i * j % n);
      turn.row(columns[i])[j] =
          static_cast<float>((std::cos(x) + std::sin(x)) / std::sqrt(static_cast<double>(n)));
    }
  }
  return multiply(basis, turn, compute);
}

double nth_largest(std::vector<float>& values, std::size_t n) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::min(n, values.size() - 1));
  std::nth_element(values.begin(), at, values.end(), std::greater<>());
  return static_cast<double>(*at);
}

}  // namespace

StepSketch::StepSketch(VectorView vectors, VectorView more, std::size_t width, Compute& compute)
    : d_(vectors.cols), scalar_(vectors.scalar), width_(width) {
  const Directions fitted = fit_directions(vectors, more, width, compute);
  centre_ = fitted.centre;
  Directions spread;
  spread.centre = fitted.centre;
  if (width > 0) {
    spread.basis = spread_columns(fitted.basis, width, compute);
    choose_step(fitted, spread.basis, compute);
  }
  reach_scale_ = kSlack / (step_ * step_);
  if (scalar_ == Scalar::kUint8) {
    for (float& c : centre_) c = std::round(c);
    byte_centre_.assign(centre_.begin(), centre_.end());
    if (width_ > 0) round_directions(spread.basis);
  } else {
    floats_ = width_ > 0 ? Sketch(spread, {width_}, compute) : Sketch(spread, {}, compute);
    underflow_ = static_cast<double>(d_) * kUnderflow;
    reach_scale_ /= 1 - floats_.canonical_error();
  }
}

// The step, and which r is step 0, from a part of the sample.
void StepSketch::choose_step(const Directions& fitted, const Vectors& basis, Compute& compute) {
  constexpr std::size_t kRows = 512;
  const std::size_t n = std::min(kRows, fitted.sample.rows());
  Vectors part(n, d_);
  for (std::size_t i = 0; i < n; ++i) {
    const float* row = fitted.sample.row(i * fitted.sample.rows() / n);
    std::copy(row, row + d_, part.row(i));
  }
  const Vectors along = multiply(part, basis, compute);
  std::vector<float> sizes;
  std::vector<float> rests;
  for (std::size_t i = 0; i < n; ++i) {
    double rest = kernels::dot64(part.row(i), part.row(i), d_);
    for (std::size_t j = 0; j < width_; ++j) {
      const float y = along.row(i)[j];
      rest -= static_cast<double>(y) * static_cast<double>(y);
      sizes.push_back(std::abs(y));
    }
    rests.push_back(static_cast<float>(std::sqrt(std::max(0.0, rest))));
  }
  step_ = nth_largest(sizes, sizes.size() / 1000) * fitted.sample_length / kUsual;
  middle_ = nth_largest(rests, rests.size() / 2) * fitted.sample_length / step_;
  if (step_ > 1e-15 && step_ < 1e15) return;
  width_ = 0;  // nothing to tell vectors apart by, or out of range
  step_ = 1;
}

// The directions times a factor, in whole numbers from −127 to 127. The factor is as large as it
// can be while every product with a difference of bytes stays below 2²⁴, exact in float32.
void StepSketch::round_directions(const Vectors& basis) {
  const std::size_t width = width_;
  double largest = 0;
  double longest = 0;
  for (std::size_t j = 0; j < width; ++j) {
    double sum = 0;
    for (std::size_t i = 0; i < d_; ++i) {
      const double value = std::abs(static_cast<double>(basis.row(i)[j]));
      largest = std::max(largest, value);
      sum += value;
    }
    longest = std::max(longest, sum);
  }
  const double most = (0x1p24 / 256 - static_cast<double>(d_) / 2) / longest;
  // Of very long vectors none is: all are 0, which tell nothing apart but claim nothing either.
  const double factor = largest > 0 && most > 0 ? std::min(127 / largest, most) : 0;
  panels_.assign((d_ + 3) / 4 * 4 * width, 0);
  offset_.assign(width, 0);
  Eigen::MatrixXd whole(width, d_);
  for (std::size_t i = 0; i < d_; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      const auto p = static_cast<int>(std::lround(static_cast<double>(basis.row(i)[j]) * factor));
      panels_[(i / 4 * width + j) * 4 + i % 4] = static_cast<std::int8_t>(p);
      offset_[j] += p * byte_centre_[i];
      whole(static_cast<Eigen::Index>(j), static_cast<Eigen::Index>(i)) = p;
    }
  }
  // The largest eigenvalue of P Pᵀ, whose entries are whole and exact, with ample room for the
  // solver's rounding.
  const Eigen::MatrixXd gram = whole * whole.transpose();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  unit_ = std::sqrt(std::max(1.0, solver.eigenvalues().maxCoeff()) * (1 + 1e-9));
}

double StepSketch::centre_length() const {
  double squared = 0;
  for (const float c : centre_) squared += static_cast<double>(c) * static_cast<double>(c);
  return std::sqrt(squared);
}

Vectors StepSketch::embed(VectorView vectors, const std::string& name, Compute& compute,
                          std::vector<float>* mean, const Progress& progress) {
  Vectors out(vectors.rows, row_bytes(width_), Scalar::kUint8);
  std::vector<double> largest(compute.threads().count() * 8);  // each in a cache line of its own
  const Sketch::UseProjected use = [&](const Sketch::Projected& rows, std::size_t worker) {
    double most = 0;
    for (std::size_t i = 0; i < rows.n; ++i) {
      most = std::max(
          most, write_row(rows.y + i * rows.stride, rows.norms[i], out.byte_row(rows.first + i)));
    }
    largest[worker * 8] = std::max(largest[worker * 8], most);
  };
  if (scalar_ == Scalar::kUint8) {
    project_bytes(vectors, compute, mean, progress, use);
  } else {
    floats_.project(vectors, name, compute, mean, progress, use);
  }
  for (const double error : largest) error_ = std::max(error_, error + kSpare);
  return out;
}

void StepSketch::project_bytes(VectorView vectors, Compute& compute, std::vector<float>* mean,
                               const Progress& progress, const Sketch::UseProjected& use) const {
  constexpr std::size_t kRows = kernels::kProjectRows;
  constexpr std::size_t kBlock = 512;
  const std::size_t threads = compute.threads().count();
  const std::size_t width = std::max<std::size_t>(16, width_);
  Vectors projected(threads * kRows, width);
  std::vector<std::uint64_t> sums(threads * d_, 0);
  run_with_progress((vectors.rows + kBlock - 1) / kBlock, compute, progress,
                    [&](std::size_t block, std::size_t worker) {
                      const std::size_t end = std::min(vectors.rows, (block + 1) * kBlock);
                      for (std::size_t first = block * kBlock; first < end; first += kRows) {
                        const std::size_t n = std::min(kRows, end - first);
                        const std::uint8_t* rows[kRows];
                        float norms[kRows];
                        for (std::size_t i = 0; i < n; ++i) rows[i] = vectors.byte_row(first + i);
                        const std::uint8_t* centre = byte_centre_.data();
                        kernels::squared_distances(&centre, 1, rows, n, d_, norms);
                        if (mean != nullptr)
                          kernels::add_byte_columns(rows, n, d_, sums.data() + worker * d_);
                        float* y = projected.row(worker * kRows);
                        if (width_ > 0) {
                          kernels::project_bytes(rows, n, d_, panels_.data(), width_,
                                                 offset_.data(), y, width);
                        }
                        use({first, n, y, width, norms}, worker);
                      }
                    });
  if (mean == nullptr) return;
  mean->assign(d_, 0.0f);
  for (std::size_t j = 0; j < d_; ++j) {
    std::uint64_t sum = 0;
    for (std::size_t at = j; at < sums.size(); at += d_) sum += sums[at];
    (*mean)[j] = static_cast<float>(static_cast<double>(sum) / static_cast<double>(vectors.rows));
  }
}

// r and what it and the projections may be off, in steps.
StepSketch::Rest StepSketch::rest_of(float norm, double squared) const {
  if (scalar_ != Scalar::kUint8) {
    const Sketch::Rest rest = floats_.rest_of(0, norm, squared);
    return {static_cast<double>(rest.r) / step_, static_cast<double>(rest.e) / step_};
  }
  const double n = static_cast<double>(norm);
  const double rest = std::max(0.0, n - squared / (unit_ * unit_));
  const double off = n * (n < 0x1p24 ? 1e-15 : 2 * kUnit);  // whole numbers, rounded above 2²⁴
  const double r = std::sqrt(rest);
  return {r / step_, std::min(std::sqrt(off), r > 0 ? off / r : kMost * step_) / step_};
}

// Returns E, or 0 where it is too large for the steps to be of use.
double StepSketch::write_row(const float* y, float norm, std::uint8_t* row) const {
  Tail tail;
  tail.squared_distance = norm;
  double error = 0;
  if (width_ > 0) {
    kernels::StepSums sums;
    kernels::to_steps(y, width_, static_cast<float>(1 / (step_ * unit_)), row, &sums);
    const Rest rest = rest_of(norm, sums.squared);
    const double exact = rest.r - middle_;
    const double within = std::clamp(exact, -kMost, kMost);
    const auto k = static_cast<std::int32_t>(std::lround(within));
    const double off = within - k;
    row[width_ - 1] = static_cast<std::uint8_t>(k + 128);
    tail.norm = sums.norm + k * k;
    tail.clipped = sums.clipped || within != exact ? 1 : 0;
    error = std::sqrt(sums.error + off * off) + rest.error;
    if (!(error <= 2 * std::sqrt(static_cast<double>(width_)))) {
      tail.norm = kUnknown;
      error = 0;
    }
  }
  std::memcpy(row + width_, &tail, sizeof(tail));
  return error;
}

// ‖a − b‖ ≤ ‖(Pa − Pb, r_a + r_b)‖, and (r_a + r_b)² = (r_a − r_b)² + 4 r_a r_b.
float StepSketch::upper(const std::uint8_t* a, const std::uint8_t* b, std::int32_t dot) const {
  const Tail of_a = tail(a);
  const Tail of_b = tail(b);
  if (of_a.clipped + of_b.clipped > 0 || of_a.norm == kUnknown || of_b.norm == kUnknown) {
    return kInfinity;
  }
  const double middle = middle_ - 128;
  const double rests = (a[width_ - 1] + middle) * (b[width_ - 1] + middle);
  const double squared = of_a.norm + of_b.norm - 2.0 * dot + 4 * rests;
  const double distance = (std::sqrt(std::max(0.0, squared)) + 2 * error_) * step_;
  const double canonical = scalar_ == Scalar::kUint8 ? 0 : 2 * floats_.canonical_error();
  return round_up(distance * distance * (1 + canonical) * kSlack + underflow_);
}

}  // namespace contcore
