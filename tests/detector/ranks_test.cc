// Several ranks learn what one process learns: the memory's file is the same, byte for byte.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "contcore/detector.h"
#include "contcore/error.h"
#include "contcore/extractor.h"
#include "detector/calibration_scores.h"
#include "detector/learning.h"
#include "detector/reviewing.h"
#include "device/thread_ranks.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using in_threads::on_ranks;

class LearningOnRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("contcore_ranks_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string saved(const Memory& memory, const std::string& name) const {
    memory.save(path(name));
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

struct Product {
  std::string task;
  std::vector<Patches> images;
};

std::vector<Product> products_of(Precision precision) {
  const Extractor extractor({"builtin", {}, Geometry::parse("96", "none"), 128, precision});
  Compute compute(1);
  std::vector<Product> all;
  for (const auto& [task, count] : {std::pair("wood", 13), std::pair("woven_cloth", 9)}) {
    all.push_back({task, {}});
    for (int i = 0; i < count; ++i) {
      const auto number = static_cast<std::size_t>(i == 7 ? 2 : i);  // one comes twice
      all.back().images.push_back(
          extractor.extract(make_product(task, number, "", 1).image, compute));
    }
  }
  return all;
}

LearnHow how_of(const std::string& task) {
  LearnHow how;
  how.task = task;
  how.p = 0.05;
  how.time = "t";
  return how;
}

std::string words(const Review& review) {
  std::string all = std::to_string(review.images) + " " + std::to_string(review.scored);
  for (const Remark& remark : review.remarks) {
    all += "\n" + remark.kind + ": " + remark.text;
    for (const std::size_t i : remark.images) all += " " + std::to_string(i);
  }
  for (const StrangeImage& image : review.strangest) {
    all += "\n" + std::to_string(image.image) + " " + std::to_string(image.score);
  }
  return all;
}

// Learns images [first, end) of each product as one of some ranks, or alone. Returns what the
// reviews said.
std::string learn(Memory& memory, const std::vector<Product>& products, Ranks* ranks,
                  const std::vector<double>& ends, std::size_t in_memory) {
  Compute compute(2);
  std::string said;
  for (const std::size_t p : {0u, 1u, 1u}) {
    const Product& product = products[p];
    const auto n = static_cast<double>(product.images.size());
    const std::size_t r = ranks != nullptr ? ranks->rank() : 0;
    const auto first = static_cast<std::size_t>(r == 0 ? 0.0 : ends[r - 1] * n);
    const auto end = static_cast<std::size_t>(ends[r] * n);
    TrainingSetBuilder builder(128, in_memory);
    for (std::size_t i = first; i < end; ++i) builder.add(product.images[i]);
    const TrainingSet set = builder.view(ranks);
    LearnHow how = how_of(product.task);
    const FoldScores folds = score_task(memory, set, how, compute);
    said += words(review_images(memory, set, {}, folds, how, 0.05, compute));
    learn_scored_task(memory, set, folds, how, compute);
  }
  return said;
}

// Both rules, floats and bytes, room for all and for few; images shared out in all ways, one rank
// having none or all, one its features on disk. The second task again as well.
TEST_F(LearningOnRanks, LearnWhatOneProcessLearns) {
  const std::vector<std::vector<double>> shares = {{1},
                                                   {0.5, 1},
                                                   {0, 1},
                                                   {1, 1},
                                                   {0.1, 0.5, 1},
                                                   {0.2, 0.3, 0.3, 1},
                                                   {0, 0, 0.2, 0.4, 0.5, 0.9, 1}};
  for (const Precision precision : {Precision::kFloat, Precision::k8Bit}) {
    const std::vector<Product> products = products_of(precision);
    for (const Consolidate& rule : {Consolidate{}, Consolidate::paper()}) {
      for (const std::size_t capacity : {60u, 5000u}) {
        const Scalar scalar = precision == Precision::kFloat ? Scalar::kFloat32 : Scalar::kUint8;
        Memory alone(128, capacity, rule, scalar);
        const std::string said = learn(alone, products, nullptr, {1}, 1 << 24);
        const std::string expected = saved(alone, "alone.ccm");
        for (const std::vector<double>& ends : shares) {
          on_ranks(ends.size(), [&](Ranks& ranks) {
            Memory memory(128, capacity, rule, scalar);
            const std::size_t in_memory = ranks.rank() == 1 ? 1 : 1 << 24;
            EXPECT_EQ(learn(memory, products, &ranks, ends, in_memory), said);
            const std::string name = "rank" + std::to_string(ranks.rank()) + ".ccm";
            EXPECT_TRUE(saved(memory, name) == expected)
                << rule.name() << ", " << capacity << ", rank " << ranks.rank() << " of "
                << ends.size();
          });
          if (HasFailure()) return;
        }
      }
    }
  }
}

class DetectorOnRanks : public LearningOnRanks {
 protected:
  static Detector small() {
    DetectorOptions options;
    options.backbone = "builtin";
    options.geometry = Geometry::parse("96", "none");
    options.capacity = 300;
    return Detector(options);
  }

  std::vector<std::string> pieces(std::size_t count) {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < count; ++i) {
      files.push_back(path("wood" + std::to_string(i) + ".png"));
      write_image(files.back(), make_product("wood", i, "", 1).image);
    }
    return files;
  }

  static LearnOptions wood(Ranks* ranks) {
    LearnOptions options;
    options.task = "wood";
    options.ranks = ranks;
    return options;
  }
};

