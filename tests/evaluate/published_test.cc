#include "evaluate/published.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace contcore {
namespace {

using Sizes = std::vector<std::size_t>;

// In percent: image and pixel AUROC and their forgetting.
void expect_line(const Published& line, double image, double pixel, double image_fm,
                 double pixel_fm) {
  EXPECT_NEAR(*line.average[kImageAuroc] * 100, image, 1e-9);
  EXPECT_NEAR(*line.average[kPixelAuroc] * 100, pixel, 1e-9);
  EXPECT_NEAR(*line.forgetting[kImageAuroc] * 100, image_fm, 1e-9);
  EXPECT_NEAR(*line.forgetting[kPixelAuroc] * 100, pixel_fm, 1e-9);
}

Published one(const std::string& method, const std::string& dataset, const std::string& schedule,
              const Sizes& sizes) {
  const std::vector<Published> lines = published_for(method, published(dataset, schedule, sizes));
  EXPECT_EQ(lines.size(), 1u) << method << " " << dataset;
  return lines.empty() ? Published{} : lines.front();
}

TEST(Published, FiguresAreThePapers) {
  const Published line = one("contcore", "MVTec_AD", "10-1x5", {10, 1, 1, 1, 1, 1});
  expect_line(line, 98.9, 96.4, 0.5, 0.5);
  EXPECT_EQ(line.name, "ContCore");
  EXPECT_EQ(line.backbone, "WideResNet-50");
  EXPECT_EQ(line.m, 20000u);
  EXPECT_TRUE(line.remark().empty());
  EXPECT_NEAR(*line.average[kImageAp], .997, 1e-12);
  EXPECT_FALSE(line.average[kPixelAp]);

  expect_line(one("contcore", "visa", "8-4", {8, 4}), 93.8, 96.5, 1.2, 0.8);
  EXPECT_EQ(one("contcore", "visa", "8-4", {8, 4}).m, 40000u);
  expect_line(one("cdad", "mvtec", "14-1", {14, 1}), 96.4, 96.6, -0.6, -0.04);
  expect_line(one("uniad-ewc", "mvtec", "3x5", Sizes(5, 3)), 79.6, 89.0, 9.5, 10.1);
  expect_line(one("ucad", "visa", "1x12", Sizes(12, 1)), 78.1, 76.9, 0, 0.6);
  expect_line(one("contcore", "Real-IAD", "25-1x5", {25, 1, 1, 1, 1, 1}), 89.6, 96.9, 0.4, 0.1);
  EXPECT_NEAR(*one("contcore", "real", "5x6", Sizes(6, 5)).average[kAupro], .968, 1e-12);
  EXPECT_NEAR(*one("iuf", "visa", "8-4", {8, 4}).forgetting[kAupro], .208, 1e-12);
}

TEST(Published, OneDataSetAfterTheOther) {
  expect_line(one("contcore", "mvtec>visa", "mvtec>visa", {15, 12}), 94.3, 96.6, 0.6, 0.3);
  expect_line(one("contcore", "mvtec>visa", "visa>mvtec", {12, 15}), 94.0, 96.7, 2.1, 0.7);
  EXPECT_EQ(one("contcore", "mvtec>visa", "visa>mvtec", {12, 15}).m, 0u);
  // Tasks of those sizes need not be the data sets.
  EXPECT_TRUE(published("mvtec>visa", "15-12", {15, 12}).empty());
}

TEST(Published, MeansOverSchedulesSayThatTheyAre) {
  const Published oracle = one("patchcore-oracle", "mvtec", "10-5", {10, 5});
  expect_line(oracle, 98.4, 97.2, 0, 0);
  EXPECT_NE(oracle.remark().find("mean"), std::string::npos);
  expect_line(one("contcore-online", "visa", "8-4", {8, 4}), 94.1, 97.2, 1.3, 0.8);
  expect_line(one("reservoir", "mvtec", "10-5", {10, 5}), 92.2, 96.5, 1.4, 0.3);
  expect_line(one("patchcore-oracle-online", "visa", "8-4", {8, 4}), 77.9, 85.2, 0, -0.3);
  // A schedule of one's own has nothing but those.
  for (const Published& line : published("mvtec", "7-8", {7, 8})) {
    EXPECT_FALSE(line.remark().empty());
  }
  EXPECT_EQ(one("contcore", "mvtec", "7-8", {7, 8}).schedule, "all");
}

TEST(Published, NothingForOtherData) {
  EXPECT_TRUE(published("toys", "10-1x5", {10, 1, 1, 1, 1, 1}).empty());
  EXPECT_TRUE(published("mvtec", "10-1x4", {10, 1, 1, 1, 1}).empty());  // 14 classes
  EXPECT_TRUE(published("visa", "10-5", {10, 5}).empty());
  EXPECT_TRUE(published("mvtec-visa", "10-5", {10, 5}).empty());
  EXPECT_TRUE(published("mvtec", "", {}).empty());
  EXPECT_TRUE(published_for("random", published("mvtec", "10-5", {10, 5})).empty());
}

TEST(Published, SchedulesAreTold) {
  EXPECT_EQ(schedule_of({10, 1, 1, 1, 1, 1}), "10-1x5");
  EXPECT_EQ(schedule_of({14, 1}), "14-1");
  EXPECT_EQ(schedule_of(Sizes(15, 1)), "1x15");
  EXPECT_EQ(schedule_of({10, 10, 10}), "10x3");
  EXPECT_EQ(schedule_of({}), "");
}

// A slip of the pen shows as a line twice, a figure out of range, or one that is not named.
TEST(Published, IsPlausible) {
  const std::vector<std::tuple<std::string, std::string, Sizes, std::size_t>> all = {
      {"mvtec", "", Sizes(15, 1), 6},
      {"mvtec", "", Sizes(5, 3), 10},
      {"mvtec", "", {10, 1, 1, 1, 1, 1}, 10},
      {"mvtec", "", {10, 5}, 10},
      {"mvtec", "", {14, 1}, 10},
      {"visa", "", Sizes(12, 1), 6},
      {"visa", "", {8, 1, 1, 1, 1}, 10},
      {"visa", "", {8, 4}, 10},
      {"visa", "", {11, 1}, 10},
      {"real", "", {25, 5}, 1},
      {"real", "", {10, 20}, 1},
      {"real", "", Sizes(30, 1), 1},
      {"mvtec>visa", "a>b", Sizes{15, 12}, 3},
      {"mvtec>visa", "a>b", Sizes{12, 15}, 3}};
  for (const auto& [dataset, schedule, sizes, exact] : all) {
    std::set<std::pair<std::string, std::string>> seen;
    std::size_t own = 0;
    for (const Published& line : published(dataset, schedule, sizes)) {
      EXPECT_TRUE(seen.insert({line.method, line.schedule}).second) << line.method;
      EXPECT_FALSE(line.name.empty()) << line.method;
      if (line.remark().empty()) ++own;
      for (std::size_t i = 0; i < kMeasures; ++i) {
        EXPECT_TRUE(line.average[i].value_or(.9) > .5 && line.average[i].value_or(.9) < 1);
        EXPECT_TRUE(std::abs(line.forgetting[i].value_or(0)) < .3);
      }
    }
    EXPECT_EQ(own, exact) << dataset << " " << schedule_of(sizes);
  }
  EXPECT_FALSE(one("uniad", "visa", "11-1", {11, 1}).average[kPixelAuroc]);  // printed as 792.1
  EXPECT_TRUE(one("contcore", "visa", "8-4", {8, 4}).repeats_itself());
  EXPECT_FALSE(one("contcore", "mvtec", "10-5", {10, 5}).repeats_itself());
}

}  // namespace
}  // namespace contcore
