// The naive twin of the continual memory, written from its specification alone, and what the tests
// of the memory share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "contcore/memory.h"
#include "coreset/naive.h"

namespace contcore::naive {

/// Rows of a set, in the order named.
inline Set rows_of(const Set& set, const std::vector<std::size_t>& which) {
  Set out(which.size(), set.d);
  for (std::size_t i = 0; i < which.size(); ++i) copy_row(set, which[i], out, i);
  return out;
}

/// One set after the other.
inline Set joined(const Set& a, const Set& b) {
  Set out(a.n + b.n, b.d);
  for (std::size_t i = 0; i < a.n; ++i) copy_row(a, i, out, i);
  for (std::size_t i = 0; i < b.n; ++i) copy_row(b, i, out, a.n + i);
  return out;
}

/// The largest distance of any point to its nearest in `set`.
inline float farthest(const Set& points, const Set& set) {
  float largest = 0;
  for (std::size_t i = 0; i < points.n; ++i) {
    float nearest = std::numeric_limits<float>::infinity();
    for (std::size_t j = 0; j < set.n; ++j) {
      nearest = std::min(nearest, canonical(points.row(i), set.row(j), set.d));
    }
    largest = std::max(largest, nearest);
  }
  return std::sqrt(largest);
}

/// The indices that consolidation to m vectors keeps, in their new order.
inline std::vector<std::size_t> consolidate(const Set& all, std::size_t m, double q) {
  std::vector<std::size_t> order(all.n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (all.n <= m) return order;

  const auto first = static_cast<std::size_t>(std::floor(q * static_cast<double>(m)));
  if (first > 0) {
    std::vector<float> alone(all.n, std::numeric_limits<float>::infinity());
    for (std::size_t i = 0; i < all.n; ++i) {
      for (std::size_t j = 0; j < all.n; ++j) {
        if (i != j) alone[i] = std::min(alone[i], canonical(all.row(i), all.row(j), all.d));
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t i, std::size_t j) { return alone[i] > alone[j]; });
  }
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<std::size_t> kept(order.begin(), middle);
  std::vector<std::size_t> rest(middle, order.end());
  if (first == m) return kept;
  std::sort(rest.begin(), rest.end());
  const Set points = rows_of(all, rest);
  std::optional<std::size_t> start;
  if (first == 0) start = farthest_from_mean(points);
  for (const std::int64_t pick : greedy(points, rows_of(all, kept), m - first, start).picks) {
    kept.push_back(rest[static_cast<std::size_t>(pick)]);
  }
  return kept;
}

/// The memory, done plainly.
struct Twin {
  std::size_t d;
  std::size_t capacity;
  double q;
  Set vectors{0, 0};
  std::vector<std::int32_t> origins;
  std::vector<float> radii;
  std::vector<TaskRecord> tasks;
  double delta = 0;  ///< the recursion δ_t = ε̂_t + max(ε_t, δ_{t-1})

  Twin(std::size_t dimension, std::size_t m, double ratio)
      : d(dimension), capacity(m), q(ratio), vectors(0, dimension) {}

  std::size_t task(const std::string& name) {
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].name == name) return t;
    }
    tasks.emplace_back().name = name;
    return tasks.size() - 1;
  }

  void keep(const std::vector<std::size_t>& which) {
    vectors = rows_of(vectors, which);
    std::vector<std::int32_t> new_origins;
    std::vector<float> new_radii;
    for (const std::size_t i : which) {
      new_origins.push_back(origins[i]);
      new_radii.push_back(radii[i]);
    }
    origins = new_origins;
    radii = new_radii;
  }

  /// Returns ε̂.
  float consolidate_to(std::size_t m, double ratio) {
    const Set all = vectors;
    keep(consolidate(all, m, ratio));
    return farthest(all, vectors);
  }

  void learn(const Set& features, const LearnHow& how) {
    const auto share =
        static_cast<std::size_t>(std::floor(how.p * static_cast<double>(features.n)));
    std::optional<std::size_t> start;
    if (vectors.n == 0) start = farthest_from_mean(features);
    const GreedyResult expansion =
        greedy(features, vectors, std::max<std::size_t>(1, share), start);
    const std::size_t t = task(how.task);
    std::vector<std::size_t> picks;
    for (std::size_t i = 0; i < expansion.picks.size(); ++i) {
      picks.push_back(static_cast<std::size_t>(expansion.picks[i]));
      origins.push_back(static_cast<std::int32_t>(t));
      radii.push_back(expansion.radii[i]);
    }
    vectors = joined(vectors, rows_of(features, picks));
    const float epsilon_hat = consolidate_to(capacity, q);

    TaskRecord& record = tasks[t];
    record.images += how.images;
    record.patches += features.n;
    record.picked += picks.size();
    record.epsilon = std::max(record.epsilon, expansion.covering_radius);
    record.epsilon_hat = std::max(record.epsilon_hat, epsilon_hat);
    delta = static_cast<double>(epsilon_hat) +
            std::max(static_cast<double>(expansion.covering_radius), delta);
  }

  void shrink(std::size_t count) {
    delta += static_cast<double>(consolidate_to(count, 0));
    capacity = count;
  }

  void merge(const Twin& other, std::size_t m) {
    std::vector<std::int32_t> renumbered;
    for (const TaskRecord& theirs : other.tasks) {
      const std::size_t t = task(theirs.name);
      renumbered.push_back(static_cast<std::int32_t>(t));
      tasks[t].images += theirs.images;
      tasks[t].patches += theirs.patches;
      tasks[t].picked += theirs.picked;
      tasks[t].epsilon = std::max(tasks[t].epsilon, theirs.epsilon);
      tasks[t].epsilon_hat = std::max(tasks[t].epsilon_hat, theirs.epsilon_hat);
    }
    for (std::size_t i = 0; i < other.vectors.n; ++i) {
      origins.push_back(renumbered[static_cast<std::size_t>(other.origins[i])]);
      radii.push_back(other.radii[i]);
    }
    vectors = joined(vectors, other.vectors);
    capacity = m;
    delta = std::max(delta, other.delta) + static_cast<double>(consolidate_to(m, 0));
  }
};

