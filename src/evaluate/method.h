// A method that learns tasks one after the other and scores images. Adding one is a file in
// methods/ and a line in method.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/evaluate.h"
#include "contcore/nearest.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

/// G_n(Z; ∅): a prefix is the greedy coreset of its size, so one order serves many methods.
struct GreedyOrder {
  std::size_t asked = 0;  ///< n of the longest so far
  std::vector<std::int64_t> picks;
};

/// The features of a task, its classes one after the other.
struct TaskFeatures {
  std::size_t index = 0;  ///< of the task
  VectorView all;
  std::vector<std::size_t> image_ends;  ///< the row behind each image
  std::vector<std::size_t> class_ends;  ///< the row behind each class
  /// Rows of image i.
  VectorView image(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : image_ends[i - 1];
    return all.part(begin, image_ends[i] - begin);
  }
  /// The first n picks of the task's greedy order, or as many as there are distinct features. The
  /// order is found when it is first asked for, and kept for the methods after this one.
  std::span<const std::int64_t> greedy(std::size_t n, Compute& compute,
                                       const Progress& progress) const;
  GreedyOrder* order = nullptr;
};

/// How many of `rows` features a part p comes to: ⌊p·rows⌋, at least one.
std::size_t part_count(double p, std::size_t rows);

struct Scored {
  float score = 0;             ///< of a method without maps; of others it is made of the patches
  std::vector<float> patches;  ///< empty for a method without maps
};

class Method {
 public:
  virtual ~Method() = default;
  virtual void learn(const TaskFeatures& task, Compute& compute, const Progress& progress) = 0;

  /// Called after learning, before scores are asked for.
  virtual void prepare(Compute& compute) = 0;

  /// The image of a class (its place in the schedule; only for methods that are told). Called from
  /// several threads at once, each with a crew of its own.
  virtual Scored score(VectorView patches, std::size_t product, Compute& compute) const = 0;

  /// The vectors it scores with; none for a method that keeps something else.
  virtual Vectors coreset() const = 0;

  virtual std::size_t vectors() const = 0;
  virtual std::uint64_t numbers() const = 0;  ///< floats it keeps
};

struct MethodOptions {
  std::size_t dimension = 0;
  std::size_t m = 0;
  double p = 0;
  double q = 0;
  std::uint64_t seed = 0;
  std::size_t tasks = 0;  ///< for those that know: oracles
};

/// Throws Error (kUsage) naming the known ones.
std::unique_ptr<Method> make_method(const std::string& name, const MethodOptions& options);

/// One set of vectors behind the other; the first may be empty.
Vectors joined(const Vectors& a, const Vectors& b);

/// A method whose memory is a set of vectors. It says how to change them; searching is the same
/// for all.
class VectorMethod : public Method {
 public:
  explicit VectorMethod(const MethodOptions& options) : options_(options) {}
  void learn(const TaskFeatures& task, Compute& compute, const Progress& progress) override {
    index_.reset();
    update(task, compute, progress);
  }
  void prepare(Compute& compute) override;
  Scored score(VectorView patches, std::size_t product, Compute& compute) const override;
  Vectors coreset() const override { return joined({}, memory_); }
  std::size_t vectors() const override { return memory_.rows(); }
  std::uint64_t numbers() const override { return memory_.rows() * memory_.cols(); }

 protected:
  virtual void update(const TaskFeatures& task, Compute& compute, const Progress& progress) = 0;

  MethodOptions options_;
  Vectors memory_;

 private:
  std::optional<NearestIndex> index_;
};

/// Scores by the distances to the nearest vectors.
Scored score_patches(const NearestIndex& index, VectorView patches, Compute& compute);

using MakeMethod = std::unique_ptr<Method> (*)(const MethodOptions&);
std::unique_ptr<Method> make_contcore(const MethodOptions& options);
std::unique_ptr<Method> make_contcore_online(const MethodOptions& options);
std::unique_ptr<Method> make_contcore_paper(const MethodOptions& options);
std::unique_ptr<Method> make_contcore_paper_online(const MethodOptions& options);
std::unique_ptr<Method> make_patchcore(const MethodOptions& options);
std::unique_ptr<Method> make_patchcore_unbounded(const MethodOptions& options);
std::unique_ptr<Method> make_patchcore_oracle(const MethodOptions& options);
std::unique_ptr<Method> make_patchcore_oracle_online(const MethodOptions& options);
std::unique_ptr<Method> make_random(const MethodOptions& options);
std::unique_ptr<Method> make_reservoir(const MethodOptions& options);
std::unique_ptr<Method> make_herding(const MethodOptions& options);
std::unique_ptr<Method> make_latest_only(const MethodOptions& options);
std::unique_ptr<Method> make_dne(const MethodOptions& options);

}  // namespace contcore
