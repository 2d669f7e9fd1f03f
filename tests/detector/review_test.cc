// What is asked before images are learned: which of them are reported, and which are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "contcore/detector.h"
#include "contcore/error.h"
#include "contcore/review.h"
#include "detector/calibration_scores.h"
#include "detector/find_images.h"
#include "detector/image_look.h"
#include "detector/reviewing.h"
#include "detector/strangers.h"
#include "memory/calibration.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

// ---- Scores
// --------------------------------------------------------------------------------------

// Every interval from one score to another, the narrowest that holds more than half of them.
UsualScores naive_usual(const std::vector<float>& scores) {
  double width = 1e300;
  double middle = 0;
  for (const double a : scores) {
    for (const double b : scores) {
      const double low = std::log(a);
      const double high = std::log(b);
      const auto inside = std::count_if(scores.begin(), scores.end(),
                                        [&](double score) { return score >= a && score <= b; });
      if (2 * inside <= static_cast<std::ptrdiff_t>(scores.size()) || high - low >= width) continue;
      width = high - low;
      middle = (low + high) / 2;
    }
  }
  return {middle, std::max(0.07, width / 2 / 0.6745)};
}

TEST(Review, UsualScoresAreTheNarrowestHalf) {
  std::mt19937 random(3);
  for (const std::size_t count : {1U, 2U, 5U, 10U, 41U}) {
    std::vector<float> scores;
    std::lognormal_distribution<float> spread(1, 0.3F);
    for (std::size_t i = 0; i < count; ++i) scores.push_back(spread(random));
    const UsualScores fast = usual_scores(scores);
    const UsualScores naive = naive_usual(scores);
    EXPECT_NEAR(fast.middle, naive.middle, 1e-9) << count;
    EXPECT_NEAR(fast.spread, naive.spread, 1e-9) << count;
  }
}

TEST(Review, AThirdOfStrangersDoesNotHideItself) {
  std::mt19937 random(5);
  std::normal_distribution<float> good(0, 0.08F);
  std::vector<float> scores;
  for (int i = 0; i < 40; ++i) scores.push_back(400 * std::exp(good(random)));
  for (int i = 0; i < 20; ++i) scores.push_back(800 * std::exp(good(random)));
  const UsualScores usual = usual_scores(scores);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(strangeness(usual, scores[i]) > kStrange, i >= 40) << scores[i];
  }
}

// ---- Images
// --------------------------------------------------------------------------------------

constexpr std::size_t kWide = 8;
constexpr std::size_t kSide = 6;

// Patches around a few centres; a stranger has some that are far from all of them.
class Made {
 public:
  explicit Made(unsigned product) : random_(product) {
    std::normal_distribution<float> normal(0, 10);
    for (auto& centre : centres_) {
      for (float& value : centre) value = normal(random_);
    }
  }

  Patches next(float odd = 0) {
    std::normal_distribution<float> noise(0, 0.5F);
    std::array<float, kWide> off;  // each stranger is strange in its own way
    for (float& value : off) value = odd * noise(random_);
    Patches patches;
    patches.vectors = Vectors(kSide * kSide, kWide);
    patches.grid_width = kSide;
    patches.grid_height = kSide;
    patches.input.width = 8 * kSide;
    patches.input.height = 8 * kSide;
    for (std::size_t r = 0; r < patches.vectors.rows(); ++r) {
      for (std::size_t d = 0; d < kWide; ++d) {
        patches.vectors.row(r)[d] = centres_[r % centres_.size()][d] + noise(random_);
      }
      if (r % 7 != 3) continue;
      for (std::size_t d = 0; d < kWide; ++d) patches.vectors.row(r)[d] += off[d];
    }
    return patches;
  }

 private:
  std::mt19937 random_;
  std::array<std::array<float, kWide>, 4> centres_;
};

