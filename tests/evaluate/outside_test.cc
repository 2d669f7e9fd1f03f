// Methods from outside the library, judged as those inside are.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/evaluate.h"
#include "contcore/greedy.h"
#include "contcore/method.h"
#include "contcore/nearest.h"
#include "evaluate/gallery.h"
#include "evaluate/method.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr double kPart = 0.05;

// What "patchcore-unbounded" or "latest-only" does, with nothing but what it is handed.
class Copy : public OutsideMethod {
 public:
  explicit Copy(bool latest = false) : latest_(latest) {}

  std::string name() const override { return "copy"; }

  void learn(std::size_t /*task*/, const std::vector<MethodImages>& classes,
             const Progress& progress) override {
    Vectors all;
    for (const MethodImages& images : classes) {
      Vectors one(images.patches.rows, images.patches.cols);
      one.set_rows(0, images.patches);
      all = joined(all, one);
    }
    GreedyOptions how;
    how.count = part_count(kPart, all.rows());
    how.progress = progress;
    Vectors coreset = gather(all.view(), greedy_sample(all.view(), {}, how, compute_).picks);
    memory_ = latest_ ? std::move(coreset) : joined(memory_, coreset);
    index_ = std::make_unique<NearestIndex>(memory_.view(), compute_);
  }

  std::vector<MethodScore> score(const MethodImages& images) override {
    std::vector<MethodScore> scores;
    for (std::size_t i = 0; i < images.files.size(); ++i) {
      const PatchGrid& grid = images.grids[i];
      MethodScore& one = scores.emplace_back();
      one.map = {grid.columns, grid.rows,
                 index_->search(images.patches_of(i), 1, compute_, "patches").distances};
      one.score = *std::max_element(one.map.values.begin(), one.map.values.end());
    }
    return scores;
  }

  std::size_t vectors() const override { return memory_.rows(); }
  std::uint64_t numbers() const override { return memory_.rows() * memory_.cols(); }

 private:
  bool latest_;
  Vectors memory_;
  std::unique_ptr<NearestIndex> index_;
  Compute compute_{2};
};

// Does as told, and writes down what it is handed.
class Told : public OutsideMethod {
 public:
  struct Lesson {
    std::size_t task;
    std::vector<MethodImages> classes;
  };

  std::string name() const override { return called; }
  void learn(std::size_t task, const std::vector<MethodImages>& classes,
             const Progress& progress) override {
    same_thread();
    lessons.push_back({task, classes});
    if (on_learn) on_learn(classes, progress);
  }
  std::vector<MethodScore> score(const MethodImages& images) override {
    same_thread();
    most_asked = std::max(most_asked, images.files.size());
    asked.push_back(images);
    std::vector<MethodScore> scores(images.files.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i].score = by_name(images.files[i]) + shift;
    }
    if (on_score) on_score(images, scores);
    return scores;
  }

  // Some order of the images that depends on nothing but their names.
  static float by_name(const std::string& file) {
    float sum = 1;
    for (const char c : fs::path(file).filename().string()) sum += static_cast<float>(c);
    return file.find("/good/") == std::string::npos ? 2 * sum : sum;
  }

  void same_thread() const { EXPECT_EQ(std::this_thread::get_id(), thread_); }

  std::string called = "told";
  float shift = 0;
  std::function<void(const std::vector<MethodImages>&, const Progress&)> on_learn;
  std::function<void(const MethodImages&, std::vector<MethodScore>&)> on_score;
  std::vector<Lesson> lessons;
  std::vector<MethodImages> asked;
  std::size_t most_asked = 0;

 private:
  std::thread::id thread_ = std::this_thread::get_id();
};

// An error that the library has never heard of.
struct Foreign {
  int number;
};

Map filled(std::size_t width, std::size_t height, float value) {
  return {width, height, std::vector<float>(width * height, value)};
}

class OutsideMethodTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("contcore_outside_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    ProductCounts counts;
    counts.train = 4;
    counts.test_good = 3;
    counts.test_defective = 4;
    const std::vector<std::string> names = product_names();
    write_products((folder_ / "data").string(), {names.begin(), names.begin() + 3}, counts, 3);
  }
  void TearDown() override { fs::remove_all(folder_); }

  EvaluationOptions options() const {
    EvaluationOptions how;
    how.datasets.push_back(open_dataset((folder_ / "data").string()));
    how.backbone = "builtin";
    how.geometry = Geometry::parse("96", "80");
    how.schedule = "2-1";
    how.cache = (folder_ / "cache").string();
    return how;
  }

  static Setting setting(const std::string& method = "") {
    Setting s;
    s.method = method;
    s.p = kPart;
    return s;
  }

  // The words of the Error (kUsage) that a run with it ends with.
  std::string refused(OutsideMethod& method, const Setting& s = setting()) {
    try {
      Evaluation(options()).run(method, s, compute_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kUsage) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }

  // Those of a run in which the second answer of the second class is spoilt.
  std::string refused(const std::function<void(const PatchGrid&, MethodScore&)>& spoil) {
    Told method;
    std::string file;
    const std::string product = product_of(1);
    method.on_score = [&](const MethodImages& images, std::vector<MethodScore>& scores) {
      if (images.product != product) return;
      file = images.files[1];
      spoil(images.grids[1], scores[1]);
    };
    std::string words = refused(method);
    for (const std::string& part : {std::string("told"), product, file}) {
      EXPECT_NE(words.find(part), std::string::npos) << words;
    }
    return words;
  }

  std::string product_of(std::size_t i) const { return Evaluation(options()).products()[i].name; }

  fs::path folder_;
  Compute compute_{2};
};

#define EXPECT_SAYS(words, part) EXPECT_NE((words).find(part), std::string::npos) << (words)

// Catches measures, batches, maps or features that differ between the two kinds of methods.
TEST_F(OutsideMethodTest, ACopyOfAMethodHasItsMeasuresToTheLastBit) {
  Evaluation evaluation(options());
  for (const bool latest : {false, true}) {
    Copy copy(latest);
    const RunResult inside =
        evaluation.run(setting(latest ? "latest-only" : "patchcore-unbounded"), compute_);
    const RunResult outside = evaluation.run(copy, setting("whatever"), compute_);
    EXPECT_EQ(outside.setting.method, "copy");
    EXPECT_EQ(outside.setting.backbone, "builtin");
    EXPECT_EQ(outside.tasks, inside.tasks);
    EXPECT_EQ(outside.steps, inside.steps);
    EXPECT_EQ(outside.vectors, inside.vectors);
    EXPECT_EQ(outside.numbers, inside.numbers);
    EXPECT_EQ(outside.parameters, inside.parameters);
    ASSERT_EQ(outside.gallery.size(), inside.gallery.size());
    ASSERT_FALSE(outside.gallery.empty());
    for (std::size_t i = 0; i < inside.gallery.size(); ++i) {
      EXPECT_EQ(outside.gallery[i].file, inside.gallery[i].file);
      EXPECT_EQ(outside.gallery[i].heat.rgb, inside.gallery[i].heat.rgb);
    }
  }
}

// Catches classes out of order, rows of another image, and places that are not the files'.
TEST_F(OutsideMethodTest, IsHandedTheTasksInOrderWithTheirFilesAndRows) {
  Evaluation evaluation(options());
  const std::vector<Product>& products = evaluation.products();
  const Extractor extractor({"builtin", {}, Geometry::parse("96", "80"), 1024, Precision::kFloat});
  Told method;
  const auto check = [&](const MethodImages& images) {
    const std::size_t n = images.files.size();
    ASSERT_EQ(images.ends.size(), n);
    ASSERT_EQ(images.grids.size(), n);
    ASSERT_EQ(images.seen.size(), n);
    EXPECT_EQ(images.ends.back(), images.patches.rows);
    for (std::size_t i = 0; i < n; ++i) {
      const Image picture = read_image(images.files[i]);
      const Patches patches = extractor.extract(picture, compute_);
      EXPECT_EQ(images.grids[i], patches.grid());
      EXPECT_EQ(images.seen[i].left, patches.input.left);
      EXPECT_EQ(images.seen[i].bottom, patches.input.bottom);
      EXPECT_EQ(images.seen[i].image_width, picture.width);
      EXPECT_EQ(images.seen[i].image_height, picture.height);
      const VectorView own = images.patches_of(i);
      ASSERT_EQ(own.rows, patches.vectors.rows());
      ASSERT_EQ(own.cols, patches.vectors.cols());
      const auto* values = static_cast<const float*>(own.data);
      EXPECT_TRUE(std::equal(values, values + own.rows * own.cols, patches.vectors.data()));
    }
  };
  method.on_learn = [&](const std::vector<MethodImages>& classes, const Progress& progress) {
    EXPECT_TRUE(progress(0.5));
    for (const MethodImages& images : classes) check(images);
  };
  method.on_score = [&](const MethodImages& images, auto&) { check(images); };
  evaluation.run(method, setting(), compute_);

  ASSERT_EQ(method.lessons.size(), 2U);
  std::size_t at = 0;
  for (std::size_t t = 0; t < 2; ++t) {
    EXPECT_EQ(method.lessons[t].task, t);
    ASSERT_EQ(method.lessons[t].classes.size(), evaluation.schedule()[t].size());
    for (const MethodImages& images : method.lessons[t].classes) {
      EXPECT_EQ(images.product, products[at].name);
      EXPECT_EQ(images.files, products[at].train);
      EXPECT_EQ(images.task, t);
      ++at;
    }
  }
  // Classes 0 and 1 after the first task, all three after the second; then the gallery.
  const std::vector<std::size_t> order = {0, 1, 0, 1, 2};
  ASSERT_GT(method.asked.size(), order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(method.asked[i].product, products[order[i]].name);
    EXPECT_EQ(method.asked[i].task, order[i] == 2 ? 1U : 0U);
    EXPECT_EQ(method.asked[i].files.size(), products[order[i]].test.size());
  }
}

