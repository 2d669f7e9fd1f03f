// Consolidation by equal shares, against a plain twin, and what it promises each task.
#include "memory/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "contcore/memory.h"
#include "contcore/metrics.h"
#include "memory/naive_memory.h"

namespace contcore {
namespace {

using naive::bits;
using naive::Dice;
using naive::expect_error;
using naive::Family;
using naive::how_to;
using naive::Set;
using naive::Step;

constexpr double kTiny = 1e-18;

class MemoryShare : public naive::MemoryTest {};

// One at a time from the largest, of equals the last.
std::vector<std::size_t> plain_shares(std::vector<std::size_t> sizes, std::size_t m) {
  while (std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) > m) {
    std::size_t largest = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      if (sizes[k] >= sizes[largest]) largest = k;
    }
    --sizes[largest];
  }
  return sizes;
}

/// The memory, done plainly. Vectors stand in the order they came.
struct ShareTwin : naive::Twin {
  ShareTwin(std::size_t dimension, std::size_t m) : Twin(dimension, m, 0) {}

  std::vector<std::size_t> own(std::size_t task) const {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < origins.size(); ++i) {
      if (origins[i] == static_cast<std::int32_t>(task)) places.push_back(i);
    }
    return places;
  }

  Set own_vectors(std::size_t task) const { return naive::rows_of(vectors, own(task)); }

  void keep_shares() {
    std::vector<std::size_t> sizes;
    for (std::size_t k = 0; k < tasks.size(); ++k) sizes.push_back(own(k).size());
    const std::vector<std::size_t> shares = plain_shares(sizes, capacity);
    for (std::size_t k = 0; k < tasks.size(); ++k) {
      for (std::size_t left = sizes[k]; left > shares[k]; --left) drop_smallest(k);
    }
    for (std::size_t i = 0; i < vectors.n; ++i) radii[i] = to_the_earlier(i);
  }

  // Of its own task.
  float to_the_earlier(std::size_t i) const {
    float nearest = std::numeric_limits<float>::infinity();
    for (std::size_t j = 0; j < i; ++j) {
      if (origins[j] != origins[i]) continue;
      nearest = std::min(nearest, std::sqrt(naive::canonical(vectors.row(i), vectors.row(j), d)));
    }
    return nearest;
  }

  void drop_smallest(std::size_t task) {
    const std::vector<std::size_t> places = own(task);
    std::size_t smallest = places[0];
    for (const std::size_t i : places) {
      if (radii[i] <= radii[smallest]) smallest = i;
    }
    std::vector<std::size_t> rest(vectors.n);
    std::iota(rest.begin(), rest.end(), std::size_t{0});
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(smallest));
    keep(rest);
  }

  void learn(const Set& features, const LearnHow& how) {
    const std::size_t t = task(how.task);
    const auto n = std::max<std::size_t>(
        1, static_cast<std::size_t>(std::floor(how.p * static_cast<double>(features.n))));
    std::vector<std::size_t> sizes;
    for (std::size_t k = 0; k < tasks.size(); ++k) sizes.push_back(own(k).size());
    sizes[t] += n;
    const std::size_t room = plain_shares(sizes, capacity)[t];
    const Set base = own_vectors(t);
    std::optional<std::size_t> start;
    if (base.n == 0) start = naive::farthest_from_mean(features);
    const GreedyResult expansion =
        naive::greedy(features, base, std::clamp<std::size_t>(room, 1, n), start);
    std::vector<std::size_t> picks;
    for (std::size_t i = 0; i < expansion.picks.size(); ++i) {
      picks.push_back(static_cast<std::size_t>(expansion.picks[i]));
      origins.push_back(static_cast<std::int32_t>(t));
      radii.push_back(expansion.radii[i]);
    }
    vectors = naive::joined(vectors, naive::rows_of(features, picks));
    // Picks stand last, so what is left of them can be told by counting.
    const Set before = vectors;
    const std::size_t old = before.n - picks.size();
    keep_shares();
    std::size_t stayed = 0;
    for (std::size_t i = 0; i < picks.size(); ++i) {
      const std::size_t from_end = i + 1;
      if (from_end > vectors.n) break;
      const float* last = vectors.row(vectors.n - from_end);
      for (std::size_t j = old; j < before.n; ++j) {
        if (std::equal(last, last + d, before.row(j)) &&
            origins[vectors.n - from_end] == static_cast<std::int32_t>(t)) {
          ++stayed;
          break;
        }
      }
    }
    TaskRecord& record = tasks[t];
    record.images += how.images;
    record.patches += features.n;
    record.picked += stayed;
    const float next = stayed < picks.size() ? expansion.radii[stayed] : expansion.covering_radius;
    if (std::isfinite(next)) record.epsilon = std::max(record.epsilon, next);
  }
};

