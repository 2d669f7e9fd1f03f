// Vectors that behave like patch features of a trained network: clusters of very different weight
// and width, and a spectrum that falls fast (half the variance in eight directions, nine tenths in
// sixty-four). For the demonstration and the benchmarks; deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "contcore/vectors.h"

namespace contcore {

class SyntheticFeatures {
 public:
  /// One seed, one kind of product.
  SyntheticFeatures(std::size_t dimension, std::uint64_t seed);

  /// Rows come in blocks of kBlock; block b is the same whenever it is made. Writes n ≤ kBlock
  /// rows.
  static constexpr std::size_t kBlock = 1024;
  void make_block(std::size_t b, std::size_t n, float* out) const;

  Vectors make(std::size_t rows, Compute& compute) const;

 private:
  std::size_t d_;
  std::uint64_t seed_;
  std::size_t latent_;
  std::vector<float> spread_;   // standard deviation along each latent direction
  Vectors centres_;             // of the clusters, in latent coordinates
  std::vector<float> width_;    // of each cluster
  std::vector<double> weight_;  // cumulative
  std::vector<float> offset_;   // the product's mean
  Vectors panels_;              // latent × dimension, packed for kernels::project
};

}  // namespace contcore