TEST_F(DetectorOnRanks, LearnsFilesAndLeavesOutWhatCannotBeRead) {
  std::vector<std::string> files = pieces(11);
  std::ofstream(files[6]) << "no image";
  Compute compute(2);
  Detector alone = small();
  const LearnReport expected = alone.learn(files, wood(nullptr), compute);
  const Vectors vectors = alone.memory().vectors();
  for (const std::size_t count : {1u, 2u, 4u, 13u}) {  // more ranks than images, too
    on_ranks(count, [&](Ranks& ranks) {
      Compute one(1);
      Detector detector = small();
      const LearnReport report = detector.learn(files, wood(&ranks), one);
      EXPECT_EQ(report.learned, expected.learned);
      EXPECT_EQ(report.different, expected.different);
      EXPECT_EQ(report.patches, expected.patches);
      ASSERT_EQ(report.skipped.size(), 1u);
      EXPECT_EQ(report.skipped[0].reason, expected.skipped[0].reason);
      EXPECT_EQ(words(report.review), words(expected.review));
      const Vectors learned = detector.memory().vectors();
      ASSERT_EQ(learned.rows(), vectors.rows());
      EXPECT_TRUE(std::equal(learned.byte_data(), learned.byte_data() + learned.view().bytes(),
                             vectors.byte_data()));
      EXPECT_EQ(detector.memory().calibration_scores(0), alone.memory().calibration_scores(0));
    });
  }
}

// Whatever one rank finds wrong is said by all, and no memory is changed.
TEST_F(DetectorOnRanks, FailTogether) {
  std::vector<std::string> files = pieces(6);
  std::ofstream(files[4]) << "no image";
  const auto expect_on_all = [&](const std::function<void(LearnOptions&)>& change, Error::Kind kind,
                                 const std::string& part) {
    std::atomic<int> failed = 0;
    on_ranks(3, [&](Ranks& ranks) {
      Compute one(1);
      Detector detector = small();
      LearnOptions options = wood(&ranks);
      change(options);
      if (ranks.rank() != 1) options.progress = {};
      try {
        detector.learn(files, options, one);
      } catch (const RanksError& error) {
        EXPECT_EQ(error.kind(), kind);
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        ++failed;
      }
      EXPECT_EQ(detector.memory().size(), 0u);
    });
    EXPECT_EQ(failed, 3) << part;
  };
  expect_on_all([](LearnOptions& options) { options.strict = true; }, Error::Kind::kInput,
                "wood4.png");
  expect_on_all([](LearnOptions& options) { options.online = true; }, Error::Kind::kUsage,
                "online");
  expect_on_all([](LearnOptions& options) { options.task = "\x01"; }, Error::Kind::kInput, "");
  for (const double at : {0.0, 0.5, 0.86, 0.88, 0.9, 0.92, 0.935, 0.95, 0.99}) {
    expect_on_all(
        [at](LearnOptions& options) {
          options.p = 0.2;
          options.progress = [at](double done) { return done < at; };
        },
        Error::Kind::kCancelled, "stopped");
  }
  for (const std::string& file : files) std::ofstream(file) << "no image";
  expect_on_all([](LearnOptions&) {}, Error::Kind::kInput, "none of 6 images");
}

}  // namespace
}  // namespace contcore
