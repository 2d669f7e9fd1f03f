#include "memory/vector_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "contcore/distance.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

// What the store says it is, as plain lists.
struct Row {
  std::vector<float> vector;
  std::int32_t origin;
  float radius;
  float slack;
};

constexpr std::size_t kDimension = 5;

void expect_same(const VectorStore& store, const std::vector<Row>& rows) {
  const Entries entries = store.entries();
  ASSERT_EQ(entries.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(std::equal(rows[i].vector.begin(), rows[i].vector.end(), entries.vectors.row(i)));
    ASSERT_EQ(entries.origin[i], rows[i].origin);
    ASSERT_EQ(entries.radius[i], rows[i].radius);
    ASSERT_EQ(entries.slack[i], rows[i].slack);
  }
}

// Searching finds the nearest of all, or of a task, whatever came and went.
void expect_searched(VectorStore& store, const std::vector<Row>& rows, naive::Dice& dice,
                     Compute& compute) {
  std::vector<float> patch(kDimension);
  for (float& value : patch) value = static_cast<float>(dice.gaussian());
  const auto least = [&](std::int32_t task) {
    float nearest = std::numeric_limits<float>::infinity();
    for (const Row& row : rows) {
      if (task >= 0 && row.origin != task) continue;
      nearest = std::min(nearest, squared_distance(patch.data(), row.vector.data(), kDimension));
    }
    return nearest;
  };
  if (rows.empty()) return;
  ASSERT_EQ(store.nearest({patch.data(), 1, kDimension}, compute).squared[0], least(-1));
  const std::int32_t task = rows[dice.below(rows.size())].origin;
  ASSERT_EQ(store.nearest({patch.data(), 1, kDimension}, compute, task).squared[0], least(task));
}

TEST(VectorStoreTest, IsAListWhateverComesAndGoes) {
  naive::Dice dice(7);
  Compute compute(2);
  for (int round = 0; round < 20; ++round) {
    VectorStore store(kDimension, Scalar::kFloat32);
    std::vector<Row> rows;
    for (int step = 0; step < 40; ++step) {
      const VectorStore::Columns before = store.columns();
      const std::vector<Row> rows_before = rows;
      const std::size_t slots_before = store.slots();
      if (dice.one_in(3) && !rows.empty()) {
        std::vector<std::uint32_t> order;
        std::vector<std::uint32_t> removed;
        std::vector<Row> left;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          if (dice.one_in(3)) {
            removed.push_back(store.order()[i]);
          } else {
            order.push_back(store.order()[i]);
            left.push_back(rows[i]);
          }
        }
        store.keep(order, removed);
        rows = left;
      } else {
        const std::size_t n = dice.between(1, 30);
        const auto task = static_cast<std::int32_t>(dice.below(3));
        store.reserve(n, 1000);
        Vectors features(n, kDimension);
        std::vector<std::uint32_t> picks;
        std::vector<float> radii;
        for (std::uint32_t i = 0; i < n; ++i) {
          for (std::size_t j = 0; j < kDimension; ++j) {
            features.row(i)[j] = static_cast<float>(dice.gaussian());
          }
          picks.push_back(i);
          radii.push_back(static_cast<float>(dice.uniform()));
          rows.push_back({{features.row(i), features.row(i) + kDimension}, task, radii[i], 0.5F});
        }
        store.add(features.view(), picks, radii, task, 0.5F, compute);
      }
      expect_same(store, rows);
      expect_searched(store, rows, dice, compute);
      // Undone, as after a failure: only where the slots were not given anew meanwhile.
      if (dice.one_in(5) && store.slots() == slots_before && store.size() != before.order.size()) {
        store.restore(before);
        rows = rows_before;
        expect_same(store, rows);
        expect_searched(store, rows, dice, compute);
      }
      if (dice.one_in(8)) store.compact(store.size() + dice.below(5));
      if (HasFatalFailure()) FAIL() << "round " << round << " step " << step;
    }
  }
}

TEST(VectorStoreTest, ParentsFollowTheirVectors) {
  Entries entries;
  entries.vectors = Vectors(4, 1);
  for (std::size_t i = 0; i < 4; ++i) entries.vectors.row(i)[0] = static_cast<float>(i);
  entries.origin = {0, 0, 0, 0};
  entries.radius = {9, 2, 1, 1};
  entries.slack = {0, 0, 0, 0};
  constexpr std::uint32_t kNone = VectorStore::kNoParent;
  VectorStore store(1, Scalar::kFloat32);
  store.assign(std::move(entries), {kNone, 0, 1, 2});
  store.keep({0, 2, 3}, {1});
  EXPECT_EQ(store.parent()[2], kNone);  // its parent is gone
  EXPECT_EQ(store.parent()[3], 2u);
  store.compact(8);
  EXPECT_EQ(store.parents_among(store.order()), (std::vector<std::uint32_t>{kNone, kNone, 1}));
  EXPECT_EQ(store.order(), (std::vector<std::uint32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace contcore
