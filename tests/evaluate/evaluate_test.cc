// The evaluation from files to measures, on made products and the built-in backbone.
#include "contcore/evaluate.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "contcore/analyze.h"
#include "contcore/error.h"
#include "evaluate/feature_cache.h"
#include "evaluate/gallery.h"
#include "evaluate/leftovers.h"
#include "evaluate/masks.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

Error::Kind kind_of(const std::function<void()>& call, std::string* words = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (words != nullptr) *words = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error::Kind::kInternal;
}

class EvaluateTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("contcore_evaluate_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    ProductCounts counts;
    counts.train = 5;
    counts.test_good = 3;
    counts.test_defective = 4;
    const std::vector<std::string> names = product_names();
    write_products(data(), {names.begin(), names.begin() + 3}, counts, 3);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string data() const { return (folder_ / "data").string(); }
  std::string cache() const { return (folder_ / "cache").string(); }

  EvaluationOptions options() const {
    EvaluationOptions how;
    how.datasets.push_back(open_dataset(data()));
    how.backbone = "builtin";
    how.geometry = Geometry::parse("96", "80");
    how.cache = cache();
    return how;
  }

  static Setting setting(const std::string& method, std::size_t m = 60) {
    Setting s;
    s.method = method;
    s.m = m;
    s.p = 0.05;
    return s;
  }

  static void same(const RunResult& a, const RunResult& b) {
    ASSERT_EQ(a.tasks, b.tasks);
    ASSERT_EQ(a.steps, b.steps);
    ASSERT_EQ(a.vectors, b.vectors);
  }

  Extractor extractor() const { return Extractor({"builtin", {}, Geometry::parse("96", "80")}); }

  std::size_t files_ending(const std::string& folder, const std::string& ending) const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().string().ends_with(ending)) ++count;
    }
    return count;
  }

  std::size_t half_written(const std::string& folder) const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().find(".part-") != std::string::npos) ++count;
    }
    return count;
  }

  fs::path folder_;
  Compute compute_{2};
};

TEST_F(EvaluateTest, MeasuresEveryClassSeenSoFarAfterEachTask) {
  EvaluationOptions how = options();
  how.schedule = "2-1";
  Evaluation evaluation(how);
  const RunResult result = evaluation.run(setting("contcore"), compute_);
  ASSERT_EQ(result.tasks.size(), 2U);
  EXPECT_EQ(result.tasks[0].size(), 2U);
  ASSERT_EQ(result.steps.size(), 2U);
  EXPECT_EQ(result.steps[0].size(), 2U);
  EXPECT_EQ(result.steps[1].size(), 3U);
  for (const auto& step : result.steps) {
    for (const Measures& measures : step) {
      for (const auto& value : measures) {
        ASSERT_TRUE(value.has_value());
        EXPECT_GE(*value, 0);
        EXPECT_LE(*value, 1);
      }
    }
  }
  EXPECT_LE(result.vectors, 60U);
  EXPECT_EQ(result.numbers, result.vectors * 1024);
  EXPECT_GT(result.gflops, 0);
  EXPECT_GT(result.parameters, 0U);
  EXPECT_FALSE(result.gallery.empty());
  for (const Verdict& verdict : result.gallery) {
    EXPECT_EQ(verdict.image.width, 80U);
    EXPECT_GT(verdict.heat.width, 0U);
    EXPECT_EQ(verdict.mask.width, verdict.defect ? 80U : 0U);
  }
}

TEST_F(EvaluateTest, AnyNumberOfThreadsAndTheCacheGiveTheSame) {
  bool cached = true;
  const RunResult first = Evaluation(options()).run(setting("contcore"), compute_, {}, &cached);
  EXPECT_FALSE(cached);
  const RunResult again = Evaluation(options()).run(setting("contcore"), compute_, {}, &cached);
  EXPECT_TRUE(cached);
  same(first, again);
  ASSERT_EQ(again.gallery.size(), first.gallery.size());
  EXPECT_EQ(again.gallery[0].heat.rgb, first.gallery[0].heat.rgb);

  EvaluationOptions fresh = options();
  fresh.fresh = true;
  Compute one(1);
  same(first, Evaluation(fresh).run(setting("contcore"), one, {}, &cached));
  EXPECT_FALSE(cached);
  EvaluationOptions none = options();
  none.cache.clear();
  same(first, Evaluation(none).run(setting("contcore"), compute_, {}, &cached));
  EXPECT_FALSE(cached);

  Evaluation(options()).run(setting("contcore", 59), compute_, {}, &cached);
  EXPECT_FALSE(cached) << "another m is another run";
}