/// Where a memory differs from its twin; empty if nowhere. The certificate is not looked at.
inline std::string difference(const Memory& got, const Twin& expected) {
  std::ostringstream out;
  if (got.size() != expected.vectors.n) {
    out << got.size() << " vectors, expected " << expected.vectors.n;
    return out.str();
  }
  const Vectors vectors = got.vectors();
  const std::vector<std::int32_t> origins = got.origins();
  const std::vector<float> radii = got.radii();
  if (vectors.rows() != got.size() || origins.size() != got.size() || radii.size() != got.size()) {
    return "vectors, origins and radii differ in number";
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (std::size_t j = 0; j < expected.d; ++j) {
      if (bits(vectors.row(i)[j]) != bits(expected.vectors.row(i)[j])) {
        out << "vector " << i << " of " << got.size() << " differs";
        return out.str();
      }
    }
    if (origins[i] != expected.origins[i]) out << "origin of " << i << "; ";
    if (bits(radii[i]) != bits(expected.radii[i])) {
      out << "radius of " << i << ": " << radii[i] << ", expected " << expected.radii[i] << "; ";
    }
  }
  if (got.tasks().size() != expected.tasks.size()) return "another number of tasks";
  for (std::size_t t = 0; t < expected.tasks.size(); ++t) {
    const TaskRecord& mine = got.tasks()[t];
    const TaskRecord& theirs = expected.tasks[t];
    if (mine.name != theirs.name || mine.images != theirs.images ||
        mine.patches != theirs.patches || mine.picked != theirs.picked) {
      out << "record of task " << t << "; ";
    }
    if (bits(mine.epsilon) != bits(theirs.epsilon)) {
      out << "epsilon " << mine.epsilon << ", expected " << theirs.epsilon << "; ";
    }
    if (bits(mine.epsilon_hat) != bits(theirs.epsilon_hat)) {
      out << "epsilon hat " << mine.epsilon_hat << ", expected " << theirs.epsilon_hat << "; ";
    }
  }
  return out.str();
}