std::string shape_of(std::size_t seed, Family family, std::size_t d, std::size_t m) {
  return "seed " + std::to_string(seed) + ", " + naive::name(family) + ", d " + std::to_string(d) +
         ", m " + std::to_string(m);
}

Set set_of(const Vectors& vectors) {
  Set set(vectors.rows(), vectors.cols());
  for (std::size_t i = 0; i < set.n; ++i) std::copy_n(vectors.row(i), set.d, set.row(i));
  return set;
}

Set own_of(const Memory& memory, std::size_t task) {
  const std::vector<std::int32_t> origins = memory.origins();
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < origins.size(); ++i) {
    if (origins[i] == static_cast<std::int32_t>(task)) places.push_back(i);
  }
  return naive::rows_of(set_of(memory.vectors()), places);
}

// ---------------------------------------------------------------- the rule

TEST(EqualShares, AreWhatDroppingFromTheLargestLeaves) {
  for (std::size_t seed = 0; seed < 2000; ++seed) {
    Dice dice(seed * 7919 + 1);
    std::vector<std::size_t> sizes(dice.between(1, 8));
    for (std::size_t& size : sizes) size = dice.one_in(5) ? 0 : dice.between(1, 40);
    const std::size_t m = dice.between(1, 120);
    ASSERT_EQ(equal_shares(sizes, m), plain_shares(sizes, m)) << "seed " << seed;
  }
}

TEST(EqualShares, DoNotOverflow) {
  const std::size_t huge = std::size_t{1} << 62;
  EXPECT_EQ(equal_shares({huge, 3, huge}, 11), (std::vector<std::size_t>{4, 3, 4}));
  EXPECT_EQ(equal_shares({}, 11), std::vector<std::size_t>{});
}

TEST_F(MemoryShare, IsThePlainRuleHoweverItIsDone) {
  for (std::size_t seed = 0; seed < naive::cases(200) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 8200000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.pick<std::size_t>({1, 2, 3, 8, 17, 33, 70});
    const std::size_t m = dice.pick<std::size_t>({1, 2, 3, 5, 8, 16, 30, 50});
    ShareTwin twin(d, m);
    Memory batch(d, m);
    Memory online(d, m);
    std::size_t s = 0;
    for (const Step& step : naive::story(dice, family, d, dice.between(4, 24), 40)) {
      const std::string what = shape_of(seed, family, d, m) + ", step " + std::to_string(s++);
      twin.learn(step.features, step.how);
      batch.learn(step.features.view(), step.how, naive::crew(0));
      if (dice.one_in(5)) online = reopened(online);
      if (online.size() > 0 && dice.one_in(5))
        online.distances(step.features.view(), naive::crew(0));
      online.learn_online(step.features.view(), step.how, naive::any_crew(dice));
      ASSERT_EQ(naive::difference(batch, twin), "") << what << ", batch";
      ASSERT_EQ(naive::difference(online, twin), "") << what << ", online";
      ASSERT_EQ(batch.certificate(), online.certificate()) << what;
    }
    EXPECT_TRUE(bytes_of(batch) == bytes_of(online)) << shape_of(seed, family, d, m);
  }
}

// A mistake in what is carried from one update to the next may take a while to show.
TEST_F(MemoryShare, StaysThePlainRuleForLong) {
  const std::vector<Family> families = {Family::kClusters, Family::kLowRank,
                                        Family::kGrid,     Family::kNearDuplicates,
                                        Family::kSimplex,  Family::kFarCluster};
  for (std::size_t seed = 0; seed < naive::cases(families.size()); ++seed) {
    Dice dice(seed * 7919 + 8300000);
    const std::size_t d = dice.between(6, 12);
    const Family family = families[seed % families.size()];
    Memory batch(d, 100);
    Memory online(d, 100);
    for (std::size_t s = 0; s < 120; ++s) {
      const LearnHow how = how_to("task " + std::to_string(s / 25), 0.1);
      const Set image = naive::make(family, dice.between(20, 60), d, seed + s / 25, 1000 + s);
      batch.learn(image.view(), how, naive::crew(0));
      if (dice.one_in(10)) online = online.copy();
      online.learn_online(image.view(), how, naive::any_crew(dice));
      ASSERT_TRUE(bytes_of(batch) == bytes_of(online))
          << shape_of(seed, family, d, 100) << ", step " << s;
      if (s % 10 != 9) continue;
      const std::size_t fewer = dice.between(5, 95);
      ASSERT_TRUE(bytes_of(batch.shrink(fewer, naive::crew(0))) ==
                  bytes_of(online.shrink(fewer, naive::any_crew(dice))))
          << shape_of(seed, family, d, 100) << ", step " << s << ", shrunk to " << fewer;
    }
  }
}