TEST_F(EvaluateTest, AChangedImageIsAnotherRun) {
  bool cached = true;
  Evaluation(options()).run(setting("dne"), compute_, {}, &cached);
  const std::string name = product_names()[0];
  const std::string file = data() + "/" + name + "/train/good/000.png";
  write_image(file, make_product(name, 99, "", 8).image);
  Evaluation(options()).run(setting("dne"), compute_, {}, &cached);
  EXPECT_FALSE(cached);
}

// The same file again with another mask, and with the other half of it.
TEST_F(EvaluateTest, AChangedMaskIsAnotherRun) {
  bool cached = true;
  const EvaluationOptions how = options();
  const RunResult before = Evaluation(how).run(setting("contcore"), compute_, {}, &cached);
  for (const Product& product : how.datasets[0].products) {
    for (const TestImage& test : product.test) {
      if (!test.defect) continue;
      Image mask = read_image(test.mask);
      for (std::uint8_t& value : mask.rgb) value = static_cast<std::uint8_t>(255 - value);
      write_image(test.mask, mask);
    }
  }
  const RunResult after = Evaluation(options()).run(setting("contcore"), compute_, {}, &cached);
  EXPECT_FALSE(cached);
  EXPECT_EQ(after.steps[0][0][kImageAuroc], before.steps[0][0][kImageAuroc]);
  EXPECT_NE(after.steps[0][0][kPixelAuroc], before.steps[0][0][kPixelAuroc]);
  Evaluation(options()).run(setting("contcore"), compute_, {}, &cached);
  EXPECT_TRUE(cached);
  EvaluationOptions renamed = options();  // what the gallery calls it
  renamed.datasets[0].products[0].test[0].kind = "another";
  Evaluation(renamed).run(setting("contcore"), compute_, {}, &cached);
  EXPECT_FALSE(cached);
}

TEST_F(EvaluateTest, WhatIsUndefinedIsNotZero) {
  const std::string name = product_names()[0];
  EvaluationOptions how = options();
  Product& product = how.datasets[0].products[0];
  std::erase_if(product.test, [](const TestImage& image) { return image.defect; });
  how.datasets[0].products[1].masks = false;
  const RunResult result = Evaluation(how).run(setting("contcore"), compute_);
  const std::vector<Measures>& last = result.steps.back();
  EXPECT_FALSE(last[0][kImageAuroc].has_value()) << "no defects";
  EXPECT_FALSE(last[0][kAupro].has_value());
  EXPECT_TRUE(last[1][kImageAuroc].has_value());
  EXPECT_FALSE(last[1][kPixelAuroc].has_value()) << "no masks";
  EXPECT_TRUE(last[2][kPixelAuroc].has_value());
  const Summary summary = summarise(result);
  EXPECT_FALSE(summary.average[kImageAuroc].has_value());
  const RunResult without_maps = Evaluation(options()).run(setting("dne"), compute_);
  EXPECT_TRUE(without_maps.steps.back()[0][kImageAuroc].has_value());
  EXPECT_FALSE(without_maps.steps.back()[0][kPixelAuroc].has_value());
}

