// A backbone on an engine that is not oneDNN.
#include "backbone/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backbone/net.h"
#include "backbone/onnx_writer.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using testing::Ints;
using testing::Net;
using testing::random_image;
using testing::TemporaryFile;

// Runs what it can: one step, a mean over windows that neither overlap nor hang over.
class MeanProgram : public Program {
 public:
  MeanProgram(const Shape& in, const Shape& out) : in_(in), out_(out) {}

  std::vector<FeatureMap> run(const float* image) override {
    const auto dim = [](const Shape& shape, std::size_t i) {
      return static_cast<std::size_t>(shape[i]);
    };
    const std::size_t h = dim(out_, 2), w = dim(out_, 3);
    const std::size_t step_y = dim(in_, 2) / h, step_x = dim(in_, 3) / w;
    map_.assign(3 * h * w, 0.0f);
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t y = 0; y < h * step_y; ++y) {
        for (std::size_t x = 0; x < w * step_x; ++x) {
          const float pixel = image[(c * dim(in_, 2) + y) * dim(in_, 3) + x];
          map_[((y / step_y) * w + x / step_x) * 3 + c] +=
              pixel / static_cast<float>(step_y * step_x);
        }
      }
    }
    return {{3, h, w, map_.data()}};
  }

 private:
  Shape in_, out_;
  std::vector<float> map_;
};

struct Compiled {
  Shape shape;
  std::size_t threads = 0;
};

class MeanEngine : public Engine {
 public:
  explicit MeanEngine(std::vector<Compiled>& log) : log_(log) {}

  std::unique_ptr<Program> compile(const Plan& plan, const std::vector<PlanOutput>& outputs,
                                   Compute& compute) override {
    if (plan.steps.size() != 1 || plan.steps[0].kind != Step::Kind::kMeanPool) {
      throw Error(Error::Kind::kInput, "this engine takes means only");
    }
    const Shape& in = plan.values[plan.input].shape;
    log_.push_back({in, compute.threads().count()});
    return std::make_unique<MeanProgram>(in, plan.values[outputs.at(0).value].shape);
  }

 private:
  std::vector<Compiled>& log_;
};

TEST(BackboneEngine, AnotherOneRunsTheNetwork) {
  Net net;
  net.add("AveragePool", {"image"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, "y");
  net.graph().outputs = {"y"};
  const TemporaryFile file(net.graph());
  std::vector<Compiled> log;
  const Backbone other(file.path(), {"y"}, std::make_unique<MeanEngine>(log));
  const Backbone usual(file.path(), {"y"});
  auto runner = other.runner(), usual_runner = usual.runner();
  Compute one(1), two(2);
  for (const auto& [height, width] : {std::pair<std::size_t, std::size_t>(6, 8), {4, 10}, {6, 8}}) {
    const std::vector<float> image = random_image(height, width);
    const FeatureMap map = runner.run(image, height, width, one).at(0);
    const FeatureMap expected = usual_runner.run(image, height, width, one).at(0);
    ASSERT_EQ(map.channels, expected.channels);
    ASSERT_EQ(map.height, expected.height);
    ASSERT_EQ(map.width, expected.width);
    for (std::size_t i = 0; i < map.channels * map.height * map.width; ++i) {
      EXPECT_NEAR(map.data[i], expected.data[i], 1e-6f);
    }
  }
  runner.run(random_image(6, 8), 6, 8, two);
  // Once for each size and number of threads.
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[0].shape, (Shape{1, 3, 6, 8}));
  EXPECT_EQ(log[1].shape, (Shape{1, 3, 4, 10}));
  EXPECT_EQ(log[0].threads, 1u);
  EXPECT_EQ(log[2].threads, 2u);
}

TEST(BackboneEngine, RefusesWithTheFilesName) {
  Net net;
  net.add("Relu", {"image"}, {}, "y");
  net.graph().outputs = {"y"};
  const TemporaryFile file(net.graph());
  std::vector<Compiled> log;
  const Backbone backbone(file.path(), {"y"}, std::make_unique<MeanEngine>(log));
  Compute one(1);
  try {
    backbone.runner().run(random_image(4, 4), 4, 4, one);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    EXPECT_EQ(error.what(), file.path() + ": this engine takes means only");
  }
}

}  // namespace
}  // namespace contcore
