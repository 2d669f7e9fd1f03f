// Known defects: kept within bounds, used from the tenth on, and calibrated like the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/safetensors.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "memory/naive_memory.h"

namespace contcore {
namespace {

using naive::Dice;
using naive::expect_error;
using naive::how_to;
using naive::Set;

constexpr std::size_t kD = 6;

/// Vectors around a place.
Vectors cloud(std::size_t rows, float at, Dice& dice, Scalar scalar = Scalar::kFloat32,
              std::size_t dimension = kD) {
  Vectors made(rows, dimension, scalar);
  for (std::size_t i = 0; i < rows * dimension; ++i) {
    const double value =
        static_cast<double>(at) + dice.gaussian() * (scalar == Scalar::kUint8 ? 8 : 1);
    if (scalar == Scalar::kUint8) {
      made.byte_data()[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
    } else {
      made.data()[i] = static_cast<float>(value);
    }
  }
  return made;
}

/// A good image with its suspects, as whoever scores it tells them.
ImageScores scored(const Memory& memory, Vectors patches, std::uint64_t image) {
  auto suspects = std::make_shared<Suspects>();
  suspects->distances = memory.distances(patches.view(), naive::crew(0));
  suspects->values = suspects->distances;
  suspects->patches = std::move(patches);
  const float score = *std::max_element(suspects->values.begin(), suspects->values.end());
  return {memory.size(), {score, 2 * score}, image, suspects};
}

struct Known {
  Memory memory;
  std::vector<ImageScores> good;
  std::vector<Vectors> shown;  // patches of defects, an image each

  void show(std::size_t i) { memory.learn_defect("a", shown[i].view(), 100 + i, naive::crew(0)); }
};

/// A task that was learned and calibrated, and defects to show.
Known prepared(Scalar scalar = Scalar::kFloat32, std::size_t good = 25) {
  Dice dice(5);
  Known known{Memory(kD, 60, {}, scalar), {}, {}};
  const float normal = scalar == Scalar::kUint8 ? 60 : 0;
  const float defect = scalar == Scalar::kUint8 ? 72 : 1.2F;  // so near that good ones are raised
  known.memory.learn(cloud(300, normal, dice, scalar).view(), how_to("a", 0.2), naive::crew(0));
  for (std::size_t i = 0; i < good; ++i) {
    known.good.push_back(scored(known.memory, cloud(3, normal, dice, scalar), i + 1));
  }
  known.memory.calibrate("a", known.good, {}, Memory::Keep::kLatest);
  for (std::size_t i = 0; i < 12; ++i) known.shown.push_back(cloud(4, defect, dice, scalar));
  return known;
}

/// What the definition says of a patch: nearer to one that was shown than to anything normal.
float naive_raised(VectorView patches, std::size_t i, float normal,
                   const std::vector<Vectors>& shown, std::size_t images) {
  float defect = std::numeric_limits<float>::infinity();
  for (std::size_t k = 0; k < images; ++k) {
    for (std::size_t j = 0; j < shown[k].rows(); ++j) {
      defect = std::min(defect, std::sqrt(squared_distance(patches, i, shown[k].view(), j)));
    }
  }
  return normal + 2 * std::max(0.0F, normal - defect);
}

std::vector<float> raised(const Memory& memory, const Vectors& patches) {
  std::vector<float> distances = memory.distances(patches.view(), naive::crew(0));
  memory.raise(0, patches.view(), distances, naive::crew(0));
  return distances;
}

class MemoryKnownDefects : public naive::MemoryTest {};

TEST_F(MemoryKnownDefects, CountFromTheTenthOnAsTheDefinitionSays) {
  for (const Scalar scalar : {Scalar::kFloat32, Scalar::kUint8}) {
    Known known = prepared(scalar);
    Memory& memory = known.memory;
    Dice dice(9);
    const Vectors patches = cloud(200, scalar == Scalar::kUint8 ? 66 : 1, dice, scalar);
    const std::vector<float> plain = memory.distances(patches.view(), naive::crew(0));
    const Threshold before = *memory.threshold(0, 0.05);
    const double certificate = memory.certificate();
    const std::vector<float> scores = memory.calibration_scores(0);
    for (std::size_t i = 0; i < 9; ++i) known.show(i);
    known.show(3);  // once more: it is the same image
    EXPECT_EQ(memory.known_defects(0).images, 9u);
    EXPECT_FALSE(memory.known_defects(0).used);
    EXPECT_EQ(raised(memory, patches), plain);
    EXPECT_EQ(memory.threshold(0, 0.05)->score, before.score);
    EXPECT_EQ(memory.calibration_scores(0), scores);

    known.show(9);
    EXPECT_EQ(memory.known_defects(0).images, 10u);
    EXPECT_EQ(memory.known_defects(0).patches, 40u);
    EXPECT_TRUE(memory.known_defects(0).used);
    std::vector<float> expected;
    std::size_t higher = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      expected.push_back(naive_raised(patches.view(), i, plain[i], known.shown, 10));
      higher += expected.back() > plain[i];
    }
    EXPECT_GT(higher, 10u);
    EXPECT_LT(higher, plain.size());
    EXPECT_EQ(raised(memory, patches), expected);

    // The threshold is the quantile of what the good images would score now.
    std::vector<float> good;
    for (const ImageScores& image : known.good) {
      float score = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        score = std::max(score, naive_raised(image.suspects->patches.view(), k,
                                             image.suspects->distances[k], known.shown, 10));
      }
      good.push_back(score);
    }
    const std::vector<float> now = memory.calibration_scores(0);
    ASSERT_EQ(now.size(), good.size());
    for (std::size_t i = 0; i < good.size(); ++i) EXPECT_NEAR(now[i], good[i], 1e-5F * good[i]);
    std::sort(good.begin(), good.end());
    EXPECT_NEAR(memory.threshold(0, 0.05)->score, good[24], 1e-5F * good[24]);
    EXPECT_NE(now, scores);
    // What is normal is as it was.
    EXPECT_EQ(memory.certificate(), certificate);
    EXPECT_EQ(memory.distances(patches.view(), naive::crew(0)), plain);
    EXPECT_EQ(memory.states()[0].drift(), 1.0);
  }
}

// Without suspects nobody can say what raising does to good images: so nothing is raised.
TEST_F(MemoryKnownDefects, AreNotUsedWhereTheyCannotBeCalibrated) {
  Known known = prepared(Scalar::kFloat32, 0);
  Memory& memory = known.memory;
  Dice dice(3);
  for (std::size_t i = 0; i < 10; ++i) known.show(i);
  EXPECT_FALSE(memory.known_defects(0).used);  // there is no threshold at all
  const ImageScores bare{memory.size(), {3, 4}, 7, nullptr};
  memory.calibrate("a", std::span(&bare, 1), {}, Memory::Keep::kLatest);
  EXPECT_FALSE(memory.known_defects(0).used);
  EXPECT_EQ(memory.threshold(0, 0.05)->score, 3.0F);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_FALSE(memory.known_defects(0).used) << i;
    const ImageScores next = scored(memory, cloud(2, 0, dice), 50 + i);
    memory.calibrate("a", std::span(&next, 1), {}, Memory::Keep::kLatest);
  }
  EXPECT_TRUE(memory.known_defects(0).used);
  EXPECT_EQ(memory.threshold(0, 0.05)->images, 20u);
}