TEST_F(EvaluateTest, BadInputIsNamed) {
  std::string words;
  EvaluationOptions how = options();
  how.schedule = "1x15";
  EXPECT_EQ(kind_of([&] { Evaluation{how}; }, &words), Error::Kind::kUsage);
  EXPECT_NE(words.find("15"), std::string::npos);
  EXPECT_NE(words.find("3"), std::string::npos);
  how = options();
  how.classes = {"nothing"};
  EXPECT_EQ(kind_of([&] { Evaluation{how}; }, &words), Error::Kind::kUsage);
  EXPECT_NE(words.find("nothing"), std::string::npos);

  // A mask of another size.
  const TestImage* defect = nullptr;
  how = options();
  for (const TestImage& image : how.datasets[0].products[0].test) {
    if (image.defect) defect = &image;
  }
  write_image(defect->mask, {10, 10, std::vector<std::uint8_t>(300, 255)});
  EXPECT_EQ(kind_of([&] { Evaluation(how).run(setting("contcore"), compute_); }, &words),
            Error::Kind::kInput);
  EXPECT_NE(words.find(defect->mask), std::string::npos);
  EXPECT_NE(words.find("10 x 10"), std::string::npos);

  // An image that is none.
  std::ofstream(how.datasets[0].products[1].train[2]) << "not an image";
  EXPECT_EQ(kind_of([&] { Evaluation(how).run(setting("contcore"), compute_); }, &words),
            Error::Kind::kInput);
  EXPECT_EQ(half_written(cache() + "/features"), 0U) << "a half-written file is left";

  for (const Setting& wrong : {setting("contcore", 0), setting("no-such-method")}) {
    EXPECT_EQ(kind_of([&] { Evaluation(options()).run(wrong, compute_); }), Error::Kind::kUsage);
  }
  Setting p = setting("contcore");
  p.p = 0;
  EXPECT_EQ(kind_of([&] { Evaluation(options()).run(p, compute_); }), Error::Kind::kUsage);
}

TEST_F(EvaluateTest, StopsWhenAsked) {
  Evaluation evaluation(options());
  EXPECT_EQ(kind_of([&] {
              evaluation.run(setting("contcore"), compute_, [](double done) { return done < 0.4; });
            }),
            Error::Kind::kCancelled);
}

TEST_F(EvaluateTest, ProgressNeverFallsAndReachesTheEnd) {
  double last = 0;
  Evaluation(options()).run(setting("contcore"), compute_, [&](double done) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1 + 1e-9);
    last = done;
    return true;
  });
  EXPECT_EQ(last, 1);
}

TEST_F(EvaluateTest, WithoutAFolderFeaturesAreExtractedOnce) {
  const Extractor extract = extractor();
  const FeatureCache features("", 0);
  const std::vector<std::string> files = options().datasets[0].products[0].train;
  EXPECT_FALSE(features.has(extract, files));
  const auto first = features.get(extract, files, compute_, {});
  EXPECT_TRUE(features.has(extract, files));
  EXPECT_EQ(features.get(extract, files, compute_, {}), first);
}

TEST_F(EvaluateTest, ACacheTooSmallCostsTimeAlone) {
  const RunResult expected = Evaluation(options()).run(setting("contcore"), compute_);
  EvaluationOptions tiny = options();
  tiny.cache = cache() + "2";
  tiny.cache_limit = 1;
  double last = 0;
  same(expected, Evaluation(tiny).run(setting("contcore"), compute_, [&](double done) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1 + 1e-9);
    last = done;
    return true;
  }));
  EXPECT_EQ(last, 1);
}

TEST_F(EvaluateTest, TheCacheIsMadeAnewWhenDamaged) {
  const Extractor extract = extractor();
  const FeatureCache features(cache() + "/features", std::size_t{1} << 30);
  const std::vector<std::string> files = options().datasets[0].products[0].train;
  const auto first = features.get(extract, files, compute_, {});
  EXPECT_TRUE(features.has(extract, files));
  const std::string base = cache() + "/features/" + FeatureCache::key(extract, files);
  const auto intact = [&] {
    const auto again = features.get(extract, files, compute_, {});
    ASSERT_EQ(again->vectors.view().rows, first->vectors.view().rows);
    ASSERT_EQ(again->images.size(), files.size());
    // But for the last row of the file that is cut short below, and still mapped.
    const VectorView a = first->vectors.view().part(0, first->vectors.view().rows - 1);
    ASSERT_EQ(again->vectors.view().scalar, Scalar::kUint8);
    ASSERT_EQ(std::memcmp(a.data, again->vectors.view().data, a.bytes()), 0);
  };
  intact();
  fs::resize_file(base + ".npy", fs::file_size(base + ".npy") - 5);
  intact();
  for (const char* text : {"", "{}", "[1, 2", R"({"images": [[1, 2]], "seconds": 1})",
                           R"({"images": [[-1,1,1,1,1,0,0,0,0,1,1]], "seconds": 1})",
                           R"({"images": "x", "seconds": {}})"}) {
    std::ofstream(base + ".json") << text;
    intact();
  }
  fs::remove(base + ".json");
  intact();
}

