// Several ranks evaluate what one process evaluates: the same measures to the last bit, and the
// same pictures.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "contcore/evaluate.h"
#include "device/thread_ranks.h"
#include "evaluate/evaluation.h"
#include "evaluate/result_packing.h"
#include "evaluate/runs.h"
#include "evaluate/sharing.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using in_threads::on_ranks;

// A result without what differs from run to run, with its pictures.
std::string timeless(RunResult result) {
  result.train_seconds = 0;
  result.test_seconds = 0;
  result.peak_bytes = 0;
  std::string text = to_json(result);
  for (const Verdict& verdict : result.gallery) {
    for (const Image* image : {&verdict.image, &verdict.heat, &verdict.mask}) {
      text += std::to_string(image->width) + "x" + std::to_string(image->height) + " ";
      text.append(image->rgb.begin(), image->rgb.end());
    }
  }
  return text;
}

std::vector<std::string> timeless(const std::vector<RunResult>& results) {
  std::vector<std::string> texts;
  for (const RunResult& result : results) texts.push_back(timeless(result));
  return texts;
}

class EvaluateOnRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("contcore_evaluate_ranks_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    ProductCounts counts;
    counts.train = 4;
    counts.test_good = 3;
    counts.test_defective = 4;
    const std::vector<std::string> names = product_names();
    write_products((folder_ / "data").string(), {names.begin(), names.begin() + 4}, counts, 3);
  }
  void TearDown() override { fs::remove_all(folder_); }

  EvaluationOptions options(const std::string& cache) const {
    EvaluationOptions how;
    how.datasets.push_back(open_dataset((folder_ / "data").string()));
    how.backbone = "builtin";
    how.schedule = "2-1x2";
    how.geometry = Geometry::parse("64", "56");
    if (!cache.empty()) how.cache = (folder_ / cache).string();
    return how;
  }

  static Setting setting(const std::string& method, std::uint64_t seed = 0) {
    Setting s;
    s.method = method;
    s.backbone = "builtin";
    s.m = 60;
    s.p = 0.05;
    s.seed = seed;
    return s;
  }

  std::size_t files_in(const std::string& cache, const std::string& ending) const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / cache)) {
      if (entry.path().string().ends_with(ending)) ++count;
    }
    return count;
  }

  fs::path folder_;
};

