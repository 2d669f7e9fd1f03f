// Memories merged in a tree of ranks, against merging one after the other.
#include "memory/merge_on_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "contcore/memory.h"
#include "device/thread_ranks.h"
#include "memory/naive_memory.h"

namespace contcore {
namespace {

using in_threads::on_ranks;
using naive::Dice;
using naive::Family;
using naive::how_to;
using naive::Set;

class MergeOnRanks : public naive::MemoryTest {
 protected:
  // A line with one to three products of its own, calibrated.
  static Memory line(std::size_t number, std::size_t m, Dice& dice) {
    Memory memory(5, m);
    for (std::size_t k = 0; k < dice.between(1, 3); ++k) {
      const std::string task = "line " + std::to_string(number) + " part " + std::to_string(k);
      const Set features =
          naive::make(Family::kGaussian, dice.between(10, 60), 5, 10 * number + k, k);
      memory.learn(features.view(), how_to(task, 0.5), naive::crew(0));
      naive::calibrate(memory, features, task);
    }
    return memory;
  }

  static Memory in_sequence(const std::vector<Memory>& all, std::size_t capacity) {
    Memory merged = all[0].copy();
    for (std::size_t i = 1; i < all.size(); ++i) {
      merged = Memory::merge(merged, all[i], capacity, naive::crew(0));
    }
    return merged;
  }
};

// Of products that only one of them knows, whether or not there is room for all; also with fewer
// memories than ranks.
TEST_F(MergeOnRanks, IsMergingOneAfterTheOther) {
  for (std::size_t seed = 0; seed < naive::cases(40); ++seed) {
    Dice dice(seed);
    std::vector<Memory> all;
    const std::size_t count = dice.between(2, 9);
    for (std::size_t i = 0; i < count; ++i) all.push_back(line(i, dice.between(4, 80), dice));
    const std::size_t capacity = dice.pick<std::size_t>({3, 20, 60, 1000});
    const std::string expected = bytes_of(in_sequence(all, capacity));
    const std::size_t size = dice.between(1, 7);
    std::vector<std::string> got(size);
    on_ranks(size, [&](Ranks& ranks) {
      std::vector<Memory> mine;
      for (std::size_t i = count * ranks.rank() / size; i < count * (ranks.rank() + 1) / size;
           ++i) {
        mine.push_back(all[i].copy());
      }
      Compute compute(1);
      const Memory merged = merge_on_ranks(std::move(mine), capacity, ranks, compute);
      const std::string file = path("rank" + std::to_string(ranks.rank()));
      merged.save(file);
      got[ranks.rank()] = read_bytes(file);
    });
    for (std::size_t r = 0; r < size; ++r) {
      ASSERT_TRUE(got[r] == expected) << "seed " << seed << ", " << count << " memories in "
                                      << capacity << ", rank " << r << " of " << size;
    }
  }
}

TEST_F(MergeOnRanks, RefuseTogetherWhatCannotBeMerged) {
  Dice dice(1);
  std::vector<Memory> all;
  for (std::size_t i = 0; i < 4; ++i) all.push_back(line(i, 50, dice));
  all[3].source["backbone"] = "another";
  std::atomic<int> refused = 0;
  on_ranks(3, [&](Ranks& ranks) {
    std::vector<Memory> mine;
    mine.push_back(all[ranks.rank() + 1].copy());
    Compute compute(1);
    try {
      merge_on_ranks(std::move(mine), 100, ranks, compute);
    } catch (const RanksError& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3);
  on_ranks(2, [&](Ranks& ranks) {
    Compute compute(1);
    EXPECT_THROW(merge_on_ranks({}, 100, ranks, compute), RanksError);
  });
}

}  // namespace
}  // namespace contcore
