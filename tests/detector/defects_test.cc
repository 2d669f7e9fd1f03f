// Where a person sees a defect, and which patches that are.
#include "contcore/defects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "contcore/verdict.h"
#include "detector/learning.h"
#include "detector/lessons.h"
#include "products/products.h"

namespace contcore {
namespace {

// A grid of 10 × 10 patches of an image of 100 × 50 pixels. Learned is the number 0; what is
// strange is told by the caller.
struct Part {
  Part() : memory(1, 10) {
    Compute compute(1);
    const Vectors normal(2, 1);
    memory.source["score"] = "map";
    LearnHow how;
    how.task = "part";
    how.p = 1;
    memory.learn(normal.view(), how, compute);
    patches.vectors = Vectors(100, 1);
    patches.grid_width = patches.grid_height = 10;
    patches.input.width = patches.input.height = 80;
    patches.input.right = 100;
    patches.image_width = 100;
    patches.input.bottom = 50;
    patches.image_height = 50;
    for (int i = 0; i < 100; ++i) {
      patches.vectors.data()[i] = 1 + 0.001F * static_cast<float>(i % 7);
    }
  }

  void strange(std::size_t column, std::size_t row) {
    patches.vectors.data()[10 * row + column] = 5;
  }
  std::vector<std::uint32_t> found(const DefectMark& mark) const {
    Compute compute(1);
    return defect_patches(memory, "part", patches, mark, compute);
  }
  std::string refused(const DefectMark& mark) const {
    try {
      found(mark);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      return error.what();
    }
    return "nothing";
  }

