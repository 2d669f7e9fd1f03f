// Each method against its definition, on features small enough to do it by hand.
#include "evaluate/method.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/rows.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "contcore/greedy.h"
#include "contcore/memory.h"
#include "contcore/samplers.h"

namespace contcore {
namespace {

constexpr std::size_t kDimension = 24;

// Tasks of classes of images of 10 patches each; no two rows are equal.
class MethodsTest : public testing::Test {
 protected:
  struct Made {
    Vectors vectors;
    TaskFeatures features;
    GreedyOrder order;
  };

  Made& add(const std::vector<std::size_t>& images_of_class) {
    made_.push_back(std::make_unique<Made>());
    Made& made = *made_.back();
    std::size_t images = 0;
    for (const std::size_t n : images_of_class) images += n;
    made.vectors = Vectors(images * 10, kDimension);
    std::mt19937_64 random(made_.size());
    for (std::size_t i = 0; i < images * 10 * kDimension; ++i) {
      made.vectors.data()[i] = static_cast<float>(random() % 100000) / 1000.0F +
                               static_cast<float>(made_.size()) * 20.0F;
    }
    made.features.index = made_.size() - 1;
    made.features.all = made.vectors.view();
    for (std::size_t i = 1; i <= images; ++i) made.features.image_ends.push_back(i * 10);
    std::size_t end = 0;
    for (const std::size_t n : images_of_class) made.features.class_ends.push_back(end += n * 10);
    made.features.order = &made.order;
    return made;
  }

  static MethodOptions options(std::size_t m, double p) {
    MethodOptions how;
    how.dimension = kDimension;
    how.m = m;
    how.p = p;
    how.q = 0.75;
    how.seed = 5;
    how.tasks = 3;
    return how;
  }

  std::unique_ptr<Method> learned(const std::string& name, const MethodOptions& how) {
    std::unique_ptr<Method> method = make_method(name, how);
    for (const auto& made : made_) method->learn(made->features, compute_, {});
    method->prepare(compute_);
    return method;
  }

  std::vector<std::int64_t> greedy(VectorView points, std::size_t count) {
    GreedyOptions how;
    how.count = count;
    return greedy_sample(points, {}, how, compute_).picks;
  }

  static void same(const Vectors& a, const Vectors& b) {
    ASSERT_EQ(a.rows(), b.rows());
    for (std::size_t i = 0; i < a.rows() * kDimension; ++i) ASSERT_EQ(a.data()[i], b.data()[i]);
  }

  // The task and row of each vector; fails for one that was in no task.
  std::vector<std::pair<std::size_t, std::size_t>> origins(const Vectors& coreset) {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t i = 0; i < coreset.rows(); ++i) {
      for (std::size_t t = 0; t < made_.size(); ++t) {
        for (std::size_t j = 0; j < made_[t]->vectors.rows(); ++j) {
          if (std::equal(coreset.row(i), coreset.row(i) + kDimension, made_[t]->vectors.row(j))) {
            found.emplace_back(t, j);
          }
        }
      }
    }
    EXPECT_EQ(found.size(), coreset.rows()) << "a vector that was never learned, or twice";
    return found;
  }

  // The distance of each patch to its nearest vector, by the plain loop.
  static std::vector<float> plainly(VectorView patches, const Vectors& coreset) {
    std::vector<float> all;
    for (std::size_t i = 0; i < patches.rows; ++i) {
      float best = std::numeric_limits<float>::infinity();
      for (std::size_t j = 0; j < coreset.rows(); ++j) {
        best =
            std::min(best, squared_distance(patches.row(i, nullptr), coreset.row(j), kDimension));
      }
      all.push_back(std::sqrt(best));
    }
    return all;
  }

