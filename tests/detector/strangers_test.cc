// What is no known product is never called good, whatever it scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "contcore/detector.h"
#include "detector/learning.h"
#include "products/products.h"

namespace contcore {
namespace {

Image product(const std::string& name, std::size_t piece, const std::string& defect = "") {
  return make_product(name, piece, defect, 1).image;
}

Image flat(const Image& like, std::uint8_t value) {
  Image image = like;
  std::fill(image.rgb.begin(), image.rgb.end(), value);
  return image;
}

class StrangersTest : public testing::Test {
 protected:
  static DetectorOptions small() {
    DetectorOptions options;
    options.backbone = "builtin";
    options.geometry = Geometry::parse("64", "none");
    options.capacity = 800;
    return options;
  }

  void learn(const std::string& task, std::size_t pieces) {
    TrainingSetBuilder set(memory_.dimension(), std::size_t{1} << 30);
    for (std::size_t i = 0; i < pieces; ++i) {
      set.add(extractor_.extract(product(task, i), compute_));
    }
    LearnHow how;
    how.task = task;
    how.p = 0.1;
    learn_task(memory_, set.view(), how, compute_);
  }

  Inspection see(const Image& image, const std::string& task = "", double strangers = 0.01) {
    InspectOptions options;
    options.task = task;
    options.strangers = strangers;
    return inspect(memory_, extractor_.extract(image, compute_), options, compute_);
  }