class ReviewOfImages : public testing::Test {
 protected:
  void add(const Patches& patches) { set_->add(patches); }
  void add(Made& made, std::size_t count, float odd = 0) {
    for (std::size_t i = 0; i < count; ++i) add(made.next(odd));
  }
  void learn(const std::string& task) { learn_task(memory_, set_->view(), how(task), compute_); }
  Review review(const std::string& task) {
    const FoldScores folds = score_task(memory_, set_->view(), how(task), compute_);
    return review_images(memory_, set_->view(), looks_, folds, how(task), 0.05, compute_);
  }
  static LearnHow how(const std::string& task) {
    LearnHow how;
    how.task = task;
    how.p = 0.05;
    how.time = "t";
    return how;
  }
  static const Remark* find(const Review& review, const std::string& kind) {
    for (const Remark& remark : review.remarks) {
      if (remark.kind == kind) return &remark;
    }
    return nullptr;
  }
  static std::string kinds(const Review& review) {
    std::string text;
    for (const Remark& remark : review.remarks) text += remark.kind + ' ';
    return text;
  }
  void begin_anew() { set_ = std::make_unique<TrainingSetBuilder>(kWide, 1 << 24); }

  Compute compute_{1};
  Memory memory_{kWide, 200};
  std::unique_ptr<TrainingSetBuilder> set_ = std::make_unique<TrainingSetBuilder>(kWide, 1 << 24);
  std::vector<ImageLook> looks_;
};

TEST_F(ReviewOfImages, OfAGoodSetSaysNothing) {
  Made made(1);
  add(made, 40);
  const Review seen = review("part");
  EXPECT_EQ(kinds(seen), "");
  EXPECT_EQ(seen.images, 40U);
  EXPECT_EQ(seen.scored, 40U);
  ASSERT_EQ(seen.strangest.size(), 10U);
  EXPECT_TRUE(std::is_sorted(
      seen.strangest.begin(), seen.strangest.end(),
      [](const StrangeImage& a, const StrangeImage& b) { return a.score > b.score; }));
}