TEST_F(MemoryKnownDefects, AreBounded) {
  Known known = prepared();
  Dice dice(4);
  Vectors all(600, kD);
  for (std::size_t image = 0; image < 2; ++image) {
    const Vectors many = cloud(300, 5, dice);
    all.set_rows(300 * image, many.view());
    known.memory.learn_defect("a", many.view(), 500 + image, naive::crew(0));
  }
  EXPECT_EQ(known.memory.known_defects(0).patches, 256u);
  // They cover the others: far better than any so many by chance would.
  for (std::size_t i = 2; i < 10; ++i) known.show(i);
  ASSERT_TRUE(known.memory.known_defects(0).used);
  // Two tasks share 1 MiB: 16 KiB a vector.
  constexpr std::size_t kWide = 4096;
  Memory wide(kWide, 8);
  for (const char* task : {"a", "b"}) {
    wide.learn(cloud(4, 0, dice, Scalar::kFloat32, kWide).view(), how_to(task, 1), naive::crew(0));
    wide.learn_defect(task, cloud(80, 3, dice, Scalar::kFloat32, kWide).view(), 1, naive::crew(0));
    EXPECT_EQ(wide.known_defects(0).patches, *task == 'a' ? 64u : 32u);
  }
  EXPECT_EQ(wide.known_defects(1).patches, 32u);
}

