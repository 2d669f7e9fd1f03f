// What the evaluation and the analyses share: products in the order of the schedule, and their
// features.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contcore/evaluate.h"
#include "contcore/extractor.h"
#include "detector/feature_store.h"
#include "evaluate/feature_cache.h"
#include "evaluate/method.h"

namespace contcore {

/// The progress to report while the features of these files are extracted.
using Extracting = std::function<Progress(const std::vector<std::string>&)>;

struct Evaluation::State {
  explicit State(const EvaluationOptions& options);

  /// The features of a task to learn, `joined` as one set or class by class alone; valid as long
  /// as the returned object.
  struct Task {
    TaskFeatures features;
    std::vector<std::shared_ptr<const ImageFeatures>> classes;
    std::unique_ptr<FeatureStore> together;  // of several classes
  };
  Task task(std::size_t t, Compute& compute, const Extracting& extracting = {}, bool joined = true);

  std::shared_ptr<const ImageFeatures> train(std::size_t product, Compute& compute,
                                             const Progress& progress) const;
  std::shared_ptr<const ImageFeatures> test(std::size_t product, Compute& compute,
                                            const Progress& progress) const;

  /// Throws Error (kUsage) on parameters out of range.
  std::unique_ptr<Method> method(const Setting& setting) const;

  /// Evaluation::run, of all ranks where there are any.
  RunResult run(const Setting& setting, Compute& compute, Ranks* ranks, const Progress& progress,
                bool* from_cache);

  /// Where results are kept; empty: nowhere.
  std::string result_folder() const {
    return options.cache.empty() ? "" : options.cache + "/results";
  }

  /// Of everything a result depends on, but for the program.
  std::string result_key(const Setting& setting) const;

  EvaluationOptions options;
  std::string backbone;  // as it was asked for, or the default
  std::vector<Product> products;
  Schedule schedule;
  Extractor extractor;
  FeatureCache cache;
  std::deque<GreedyOrder> orders;  // of each task
};

/// Files of a product's test images.
std::vector<std::string> test_files(const Product& product);

}  // namespace contcore