// With one cache for all, with one for each, and without; more ranks than classes, too.
TEST_F(EvaluateOnRanks, ARunDoneTogetherIsWhatOneProcessDoes) {
  Compute compute(2);
  for (const char* method : {"contcore", "dne", "patchcore"}) {
    const std::string expected =
        timeless(Evaluation(options("alone")).run(setting(method), compute));
    for (const std::size_t count : {1u, 2u, 3u, 5u}) {
      for (const std::string& cache : {std::string("all"), std::string("each"), std::string()}) {
        on_ranks(count, [&](Ranks& ranks) {
          const std::string own = cache != "each" ? cache : cache + std::to_string(ranks.rank());
          EvaluationOptions how = options(own);
          how.fresh = true;
          Compute one(1);
          Evaluation evaluation(how);
          const RunResult result = evaluation.run(setting(method), one, ranks);
          EXPECT_TRUE(timeless(result) == expected)
              << method << ", " << cache << ", rank " << ranks.rank() << " of " << count;
          EXPECT_GT(result.train_seconds, 0);
          EXPECT_GT(result.test_seconds, 0);
        });
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(EvaluateOnRanks, TheFirstRanksCacheAnswersForAll) {
  Compute compute(2);
  const std::string expected =
      timeless(Evaluation(options("cache0")).run(setting("contcore"), compute));
  for (const bool known : {true, false}) {
    if (!known) fs::remove_all(folder_ / "cache0");
    on_ranks(3, [&](Ranks& ranks) {
      Compute one(1);
      Evaluation evaluation(options("cache" + std::to_string(ranks.rank())));
      bool from_cache = !known;
      const RunResult result = evaluation.run(setting("contcore"), one, ranks, {}, &from_cache);
      EXPECT_EQ(from_cache, known);
      EXPECT_TRUE(timeless(result) == expected);
    });
  }
  EXPECT_GT(files_in("cache0/results", ".json"), 0u);
  EXPECT_EQ(files_in("cache1/results", ""), 0u);
}

// What each rank was told of, and when features were extracted before the runs.
class Listener : public RunsListener {
 public:
  explicit Listener(Progress progress = {}) : progress_(std::move(progress)) {}
  Progress extracting(const std::string& backbone) override {
    backbones.push_back(backbone);
    return {};
  }
  Progress running(std::size_t run) override {
    begun.push_back(run);
    return progress_;
  }
  void finished(std::size_t run, const RunOutcome& outcome) override {
    (outcome.from_cache ? cached : fresh).insert(run);
  }

  std::vector<std::string> backbones;
  std::vector<std::size_t> begun;
  std::set<std::size_t> fresh;
  std::set<std::size_t> cached;

 private:
  Progress progress_;
};

std::vector<std::size_t> numbers(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

// Fewer runs than ranks, as many, more, and whole rounds of them; two orders of the classes.
TEST_F(EvaluateOnRanks, RunsAreSharedOut) {
  std::vector<Setting> all;
  for (const char* order : {"alphabetical", "shuffle:3"}) {
    for (const char* method : {"contcore", "random", "dne"}) {
      all.push_back(setting(method, 1));
      all.back().order = order;
    }
  }
  Compute compute(2);
  Listener nobody;
  const std::vector<std::string> expected =
      timeless(run_all(options("alone"), all, compute, nullptr, nobody));
  EXPECT_EQ(nobody.begun, numbers(6));
  std::size_t number = 0;
  struct Case {
    std::size_t runs;
    std::size_t ranks;
  };
  for (const Case& one_case : {Case{1, 1}, {1, 3}, {3, 3}, {5, 2}, {6, 2}, {6, 5}}) {
    const std::size_t runs = one_case.runs;
    const std::size_t count = one_case.ranks;
    const std::vector<Setting> settings(all.begin(), all.begin() + static_cast<long>(runs));
    for (const bool one_cache : {true, false}) {
      ++number;
      on_ranks(count, [&](Ranks& ranks) {
        Compute one(1);
        Listener listener;
        const std::string cache =
            std::to_string(number) + " of " + (one_cache ? "all" : std::to_string(ranks.rank()));
        const auto results = run_all(options(cache), settings, one, &ranks, listener);
        std::vector<std::size_t> own;
        for (std::size_t i = 0; i < runs; ++i) {
          if (i >= runs_alone(runs, count) || i % count == ranks.rank()) own.push_back(i);
        }
        EXPECT_EQ(listener.begun, own);
        EXPECT_EQ(listener.backbones, std::vector<std::string>{"builtin"});
        EXPECT_EQ(results.empty(), ranks.rank() > 0);
        if (ranks.rank() > 0) return;
        EXPECT_EQ(listener.fresh.size(), runs);
        EXPECT_TRUE(
            timeless(results) ==
            std::vector<std::string>(expected.begin(), expected.begin() + static_cast<long>(runs)))
            << runs << " runs, " << count << " ranks";
      });
      if (HasFailure()) return;
    }
  }
}

TEST_F(EvaluateOnRanks, OnlyWhatTheFirstRankDoesNotKnowIsSharedOut) {
  std::vector<Setting> settings;
  for (std::uint64_t seed = 0; seed < 5; ++seed) settings.push_back(setting("random", seed));
  Compute compute(2);
  Listener nobody;
  const std::vector<std::string> expected =
      timeless(run_all(options("alone"), settings, compute, nullptr, nobody));
  const auto run = [&](const std::vector<Setting>& some, bool fresh) {
    Listener of_first;
    on_ranks(2, [&](Ranks& ranks) {
      Compute one(1);
      Listener listener;
      EvaluationOptions how = options("cache" + std::to_string(ranks.rank()));
      how.fresh = fresh;
      const auto results = run_all(how, some, one, &ranks, listener);
      if (ranks.rank() > 0) return;
      of_first = listener;
      for (std::size_t i = 0; i < some.size(); ++i) {
        EXPECT_TRUE(timeless(results[i]) == expected[some[i].seed]);
      }
    });
    return of_first;
  };
  // What the other rank did by itself is kept by the first, too.
  EXPECT_EQ(run({settings[1], settings[3]}, false).fresh, (std::set<std::size_t>{0, 1}));
  const Listener second = run(settings, false);
  EXPECT_EQ(second.cached, (std::set<std::size_t>{1, 3}));
  EXPECT_EQ(second.begun, (std::vector<std::size_t>{0, 4}))
      << "0 alone, 2 by the other, 4 together";
  const Listener third = run(settings, false);
  EXPECT_EQ(third.cached.size(), 5u);
  EXPECT_TRUE(third.backbones.empty()) << "nothing is extracted for runs that are known";
  EXPECT_EQ(run(settings, true).fresh.size(), 5u);
}

// The features of each list of images, on a file system that all see.
TEST_F(EvaluateOnRanks, NobodyExtractsWhatAnotherDoes) {
  const EvaluationOptions how = options("cache");
  on_ranks(3, [&](Ranks& ranks) {
    Compute one(1);
    const Evaluation::State parts(how);
    std::size_t calls = 0;
    share_features(parts, ranks, one, [&](double) {
      ++calls;
      return true;
    });
    EXPECT_GT(calls, 0u);
    for (std::size_t c = 0; c < parts.products.size(); ++c) {
      EXPECT_TRUE(parts.cache.has(parts.extractor, parts.products[c].train));
      EXPECT_TRUE(parts.cache.has(parts.extractor, test_files(parts.products[c])));
    }
    calls = 0;
    share_features(parts, ranks, one, [&](double) {
      ++calls;
      return true;
    });
    EXPECT_EQ(calls, 0u);
  });
  EXPECT_EQ(files_in("cache/features", ".npy"), 8u);
  EXPECT_EQ(files_in("cache/features", ".json"), 8u);
}

TEST(Sharing, TheLargestGoFirstToWhoHasLeast) {
  std::vector<std::size_t> loads(3);
  EXPECT_EQ(share_out({10, 40, 20, 20, 10}, loads), (std::vector<std::size_t>{1, 0, 1, 2, 2}));
  EXPECT_EQ(loads, (std::vector<std::size_t>{40, 30, 30}));
  EXPECT_EQ(share_out({5, 5}, loads), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(runs_alone(0, 3), 0u);
  EXPECT_EQ(runs_alone(2, 3), 0u);
  EXPECT_EQ(runs_alone(3, 3), 3u);
  EXPECT_EQ(runs_alone(8, 3), 6u);
  EXPECT_EQ(runs_alone(8, 1), 8u);
}

// Whatever one rank finds wrong is said by all.
TEST_F(EvaluateOnRanks, FailTogether) {
  using Change = std::function<void(EvaluationOptions&, std::vector<Setting>&, std::size_t)>;
  const auto expect_on_all = [&](const Change& change, Error::Kind kind, const std::string& part,
                                 const Progress& progress = {}) {
    std::atomic<int> failed = 0;
    on_ranks(3, [&](Ranks& ranks) {
      Compute one(1);
      EvaluationOptions how = options("");
      std::vector<Setting> settings = {setting("contcore")};
      change(how, settings, ranks.rank());
      Listener listener(progress);
      try {
        run_all(how, settings, one, &ranks, listener);
      } catch (const RanksError& error) {
        EXPECT_EQ(error.kind(), kind);
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        ++failed;
      }
    });
    EXPECT_EQ(failed, 3) << part;
  };
  const Change none = [](EvaluationOptions&, std::vector<Setting>&, std::size_t) {};
  expect_on_all([](EvaluationOptions&, std::vector<Setting>& settings,
                   std::size_t) { settings.push_back(setting("no-such-method")); },
                Error::Kind::kUsage, "no-such-method");
  expect_on_all(
      [](EvaluationOptions& how, std::vector<Setting>&, std::size_t) { how.schedule = "1x15"; },
      Error::Kind::kUsage, "15");
  expect_on_all(
      [](EvaluationOptions& how, std::vector<Setting>&, std::size_t rank) {
        if (rank == 2) how.datasets[0].products[1].train.pop_back();
      },
      Error::Kind::kInput, "rank 2 has another data set");
  // One of them is told to stop: in a run together, and in one of its own.
  std::atomic<int> calls = 0;
  const Progress once = [&](double) { return ++calls != 5; };
  expect_on_all(none, Error::Kind::kCancelled, "stopped", once);
  calls = 0;
  expect_on_all([](EvaluationOptions&, std::vector<Setting>& settings,
                   std::size_t) { settings.assign(3, setting("contcore")); },
                Error::Kind::kCancelled, "stopped", once);
  // An image that is none: found by whoever measures its class.
  const EvaluationOptions how = options("");
  std::ofstream(how.datasets[0].products[3].test[1].file) << "no image";
  expect_on_all(none, Error::Kind::kInput, "");
  expect_on_all([&](EvaluationOptions& own, std::vector<Setting>&,
                    std::size_t) { own.cache = (folder_ / "cache").string(); },
                Error::Kind::kInput, "");
}

TEST(ResultPacking, RefusesWhatIsNotWhole) {
  Verdict verdict;
  verdict.image = {2, 1, {1, 2, 3, 4, 5, 6}};
  Packer packer;
  put_pictures(packer, verdict);
  std::vector<std::uint8_t> bytes = packer.bytes();
  Verdict back;
  Unpacker whole(bytes);
  get_pictures(whole, back);
  EXPECT_TRUE(whole.empty());
  EXPECT_EQ(back.image.rgb, verdict.image.rgb);
  bytes[0] = 3;  // the width
  Unpacker wrong(bytes);
  EXPECT_THROW(get_pictures(wrong, back), Error);
  bytes.resize(30);
  Unpacker cut(bytes);
  EXPECT_THROW(get_pictures(cut, back), Error);
}

}  // namespace
}  // namespace contcore