TEST_F(EvaluateTest, TheCacheStaysWithinItsLimit) {
  const Extractor extract = extractor();
  const EvaluationOptions how = options();
  const auto& products = how.datasets[0].products;
  const std::string folder = cache() + "/features";
  std::size_t one = 0;
  {
    const FeatureCache features(folder, std::size_t{1} << 30);
    features.get(extract, products[0].train, compute_, {});
    one = fs::file_size(folder + "/" + FeatureCache::key(extract, products[0].train) + ".npy");
    features.get(extract, products[1].train, compute_, {});
  }
  const fs::path first = folder + "/" + FeatureCache::key(extract, products[0].train) + ".npy";
  const fs::path second = folder + "/" + FeatureCache::key(extract, products[1].train) + ".npy";
  fs::last_write_time(second, fs::file_time_type::clock::now() - std::chrono::hours(5));
  const FeatureCache features(folder, 2 * one + one / 2);
  features.get(extract, products[2].train, compute_, {});
  EXPECT_TRUE(fs::exists(first));
  EXPECT_FALSE(fs::exists(second)) << "what was used longest ago goes first";
  EXPECT_TRUE(features.has(extract, products[2].train));

  const FeatureCache tiny(folder + "2", one / 2);
  EXPECT_EQ(tiny.get(extract, products[0].train, compute_, {})->images.size(), 5U);
  EXPECT_EQ(files_ending(folder + "2", ""), 0U);
}

// Of a process that was killed while it extracted, and of one that still does.
TEST_F(EvaluateTest, TheCacheRemovesWhatNobodyWritesAnyMore) {
  const Extractor extract = extractor();
  const EvaluationOptions how = options();
  const auto& products = how.datasets[0].products;
  const std::string folder = cache() + "/features";
  fs::create_directories(folder);
  const std::string dead = folder + "/" + std::string(32, 'a') + ".part-1";
  const std::string alive = folder + "/" + std::string(32, 'b') + ".part-1";
  const std::string other = folder + "/notes.part-1";  // not of the cache
  for (const std::string& file : {dead, alive, other}) std::ofstream(file) << "half";
  const int writer = ::open(alive.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(writer, LOCK_EX | LOCK_NB), 0);
  std::size_t one = 0;
  {
    const FeatureCache features(folder, std::size_t{1} << 30);
    EXPECT_FALSE(fs::exists(dead));
    std::ofstream(dead) << "killed meanwhile";
    std::size_t seen = 0;
    const auto look = [&](double) {
      seen = std::max(seen, half_written(folder));
      FeatureCache(folder, 1);  // another run begins: ours is in use
      return true;
    };
    Compute alone(1);
    features.get(extract, products[0].train, alone, look);
    EXPECT_EQ(seen, 4U) << "dead, alive, other and ours";
    EXPECT_TRUE(features.has(extract, products[0].train));
    EXPECT_FALSE(fs::exists(dead));
    EXPECT_TRUE(fs::exists(alive));
    EXPECT_TRUE(fs::exists(other));
    one = fs::file_size(folder + "/" + FeatureCache::key(extract, products[0].train) + ".npy");
  }
  // What is being written takes room.
  fs::resize_file(alive, one);
  const FeatureCache features(folder, 2 * one + one / 2);
  features.get(extract, products[1].train, compute_, {});
  EXPECT_FALSE(features.has(extract, products[0].train));
  EXPECT_TRUE(features.has(extract, products[1].train));
  EXPECT_TRUE(fs::exists(alive));
  ::close(writer);
  const FeatureCache later(folder, std::size_t{1} << 30);
  EXPECT_FALSE(fs::exists(alive));
}

// Of machines that use the same folder, whose locks are not seen here.
TEST_F(EvaluateTest, TheCacheLeavesAloneWhatAnotherMachineWrites) {
  const std::string folder = cache() + "/features";
  fs::create_directories(folder);
  const std::string base = folder + "/" + std::string(32, 'a') + ".part-1-0.";
  for (const std::string& machine : {machine_name(), std::string("another")}) {
    std::ofstream(base + machine) << "half";
  }
  { const FeatureCache features(folder, 1); }
  EXPECT_FALSE(fs::exists(base + machine_name()));
  EXPECT_TRUE(fs::exists(base + "another"));
  fs::last_write_time(base + "another", fs::file_time_type::clock::now() - std::chrono::hours(25));
  { const FeatureCache features(folder, 1); }
  EXPECT_FALSE(fs::exists(base + "another"));
}