  std::vector<std::unique_ptr<Made>> made_;
  Compute compute_{2};
};

TEST_F(MethodsTest, EveryMethodScoresByItsCoreset) {
  add({6});
  add({5, 4});
  add({7});
  const Vectors asked = gather(made_[1]->vectors.view(), std::vector<int>{3, 44, 80, 12});
  for (const MethodInfo& info : methods()) {
    if (!info.maps || info.name == "patchcore") continue;
    const auto method = learned(info.name, options(20, 0.1));
    const Scored scored = method->score(asked.view(), 1, compute_);
    EXPECT_EQ(scored.patches, plainly(asked.view(), method->coreset())) << info.name;
    EXPECT_EQ(method->vectors(), method->coreset().rows()) << info.name;
    EXPECT_EQ(method->numbers(), method->vectors() * kDimension) << info.name;
    origins(method->coreset());
  }
}

TEST_F(MethodsTest, ContCoreIsTheMemory) {
  add({6});
  add({9});
  add({7});
  for (const auto& [name, rule] : {std::pair("contcore", Consolidate{}),
                                   std::pair("contcore-paper", Consolidate::paper(0.75))}) {
    Memory memory(kDimension, 17, rule);
    for (const auto& made : made_) {
      LearnHow how;
      how.task = std::to_string(made->features.index);
      how.p = 0.1;
      memory.learn(made->vectors.view(), how, compute_);
    }
    same(learned(name, options(17, 0.1))->coreset(), memory.vectors());
  }
}

TEST_F(MethodsTest, OnlineContCoreSeesOneImageAtATime) {
  add({6});
  add({9});
  for (const auto& [name, rule] : {std::pair("contcore-online", Consolidate{}),
                                   std::pair("contcore-paper-online", Consolidate::paper(0.75))}) {
    Memory memory(kDimension, 11, rule);
    for (const auto& made : made_) {
      for (std::size_t i = 0; i < made->features.image_ends.size(); ++i) {
        LearnHow how;
        how.task = std::to_string(made->features.index);
        how.p = 0.2;
        memory.learn(made->vectors.view().part(i * 10, 10), how, compute_);
      }
    }
    same(learned(name, options(11, 0.2))->coreset(), memory.vectors());
  }
}

TEST_F(MethodsTest, PatchCoreHasAMemoryForEachClass) {
  add({6});
  add({5, 4});
  const auto method = learned("patchcore", options(3, 0.1));
  const VectorView second = made_[1]->vectors.view();
  const Vectors of_class[] = {gather(made_[0]->vectors.view(), greedy(made_[0]->vectors.view(), 6)),
                              gather(second.part(0, 50), greedy(second.part(0, 50), 5)),
                              gather(second.part(50, 40), greedy(second.part(50, 40), 4))};
  EXPECT_EQ(method->vectors(), 15U);  // whatever m
  const VectorView asked = second.part(60, 7);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(method->score(asked, c, compute_).patches, plainly(asked, of_class[c])) << c;
  }
}

TEST_F(MethodsTest, UnboundedKeepsEveryCoreset) {
  add({6});
  add({9});
  const auto method = learned("patchcore-unbounded", options(3, 0.1));
  const Vectors expected =
      joined(gather(made_[0]->vectors.view(), greedy(made_[0]->vectors.view(), 6)),
             gather(made_[1]->vectors.view(), greedy(made_[1]->vectors.view(), 9)));
  same(method->coreset(), expected);
}

TEST_F(MethodsTest, TheOracleSharesOutEvenly) {
  add({6});
  add({2});
  add({9});
  // ⌊17 / 3⌋ = 5 for each; the second has only ⌊0.1 · 20⌋ = 2 picks.
  const auto method = learned("patchcore-oracle", options(17, 0.1));
  Vectors expected;
  const std::size_t shares[] = {5, 2, 5};
  for (std::size_t t = 0; t < 3; ++t) {
    expected = joined(
        expected, gather(made_[t]->vectors.view(), greedy(made_[t]->vectors.view(), shares[t])));
  }
  same(method->coreset(), expected);
}

// Without knowing how many tasks will come.
TEST_F(MethodsTest, EqualSharesEndAsTheOracle) {
  add({6});
  add({7});
  add({9});
  const MethodOptions how = options(15, 0.1);
  same(learned("contcore", how)->coreset(), learned("patchcore-oracle", how)->coreset());
}

TEST_F(MethodsTest, TheOnlineOracleSpreadsItsShareOverTheImages) {
  add({6});
  add({4});
  add({3});
  const auto method = learned("patchcore-oracle-online", options(24, 0.3));
  // 8 for each task: of 6, 4 and 3 images at most 3 of each.
  std::vector<std::vector<std::size_t>> of_image = {
      std::vector<std::size_t>(6), std::vector<std::size_t>(4), std::vector<std::size_t>(3)};
  for (const auto& [t, row] : origins(method->coreset())) ++of_image[t][row / 10];
  EXPECT_EQ(of_image[0], (std::vector<std::size_t>{1, 1, 2, 1, 1, 2}));
  EXPECT_EQ(of_image[1], (std::vector<std::size_t>{2, 2, 2, 2}));
  EXPECT_EQ(of_image[2], (std::vector<std::size_t>{2, 3, 3}));
}