TEST_F(ReviewOfImages, NamesStrangersAlsoBeyondTheHundredThatCalibrate) {
  Made made(1);
  add(made, 150);
  add(made, 8, 30);
  add(made, 20);
  const Review seen = review("part");
  EXPECT_EQ(seen.scored, 178U);
  const Remark* remark = find(seen, "strangers");
  ASSERT_NE(remark, nullptr) << kinds(seen);
  const std::set<std::size_t> found(remark->images.begin(), remark->images.end());
  for (std::size_t i = 150; i < 158; ++i) EXPECT_TRUE(found.contains(i)) << i;
  EXPECT_LE(found.size(), 14U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_GE(seen.strangest[i].image, 150U);
}

// What the images beyond the folds score: their distance to the coreset of those in the folds.
TEST_F(ReviewOfImages, ThoseBeyondTheFoldsAreScoredByThoseInThem) {
  Made made(2);
  add(made, 105);
  const TrainingSet set = set_->view();
  const FoldScores folds = score_task(memory_, set, how("part"), compute_);
  ASSERT_EQ(folds.images.size(), 100U);
  std::vector<std::size_t> rest;
  TrainingSetBuilder in_folds(kWide, 1 << 24);
  for (std::size_t i = 0; i < 105; ++i) {
    const bool is_in = std::count(folds.images.begin(), folds.images.end(), i) > 0;
    if (is_in) in_folds.add(set_->patches(i));
    if (!is_in) rest.push_back(i);
  }
  const std::vector<float> scores =
      scores_by_others(memory_, set, folds, rest, how("part"), compute_);
  LearnHow all = how("part");
  all.p = 0.05 * 105 / 100;  // as many vectors as all of them give
  Memory by_hand(kWide, 200);
  by_hand.learn(in_folds.view().features.here, all, compute_);
  ASSERT_EQ(scores.size(), rest.size());
  for (std::size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(scores[i], image_score(by_hand.distances(set.image(rest[i]), compute_),
                                     set.images[rest[i]].grid, Score::kPatch));
  }
}

TEST_F(ReviewOfImages, KnowsWhatWasLearnedAndWhatIsThereTwice) {
  Made made(1);
  add(made, 25);
  learn("part");
  const Review same = review("part");
  const Remark* learned = find(same, "learned");
  ASSERT_NE(learned, nullptr);
  EXPECT_EQ(learned->images.size(), 25U);
  EXPECT_EQ(learned->text, "all 25 images were learned before");
  EXPECT_EQ(same.scored, 0U);
  const Patches first = set_->patches(0);
  EXPECT_EQ(find(same, "few"), nullptr) << "those that were learned calibrate it";
  const Review other = review("another");
  ASSERT_NE(find(other, "learned"), nullptr);
  EXPECT_NE(find(other, "learned")->text.find("as 'part'"), std::string::npos);
  begin_anew();
  add(made, 24);
  add(set_->patches(3));
  const Review twice = review("part");
  ASSERT_NE(find(twice, "twice"), nullptr) << kinds(twice);
  EXPECT_EQ(find(twice, "twice")->images, std::vector<std::size_t>{24});
  EXPECT_EQ(find(twice, "learned"), nullptr);
  begin_anew();
  add(first);
  const Review alone = review("part");
  ASSERT_NE(find(alone, "learned"), nullptr) << kinds(alone);
  EXPECT_EQ(find(alone, "learned")->text, "the image was learned before");
}

TEST_F(ReviewOfImages, RecognisesAnotherProduct) {
  Made bottles(1);
  Made screws(2);
  add(bottles, 40);
  learn("bottle");
  begin_anew();
  add(screws, 40);
  const Review unlike = review("bottle");
  ASSERT_NE(find(unlike, "unlike"), nullptr) << kinds(unlike);
  EXPECT_EQ(kinds(review("screw")), "") << "a new product is none of the known ones";
  learn("screw");
  begin_anew();
  add(screws, 20);
  const Review known = review("bottle");
  ASSERT_NE(find(known, "product"), nullptr) << kinds(known);
  EXPECT_NE(find(known, "product")->text.find("'screw'"), std::string::npos);
  EXPECT_EQ(kinds(review("screw")), "");
}

// Each patch of it is one of a screw, so that it scores little, but as a whole it is none.
TEST_F(ReviewOfImages, ANewProductIsNotGoodOfOneItIsAStrangerTo) {
  Made screws(2);
  add(screws, 40);
  learn("screw");
  begin_anew();
  std::size_t low = 0;
  for (std::size_t i = 0; i < 30; ++i) {
    Patches tile = screws.next();
    for (std::size_t r = 0; r < tile.vectors.rows(); ++r) {
      std::copy_n(tile.vectors.row(r - r % 4), kWide, tile.vectors.row(r));
    }
    const float score =
        image_score(memory_.distances(tile.vectors.view(), compute_), tile.grid(), Score::kPatch);
    low += score <= memory_.threshold(0, 0.05)->score ? 1U : 0U;
    add(tile);
  }
  EXPECT_GT(low, 20U);
  EXPECT_EQ(kinds(review("tile")), "");
}

TEST_F(ReviewOfImages, KnowsWhatWasShownAsADefect) {
  Made made(1);
  add(made, 25);
  learn("bottle");
  begin_anew();
  add(made, 25);
  EXPECT_EQ(kinds(review("bottle")), "");
  const auto show = [&](std::size_t i) {
    const VectorView patches = set_->view().image(i);
    memory_.learn_defect("bottle", patches.part(0, 2), hash_of(patches), compute_);
  };
  show(7);
  const Review one = review("bottle");
  ASSERT_NE(find(one, "defects"), nullptr) << kinds(one);
  EXPECT_EQ(find(one, "defects")->text, "1 of 25 images was shown as a defect of 'bottle' before");
  show(3);
  for (const char* task : {"bottle", "another"}) {
    const Review seen = review(task);
    const Remark* shown = find(seen, "defects");
    ASSERT_NE(shown, nullptr) << kinds(seen);
    EXPECT_EQ(shown->text, "2 of 25 images were shown as defects of 'bottle' before");
    EXPECT_EQ(shown->images, (std::vector<std::size_t>{3, 7}));
  }
}

TEST_F(ReviewOfImages, SaysWhenTheyAreTooFew) {
  Made made(1);
  add(made, 18);
  ASSERT_NE(find(review("part"), "few"), nullptr);
  add(made, 1);
  EXPECT_EQ(find(review("part"), "few"), nullptr);
  begin_anew();
  add(made, 1);
  const Review alone = review("part");
  ASSERT_NE(find(alone, "few"), nullptr);
  EXPECT_NE(find(alone, "few")->text.find("no verdict"), std::string::npos);
}

TEST_F(ReviewOfImages, ComparesTheThresholdWithThoseOfOtherTasks) {
  for (const unsigned product : {1U, 2U}) {
    begin_anew();
    Made made(product);
    add(made, 30);
    learn("part " + std::to_string(product));
  }
  begin_anew();
  Made wild(3);
  std::mt19937 random(1);
  for (int i = 0; i < 30; ++i) {
    Patches patches = wild.next();
    std::normal_distribution<float> noise(0, 8);
    for (std::size_t r = 0; r < patches.vectors.rows(); ++r) {
      for (std::size_t d = 0; d < kWide; ++d) patches.vectors.row(r)[d] += noise(random);
    }
    add(patches);
  }
  EXPECT_NE(find(review("wild"), "threshold"), nullptr);
}

// ---- Pixels
// --------------------------------------------------------------------------------------

Image filled(const std::function<std::array<int, 3>(std::size_t, std::size_t)>& colour) {
  Image image{32, 32, {}};
  for (std::size_t y = 0; y < 32; ++y) {
    for (std::size_t x = 0; x < 32; ++x) {
      for (const int value : colour(x, y)) image.rgb.push_back(static_cast<std::uint8_t>(value));
    }
  }
  return image;
}

TEST(Review, TellsMasksAndGrayImages) {
  const ImageLook mask = look_at(filled([](std::size_t x, std::size_t) {
    const int v = x > 20 ? 250 : 3;
    return std::array{v, v, v};
  }));
  EXPECT_TRUE(mask.blank);
  EXPECT_TRUE(mask.gray);
  EXPECT_TRUE(look_at(filled([](auto, auto) { return std::array{120, 121, 119}; })).blank);
  const ImageLook gray = look_at(filled([](std::size_t x, std::size_t) {
    const int v = static_cast<int>(6 * x);
    return std::array{v, v, v};
  }));
  EXPECT_FALSE(gray.blank);
  EXPECT_TRUE(gray.gray);
  const ImageLook tinted = look_at(filled([](std::size_t x, std::size_t) {
    const int v = static_cast<int>(6 * x);
    return std::array{v, v + 1, v};
  }));
  EXPECT_FALSE(tinted.gray);
  const ImageLook two_colours = look_at(filled([](std::size_t x, std::size_t) {
    return x > 20 ? std::array{200, 20, 20} : std::array{20, 20, 20};
  }));
  EXPECT_FALSE(two_colours.blank);
}

// Not by what lies outside of the region.
TEST(Review, LooksAtTheRegionAlone) {
  RegionOfInterest region;
  region.width = 32;
  region.height = 32;
  region.polygons = {{{4, 4}, {20, 4}, {20, 20}, {4, 20}}};
  const auto inside = std::make_shared<const RegionOfInterest>(region);
  const auto is_in = [](std::size_t x, std::size_t y) {
    return x >= 4 && x < 20 && y >= 4 && y < 20;
  };
  const auto blank_in = [&](std::size_t x, std::size_t y) {
    const int v = static_cast<int>(7 * x + y);
    return is_in(x, y) ? std::array{90, 90, 90} : std::array{v, 255 - v, v};
  };
  const auto lively_in = [&](std::size_t x, std::size_t y) {
    const int v = static_cast<int>(7 * x + y);
    return is_in(x, y) ? std::array{v, v, v} : std::array{200, 20, 20};
  };
  EXPECT_TRUE(look_at(filled(blank_in), inside).blank);
  EXPECT_TRUE(look_at(filled(blank_in), inside).gray);
  EXPECT_FALSE(look_at(filled(blank_in)).blank);
  EXPECT_FALSE(look_at(filled(lively_in), inside).blank);
  EXPECT_TRUE(look_at(filled(lively_in), inside).gray);
  EXPECT_FALSE(look_at(filled(lively_in)).gray);
}

TEST_F(ReviewOfImages, TellsMasksAndMixedColours) {
  Made made(1);
  add(made, 20);
  looks_.assign(20, {});
  looks_[4].blank = true;
  looks_[7].gray = true;
  const Review seen = review("part");
  ASSERT_NE(find(seen, "masks"), nullptr);
  EXPECT_EQ(find(seen, "masks")->images, std::vector<std::size_t>{4});
  ASSERT_NE(find(seen, "colour"), nullptr);
  EXPECT_EQ(find(seen, "colour")->images, std::vector<std::size_t>{7});
}

TEST(Review, ASheetShowsEachPicture) {
  std::vector<SheetPicture> pictures(7);
  for (SheetPicture& picture : pictures) {
    picture.image = filled([](auto, auto) { return std::array{9, 200, 9}; });
    picture.caption = {"a name that is by far too long for the picture it stands under.png", "1"};
  }
  pictures[6].marked = true;
  const Image sheet = contact_sheet("part \xc3\xa4", pictures);
  EXPECT_EQ(sheet.rgb.size(), 3 * sheet.width * sheet.height);
  std::size_t green = 0;
  std::size_t red = 0;
  for (std::size_t i = 0; i < sheet.rgb.size(); i += 3) {
    green += sheet.rgb[i] == 9 && sheet.rgb[i + 1] == 200 ? 1U : 0U;
    red += sheet.rgb[i] == 214 && sheet.rgb[i + 1] == 48 ? 1U : 0U;
  }
  EXPECT_EQ(green, 7U * 256 * 256);
  EXPECT_EQ(red, 4U * 4 * 260);
  EXPECT_GT(contact_sheet("none", {}).width, 0U);
}

// ---- Files
// ---------------------------------------------------------------------------------------

class ReviewOfFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        ("review_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void touch(const std::string& name) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "x";
  }
  void make_split(const std::string& name) const {
    for (const char* file : {"/train/good/0.png", "/train/good/1.png", "/test/good/0.png",
                             "/test/crack/0.png", "/ground_truth/crack/0_mask.png"}) {
      touch(name + file);
    }
  }
  FoundImages found(const std::vector<std::string>& names) const {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back((folder_ / name).string());
    return find_good_images(paths);
  }
  static std::string kinds(const FoundImages& found) {
    std::string text;
    for (const Remark& remark : found.remarks) text += remark.kind + ' ';
    return text;
  }

  fs::path folder_;
};

