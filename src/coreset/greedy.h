// The greedy sampler with its tuning exposed, for the tests and for samplers built on it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "contcore/greedy.h"

namespace contcore {

/// Throws what is said against input before it is looked at; `rows`: of all points, which may be
/// more than these.
void check_greedy(VectorView points, std::size_t rows, VectorView base,
                  const GreedyOptions& options);

struct GreedyTuning {
  /// The sketch's width; nothing: chosen by size and memory limit; 0: no sketch.
  std::optional<std::size_t> width;
  /// How many points a round brings up to date; 0: chosen by size.
  std::size_t round = 0;
  /// Whether to fall back to blocks of full distances where the sketch does not pay.
  bool adaptive = true;
};

/// greedy_sample with a tuning and, where `initial` is given, with squared distances that the
/// points start from instead of a first pick (used with an empty base only).
GreedyResult greedy_sample_tuned(VectorView points, VectorView base, const GreedyOptions& options,
                                 Compute& compute, const GreedyTuning& tuning,
                                 const std::vector<float>* initial = nullptr);

}  // namespace contcore