TEST_F(EvaluateTest, TheCacheMakesNoRoomWithWhatIsRead) {
  const Extractor extract = extractor();
  const EvaluationOptions how = options();
  const auto& products = how.datasets[0].products;
  const FeatureCache large(cache() + "/features", std::size_t{1} << 30);
  auto made = large.get(extract, products[0].train, compute_, {});
  const std::size_t one = made->vectors.view().bytes();
  const FeatureCache small(cache() + "/features", one + one / 2);
  small.get(extract, products[1].train, compute_, {});
  EXPECT_TRUE(large.has(extract, products[0].train)) << "who made it reads it";
  made = nullptr;
  auto found = large.get(extract, products[0].train, compute_, {});
  small.get(extract, products[2].train, compute_, {});
  EXPECT_TRUE(large.has(extract, products[0].train)) << "who found it reads it";
  EXPECT_FALSE(large.has(extract, products[1].train));
  found = nullptr;
  small.get(extract, products[1].train, compute_, {});
  EXPECT_FALSE(large.has(extract, products[0].train));
}

// Several processes use a folder that has room for one: each gets what it asks for, whatever the
// others make room with meanwhile. (A lock is of an open file, so threads do.)
TEST_F(EvaluateTest, TheCacheGivesWhatIsAskedForWhoeverMakesRoom) {
  const Extractor extract = extractor();
  const EvaluationOptions how = options();
  const auto& products = how.datasets[0].products;
  const std::string folder = cache() + "/features";
  std::vector<std::vector<std::string>> lists;  // of one image, so that it goes fast
  std::vector<std::shared_ptr<const ImageFeatures>> expected;
  for (std::size_t i = 0; i < 3; ++i) {
    Compute alone(1);
    lists.push_back({products[0].train[i]});
    expected.push_back(FeatureCache("", 0).get(extract, lists[i], alone, {}));
  }
  std::vector<std::thread> processes;
  std::atomic<int> wrong = 0;
  for (std::size_t process = 0; process < 4; ++process) {
    processes.emplace_back([&, process] {
      const FeatureCache features(folder, expected[0]->vectors.view().bytes() * 3 / 2);
      Compute alone(1);
      for (std::size_t i = 0; i < 300; ++i) {
        const std::size_t which = (i + process / 2) % lists.size();
        try {
          const auto found = features.get(extract, lists[which], alone, {});
          const VectorView a = found->vectors.view();
          const VectorView b = expected[which]->vectors.view();
          if (a.rows != b.rows || std::memcmp(a.data, b.data, b.bytes()) != 0) ++wrong;
        } catch (const Error& error) {
          ++wrong;
          ADD_FAILURE() << error.what();
        }
      }
    });
  }
  for (std::thread& one : processes) one.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(half_written(folder), 0U);
}

// Two extract the same at once: the first one's file stays where it is.
TEST_F(EvaluateTest, TheCacheDoesNotReplaceWhatIsWhole) {
  const Extractor extract = extractor();
  const EvaluationOptions how = options();
  const std::vector<std::string>& files = how.datasets[0].products[0].train;
  const std::string folder = cache() + "/features";
  const std::string name = folder + "/" + FeatureCache::key(extract, files) + ".npy";
  const FeatureCache features(folder, std::size_t{1} << 30);
  std::shared_ptr<const ImageFeatures> sooner;
  FileIdentity of_sooner("");
  const auto later = features.get(extract, files, compute_, [&](double) {
    if (sooner) return true;
    Compute other(1);
    sooner = FeatureCache(folder, std::size_t{1} << 30).get(extract, files, other, {});
    of_sooner = FileIdentity(name);
    return true;
  });
  const FileIdentity now(name);
  EXPECT_EQ(now.inode, of_sooner.inode);
  EXPECT_NE(now.inode, 0U);
  EXPECT_EQ(half_written(folder), 0U);
  const VectorView a = sooner->vectors.view();
  ASSERT_EQ(a.rows, later->vectors.view().rows);
  EXPECT_EQ(std::memcmp(a.data, later->vectors.view().data, a.bytes()), 0);
}