TEST_F(MemoryShare, DoesNotFavourTheLoud) {
  Memory memory(8, 60);
  Memory paper(8, 60, Consolidate::paper());
  for (std::size_t t = 0; t < 3; ++t) {
    Set features = naive::make(Family::kGaussian, 400, 8, t, t);
    const float scale = t == 1 ? 100.0F : 1.0F;
    for (std::size_t i = 0; i < features.n; ++i) {
      for (std::size_t j = 0; j < 8; ++j) {
        features.row(i)[j] = features.row(i)[j] * scale + (t == 2 ? 5000.0F : 0.0F);
      }
    }
    for (Memory* one : {&memory, &paper}) {
      one->learn(features.view(), how_to("task " + std::to_string(t), 0.2), naive::crew(0));
    }
  }
  for (const TaskState& state : memory.states()) EXPECT_EQ(state.vectors, 20u);
  EXPECT_GT(paper.states()[1].vectors, 50u)
      << "the paper's rule does; this shows the test can fail";
}

// One's own order cut short: no matter when a task came, and how far the memory has been cut since.
TEST_F(MemoryShare, HoldsThePrefixOfEachTasksOrder) {
  const std::size_t d = 12;
  std::vector<Set> products;
  for (std::size_t t = 0; t < 5; ++t) {
    products.push_back(naive::make(Family::kClusters, 200 + 30 * t, d, t, t));
  }
  const auto learned = [&](const std::vector<std::size_t>& order, std::size_t m) {
    Memory memory(d, m);
    for (const std::size_t t : order) {
      memory.learn(products[t].view(), how_to("task " + std::to_string(t), 0.3), naive::crew(0));
    }
    return memory;
  };
  const Memory forward = learned({0, 1, 2, 3, 4}, 100);
  const Memory backward = learned({4, 2, 0, 1, 3}, 100);
  const Memory small = learned({0, 1, 2, 3, 4}, 35);
  const Memory shrunk = forward.shrink(35, naive::crew(0));
  for (std::size_t t = 0; t < 5; ++t) {
    const Set greedy = naive::rows_of(products[t], [&] {
      std::vector<std::size_t> picks;
      for (const std::int64_t pick :
           naive::greedy(products[t], Set(0, d), 20, naive::farthest_from_mean(products[t]))
               .picks) {
        picks.push_back(static_cast<std::size_t>(pick));
      }
      return picks;
    }());
    const auto name = [&](const Memory& memory) {
      for (std::size_t k = 0; k < 5; ++k) {
        if (memory.tasks()[k].name == "task " + std::to_string(t)) return k;
      }
      return std::size_t{5};
    };
    for (const Memory* memory : {&forward, &backward, &small, &shrunk}) {
      const Set own = own_of(*memory, name(*memory));
      ASSERT_EQ(own.n, memory->capacity() / 5);
      for (std::size_t i = 0; i < own.n; ++i) {
        ASSERT_TRUE(std::equal(own.row(i), own.row(i) + d, greedy.row(i))) << t << ", " << i;
      }
      // And the certificate is the true covering radius, to the last rounding.
      const auto truth = static_cast<double>(naive::farthest(products[t], own));
      const double certificate = memory->states()[name(*memory)].certificate;
      EXPECT_GE(certificate, truth);
      EXPECT_LE(certificate, truth * (1 + 1e-4) + kTiny);
    }
  }
}

TEST_F(MemoryShare, LearningTheSameImagesAgainChangesNoVectorOfAFullMemory) {
  Memory memory(6, 40);
  const Set a = naive::make(Family::kGaussian, 300, 6, 1, 1);
  const Set b = naive::make(Family::kGaussian, 300, 6, 2, 2);
  memory.learn(a.view(), how_to("a", 0.2), naive::crew(0));
  memory.learn(b.view(), how_to("b", 0.2), naive::crew(0));
  const Vectors before = memory.vectors();
  memory.learn(a.view(), how_to("a", 0.2), naive::crew(0));
  const Vectors after = memory.vectors();
  ASSERT_EQ(before.rows(), after.rows());
  EXPECT_TRUE(std::equal(before.data(), before.data() + 240, after.data()));
}

