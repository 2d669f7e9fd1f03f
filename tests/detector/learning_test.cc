#include "detector/learning.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/extractor.h"
#include "contcore/score.h"
#include "contcore/verdict.h"
#include "products/products.h"

namespace contcore {
namespace {

Extractor small_extractor() {
  return Extractor({"builtin", {}, Geometry::parse("96", "none"), 128, Precision::kFloat});
}

std::vector<Patches> patches_of(const Extractor& extractor, std::size_t count) {
  Compute compute(1);
  std::vector<Patches> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(extractor.extract(make_product("wood", i, "", 1).image, compute));
  }
  return all;
}

LearnHow wood(double p) {
  LearnHow how;
  how.task = "wood";
  how.p = p;
  how.time = "t";
  return how;
}

// What is learned is all images, as if nothing were calibrated.
TEST(Learning, OfATaskLearnsEveryImage) {
  const Extractor extractor = small_extractor();
  const std::vector<Patches> images = patches_of(extractor, 11);
  Compute compute(2);
  TrainingSetBuilder set(128, 1 << 24);
  for (const Patches& patches : images) set.add(patches);
  Memory flow(128, 60);
  learn_task(flow, set.view(), wood(0.1), compute);
  Memory by_hand(128, 60);
  LearnHow how = wood(0.1);
  how.images = 11;
  by_hand.learn(set.view().features, how, compute);
  const Vectors a = flow.vectors();
  const Vectors b = by_hand.vectors();
  ASSERT_EQ(a.rows(), b.rows());
  EXPECT_TRUE(std::equal(a.data(), a.data() + a.rows() * 128, b.data()));
  EXPECT_EQ(flow.tasks()[0].images, 11u);
  EXPECT_EQ(flow.calibration_scores(0).size(), 11u);
}

// Five folds by hand: an image's score is its distance to the coreset of the other folds.
TEST(Learning, OfATaskIsCalibratedByFolds) {
  const Extractor extractor = small_extractor();
  const std::vector<Patches> images = patches_of(extractor, 12);
  Compute compute(1);
  for (const Score score : {Score::kPatch, Score::kMap}) {
    TrainingSetBuilder set(128, 1 << 24);
    for (const Patches& patches : images) set.add(patches);
    Memory memory(128, 40);
    if (score == Score::kMap) memory.source["score"] = "map";
    learn_task(memory, set.view(), wood(0.1),
               compute);  // so many of them that no patch is left out
    std::vector<float> expected;
    for (std::size_t i = 0; i < images.size(); ++i) {
      Vectors others(0, 128);
      std::vector<std::size_t> rows;
      for (std::size_t j = 0; j < images.size(); ++j) {
        if (j % 5 == i % 5) continue;
        for (std::size_t r = set.view().begin(j); r < set.view().images[j].end; ++r) {
          rows.push_back(r);
        }
      }
      Memory fold(128, 40);
      fold.learn(gather(set.view().features, rows).view(), wood(1.0), compute);
      const auto distances = fold.distances(images[i].vectors.view(), compute);
      expected.push_back(image_score(distances, images[i].grid(), score));
    }
    EXPECT_EQ(memory.calibration_scores(0), expected);
  }
}

// Fewer vectors, higher scores: the threshold follows the share without an image being kept.
TEST(Learning, ThresholdsFollowTheShare) {
  const Extractor extractor = small_extractor();
  const std::vector<Patches> images = patches_of(extractor, 20);
  Compute compute(1);
  TrainingSetBuilder set(128, 1 << 24);
  for (const Patches& patches : images) set.add(patches);
  Memory memory(128, 400);
  learn_task(memory, set.view(), wood(0.5), compute);
  float last = memory.threshold(0, 0.1)->score;
  EXPECT_EQ(memory.states()[0].drift(), 1.0);
  for (const std::size_t count : {200u, 100u, 50u, 25u}) {
    const Memory smaller = memory.shrink(count, compute);
    const float score = smaller.threshold(0, 0.1)->score;
    EXPECT_GT(score, last) << count;
    EXPECT_GT(smaller.states()[0].drift(), 1.0) << count;
    last = score;
  }
}

// Test, then train: the score is that of the memory as it was before.
TEST(Learning, OfAStreamScoresBeforeItLearns) {
  const Extractor extractor = small_extractor();
  const std::vector<Patches> images = patches_of(extractor, 12);
  Compute compute(1);
  for (const Consolidate& rule : {Consolidate{}, Consolidate::paper()}) {
    Memory memory(128, 200, rule);
    Memory silent(128, 200, rule);
    std::vector<float> expected;
    for (std::size_t i = 0; i < images.size(); ++i) {
      const VectorView patches = images[i].vectors.view();
      if (i > 0) {
        expected.push_back(
            image_score(memory.distances(patches, compute), images[i].grid(), Score::kPatch));
      }
      learn_next(memory, images[i], wood(kOnlineRatio), true, compute);
      learn_next(silent, images[i], wood(kOnlineRatio), false, compute);
      EXPECT_EQ(memory.radii(), silent.radii());
    }
    EXPECT_EQ(memory.tasks()[0].images, 12u);
    std::vector<float> first;
    EXPECT_EQ(memory.states()[0].calibrated, 11u);
    if (rule.rule == Consolidate::Rule::kShare) {
      EXPECT_EQ(memory.calibration_scores(0), expected);
    }
    EXPECT_TRUE(silent.calibration_scores(0).empty());
  }
}

// Stopped at any moment, the memory is as before.
TEST(Learning, ThatIsStoppedWhileItCalibrates) {
  const Extractor extractor = small_extractor();
  const std::vector<Patches> images = patches_of(extractor, 8);
  Compute compute(1);
  TrainingSetBuilder set(128, 1 << 24);
  for (const Patches& patches : images) set.add(patches);
  for (std::size_t calls = 1;; ++calls) {
    Memory memory(128, 60);
    LearnHow how = wood(0.1);
    std::size_t left = calls;
    double last = 0;
    how.progress = [&](double part) {
      EXPECT_GE(part, last);
      last = part;
      return --left > 0;
    };
    try {
      learn_task(memory, set.view(), how, compute);
      EXPECT_EQ(last, 1.0);
      EXPECT_GT(calls, 10u);
      break;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kCancelled);
      EXPECT_EQ(memory.size(), 0u);
    }
  }
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
    learn_next(memory, patches, how, true, compute);
  }
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