  Compute compute_{2};
  Extractor extractor_{small()};
  Memory memory_ = new_memory(small(), extractor_);
};

TEST_F(StrangersTest, EmptyFramesAndOtherProductsAreUnknown) {
  learn("gear", 12);
  const Image piece = product("gear", 100);
  std::vector<Image> others = {flat(piece, 255), flat(piece, 0), product("wood", 1)};
  for (const Image& image : others) {
    const Inspection seen = see(image);
    EXPECT_EQ(std::string(verdict(seen)), "unknown") << seen.reason;
    EXPECT_EQ(seen.reason, "unknown: not like gear");
    EXPECT_TRUE(seen.rejected && seen.unknown && seen.stranger);
    EXPECT_FALSE(see(image, "", 0).stranger);  // the test can be left out
  }
  for (std::size_t i = 100; i < 110; ++i) EXPECT_FALSE(see(product("gear", i)).stranger) << i;
}

// A defect leaves most of the image as it should be: it is one, and no stranger, however large it
// is and however strange it makes the image.
TEST_F(StrangersTest, ADefectIsADefect) {
  learn("gear", 12);
  for (const std::size_t part : {8U, 5U, 4U}) {
    Image image = product("gear", 200);
    for (std::size_t y = 0; y < image.height / part; ++y) {
      for (std::size_t x = 0; x < image.width / part; ++x) {
        const std::size_t at = 3 * ((y + image.height / 3) * image.width + x + image.width / 3);
        image.rgb[at] = 255;
        image.rgb[at + 1] = 0;
        image.rgb[at + 2] = 255;
      }
    }
    const Inspection seen = see(image);
    EXPECT_EQ(std::string(verdict(seen)), "defect") << seen.reason;
    EXPECT_NE(seen.reason.find(" px at ("), std::string::npos) << seen.reason;
  }
}

// A threshold that a person sets changes what is let pass, not what an image is of.
TEST_F(StrangersTest, AreTheSameWhateverThresholdIsSet) {
  learn("gear", 12);
  const auto with_patch = [](Image image, std::size_t part) {
    for (std::size_t y = image.height / 3; y < image.height / 3 + image.height / part; ++y) {
      for (std::size_t x = image.width / 3; x < image.width / 3 + image.width / part; ++x) {
        const std::size_t at = 3 * (y * image.width + x);
        image.rgb[at] = 255;
        image.rgb[at + 1] = 0;
        image.rgb[at + 2] = 255;
      }
    }
    return image;
  };
  const Image gear = product("gear", 200);
  const Image defective = with_patch(gear, 4);
  const float score = see(defective).score;
  const auto strange =
      memory_.strangeness(0, extractor_.extract(defective, compute_).vectors.view(), 0.01);
  ASSERT_GT(strange->distance, strange->limit);  // the defect alone explains it
  memory_.set_threshold("gear", {score * 1.1F, {}});
  EXPECT_EQ(std::string(verdict(see(defective))), "good");
  EXPECT_EQ(std::string(verdict(see(defective, "gear"))), "good");
  const float calibrated = memory_.calibrated_threshold(0, 0.05)->score;
  EXPECT_LT(calibrated, score);
  std::vector<Image> images = {gear,
                               defective,
                               with_patch(gear, 8),
                               with_patch(gear, 2),
                               product("wood", 1),
                               with_patch(product("wood", 1), 8),
                               with_patch(flat(gear, 90), 6)};
  for (const int percent : {90, 80, 70, 60, 50}) {  // a little strange all over, and a defect
    Image dim = gear;
    for (std::uint8_t& value : dim.rgb) value = static_cast<std::uint8_t>(value * percent / 100);
    images.push_back(with_patch(dim, 12));
  }
  for (std::size_t i = 0; i < images.size(); ++i) {
    memory_.set_threshold("gear", {});
    const bool stranger = see(images[i]).stranger;
    for (const float factor : {0.001F, 0.3F, 0.7F, 1.5F, 3.0F, 1000.0F}) {
      memory_.set_threshold("gear", {factor * calibrated, {}});
      EXPECT_EQ(see(images[i]).stranger, stranger) << i << ' ' << factor;
    }
  }
}

TEST_F(StrangersTest, WhereAProductIsNamedAnotherIsADefect) {
  learn("gear", 12);
  learn("wood", 12);
  const Image wood = product("wood", 100);
  EXPECT_FALSE(see(wood).stranger);
  const Inspection other = see(wood, "gear");
  EXPECT_EQ(std::string(verdict(other)), "defect");
  EXPECT_EQ(other.reason, "defect: not like gear; looks like wood");
  EXPECT_TRUE(other.rejected && other.stranger && !other.unknown);
  const Inspection none = see(flat(wood, 255), "gear");
  EXPECT_EQ(none.reason, "defect: not like gear, nor any known product");
  const Inspection unnamed = see(flat(wood, 255));
  EXPECT_EQ(std::string(verdict(unnamed)), "unknown");
  EXPECT_TRUE(unnamed.reason.starts_with("unknown: like no known product; ")) << unnamed.reason;
}

// The picture says so: neither green nor red.
TEST_F(StrangersTest, ThePictureOfAStranger) {
  learn("gear", 6);
  const Image white = flat(product("gear", 100), 255);
  const Image picture = draw_inspection(white, see(white));
  const std::uint8_t* bar = picture.rgb.data() + picture.rgb.size() - 3 * picture.width;
  EXPECT_TRUE(bar[0] > bar[1] + 40 && bar[1] > bar[2] + 40);
}

// What a person calls good is known from then on, though it does not calibrate.
TEST_F(StrangersTest, CalledGoodItIsNoStrangerAnyMore) {
  learn("gear", 12);
  const Image strange = product("wood", 1);
  ASSERT_TRUE(see(strange).unknown);
  const Patches patches = extractor_.extract(strange, compute_);
  const float limit = memory_.strangeness(0, {}, 0.01)->limit;
  LearnHow how;
  how.task = "gear";
  how.p = kOnlineRatio;
  learn_next(memory_, patches, how, false, compute_);
  EXPECT_FALSE(inspect(memory_, patches, {}, compute_).stranger);
  EXPECT_EQ(memory_.strangeness(0, {}, 0.01)->limit, limit);
}

}  // namespace
}  // namespace contcore