// Catches a batch over the limit, and answers that are taken for other images at its borders.
TEST_F(OutsideMethodTest, IsAskedForAtMostThirtyTwoImagesAtATime) {
  EvaluationOptions how = options();
  for (Product& product : how.datasets[0].products) {
    const std::vector<TestImage> once = product.test;
    while (product.test.size() < 70) {
      product.test.insert(product.test.end(), once.begin(), once.end());
    }
  }
  Copy copy;
  Evaluation evaluation(how);
  EXPECT_EQ(evaluation.run(copy, setting(), compute_).steps,
            evaluation.run(setting("patchcore-unbounded"), compute_).steps);
  Told method;
  evaluation.run(method, setting(), compute_);
  EXPECT_EQ(method.most_asked, 32U);
}

// Catches a handler that wraps or swallows what it does not know.
TEST_F(OutsideMethodTest, WhatItThrowsGoesOnUnchanged) {
  Told learning;
  learning.on_learn = [](auto&, auto&) { throw Foreign{7}; };
  try {
    Evaluation(options()).run(learning, setting(), compute_);
    FAIL();
  } catch (const Foreign& foreign) {
    EXPECT_EQ(foreign.number, 7);
  }
  Told scoring;
  scoring.on_score = [](auto&, auto&) { throw Foreign{8}; };
  try {
    Evaluation(options()).run(scoring, setting(), compute_);
    FAIL();
  } catch (const Foreign& foreign) {
    EXPECT_EQ(foreign.number, 8);
  }
}

TEST_F(OutsideMethodTest, AnswersThatCannotBeUsedAreNamed) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_SAYS(refused([](auto&, MethodScore& one) { one = {}; }), "no score");
  EXPECT_SAYS(refused([&](auto&, MethodScore& one) { one.score = kNaN; }), "NaN");
  EXPECT_SAYS(refused([&](auto&, MethodScore& one) { one.score = -kInfinity; }), "infinite");
  EXPECT_SAYS(refused([](const PatchGrid& grid, MethodScore& one) {
                one.map = filled(grid.columns + 1, grid.rows, 1);
              }),
              "80 x 80");
  EXPECT_SAYS(refused([](const PatchGrid& grid, MethodScore& one) {
                one.map = filled(grid.width, grid.height, 1);
                one.map.values.pop_back();
              }),
              "6399 values; give 6400");
  EXPECT_SAYS(refused([](const PatchGrid& grid, MethodScore& one) {
                one.map.width = grid.columns;
                one.map.height = grid.rows;
              }),
              "0 values");
  EXPECT_SAYS(refused([&](const PatchGrid& grid, MethodScore& one) {
                one.map = filled(grid.columns, grid.rows, 1);
                one.map.values[grid.columns + 2] = kNaN;
              }),
              "NaN at column 2, row 1");
  EXPECT_SAYS(refused([&](const PatchGrid& grid, MethodScore& one) {
                one.map = filled(grid.width, grid.height, 1);
                one.map.values[3] = kInfinity;
              }),
              "infinite at column 3, row 0");

  for (const int more : {-1, 1}) {
    Told method;
    method.on_score = [&](auto&, std::vector<MethodScore>& scores) {
      scores.resize(static_cast<std::size_t>(static_cast<int>(scores.size()) + more));
    };
    const std::string words = refused(method);
    EXPECT_SAYS(words, more < 0 ? "6 answers came for 7 images" : "8 answers came for 7 images");
    EXPECT_SAYS(words, "told");
    EXPECT_SAYS(words, product_of(0));
    EXPECT_SAYS(words, Evaluation(options()).products()[0].test[6].file);
  }
}