TEST_F(MemoryKnownDefects, WhatCannotBeShownIsRefused) {
  Known known = prepared();
  const std::string before = bytes_of(known.memory);
  Dice dice(4);
  const auto show = [&](const std::string& task, VectorView patches) {
    known.memory.learn_defect(task, patches, 1, naive::crew(0));
  };
  expect_error(Error::Kind::kUsage, [&] { show("b", known.shown[0].view()); });
  expect_error(Error::Kind::kInput, [&] { show("a", known.shown[0].view().part(0, 0)); });
  expect_error(Error::Kind::kInput,
               [&] { show("a", cloud(3, 0, dice, Scalar::kFloat32, kD + 1).view()); });
  expect_error(Error::Kind::kInput, [&] { show("a", cloud(3, 60, dice, Scalar::kUint8).view()); });
  Vectors huge = cloud(3, 0, dice);
  huge.data()[4] = 1e30F;
  expect_error(Error::Kind::kInput, [&] { show("a", huge.view()); });
  huge.data()[4] = std::numeric_limits<float>::quiet_NaN();
  expect_error(Error::Kind::kInput, [&] { show("a", huge.view()); });
  EXPECT_EQ(bytes_of(known.memory) == before, true);
}

TEST_F(MemoryKnownDefects, AreInTheFileAndInCopies) {
  for (const Scalar scalar : {Scalar::kFloat32, Scalar::kUint8}) {
    Known known = prepared(scalar);
    for (std::size_t i = 0; i < 11; ++i) known.show(i);
    Dice dice(9);
    const Vectors patches = cloud(50, scalar == Scalar::kUint8 ? 66 : 1, dice, scalar);
    const Memory opened = reopened(known.memory);
    const Memory copied = known.memory.copy();
    for (const Memory* same : {&opened, &copied}) {
      EXPECT_EQ(same->known_defects(0).images, 11u);
      EXPECT_TRUE(same->known_defects(0).used);
      EXPECT_EQ(raised(*same, patches), raised(known.memory, patches));
      EXPECT_EQ(same->threshold(0, 0.1)->score, known.memory.threshold(0, 0.1)->score);
      EXPECT_EQ(bytes_of(*same) == bytes_of(known.memory), true);
    }
    const Memory smaller = known.memory.shrink(45, naive::crew(0));
    EXPECT_EQ(smaller.known_defects(0).patches, known.memory.known_defects(0).patches);
    EXPECT_TRUE(smaller.known_defects(0).used);
    EXPECT_GE(smaller.threshold(0, 0.1)->score, known.memory.threshold(0, 0.1)->score);
  }
}

TEST_F(MemoryKnownDefects, OfTwoMemoriesAreJoined) {
  Known one = prepared();
  Known other = prepared();
  for (std::size_t i = 0; i < 6; ++i) one.show(i);
  for (std::size_t i = 4; i < 10; ++i) other.show(i);
  const Memory merged = Memory::merge(one.memory, other.memory, 60, naive::crew(0));
  EXPECT_EQ(merged.known_defects(0).images, 10u);
  EXPECT_EQ(merged.known_defects(0).patches, 40u);
  EXPECT_TRUE(merged.known_defects(0).used);
  Known all = prepared();
  for (std::size_t i = 0; i < 10; ++i) all.show(i);
  EXPECT_EQ(merged.threshold(0, 0.05)->score, all.memory.threshold(0, 0.05)->score);
}

// Where there is little room suspects go first, so that everything else is as without them.
TEST_F(MemoryKnownDefects, SuspectsGiveWayFirst) {
  constexpr std::size_t kWide = 4096;  // 16 KiB a patch; the budget is 1 MiB
  Dice dice(8);
  Memory with(kWide, 8), without(kWide, 8);
  const Vectors normal = cloud(8, 0, dice, Scalar::kFloat32, kWide);
  for (Memory* memory : {&with, &without}) {
    memory->learn(normal.view(), how_to("a", 1), naive::crew(0));
  }
  for (std::size_t i = 0; i < 30; ++i) {
    ImageScores image = scored(with, cloud(4, 0, dice, Scalar::kFloat32, kWide), i + 1);
    with.calibrate("a", std::span(&image, 1), {}, Memory::Keep::kLatest);
    image.suspects = nullptr;
    without.calibrate("a", std::span(&image, 1), {}, Memory::Keep::kLatest);
  }
  EXPECT_EQ(with.calibration_scores(0), without.calibration_scores(0));
  with.save(path("few"));
  const Safetensors file(path("few"), "a memory");
  Safetensors::Shape shape;
  file.floats("suspects.patches", 2, shape);
  EXPECT_GE(shape.rows, 60u);  // two of each image
  EXPECT_LT(shape.rows, 64u);
}

}  // namespace
}  // namespace contcore