TEST_F(ReviewOfFiles, OfADataSetOnlyTheGoodOnesAreTaken) {
  make_split("bottle");
  const FoundImages whole = found({"bottle"});
  EXPECT_EQ(whole.files.size(), 2U);
  EXPECT_EQ(kinds(whole), "split ");
  EXPECT_NE(whole.remarks[0].text.find("crack"), std::string::npos) << whole.remarks[0].text;
  EXPECT_EQ(found({"bottle/"}).files.size(), 2U);
  const FoundImages tests = found({"bottle/test"});
  EXPECT_EQ(tests.files.size(), 1U);
  EXPECT_EQ(kinds(tests), "split ");
}

TEST_F(ReviewOfFiles, AFolderIsTheSameWithASlashAtItsEnd) {
  make_split("bottle");
  touch("bottle/train/odd/0.png");
  for (const std::string folder : {"bottle", "bottle/train", "bottle/test", "bottle/ground_truth",
                                   "bottle/test/crack", "bottle/train/good"}) {
    const FoundImages plain = found({folder});
    for (const char* end : {"/", "//", "/."}) {
      const FoundImages seen = found({folder + end});
      EXPECT_EQ(seen.files.size(), plain.files.size()) << folder << end;
      EXPECT_EQ(kinds(seen), kinds(plain)) << folder << end;
    }
  }
}