// A second method of a name would be averaged with the first in a report.
TEST_F(OutsideMethodTest, ANameIsNeededThatNoMethodHas) {
  Told method;
  method.called = "contcore";
  EXPECT_SAYS(refused(method), "contcore");
  method.called = "";
  EXPECT_SAYS(refused(method), "name");
  method.called = "told";
  Setting s = setting();
  s.p = 5;
  EXPECT_SAYS(refused(method, s), "5");
  EXPECT_TRUE(method.lessons.empty());
}

// Catches a result that is taken from the cache although the method has changed, or kept there.
TEST_F(OutsideMethodTest, ResultsAreNotCached) {
  const std::string results = options().cache + "/results";
  const auto kept = [&] {
    return fs::exists(results) ? std::distance(fs::directory_iterator(results), {}) : 0;
  };
  Told first;
  const RunResult before = Evaluation(options()).run(first, setting(), compute_);
  EXPECT_EQ(kept(), 0);
  Told second;
  second.on_score = [](auto&, std::vector<MethodScore>& scores) {
    for (MethodScore& one : scores) one.score = 1 / one.score;
  };
  const RunResult after = Evaluation(options()).run(second, setting(), compute_);
  EXPECT_FALSE(second.lessons.empty());
  EXPECT_EQ(before.steps[1][0][kImageAuroc], 1);
  EXPECT_EQ(after.steps[1][0][kImageAuroc], 0);
}

// Catches pixel measures of nothing, or of the images that happen to have maps.
TEST_F(OutsideMethodTest, PixelsCountWhereEveryImageHasAMap) {
  Told method;
  const RunResult none = Evaluation(options()).run(method, setting(), compute_);
  for (const Measures& measures : none.steps.back()) {
    EXPECT_TRUE(measures[kImageAuroc].has_value());
    EXPECT_FALSE(measures[kPixelAuroc].has_value());
    EXPECT_FALSE(measures[kAupro].has_value());
  }
  ASSERT_FALSE(none.gallery.empty());
  EXPECT_EQ(none.gallery[0].heat.width, 0U);
  const std::string with = product_of(0);
  const std::string some = product_of(1);
  method.on_score = [&](const MethodImages& images, std::vector<MethodScore>& scores) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const PatchGrid& grid = images.grids[i];
      if (images.product == with) scores[i].map = filled(grid.width, grid.height, 1);
      if (images.product == some && i > 0) scores[i].map = filled(grid.columns, grid.rows, 1);
    }
  };
  const RunResult maps = Evaluation(options()).run(method, setting(), compute_);
  const std::vector<Measures>& last = maps.steps.back();
  EXPECT_EQ(last[0][kPixelAuroc], 0.5);
  EXPECT_FALSE(last[1][kPixelAuroc].has_value());
  EXPECT_FALSE(last[2][kPixelAuroc].has_value());
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(last[c][kImageAuroc], none.steps.back()[c][kImageAuroc]) << "made of the map";
  }
}

// A map of the backbone's pixels that is smoothed again would be another.
TEST_F(OutsideMethodTest, AMapOfPixelsIsTakenAsItIs) {
  class InPixels : public Copy {
   public:
    std::vector<MethodScore> score(const MethodImages& images) override {
      std::vector<MethodScore> scores = Copy::score(images);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        scores[i].map = anomaly_map(scores[i].map.values, images.grids[i]);
      }
      return scores;
    }
  };
  Evaluation evaluation(options());
  Copy of_patches;
  InPixels of_pixels;
  EXPECT_EQ(evaluation.run(of_pixels, setting(), compute_).steps,
            evaluation.run(of_patches, setting(), compute_).steps);
}

// Catches a score of the map's where the evaluation's methods are scored by their maps.
TEST_F(OutsideMethodTest, ItsOwnScoreCountsWhateverTheOthersAreScoredBy) {
  EvaluationOptions how = options();
  Copy patch;
  const RunResult by_patch = Evaluation(how).run(patch, setting(), compute_);
  how.score = Score::kMap;
  Copy map;
  const RunResult by_map = Evaluation(how).run(map, setting(), compute_);
  EXPECT_EQ(by_map.steps, by_patch.steps);
  ASSERT_FALSE(by_map.gallery.empty());
  EXPECT_EQ(by_map.gallery[0].heat.rgb, by_patch.gallery[0].heat.rgb);
}