/// A folder that goes when the test does.
class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    // In memory where that can be had: saving waits for the disk, and the tests save a lot.
    std::string name = "/dev/shm/contcore_memory_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      name = (std::filesystem::temp_directory_path() / "contcore_memory_XXXXXX").string();
      ASSERT_NE(::mkdtemp(name.data()), nullptr);
    }
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string read_bytes(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  static void write_bytes(const std::string& file, const std::string& bytes) {
    std::filesystem::remove(file);  // far faster than to truncate it
    std::ofstream(file, std::ios::binary) << bytes;
  }

  /// All that a memory is: the bytes it saves.
  std::string bytes_of(const Memory& memory) const {
    const std::string file = path("bytes_of");
    memory.save(file);
    return read_bytes(file);
  }
  Memory reopened(const Memory& memory) const {
    const std::string file = path("reopened");
    memory.save(file);
    return Memory::open(file);
  }

  std::filesystem::path folder_;
};

inline LearnHow how_to(const std::string& task, double p) {
  LearnHow how;
  how.task = task;
  how.p = p;
  how.time = "2031-05-04T03:02:01Z";
  return how;
}

/// Mostly one thread: a crew of several is slow where there is little to do.
inline Compute& any_crew(Dice& dice) { return crew(dice.one_in(6) ? dice.between(1, 3) : 0); }

/// Calibrates with one image, whose score is its largest patch distance.
inline void calibrate(Memory& memory, const Set& image, const std::string& task) {
  const auto largest = [](const std::vector<float>& distances) {
    return *std::max_element(distances.begin(), distances.end());
  };
  const Memory::Thinned thinned = memory.thinned(image.view(), task, crew(0));
  ImageScores scores{thinned.vectors, {largest(memory.distances(image.view(), crew(0)))}};
  for (const auto& distances : thinned.distances) scores.scores.push_back(largest(distances));
  const VectorView patches = image.view();
  const std::size_t known = thinned.vectors > 0 ? 1 : 0;  // of a task without vectors, nothing
  memory.calibrate(task, std::span(&scores, known), std::span(&patches, 1), Memory::Keep::kLatest);
}

/// Something to learn.
struct Step {
  Set features;
  LearnHow how;
};

/// Images and batches of several tasks: fresh, repeated, or with some features that were there
/// before.
inline std::vector<Step> story(Dice& dice, Family family, std::size_t d, std::size_t steps,
                               std::size_t largest) {
  const std::uint64_t shape = dice.bits() % 100000;
  const std::size_t tasks = dice.between(1, 4);
  std::vector<Step> result;
  std::size_t task = 0;
  for (std::size_t s = 0; s < steps; ++s) {
    if (dice.one_in(3)) task = dice.below(tasks);
    Step step;
    step.how = how_to("task " + std::to_string(task), dice.pick({0.01, 0.1, 0.3, 1.0}));
    step.how.images = dice.between(1, 3);
    if (s > 0 && dice.one_in(8)) {
      step.features = result[dice.below(s)].features;
    } else {
      const std::size_t n = dice.one_in(6) ? 1 : dice.between(1, largest);
      step.features = make(family, n, d, shape + task, dice.bits() % 100000);
      if (s > 0 && dice.one_in(4)) {
        const Set& earlier = result[dice.below(s)].features;
        for (std::size_t i = 0; i < n; i += 2) {
          copy_row(earlier, dice.below(earlier.n), step.features, i);
        }
      }
      if (dice.one_in(8)) step.features.make_half();
    }
    result.push_back(std::move(step));
  }
  return result;
}

/// The error a call throws; it must throw one.
template <class Call>
std::optional<Error> error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
    return error;
  }
  ADD_FAILURE() << "no error";
  return {};
}

template <class Call>
void expect_error(Error::Kind kind, const Call& call) {
  if (const std::optional<Error> error = error_of(call)) {
    EXPECT_EQ(error->kind(), kind) << error->what();
  }
}

}  // namespace contcore::naive
