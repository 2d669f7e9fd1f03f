#include "detector/learning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/extractor.h"
#include "contcore/score.h"
#include "contcore/verdict.h"
#include "detector/calibration_scores.h"
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
  by_hand.learn(set.view().features.here, how, compute);
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
      fold.learn(gather(set.view().features.here, rows).view(), wood(1.0), compute);
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

// Made images of a product, patches of which vary along a few directions.
class MadeImages {
 public:
  static constexpr std::size_t kWide = 32;
  static constexpr std::size_t kSide = 8;

  explicit MadeImages(std::size_t product) : product_(static_cast<float>(product)), dice_(3) {}

  Patches next() {
    Patches patches;
    patches.vectors = Vectors(kSide * kSide, kWide);
    patches.grid_width = patches.grid_height = kSide;
    patches.input.width = patches.input.height = 8 * kSide;
    const float whole = 0.7F * normal_(dice_);
    for (std::size_t r = 0; r < kSide * kSide; ++r) {
      const float a = normal_(dice_);
      const float b = normal_(dice_);
      for (std::size_t j = 0; j < kWide; ++j) {
        const auto x = static_cast<float>(j);
        patches.vectors.row(r)[j] =
            3 * std::sin(0.3F * x * static_cast<float>(1 + r % 7) + 1.7F * product_) +
            a * std::cos(0.1F * x + product_) + b * std::sin(0.2F * x) +
            0.5F * whole * static_cast<float>(j % 3) + 0.3F * normal_(dice_);
      }
    }
    return patches;
  }

  /// The part of so many new ones that score above the threshold.
  double alarms(const Memory& memory, std::size_t task, Compute& compute) {
    constexpr std::size_t kFresh = 200;
    double above = 0;
    for (std::size_t i = 0; i < kFresh; ++i) {
      const Patches patches = next();
      const auto distances = memory.distances(patches.vectors.view(), compute);
      const float score = image_score(distances, patches.grid(), Score::kPatch);
      above += score > memory.threshold(task, 0.1)->score ? 1 : 0;
    }
    return above / kFresh;
  }

 private:
  float product_;
  std::mt19937 dice_;
  std::normal_distribution<float> normal_{0, 1};
};

// The threshold of every task, also in a full memory and when others have come.
TEST(Learning, AlarmsAreAsRareAsAskedByBothRules) {
  Compute compute(1);
  for (const Consolidate& rule : {Consolidate{}, Consolidate::paper()}) {
    for (const std::size_t capacity : {120u, 2000u}) {
      for (const bool online : {false, true}) {
        Memory memory(MadeImages::kWide, capacity, rule);
        double mean = 0;
        for (std::size_t task = 0; task < 3; ++task) {
          MadeImages images(task);
          TrainingSetBuilder set(MadeImages::kWide, 1 << 24);
          LearnHow how = wood(online ? 0.05 : 0.03);
          how.task = std::to_string(task);
          for (int i = 0; i < 50; ++i) {
            const Patches patches = images.next();
            if (online) {
              learn_next(memory, patches, how, true, compute);
            } else {
              set.add(patches);
            }
          }
          if (!online) learn_task(memory, set.view(), how, compute);
          mean += images.alarms(memory, task, compute) / 3;
        }
        EXPECT_LE(mean, 0.2) << rule.name() << " " << capacity << " " << online;
        EXPECT_GE(mean, 0.01) << rule.name() << " " << capacity << " " << online;
      }
    }
  }
}

// The same images again say nothing new: a memory that knows them scores them too low.
TEST(Learning, AgainKeepsTheThreshold) {
  Compute compute(1);
  MadeImages images(0);
  TrainingSetBuilder set(MadeImages::kWide, 1 << 24);
  std::vector<Patches> all;
  for (int i = 0; i < 130; ++i) all.push_back(images.next());
  for (const Patches& patches : all) set.add(patches);
  set.add(all[5]);  // there twice
  Memory batch(MadeImages::kWide, 2000);
  Memory stream(MadeImages::kWide, 2000);
  float batch_first = 0;
  float stream_first = 0;
  for (int round = 0; round < 3; ++round) {
    learn_task(batch, set.view(), wood(0.03), compute);
    for (int i = 0; i < 60; ++i) {
      learn_next(stream, all[static_cast<std::size_t>(i)], wood(0.05), true, compute);
    }
    if (round == 0) {
      batch_first = batch.threshold(0, 0.05)->score;
      stream_first = stream.threshold(0, 0.05)->score;
    }
    EXPECT_EQ(batch.threshold(0, 0.05)->score, batch_first) << round;
    EXPECT_EQ(batch.threshold(0, 0.05)->images, 100u);
    EXPECT_NEAR(stream.threshold(0, 0.05)->score, stream_first, 0.05F * stream_first) << round;
  }
}