TEST_F(ReviewOfFiles, AFileThatIsGivenTwiceIsTakenOnce) {
  touch("a/0.png");
  touch("a/1.png");
  touch("b/0.png");
  fs::create_directory_symlink(folder_ / "a", folder_ / "link");
  const FoundImages seen = found({"a/1.png", "a", "a/../a/0.png", "link", "b"});
  const std::vector<std::string> wanted = {(folder_ / "a/1.png").string(),
                                           (folder_ / "a/0.png").string(),
                                           (folder_ / "b/0.png").string()};
  EXPECT_EQ(seen.files, wanted);
  EXPECT_EQ(kinds(seen), "");
}

TEST_F(ReviewOfFiles, WhatIsAskedForByNameIsTaken) {
  make_split("bottle");
  EXPECT_EQ(kinds(found({"bottle/train/good", "bottle/test/good"})), "");
  EXPECT_EQ(found({"bottle/train/good", "bottle/test/good"}).files.size(), 3U);
  EXPECT_EQ(kinds(found({"bottle/train"})), "");
  const FoundImages cracks = found({"bottle/train/good", "bottle/test/crack"});
  EXPECT_EQ(cracks.files.size(), 3U);
  ASSERT_EQ(kinds(cracks), "defects ");
  EXPECT_EQ(cracks.remarks[0].images, std::vector<std::size_t>{2});
  EXPECT_EQ(kinds(found({"bottle/ground_truth"})), "masks ");
  EXPECT_EQ(kinds(found({"bottle/test/crack/0.png"})), "defects ");
}