  Memory memory;
  Patches patches;
};

DefectMark box(double x, double y, double width, double height) {
  DefectMark mark;
  mark.box = DefectBox{x, y, width, height};
  return mark;
}

TEST(Defects, OfABoxAreTheStrangePatchesThatItTouches) {
  Part part;
  part.strange(3, 2);  // pixels 30…40 across, 10…15 down
  part.strange(4, 2);
  using Rows = std::vector<std::uint32_t>;
  EXPECT_EQ(part.found(box(30, 10, 20, 5)), (Rows{23, 24}));
  EXPECT_EQ(part.found(box(0, 0, 60, 30)), (Rows{23, 24}));  // a wide one: the same
  EXPECT_EQ(part.found(box(39.5, 14.9, 0.1, 0.1)), (Rows{23}));
  EXPECT_EQ(part.found(box(39.5, 14.9, 0.6, 0.1)), (Rows{23, 24}));
  EXPECT_NE(part.refused(box(60, 30, 10, 5)).find("no stranger than the rest"), std::string::npos);
  EXPECT_NE(part.refused(box(100, 0, 10, 10)).find("outside of what"), std::string::npos);
  EXPECT_NE(part.refused(box(-10, -10, 10, 10)).find("outside of what"), std::string::npos);
  EXPECT_NE(part.refused(box(0, 0, 100, 50)).find("most of the image"), std::string::npos);
  Part other;
  other.strange(9, 9);
  EXPECT_EQ(other.found(box(95, 46, 500, 500)), (Rows{99}));  // beyond the image
}

TEST(Defects, OfAMaskAreTheStrangePatchesUnderIt) {
  Part part;
  part.strange(3, 2);
  part.strange(4, 2);
  Image mask{100, 50, std::vector<std::uint8_t>(100 * 50 * 3)};
  DefectMark mark;
  mark.mask = &mask;
  EXPECT_NE(part.refused(mark).find("outside of what"), std::string::npos);
  const auto paint = [&](std::size_t x, std::size_t y, std::uint8_t value) {
    mask.rgb[3 * (100 * y + x) + 1] = value;
  };
  paint(35, 12, 255);
  paint(41, 10, 127);  // not bright enough
  EXPECT_EQ(part.found(mark), (std::vector<std::uint32_t>{23}));
  paint(41, 10, 128);
  paint(20, 40, 255);  // nothing is strange there
  EXPECT_EQ(part.found(mark), (std::vector<std::uint32_t>{23, 24}));
  mask.width = 50;
  mask.height = 100;
  EXPECT_NE(part.refused(mark).find("100 × 50"), std::string::npos);
}

TEST(Defects, OfTheOutlineAreTheStrangePatchesUnderIt) {
  Part part;
  part.strange(3, 2);
  DefectMark mark;
  mark.level = 2;
  EXPECT_EQ(part.found(mark), (std::vector<std::uint32_t>{23}));
  mark.level = 1000;
  EXPECT_NE(part.refused(mark).find("nothing is outlined"), std::string::npos);
  Compute compute(1);
  EXPECT_THROW(defect_patches(part.memory, "part", part.patches, {}, compute),
               Error);  // no threshold
}

TEST(Defects, AreLessons) {
  Lesson lesson;
  lesson.task = "part";
  lesson.time = "2031-05-04T03:02:01Z";
  lesson.image = "bytes\nof an image";
  lesson.inspection = 7;
  for (const bool by_box : {true, false}) {
    lesson.defect.emplace();
    if (by_box) lesson.defect->box = DefectBox{1.5, 2, 30, 40};
    if (!by_box) lesson.defect->level = 389.97F;
    const std::string record = as_record(lesson);
    const Lesson read = read_lesson(record, "journal");
    ASSERT_TRUE(read.defect);
    EXPECT_EQ(read.defect->box, lesson.defect->box);
    EXPECT_EQ(read.defect->level, lesson.defect->level);
    EXPECT_EQ(read.image, lesson.image);
    EXPECT_EQ(read.inspection, 7);
  }
  for (const char* mark :
       {"[]", "{\"box\":[1,2]}", "{\"box\":[1,2,3,\"4\"]}", "{\"level\":\"x\"}"}) {
    const std::string record =
        std::string("{\"task\":\"part\",\"time\":\"t\",\"defect\":") + mark + "}\n";
    EXPECT_THROW(read_lesson(record, "journal"), Error) << mark;
  }
  Part part;
  lesson.task = "other";
  EXPECT_THROW(check_lesson(part.memory, lesson), Error);
}

// As a service and its replay do it: shown one by one, they are known, and the tenth raises scores.
TEST(Defects, RaiseTheScoreOfWhatIsLikeThem) {
  const Extractor extractor({"builtin", {}, Geometry::parse("96", "none"), 128, Precision::kFloat});
  Compute compute(1);
  Memory memory(128, 100);
  memory.source["score"] = "map";
  TrainingSetBuilder set(128, 1 << 24);
  for (std::size_t i = 0; i < 24; ++i) {
    set.add(extractor.extract(make_product("wood", i, "", 1).image, compute));
  }
  LearnHow how;
  how.task = "wood";
  how.p = 0.1;
  how.time = "t";
  learn_task(memory, set.view(), how, compute);
  const auto kinds = product_defects("wood");
  ASSERT_FALSE(kinds.empty());
  InspectOptions options;
  options.task = "wood";
  const Patches next =
      extractor.extract(make_product("wood", 300, kinds.front(), 1).image, compute);
  const Inspection before = inspect(memory, next, options, compute);
  Lesson lesson;
  lesson.task = "wood";
  lesson.time = "t";
  for (std::size_t i = 0; i < 40 && memory.known_defects(0).images < 10; ++i) {
    EXPECT_EQ(inspect(memory, next, options, compute).score, before.score) << i;
    const ProductImage bad = make_product("wood", 200 + i, kinds.front(), 1);
    DefectBox around{1000, 1000, 0, 0};
    double right = 0, bottom = 0;
    for (std::size_t at = 0; at < bad.mask.size(); ++at) {
      if (bad.mask[at] == 0) continue;
      const auto x = static_cast<double>(at % bad.image.width);
      const auto y = static_cast<double>(at / bad.image.width);
      around.x = std::min(around.x, x);
      around.y = std::min(around.y, y);
      right = std::max(right, x + 1);
      bottom = std::max(bottom, y + 1);
    }
    around.width = right - around.x;
    around.height = bottom - around.y;
    lesson.defect.emplace().box = around;
    try {
      take_lesson(memory, lesson, extractor.extract(bad.image, compute), compute);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), Error::Kind::kInput);  // it is hardly to be seen
    }
  }
  EXPECT_TRUE(memory.known_defects(0).used);
  const Inspection after = inspect(memory, next, options, compute);
  EXPECT_GT(after.score, before.score);
  EXPECT_EQ(after.map.values[after.peak_y * after.map.width + after.peak_x],
            *std::max_element(after.map.values.begin(), after.map.values.end()));
}

}  // namespace
}  // namespace contcore
