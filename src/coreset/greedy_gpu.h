// Greedy sampling on a GPU: the answer of greedy_sample to the last bit.
//
// A round
//   1. finds the few thousand points that are farthest, by (distance, index): the survivors;
//   2. measures all survivors against each other;
//   3. runs the plain loop on them, in one block of threads, as long as the farthest of them comes
//      before all other points in that order: each of these picks is the pick of the plain loop;
//   4. compares all points with the new centres.
// Products of bytes on tensor cores are so fast that nothing is put off: of vectors of bytes 4 is
// one product of matrices, and exact. Of floats it is the same product of their codes, bytes as in
// coreset/step_sketch.h, which proves nearly all pairs too far apart to matter; the rest is
// measured.
//
// The points are in the GPU's memory, all of them or, where they do not fit, in parts: then they
// pass through it each time all are compared, and the survivors and centres of a round are copied
// there by themselves. A bound of each point is always there.
#pragma once

#include <cstddef>
#include <vector>

#include "contcore/greedy.h"
#include "device/gpu.h"

namespace contcore {

/// For the tests: small ones make many rounds and all detours on small inputs.
struct GpuGreedyLimits {
  std::size_t survivors = 0;   ///< of a round, at most 4096; 0: chosen by what the rounds yield
  std::size_t centres = 2048;  ///< that points are compared with at a time
  std::size_t pairs = 0;       ///< that the codes may leave open at a time; 0: chosen by size
  std::size_t resident = 0;    ///< bytes of points on the GPU at a time, no less than kMeanBlock
                               ///< points; 0: what its free memory allows
  bool codes = true;           ///< whether floats have any
};

/// Whether the GPU is worth its while, and can do it at all.
bool greedy_pays_on_gpu(VectorView points, VectorView base, const GreedyOptions& options);

/// greedy_sample_tuned for input that was checked. Throws GpuMemoryError where not even a small
/// part of the points and what is kept of each of them fit.
GreedyResult greedy_sample_on_gpu(Gpu& gpu, VectorView points, VectorView base,
                                  const GreedyOptions& options, Compute& compute,
                                  const GpuGreedyLimits& limits = {},
                                  const std::vector<float>* initial = nullptr);

}  // namespace contcore