TEST_F(MethodsTest, RandomStaysWithinMAndDependsOnTheSeed) {
  add({6});
  add({9});
  MethodOptions how = options(10, 0.1);
  const Vectors first = learned("random", how)->coreset();
  EXPECT_EQ(first.rows(), 10U);
  same(first, learned("random", how)->coreset());
  std::set<std::pair<std::size_t, std::size_t>> distinct;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    how.seed = seed * 100;
    for (const auto& origin : origins(learned("random", how)->coreset())) distinct.insert(origin);
  }
  EXPECT_GT(distinct.size(), 60U);
}

TEST_F(MethodsTest, TheReservoirIsOneOverAllTasks) {
  add({6});
  add({9});
  add({2});
  Reservoir reservoir(70, 5);
  for (std::size_t i = 0; i < 170; ++i) reservoir.offer();
  const Vectors coreset = learned("reservoir", options(70, 0.1))->coreset();
  const auto found = origins(coreset);
  ASSERT_EQ(found.size(), 70U);
  const std::size_t begin[] = {0, 60, 150};
  for (std::size_t place = 0; place < 70; ++place) {
    EXPECT_EQ(static_cast<std::int64_t>(begin[found[place].first] + found[place].second),
              reservoir.held()[place]);
  }
}

TEST_F(MethodsTest, HerdingGivesEachTaskSoFarTheSame) {
  add({9});
  add({8});
  add({7});
  const auto method = learned("herding", options(15, 0.1));
  Vectors expected;
  for (const auto& made : made_) {
    const VectorView all = made->vectors.view();
    expected = joined(expected, gather(all, herding_sample(all, 5, compute_)));
  }
  same(method->coreset(), expected);
}

TEST_F(MethodsTest, LatestOnlyForgets) {
  add({6});
  add({9});
  const auto method = learned("latest-only", options(4, 0.1));
  const VectorView last = made_[1]->vectors.view();
  same(method->coreset(), gather(last, greedy(last, 4)));
}

// Golden values by scikit-learn's LedoitWolf for each task and NumPy for the mixture.
TEST(Dne, IsTheMahalanobisDistanceToAllTasksTogether) {
  Compute compute(2);
  MethodOptions how;
  how.dimension = 3;
  const auto method = make_method("dne", how);
  std::vector<Vectors> kept;
  for (std::size_t t = 0; t < 2; ++t) {
    const std::size_t images = t == 0 ? 9 : 14;
    kept.emplace_back(images * 2, 3);
    TaskFeatures task;
    for (std::size_t i = 0; i < images; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        const float value = static_cast<float>((7 * i + 3 * j + 5 * t) % 11) / 4.0F +
                            (j == 0 ? static_cast<float>(t) * 2.0F : 0.0F);
        kept[t].row(2 * i)[j] = value - 1.5F;  // two patches around the image's feature
        kept[t].row(2 * i + 1)[j] = value + 1.5F;
      }
      task.image_ends.push_back(2 * i + 2);
    }
    task.index = t;
    task.all = kept[t].view();
    method->learn(task, compute, {});
  }
  method->prepare(compute);
  const float asked[3][3] = {{0, 0, 0}, {1, 2, 3}, {5, -1, 0.5}};
  const double expected[3] = {3.3394727481829456, 2.7548496380372236, 3.47973552967639};
  for (std::size_t i = 0; i < 3; ++i) {
    const Scored scored = method->score(VectorView(asked[i], 1, 3), 0, compute);
    EXPECT_NEAR(static_cast<double>(scored.score), expected[i], 1e-5);
    EXPECT_TRUE(scored.patches.empty());
  }
  EXPECT_EQ(method->numbers(), 2U * (3 + 6));
}

TEST(Methods, AnUnknownNameSaysWhichThereAre) {
  try {
    make_method("patchcor", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_NE(std::string(error.what()).find("patchcore-oracle"), std::string::npos);
  }
}

}  // namespace
}  // namespace contcore
