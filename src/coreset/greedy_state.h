// What greedy sampling knows at any moment: the points, the centres they are compared with, and of
// each point an upper bound of its distance to them.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "contcore/greedy.h"
#include "contcore/vectors.h"
#include "coreset/centres.h"
#include "coreset/kernels.h"
#include "coreset/row_batch.h"
#include "coreset/step_sketch.h"

namespace contcore {

/// Point-centre pairs looked at, and how far each got.
struct PairCounts {
  std::uint64_t scanned = 0;
  std::uint64_t passed = 0;   ///< what the sketch left open when it was scanned
  std::uint64_t touched = 0;  ///< points whose full vector was read
  std::uint64_t exact = 0;    ///< full distances after the sketch
  std::uint64_t dense = 0;    ///< full distances without it
  std::uint64_t full = 0;     ///< full distances, each time one was computed

  void add(const PairCounts& other) {
    scanned += other.scanned;
    passed += other.passed;
    touched += other.touched;
    exact += other.exact;
    dense += other.dense;
    full += other.full;
  }
};

/// Centres that may or may not be nearer than a point's bound; the rest is kNoCentre.
inline constexpr std::size_t kMostPending = 4;
inline constexpr std::uint32_t kNoCentre = std::numeric_limits<std::uint32_t>::max();
using PendingCentres = std::array<std::uint32_t, kMostPending>;
inline constexpr PendingCentres kNothingPending = {kNoCentre, kNoCentre, kNoCentre, kNoCentre};

/// The bound of a point that was picked.
inline constexpr float kPicked = -1;

/// The centres that the cascade leaves open for one point.
struct OpenCentres {
  std::vector<std::uint32_t> centre;
  std::vector<const std::uint8_t*> sketch;
  std::vector<std::int32_t> dot;
  std::vector<std::int32_t> acc;   ///< the test's value: the larger, the nearer
  std::vector<std::size_t> order;  ///< by acc, decreasing
};

/// What each thread counts, and its scratch memory.
struct alignas(64) GreedyWorker {
  PairCounts counts;
  std::array<OpenCentres, kernels::kScanPoints> open;
  RowBatch points;
  RowBatch centres;
  std::vector<float> distances;
};

struct GreedyState {
  GreedyState(VectorView all, VectorView covered) : points(all), base(covered) {}
  GreedyState(const GreedyState&) = delete;
  GreedyState& operator=(const GreedyState&) = delete;

  VectorView points;
  VectorView base;
  StepSketch sketch;
  Vectors sketches;                      ///< of the points
  Vectors base_sketches;                 ///< of the base
  Centres centres{sketch};               ///< the base, then the picks
  std::vector<float> bound;              ///< of each point: canonical squared distance, or above it
  std::vector<std::uint32_t> seen;       ///< the end of the picks that bound accounts for
  std::vector<std::uint32_t> base_seen;  ///< and of the base
  std::vector<PendingCentres> pending;   ///< and which of them it leaves open
  std::vector<GreedyWorker> workers;     ///< one a thread
  GreedyResult result;

  void pick(std::size_t i, float squared_radius) {
    result.picks.push_back(static_cast<std::int64_t>(i));
    result.radii.push_back(std::sqrt(squared_radius));
    centres.add(points, i, sketches.byte_row(i));
    bound[i] = kPicked;
  }
};

}  // namespace contcore