// ---------------------------------------------------------------- the certificate

struct Seen {
  std::vector<std::string> names;
  std::vector<Set> features;
  std::vector<std::size_t> times;

  void add(const std::string& name, const Set& more) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      names.push_back(name);
      features.push_back(more);
      times.push_back(1);
      return;
    }
    const auto t = static_cast<std::size_t>(found - names.begin());
    features[t] = naive::joined(features[t], more);
    ++times[t];
  }
};

void check_certificates(const Memory& memory, const Seen& seen, const std::string& what) {
  const std::vector<TaskState> states = memory.states();
  double largest = 0;
  for (std::size_t t = 0; t < states.size(); ++t) {
    const auto at = std::find(seen.names.begin(), seen.names.end(), memory.tasks()[t].name);
    const auto s = static_cast<std::size_t>(at - seen.names.begin());
    const auto truth = static_cast<double>(naive::farthest(seen.features[s], own_of(memory, t)));
    ASSERT_GE(states[t].certificate, truth) << what << ", task " << t << ": not sound";
    if (seen.times[s] == 1 && std::isfinite(truth)) {
      ASSERT_LE(states[t].certificate, truth * (1 + 1e-4) + kTiny)
          << what << ", task " << t << ": too loose";
    }
    largest = std::max(largest, states[t].certificate);
  }
  ASSERT_EQ(memory.certificate(), largest) << what;
}

TEST_F(MemoryShare, CertifiesEveryTask) {
  for (std::size_t seed = 0; seed < naive::cases(240) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 9100000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.pick<std::size_t>({1, 2, 5, 16, 35});
    const std::size_t m = dice.pick<std::size_t>({1, 3, 6, 12, 20, 50});
    Memory memory(d, m);
    Memory other(d, dice.between(1, 15));
    Seen seen;
    Seen seen_by_other;
    const std::string what = shape_of(seed, family, d, m);
    const auto learn = [&](Memory& into, Seen& of, const Step& step) {
      Compute& crew = naive::any_crew(dice);
      if (dice.one_in(2)) {
        into.learn_online(step.features.view(), step.how, crew);
      } else {
        into.learn(step.features.view(), step.how, crew);
      }
      of.add(step.how.task, step.features);
    };
    std::size_t s = 0;
    for (const Step& step : naive::story(dice, family, d, 14, 25)) {
      const std::size_t next = s++ == 0 ? 0 : dice.below(10);
      if (next < 7) {
        learn(memory, seen, step);
      } else if (next == 7) {
        const Memory smaller = memory.shrink(dice.between(1, memory.capacity()), naive::crew(0));
        ASSERT_NO_FATAL_FAILURE(check_certificates(smaller, seen, what + ", shrunk"));
      } else if (other.size() == 0 || next == 8) {
        learn(other, seen_by_other, step);
      } else {
        memory = Memory::merge(memory, other, dice.between(2, 30), naive::crew(0));
        for (std::size_t t = 0; t < seen_by_other.names.size(); ++t) {
          seen.add(seen_by_other.names[t], seen_by_other.features[t]);
          const auto at = std::find(seen.names.begin(), seen.names.end(), seen_by_other.names[t]);
          seen.times[static_cast<std::size_t>(at - seen.names.begin())] = 2;
        }
      }
      if (dice.one_in(4)) memory = reopened(memory);
      ASSERT_NO_FATAL_FAILURE(
          check_certificates(memory, seen, what + ", step " + std::to_string(s)));
    }
  }
}

// Many tasks: nobody's certificate grows because others came.
TEST_F(MemoryShare, TwoHundredTasksKeepTheirPlace) {
  const std::size_t d = 16;
  const std::size_t tasks = naive::slow() ? 40 : 200;
  Memory memory(d, 20 * tasks);
  std::vector<Set> products;
  for (std::size_t t = 0; t < tasks; ++t) {
    Set features = naive::make(Family::kClusters, 120, d, t, t);
    const float scale = std::pow(10.0F, static_cast<float>(t % 5) - 2.0F);
    for (std::size_t i = 0; i < features.n; ++i) {
      for (std::size_t j = 0; j < d; ++j) features.row(i)[j] *= scale;
    }
    products.push_back(std::move(features));
    memory.learn(products.back().view(), how_to("task " + std::to_string(t), 0.5), naive::crew(0));
  }
  const std::vector<TaskState> states = memory.states();
  for (std::size_t t = 0; t < tasks; ++t) {
    EXPECT_EQ(states[t].vectors, 20u) << t;
    const auto truth = static_cast<double>(naive::farthest(products[t], own_of(memory, t)));
    EXPECT_GE(states[t].certificate, truth) << t;
    EXPECT_LE(states[t].certificate, truth * (1 + 1e-4) + kTiny) << t;
  }
}