// The same, when more images came than calibrate, in any way: as a stream or as a batch, and then
// again as either.
TEST(Learning, InAnyWayAgainKeepsTheThreshold) {
  Compute compute(1);
  constexpr std::size_t kImages = 130;
  MadeImages images(0);
  TrainingSetBuilder set(MadeImages::kWide, 1 << 26);
  std::vector<Patches> all;
  for (std::size_t i = 0; i < kImages; ++i) all.push_back(images.next());
  for (const Patches& patches : all) set.add(patches);
  const auto learn = [&](Memory& memory, bool online) {
    if (!online) return learn_task(memory, set.view(), wood(0.1), compute);
    for (const Patches& patches : all) learn_next(memory, patches, wood(0.1), true, compute);
  };
  for (const bool first : {false, true}) {
    for (const bool again : {false, true}) {
      Memory memory(MadeImages::kWide, 2000);
      learn(memory, first);
      const double before = images.alarms(memory, 0, compute);
      const float score = memory.threshold(0, 0.1)->score;
      learn(memory, again);
      EXPECT_EQ(memory.threshold(0, 0.1)->score, score) << first << again;
      EXPECT_LE(images.alarms(memory, 0, compute), before + 0.02) << first << again;
      EXPECT_LE(before, 0.2);
    }
  }
  // One that is taught without calibrating is known too.
  Memory silent(MadeImages::kWide, 2000);
  for (const Patches& patches : all) learn_next(silent, patches, wood(0.1), false, compute);
  EXPECT_FALSE(silent.threshold(0, 0.1));
  learn(silent, true);
  EXPECT_FALSE(silent.threshold(0, 0.1));
}

// What cannot be learned is refused before the folds, and no fold's need fails what can be.
TEST(Learning, FailsOnlyWhereTheMemoryDoes) {
  Compute compute(1);
  MadeImages images(0);
  TrainingSetBuilder set(MadeImages::kWide, 1 << 24);
  for (int i = 0; i < 40; ++i) set.add(images.next());
  for (const double p : {0.0, 2.0}) {
    Memory memory(MadeImages::kWide, 100);
    LearnHow how = wood(p);
    std::size_t calls = 0;
    how.progress = [&](double) { return ++calls > 0; };
    EXPECT_THROW(learn_task(memory, set.view(), how, compute), Error);
    EXPECT_EQ(calls, 0u);
  }
  std::size_t tried = 0;
  for (std::size_t limit = std::size_t{10} << 20; limit > 1000; limit = limit * 99 / 100) {
    LearnHow how = wood(0.03);
    how.memory_limit = limit;
    Memory plain(MadeImages::kWide, 100);
    try {
      plain.learn(set.view().features.here, how, compute);
    } catch (const Error&) {
      break;
    }
    Memory memory(MadeImages::kWide, 100);
    EXPECT_NO_THROW(learn_task(memory, set.view(), how, compute)) << limit;
    ++tried;
  }
  EXPECT_GT(tried, 5u);
}

// A fold that has fewer vectors than the task will have says so.
TEST(Learning, ScoresAreOfTheVectorsThereWere) {
  Compute compute(1);
  MadeImages images(0);
  Memory memory(MadeImages::kWide, 200);
  learn_next(memory, images.next(), wood(0.1), true, compute);
  TrainingSetBuilder one(MadeImages::kWide, 1 << 24);
  one.add(images.next());
  const std::vector<ImageScores> scores =
      fold_scores(memory, one.view(), wood(0.5), compute).scores;
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_EQ(scores[0].vectors, memory.size());
}

// An image that cannot calibrate is not learned.
TEST(Learning, OfAStreamIsWholeOrNotAtAll) {
  Compute compute(1);
  constexpr std::size_t kRows = 20;
  const auto patches_at = [&](float most, float last) {
    Patches patches;
    patches.vectors = Vectors(kRows, 1);
    patches.grid_width = kRows;
    patches.grid_height = 1;
    patches.input.width = 8 * kRows;
    patches.input.height = 8;
    for (std::size_t i = 0; i < kRows; ++i) {
      patches.vectors.row(i)[0] = i + 1 < kRows ? most : last;
    }
    return patches;
  };
  float most = 1e16F;  // what a vector may be
  const auto can = [&](float value) {
    Memory memory(1, 10);
    try {
      memory.learn(patches_at(value, value).vectors.view(), wood(0.05), compute);
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  while (can(most * 1.02F)) most *= 1.02F;
  Memory memory(1, 10);
  learn_next(memory, patches_at(most, most), wood(0.05), true, compute);
  EXPECT_THROW(learn_next(memory, patches_at(1.15F * most, 0), wood(0.05), true, compute), Error);
  EXPECT_EQ(memory.tasks()[0].images, 1u);
  EXPECT_EQ(memory.size(), 1u);
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
  std::vector<float> distances = memory.distances(patches.vectors.view(), compute);
  EXPECT_EQ(seen.score, image_score(distances, patches.grid(), Score::kPatch));
  EXPECT_EQ(seen.task, 0u);
  EXPECT_EQ(seen.rejected, seen.score > memory.threshold(0, 0.05)->score);
  EXPECT_EQ(seen.map.width, image.width);
  EXPECT_EQ(seen.map.height, image.height);
  const Inspection judged = judge(memory, patches, distances, options, compute);
  EXPECT_EQ(judged.score, seen.score);
  EXPECT_EQ(judged.rejected, seen.rejected);
  EXPECT_TRUE(judged.map.values.empty());
}

}  // namespace
}  // namespace contcore
