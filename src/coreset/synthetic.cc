#include "coreset/synthetic.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "coreset/kernels.h"

namespace contcore {
namespace {

constexpr std::size_t kClusters = 400;
constexpr float kNoise = 0.02f;  // along every direction, beside the latent ones

// Near enough to normal for its purpose, from one draw: the sum of four 16-bit uniforms.
float quick_normal(Random& random) {
  const std::uint64_t x = random.next();
  const auto part = [&](int shift) { return static_cast<float>((x >> shift) & 0xffff); };
  return (part(0) + part(16) + part(32) + part(48) - 131070.0f) * (1.7320508f / 65536.0f);
}

}  // namespace

SyntheticFeatures::SyntheticFeatures(std::size_t dimension, std::uint64_t seed)
    : d_(dimension), seed_(seed), latent_(std::min<std::size_t>(256, dimension)) {
  Random random(seed * 0x9e3779b97f4a7c15u + 1);
  for (std::size_t j = 0; j < latent_; ++j) {
    spread_.push_back(10.0f * std::pow(static_cast<float>(j) + 4.0f, -0.95f));
  }
  centres_ = Vectors(kClusters, latent_);
  double total = 0;
  for (std::size_t c = 0; c < kClusters; ++c) {
    for (std::size_t j = 0; j < latent_; ++j) {
      centres_.row(c)[j] = 1.2f * spread_[j] * random.gaussian();
    }
    width_.push_back(0.35f * std::exp(0.6f * random.gaussian()));
    total += 1.0 / (static_cast<double>(c) + 3.0);
    weight_.push_back(total);
  }
  for (double& w : weight_) w /= total;
  for (std::size_t j = 0; j < d_; ++j) offset_.push_back(0.3f * random.gaussian());

  // Random directions of about unit length; nearly orthogonal in so many dimensions.
  const std::size_t count = (d_ + kernels::kPanel - 1) / kernels::kPanel;
  panels_ = Vectors(count * latent_, kernels::kPanel);
  const float unit = 1.0f / std::sqrt(static_cast<float>(d_));
  for (std::size_t i = 0; i < panels_.rows() * kernels::kPanel; ++i) {
    panels_.data()[i] = unit * quick_normal(random);
  }
}

void SyntheticFeatures::make_block(std::size_t b, std::size_t n, float* out) const {
  Random random(seed_ ^ ((b + 1) * 0xd1342543de82ef95u));
  const std::size_t padded = (d_ + kernels::kPanel - 1) / kernels::kPanel * kernels::kPanel;
  Vectors latent(kernels::kProjectRows, latent_);
  Vectors projected(kernels::kProjectRows, padded);
  for (std::size_t first = 0; first < n; first += kernels::kProjectRows) {
    const std::size_t rows = std::min(kernels::kProjectRows, n - first);
    const float* pointers[kernels::kProjectRows];
    for (std::size_t i = 0; i < rows; ++i) {
      const auto at = std::lower_bound(weight_.begin(), weight_.end(), random.uniform());
      const auto c =
          std::min<std::size_t>(kClusters - 1, static_cast<std::size_t>(at - weight_.begin()));
      for (std::size_t j = 0; j < latent_; ++j) {
        latent.row(i)[j] = centres_.row(c)[j] + width_[c] * spread_[j] * quick_normal(random);
      }
      pointers[i] = latent.row(i);
    }
    kernels::project(pointers, rows, latent_, panels_.data(), padded, projected.data(), padded);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < d_; ++j) {
        out[(first + i) * d_ + j] =
            offset_[j] + projected.row(i)[j] + kNoise * quick_normal(random);
      }
    }
  }
}

Vectors SyntheticFeatures::make(std::size_t rows, Compute& compute) const {
  Vectors out(rows, d_);
  compute.threads().run((rows + kBlock - 1) / kBlock, [&](std::size_t b, std::size_t) {
    make_block(b, std::min(kBlock, rows - b * kBlock), out.row(b * kBlock));
  });
  return out;
}

}  // namespace contcore
