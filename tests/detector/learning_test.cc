#include "detector/learning.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "contcore/extractor.h"
#include "contcore/score.h"
#include "contcore/verdict.h"
#include "detector/hold_out.h"
#include "products/products.h"

namespace contcore {
namespace {

Extractor small_extractor() {
  return Extractor({"builtin", {}, Geometry::parse("96", "none"), 128});
}

std::vector<Patches> patches_of(const Extractor& extractor, std::size_t count) {
  Compute compute(1);
  std::vector<Patches> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(extractor.extract(make_product("wood", i, "", 1).image, compute));
  }
  return all;
}

// The flow by hand: what is learned is learned at once, and the others calibrate.
TEST(Learning, OfATaskIsLearningAndCalibrating) {
  const Extractor extractor = small_extractor();
  const std::vector<Patches> images = patches_of(extractor, 10);
  Compute compute(2);
  LearnHow how;
  how.task = "wood";
  how.p = 0.1;
  how.time = "t";

  Memory flow(128, 60);
  TrainingSetBuilder set(128, 1 << 20, 1 << 20);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const VectorView patches = images[i].vectors.view();
    if (i % 5 == 4) {
      set.hold_out(patches);
    } else {
      set.learn(patches);
    }
  }
  EXPECT_EQ(set.images(), 8u);
  EXPECT_EQ(set.held(), 2u);
  learn_task(flow, set.view(), how, compute);

  const std::size_t rows = images[0].vectors.rows();
  Vectors features(8 * rows, 128);
  Vectors held(2 * rows, 128);
  std::size_t learned = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < images.size(); ++i) {
    float* to = i % 5 == 4 ? held.row(kept++ * rows) : features.row(learned++ * rows);
    std::copy_n(images[i].vectors.data(), rows * 128, to);
  }
  Memory by_hand(128, 60);
  how.images = 8;
  by_hand.learn(features.view(), how, compute);
  const std::vector<std::size_t> ends = {rows, 2 * rows};
  by_hand.hold_out(held.view(), ends, "wood", compute);
  by_hand.recalibrate(compute);

  const Vectors a = flow.vectors();
  const Vectors b = by_hand.vectors();
  ASSERT_EQ(a.rows(), b.rows());
  EXPECT_TRUE(std::equal(a.data(), a.data() + a.rows() * 128, b.data()));
  EXPECT_EQ(flow.tasks()[0].images, 8u);
  EXPECT_EQ(flow.tasks()[0].held, 2u);
  EXPECT_EQ(flow.held_out_scores(0), by_hand.held_out_scores(0));
}

TEST(Learning, OfAStreamHoldsOutWhenItMay) {
  const Extractor extractor = small_extractor();
  const std::vector<Patches> images = patches_of(extractor, 12);
  Compute compute(1);
  LearnHow how;
  how.task = "wood";
  how.p = kOnlineRatio;
  Memory memory(128, 200);
  Memory all(128, 200);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const VectorView patches = images[i].vectors.view();
    EXPECT_EQ(learn_next(memory, patches, how, true, compute), i % 5 == 4) << i;
    EXPECT_FALSE(learn_next(all, patches, how, false, compute));
  }
  EXPECT_EQ(memory.tasks()[0].images, 10u);
  EXPECT_EQ(memory.tasks()[0].held, 2u);
  EXPECT_EQ(all.tasks()[0].images, 12u);
  EXPECT_TRUE(all.held_out_scores(0).empty());
}

// Whoever composes extractor, memory and verdict has what a detector would say.
TEST(Verdict, IsOfTheParts) {
  const Extractor extractor = small_extractor();
  const std::vector<Patches> images = patches_of(extractor, 8);
  Compute compute(1);
  LearnHow how;
  how.task = "wood";
  how.p = kOnlineRatio;
  Memory memory(128, 200);
  for (const Patches& patches : images) {
    learn_next(memory, patches.vectors.view(), how, true, compute);
  }
  memory.recalibrate(compute);
  const Image image = make_product("wood", 20, "", 1).image;
  const Patches patches = extractor.extract(image, compute);
  InspectOptions options;
  const Inspection seen = inspect(memory, patches, options, compute);
  const std::vector<float> distances = memory.distances(patches.vectors.view(), compute);
  EXPECT_EQ(seen.score, image_score(distances, patches.grid(), Score::kPatch));
  EXPECT_EQ(seen.task, 0u);
  EXPECT_EQ(seen.rejected, seen.score > memory.threshold(0, 0.05)->score);
  EXPECT_EQ(seen.map.width, image.width);
  EXPECT_EQ(seen.map.height, image.height);
  const Inspection judged = judge(memory, patches, distances, options);
  EXPECT_EQ(judged.score, seen.score);
  EXPECT_EQ(judged.rejected, seen.rejected);
  EXPECT_TRUE(judged.map.values.empty());
}

}  // namespace
}  // namespace contcore
