// The theorem measured, and coresets side by side.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/evaluate.h"
#include "contcore/progress.h"

namespace contcore {

/// The theorem for T tasks of one class each. O is the greedy coreset of all features Z = ∪ Z_t, of
/// the memory's size; S_t and M_t are the expansions and memories on the way. H is the Hausdorff
/// distance.
struct Bound {
  std::size_t tasks = 0;            ///< T
  double distance = 0;              ///< H(O, M_T)
  double epsilon_o = 0;             ///< H(O, Z)
  std::vector<double> epsilon;      ///< ε_t = H(S_t, Z_t)
  std::vector<double> epsilon_hat;  ///< ε̂_t = H(M_t, S_t ∪ M_{t−1})
  double continued = 0;             ///< max_k (ε_k + Σ_{j ≥ k} ε̂_j)
  double bound() const { return epsilon_o + continued; }
  double certificate = 0;  ///< the memory's own, beside max_t H(Z_t → M_T) that it bounds
  double covering = 0;
};

struct BoundOptions {
  std::size_t images = 12;     ///< of each class, the first
  std::size_t per_task = 150;  ///< m = per_task · T
  double p = 0.01;
  double q = 0.75;
  std::size_t most_tasks = 10;
};

/// For T = 2 … the number of classes, at most `most_tasks`. Throws Error (kInput) with fewer than
/// two classes.
std::vector<Bound> analyze_bound(const EvaluationOptions& data, const BoundOptions& options,
                                 Compute& compute, const Progress& progress = {});

/// How near a method's coreset after the last task is to another's.
struct Likeness {
  std::string method;
  std::size_t vectors = 0;
  std::size_t overlap = 0;        ///< vectors in both
  double average_minimum = 0;     ///< mean distance of a reference vector to the nearest of it
  double sliced_wasserstein = 0;  ///< over 128 seeded directions
  double hausdorff = 0;
};

/// `settings` say the methods; the reference has its own setting. Throws Error (kUsage) for a
/// method that keeps no vectors.
std::vector<Likeness> analyze_compare(const EvaluationOptions& data,
                                      const std::vector<Setting>& settings,
                                      const Setting& reference, Compute& compute,
                                      const Progress& progress = {});

}  // namespace contcore
