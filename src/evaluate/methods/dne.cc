// DNE: of each task the mean and covariance of one feature for each image (here the mean of its
// patches) are kept. An image scores by the Mahalanobis distance to the Gaussian of all tasks
// together, whose moments follow from theirs. There is no map.
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "evaluate/method.h"

namespace contcore {
namespace {

Eigen::VectorXd mean_patch(VectorView patches) {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(patches.cols));
  std::vector<float> scratch(patches.cols);
  for (std::size_t i = 0; i < patches.rows; ++i) {
    const float* row = patches.row(i, scratch.data());
    for (std::size_t j = 0; j < patches.cols; ++j) {
      sum[static_cast<Eigen::Index>(j)] += static_cast<double>(row[j]);
    }
  }
  return sum / static_cast<double>(patches.rows);
}

struct Gaussian {
  double images = 0;
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
};

// With fewer images than dimensions the covariance is singular; Ledoit and Wolf's estimate moves it
// towards a multiple of the identity by as much as the images' own spread asks for.
Gaussian fit(const Eigen::MatrixXd& features) {  // a column for each image
  const auto n = static_cast<double>(features.cols());
  const auto d = static_cast<double>(features.rows());
  Gaussian g;
  g.images = n;
  g.mean = features.rowwise().mean();
  const Eigen::MatrixXd centred = features.colwise() - g.mean;
  g.covariance = centred * centred.transpose() / n;
  const double scale = g.covariance.trace() / d;
  const double squared = g.covariance.squaredNorm();
  double fourth = 0;  // Σ ‖z zᵀ‖²
  for (Eigen::Index i = 0; i < centred.cols(); ++i) {
    const double norm = centred.col(i).squaredNorm();
    fourth += norm * norm;
  }
  const double apart = squared - d * scale * scale;  // ‖S − µI‖²
  const double noise = (fourth / n - squared) / n;   // ‖S − Σ‖², estimated
  const double shrink = apart > 0 ? std::clamp(noise / apart, 0.0, 1.0) : 1.0;
  g.covariance *= 1 - shrink;
  // One image alone has no spread at all; something must be left to divide by.
  g.covariance.diagonal().array() += std::max(shrink * scale, 1e-6);
  return g;
}

class Dne : public Method {
 public:
  explicit Dne(const MethodOptions& /*options*/) {}

  void learn(const TaskFeatures& task, Compute& compute, const Progress& /*progress*/) override {
    const std::size_t images = task.image_ends.size();
    Eigen::MatrixXd features(static_cast<Eigen::Index>(task.all.cols),
                             static_cast<Eigen::Index>(images));
    compute.threads().run(images, [&](std::size_t i, std::size_t) {
      features.col(static_cast<Eigen::Index>(i)) = mean_patch(task.image(i));
    });
    tasks_.push_back(fit(features));
  }

  void prepare(Compute& /*compute*/) override {
    const Eigen::Index d = tasks_[0].mean.size();
    double images = 0;
    mean_ = Eigen::VectorXd::Zero(d);
    for (const Gaussian& g : tasks_) {
      images += g.images;
      mean_ += g.images * g.mean;
    }
    mean_ /= images;
    Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(d, d);
    for (const Gaussian& g : tasks_) {
      const Eigen::VectorXd off = g.mean - mean_;
      covariance += g.images / images * (g.covariance + off * off.transpose());
    }
    factor_.compute(covariance);
  }

  Scored score(VectorView patches, std::size_t /*product*/, Compute& /*compute*/) const override {
    const Eigen::VectorXd off = mean_patch(patches) - mean_;
    return {static_cast<float>(std::sqrt(std::max(0.0, off.dot(factor_.solve(off))))), {}};
  }

  Vectors coreset() const override { return {}; }
  std::size_t vectors() const override { return tasks_.size(); }
  std::uint64_t numbers() const override {
    if (tasks_.empty()) return 0;
    const auto d = static_cast<std::uint64_t>(tasks_[0].mean.size());
    return tasks_.size() * (d + d * (d + 1) / 2);
  }

 private:
  std::vector<Gaussian> tasks_;
  Eigen::VectorXd mean_;
  Eigen::LLT<Eigen::MatrixXd> factor_;
};

}  // namespace

std::unique_ptr<Method> make_dne(const MethodOptions& options) {
  return std::make_unique<Dne>(options);
}

}  // namespace contcore