TEST_F(ReviewOfFiles, SeveralDataSetsAreNamed) {
  make_split("all/bottle");
  make_split("all/screw");
  const FoundImages both = found({"all"});
  EXPECT_EQ(both.files.size(), 4U);
  EXPECT_EQ(kinds(both), "split split split ");
  EXPECT_NE(both.remarks[2].text.find("bottle, screw"), std::string::npos);
}

TEST_F(ReviewOfFiles, MasksBesideTheirImagesAreLeftOut) {
  touch("a/0.png");
  touch("a/0_mask.png");
  touch("a/gas_mask.png");  // a product
  const FoundImages seen = found({"a"});
  EXPECT_EQ(seen.files.size(), 2U);
  EXPECT_EQ(kinds(seen), "masks ");
}

TEST_F(ReviewOfFiles, PicturesThatAreNotReadAreNamed) {
  touch("a/0.png");
  touch("a/1.HEIC");
  touch("a/notes.txt");
  touch("a/.hidden.heic");
  const FoundImages seen = found({"a"});
  EXPECT_EQ(seen.files.size(), 1U);
  ASSERT_EQ(kinds(seen), "unread ");
  EXPECT_NE(seen.remarks[0].text.find("1.HEIC"), std::string::npos);
  EXPECT_EQ(seen.remarks[0].text.find("hidden"), std::string::npos);
  touch("b/2.heic");
  try {
    found({"b"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("2.heic"), std::string::npos) << error.what();
  }
}

// ---- All together
// --------------------------------------------------------------------------------

DetectorOptions small_options() {
  DetectorOptions options;
  options.backbone = "builtin";
  options.geometry = Geometry::parse("96", "none");
  options.dimension = 128;
  options.precision = Precision::kFloat;
  options.capacity = 400;
  return options;
}

class ReviewByDetector : public ReviewOfFiles {
 protected:
  std::vector<std::string> product(std::size_t good, std::size_t defective) {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < good + defective; ++i) {
      files.push_back((folder_ / (std::to_string(100 + i) + ".png")).string());
      Image image = make_product("wood", i, "", 1).image;
      const std::size_t corner = 10 * (i + 1 - std::min(i + 1, good));
      for (std::size_t y = corner; i >= good && y < corner + 120; ++y) {
        for (std::size_t x = corner; x < corner + 120; ++x) {
          const bool on = (i % 2 == 0 ? x : y) / (3 + i % 5) % 2 == 0;
          for (std::size_t c = 0; c < 3; ++c) {
            image.rgb[3 * (y * image.width + x) + c] = on == (c == i % 3) ? 255 : 0;
          }
        }
      }
      write_image(files.back(), image);
    }
    return files;
  }
};

TEST_F(ReviewByDetector, ComesBeforeAnythingIsLearnedAndCanRefuse) {
  const std::vector<std::string> files = product(16, 4);
  std::ofstream(folder_ / "broken.png") << "no image";
  std::vector<std::string> all = {(folder_ / "broken.png").string()};
  all.insert(all.end(), files.begin(), files.end());
  for (const bool online : {false, true}) {
    Detector detector(small_options());
    Compute compute(1);
    LearnOptions options;
    options.task = "wood";
    options.online = online;
    std::size_t told = 0;
    options.reviewed = [&](const Review& review) {
      ++told;
      EXPECT_EQ(detector.memory().size(), 0U);
      std::size_t defects = 0;
      for (std::size_t i = 0; i < 4; ++i) defects += review.strangest[i].image > 16 ? 1U : 0U;
      EXPECT_EQ(defects, 4U) << "numbers are those of the files, the broken one counted";
      throw Error(Error::Kind::kInput, "no");
    };
    EXPECT_THROW(detector.learn(all, options, compute), Error);
    EXPECT_EQ(detector.memory().tasks().size(), 0U);
    options.reviewed = {};
    const LearnReport report = detector.learn(all, options, compute);
    EXPECT_EQ(report.learned, 20U);
    EXPECT_EQ(report.review.images, 20U);
    EXPECT_EQ(report.skipped.size(), 1U);
    options.strict = true;
    EXPECT_THROW(detector.learn(files, options, compute), Error);  // all of them learned before
    EXPECT_EQ(detector.memory().tasks()[0].images, 20U);
    EXPECT_EQ(told, 1U);
  }
}

}  // namespace
}  // namespace contcore
