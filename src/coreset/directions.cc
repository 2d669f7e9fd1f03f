#include "coreset/directions.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "coreset/kernels.h"

namespace contcore {
namespace {

constexpr std::size_t kSampleRows = 2048;

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

Directions fit_directions(VectorView vectors, VectorView more, std::size_t width,
                          Compute& compute) {
  const std::size_t d = vectors.cols;
  Directions out;
  out.centre.assign(d, 0.0f);
  const std::size_t others = std::min(more.rows, kSampleRows / 3);
  const std::size_t own = std::min(vectors.rows, kSampleRows - others);
  const std::size_t n = own + others;
  if (n == 0) return out;
  out.sample = Vectors(width == 0 ? 0 : n, d);
  std::vector<double> sums(d, 0.0);
  std::vector<float> scratch(d);
  for (std::size_t i = 0; i < n; ++i) {
    const float* row = i < own ? vectors.row(i * vectors.rows / own, scratch.data())
                               : more.row((i - own) * more.rows / others, scratch.data());
    // A bad row must not spoil the centre: it is reported when it is embedded.
    if (!std::all_of(row, row + d, [](float x) { return std::isfinite(x); })) continue;
    kernels::add_columns(&row, 1, d, sums.data());
    if (width > 0) std::copy(row, row + d, out.sample.row(i));
  }
  for (std::size_t j = 0; j < d; ++j) {
    out.centre[j] = static_cast<float>(sums[j] / static_cast<double>(n));
  }
  if (width == 0) return out;

  // Scaled to a largest norm of one, so that products of small or large values stay in range.
  float largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float* row = out.sample.row(i);
    largest = std::max(largest, kernels::subtract(row, out.centre.data(), d, row));
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(largest));
  for (std::size_t i = 0; i < n * d; ++i) {
    out.sample.data()[i] = static_cast<float>(static_cast<double>(out.sample.data()[i]) * scale);
  }
  out.basis = Vectors(d, width);
  if (!std::isfinite(scale) || !all_finite(out.sample)) return out;
  out.sample_length = std::sqrt(static_cast<double>(largest));
  out.basis = principal_directions(out.sample, width, compute);
  if (!all_finite(out.basis)) out.basis = Vectors(d, width);
  return out;
}

}  // namespace contcore