// Log-likelihoods lie below 0: their ratio to a level means nothing.
TEST_F(OutsideMethodTest, ScoresBelowZeroHaveAGalleryToo) {
  Told method;
  method.shift = -1e6F;
  const RunResult result = Evaluation(options()).run(method, setting(), compute_);
  EXPECT_EQ(result.steps.back()[0][kImageAuroc], 1);
  ASSERT_FALSE(result.gallery.empty());
  for (const Verdict& verdict : result.gallery) {
    EXPECT_LT(verdict.level, 0);
    EXPECT_EQ(verdict.score > verdict.level, verdict.defect) << verdict.score;
  }
  // Some above 0, but not the level: heat where the map has its peak, not over all of the picture.
  method.shift = -800;
  method.on_score = [](const MethodImages& images, std::vector<MethodScore>& scores) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i].map = filled(images.grids[i].width, images.grids[i].height, 1);
      scores[i].map.values[0] = 9;
    }
  };
  const RunResult mixed = Evaluation(options()).run(method, setting(), compute_);
  ASSERT_FALSE(mixed.gallery.empty());
  for (const Verdict& verdict : mixed.gallery) {
    const Image plain = draw_overlay(verdict.image, filled(80, 80, 0), {});
    ASSERT_EQ(verdict.heat.width, plain.width);
    const std::size_t middle = (plain.height / 3 * plain.width + plain.width / 2) * 3;
    EXPECT_EQ(verdict.heat.rgb[middle], plain.rgb[middle]) << verdict.score;
  }
  Product product;
  product.test.resize(2, {"", "", true, ""});
  EXPECT_LT(best_level({{0, 0, -3}, {0, 1, -5}}, product), -5) << "all of them are defects";
}

TEST_F(OutsideMethodTest, StopsWhenAskedAndItsProgressNeverFalls) {
  Told method;
  method.on_learn = [](auto&, const Progress& progress) {
    for (const double done : {0.5, 0.1, std::numeric_limits<double>::quiet_NaN(), 7.0, -1.0}) {
      progress(done);
    }
  };
  double last = 0;
  Evaluation(options()).run(method, setting(), compute_, [&](double done) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1 + 1e-9);
    last = done;
    return true;
  });
  EXPECT_EQ(last, 1);
  Told deaf;  // to what progress says
  bool wanted = true;
  deaf.on_learn = [&](auto&, auto&) { wanted = false; };
  try {
    Evaluation(options()).run(deaf, setting(), compute_, [&](double) { return wanted; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kCancelled);
  }
  EXPECT_EQ(deaf.lessons.size(), 1U);
  EXPECT_TRUE(deaf.asked.empty());
  Told calm;  // without anybody to tell, progress can be called
  calm.on_learn = [](auto&, const Progress& progress) { EXPECT_TRUE(progress(0.5)); };
  Evaluation(options()).run(calm, setting(), compute_);
}

// Catches a report that looks the method up among those of the library, and one that trusts its
// name.
TEST_F(OutsideMethodTest, AReportShowsItBesideTheOthers) {
  Evaluation evaluation(options());
  Told method;
  method.called = "mine <b>";
  const RunResult mine = evaluation.run(method, setting(), compute_);
  const RunResult again = result_from_json(to_json(mine), "mine");
  EXPECT_EQ(again.setting.method, "mine <b>");
  EXPECT_EQ(again.steps, mine.steps);
  const std::string folder = (folder_ / "report").string();
  ReportOptions how;
  how.title = "a report";
  how.dataset = "mvtec";
  how.schedule = "2-1";
  write_report(folder, {evaluation.run(setting("contcore"), compute_), mine}, how);
  const auto text = [&](const char* name) {
    std::ifstream stream(fs::path(folder) / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  EXPECT_SAYS(text("index.html"), "mine &lt;b&gt;");
  EXPECT_EQ(text("index.html").find("mine <b>"), std::string::npos);
  for (const char* name : {"results.json", "results.csv"}) EXPECT_SAYS(text(name), "mine <b>");
  EXPECT_SAYS(text("results.md"), "mine");
  EXPECT_SAYS(text("tables.tex"), "mine");
}

}  // namespace
}  // namespace contcore