TEST_F(EvaluateTest, MasksFollowResizeAndCrop) {
  // 200 x 100, shown as 96 x 96 of which the middle 80: x = 200·(8 + i + ½)/96.
  Image mask{200, 100, std::vector<std::uint8_t>(200 * 100 * 3)};
  for (std::size_t y = 20; y < 60; ++y) {
    for (std::size_t x = 50; x < 140; ++x) {
      for (std::size_t c = 0; c < 3; ++c) mask.rgb[(y * 200 + x) * 3 + c] = 255;
    }
  }
  const std::string file = (folder_ / "mask.png").string();
  write_image(file, mask);
  ImagePlace place;
  place.image_width = 200;
  place.image_height = 100;
  place.input = prepare(mask, Geometry::parse("96", "80"));
  const Mask seen = read_mask(file, place);
  ASSERT_EQ(seen.width, 80U);
  for (std::size_t j = 0; j < 80; ++j) {
    for (std::size_t i = 0; i < 80; ++i) {
      const double x = 200.0 * (8.0 + static_cast<double>(i) + 0.5) / 96.0;
      const double y = 100.0 * (8.0 + static_cast<double>(j) + 0.5) / 96.0;
      const bool inside = x >= 50 && x < 140 && y >= 20 && y < 60;
      ASSERT_EQ(seen.values[j * 80 + i] != 0, inside) << i << ", " << j;
    }
  }
  // Numbers of kinds instead of white.
  for (std::uint8_t& value : mask.rgb) value = value != 0 ? 3 : 0;
  write_image(file, mask);
  EXPECT_EQ(read_mask(file, place).values, seen.values);
}

TEST(Gallery, TheLevelOfLargestF1) {
  Product product;
  const std::vector<bool> defects = {false, true, false, true, true, false};
  const std::vector<float> values = {1, 5, 4, 6, 3, 2};
  std::vector<TestScore> scores;
  for (std::size_t i = 0; i < values.size(); ++i) {
    product.test.push_back({"", "", defects[i], ""});
    scores.push_back({0, i, values[i]});
  }
  // Above 2.5 are all three defects and one good one: F1 = 6/7; above 4.5 two of three: 4/5.
  EXPECT_FLOAT_EQ(best_level(scores, product), 2.5F);
  for (TestImage& image : product.test) image.defect = false;
  EXPECT_FLOAT_EQ(best_level(scores, product), 6.0F);
  EXPECT_EQ(best_level({}, product), 0.0F);
}

TEST_F(EvaluateTest, TheBoundHoldsOnMadeProducts) {
  BoundOptions how;
  how.images = 3;
  how.per_task = 8;
  how.p = 0.05;
  const std::vector<Bound> bounds = analyze_bound(options(), how, compute_);
  ASSERT_EQ(bounds.size(), 2U);
  for (const Bound& bound : bounds) {
    EXPECT_EQ(bound.epsilon.size(), bound.tasks);
    EXPECT_EQ(bound.epsilon_hat.size(), bound.tasks);
    EXPECT_LE(bound.distance, bound.bound());
    EXPECT_LE(bound.covering, bound.certificate);
    EXPECT_GT(bound.distance, 0);
    double worst = 0;  // the definition, forwards
    for (std::size_t k = 0; k < bound.tasks; ++k) {
      double sum = bound.epsilon[k];
      for (std::size_t j = k; j < bound.tasks; ++j) sum += bound.epsilon_hat[j];
      worst = std::max(worst, sum);
    }
    EXPECT_NEAR(bound.continued, worst, 1e-9);
  }
  how.most_tasks = 1;
  EXPECT_EQ(kind_of([&] { analyze_bound(options(), how, compute_); }), Error::Kind::kInput);
}

TEST_F(EvaluateTest, AMethodIsLikeItself) {
  const std::vector<Likeness> rows =
      analyze_compare(options(), {setting("patchcore-oracle"), setting("random")},
                      setting("patchcore-oracle"), compute_);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].overlap, rows[0].vectors);
  EXPECT_EQ(rows[0].average_minimum, 0);
  EXPECT_EQ(rows[0].hausdorff, 0);
  EXPECT_NEAR(rows[0].sliced_wasserstein, 0, 1e-6);
  EXPECT_LT(rows[1].overlap, rows[1].vectors);
  EXPECT_GT(rows[1].average_minimum, 0);
  EXPECT_EQ(
      kind_of([&] { analyze_compare(options(), {setting("dne")}, setting("random"), compute_); }),
      Error::Kind::kUsage);
}

}  // namespace
}  // namespace contcore