/// A made product: four kinds of normal around a centre of its own, all sizes in units of `spread`.
/// A defect is a good vector moved by √d.
struct Made {
  Made(std::size_t d, double size, std::uint64_t seed)
      : dice(seed), spread(size), centre(d), kinds(4 * d) {
    for (double& c : centre) c = 20 * dice.gaussian();
    for (double& k : kinds) k = 2 * dice.gaussian();
  }

  Set draw(std::size_t n, bool defect) {
    const std::size_t d = centre.size();
    Set set(n, d);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t kind = dice.below(4);
      for (std::size_t j = 0; j < d; ++j) {
        const double moved = defect ? dice.gaussian() : 0;
        set.row(i)[j] = static_cast<float>(
            centre[j] + spread * (kinds[kind * d + j] + dice.gaussian() + moved));
      }
    }
    return set;
  }

  Dice dice;
  double spread;
  std::vector<double> centre;
  std::vector<double> kinds;
};

double auroc(const Memory& memory, Made product) {
  const std::vector<float> good = memory.distances(product.draw(100, false).view(), naive::crew(0));
  const std::vector<float> bad = memory.distances(product.draw(100, true).view(), naive::crew(0));
  return rank(good, bad, naive::crew(0)).auroc.value();
}

// Loud and quiet products side by side: with all the others in the memory each is told from its
// defects as well as with the same number of vectors of its own alone.
TEST_F(MemoryShare, TwoHundredTasksStayAccurate) {
  const std::size_t d = 24;
  const std::size_t tasks = naive::slow() ? 40 : 200;
  Memory memory(d, 20 * tasks);
  std::vector<Made> products;
  std::vector<double> alone;
  for (std::size_t t = 0; t < tasks; ++t) {
    products.emplace_back(d, 0.1 * static_cast<double>(1 << t % 7), t);
    const Set features = products.back().draw(200, false);
    Memory own(d, 20);
    own.learn(features.view(), how_to("alone", 0.5), naive::crew(0));
    alone.push_back(auroc(own, products.back()));
    memory.learn(features.view(), how_to("task " + std::to_string(t), 0.5), naive::crew(0));
  }
  for (std::size_t t = 0; t < tasks; ++t) {
    EXPECT_GE(auroc(memory, products[t]), alone[t] - 0.01) << t;
  }
}

// ---------------------------------------------------------------- merging and the file

TEST_F(MemoryShare, MergesTheSameMemoryIntoItself) {
  Memory memory(6, 40);
  memory.learn(naive::make(Family::kGaussian, 300, 6, 1, 1).view(), how_to("a", 0.2),
               naive::crew(0));
  const Memory twice = Memory::merge(memory, memory, 40, naive::crew(0));
  EXPECT_EQ(twice.size(), memory.size());
  const Vectors before = memory.vectors();
  const Vectors after = twice.vectors();
  EXPECT_TRUE(std::equal(before.data(), before.data() + memory.size() * 6, after.data()));
}

TEST_F(MemoryShare, MergesOnlyWhatFollowsTheSameRule) {
  const Set features = naive::make(Family::kGaussian, 30, 6, 1, 1);
  Memory share(6, 10);
  Memory paper(6, 10, Consolidate::paper());
  share.learn(features.view(), how_to("a", 0.2), naive::crew(0));
  paper.learn(features.view(), how_to("a", 0.2), naive::crew(0));
  expect_error(Error::Kind::kInput, [&] { Memory::merge(share, paper, 10, naive::crew(0)); });
}

TEST_F(MemoryShare, ATaskWithNothingLeftSaysSoAndCanBeSaved) {
  Memory memory(3, 2);
  for (std::size_t t = 0; t < 4; ++t) {
    memory.learn(naive::make(Family::kGaussian, 30, 3, t, t).view(),
                 how_to("task " + std::to_string(t), 0.2), naive::crew(0));
  }
  const Memory again = reopened(memory);
  ASSERT_EQ(again.states().size(), 4u);
  EXPECT_TRUE(std::isinf(again.states()[3].certificate));
  EXPECT_FALSE(std::isinf(again.states()[0].certificate));
  EXPECT_EQ(again.consolidation().rule, Consolidate::Rule::kShare);
}

}  // namespace
}  // namespace contcore
