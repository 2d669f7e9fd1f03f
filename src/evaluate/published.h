// What the paper prints, to stand beside what was measured here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "contcore/evaluate.h"

namespace contcore {

/// One line of the paper's tables. Its figures are of the paper's own backbones and memory sizes,
/// with the classes in alphabetical order.
struct Published {
  std::string method;    ///< as methods() calls it, or the paper's name in lower case
  std::string name;      ///< as the paper writes it
  std::string backbone;  ///< empty: the paper does not say
  std::size_t m = 0;     ///< 0: the paper does not say, or the method has none
  /// "10-1x5", "mvtec>visa"; "all": the mean over all its schedules of the data set; "none": all
  /// classes at once, or each on its own.
  std::string schedule;
  Measures average;
  Measures forgetting;

  /// Where the figures are not of the very schedule: what they are of. Empty otherwise.
  std::string remark() const;
  /// Whether AP and AUPRO are the same figures throughout, so that one of them must be a misprint.
  bool repeats_itself() const;
};

/// All lines for a data set (told by its folder's name: "mvtec", "visa" or "real" in it) and the
/// numbers of classes in its tasks: first those of that schedule, then the means over all schedules
/// and those without tasks. Two data sets, one after the other, are told by a '>' in `schedule`.
/// Nothing when the paper has nothing: another data set, or another number of classes.
std::vector<Published> published(const std::string& dataset, const std::string& schedule,
                                 const std::vector<std::size_t>& task_sizes);

/// The lines beside which a method of ours stands: those of the very schedule, or else the others.
std::vector<Published> published_for(const std::string& method,
                                     const std::vector<Published>& lines);

/// "10-1x5" for {10, 1, 1, 1, 1, 1}.
std::string schedule_of(const std::vector<std::size_t>& task_sizes);

/// The paper's ContCore on MVTec AD, on an RTX 3090.
struct PublishedEfficiency {
  std::size_t m = 20000;
  double gflops = 9.24;
  double parameters = 45.3e6;
  double test_seconds = 0.0391;
  double train_seconds = 754;
};

}  // namespace contcore
