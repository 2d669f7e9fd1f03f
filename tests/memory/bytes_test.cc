// A memory of bytes is, number for number, the memory of the same numbers as floats: distances of
// bytes are the float ones up to 512 numbers. The float memory is tested against the plain method.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "memory/naive_memory.h"

namespace contcore {
namespace {

using naive::Dice;

class MemoryOfBytes : public naive::MemoryTest {};

/// The same numbers twice.
struct Both {
  Vectors bytes;
  Vectors floats;
};

Both some_features(Dice& dice, std::size_t n, std::size_t d, std::size_t kind) {
  Both made{Vectors(n, d, Scalar::kUint8), Vectors(n, d)};
  const std::size_t centre = dice.between(0, 200);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      std::size_t value = 0;
      switch (kind % 4) {
        case 0:
          value = dice.between(0, 255);
          break;
        case 1:  // near each other, with many ties
          value = centre + dice.between(0, 2);
          break;
        case 2:  // saturated
          value = dice.one_in(2) ? 0 : 255;
          break;
        default:
          value = (centre + i * 3 + j) % 256;
      }
      made.bytes.byte_row(i)[j] = static_cast<std::uint8_t>(value);
      made.floats.row(i)[j] = static_cast<float>(value);
    }
  }
  return made;
}

std::string difference(const Memory& bytes, const Memory& floats) {
  if (bytes.size() != floats.size()) return "sizes";
  const Vectors x = bytes.vectors();
  const Vectors y = floats.vectors();
  std::vector<float> wide(x.cols());
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const float* row = x.view().row(i, wide.data());
    for (std::size_t j = 0; j < x.cols(); ++j) {
      if (row[j] != y.row(i)[j]) return "vector " + std::to_string(i);
    }
  }
  if (bytes.origins() != floats.origins()) return "origins";
  if (bytes.radii() != floats.radii()) return "radii";
  if (bytes.certificate() != floats.certificate()) return "certificates";
  return "";
}

TEST_F(MemoryOfBytes, IsThatOfTheSameFloats) {
  for (std::size_t seed = 0; seed < naive::cases(60) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 9000000);
    const std::size_t d = dice.pick<std::size_t>({1, 2, 3, 17, 64, 65, 130, 512});
    const std::size_t m = dice.pick<std::size_t>({1, 3, 8, 30, 120, 700});
    Consolidate how;
    if (dice.one_in(2)) how = Consolidate::paper(dice.pick({0.0, 0.5, 0.75, 1.0}));
    Memory bytes(d, m, how, Scalar::kUint8);
    Memory floats(d, m, how);
    EXPECT_EQ(bytes.scalar(), Scalar::kUint8);
    for (std::size_t s = 0; s < 12; ++s) {
      const std::string what = "seed " + std::to_string(seed) + ", step " + std::to_string(s) +
                               ", d " + std::to_string(d) + ", m " + std::to_string(m) + ", " +
                               how.name();
      const Both made = some_features(dice, dice.between(1, 90), d, seed);
      const LearnHow learn =
          naive::how_to("task " + std::to_string(dice.between(0, 3)), dice.pick({0.1, 0.5, 1.0}));
      if (dice.one_in(3)) {
        bytes.learn(made.bytes.view(), learn, naive::any_crew(dice));
        floats.learn(made.floats.view(), learn, naive::any_crew(dice));
      } else {
        bytes.learn_online(made.bytes.view(), learn, naive::any_crew(dice));
        floats.learn_online(made.floats.view(), learn, naive::any_crew(dice));
      }
      if (dice.one_in(4)) {
        bytes = reopened(bytes);
        floats = reopened(floats);
      }
      ASSERT_EQ(difference(bytes, floats), "") << what;
      const Both asked = some_features(dice, 20, d, seed);
      ASSERT_EQ(bytes.distances(asked.bytes.view(), naive::crew(0)),
                floats.distances(asked.floats.view(), naive::crew(0)))
          << what;
    }
    const std::size_t fewer = dice.between(1, m);
    ASSERT_EQ(difference(bytes.shrink(fewer, naive::crew(0)), floats.shrink(fewer, naive::crew(0))),
              "");
    ASSERT_EQ(difference(Memory::merge(bytes, bytes.copy(), m, naive::crew(0)),
                         Memory::merge(floats, floats.copy(), m, naive::crew(0))),
              "");
  }
}

TEST_F(MemoryOfBytes, TakesNothingOfAnotherKind) {
  Dice dice(1);
  const Both made = some_features(dice, 40, 8, 0);
  Memory bytes(8, 20, {}, Scalar::kUint8);
  Memory floats(8, 20);
  const auto says = [](const Error& error, const std::string& text) {
    return std::string(error.what()).find(text) != std::string::npos;
  };
  for (const bool online : {false, true}) {
    try {
      online ? bytes.learn_online(made.floats.view(), naive::how_to("t", 0.5), naive::crew(0))
             : bytes.learn(made.floats.view(), naive::how_to("t", 0.5), naive::crew(0));
      ADD_FAILURE() << "floats were learned by a memory of bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      EXPECT_TRUE(says(error, "are floats, but the memory holds bytes")) << error.what();
    }
  }
  EXPECT_EQ(bytes.size(), 0U);
  bytes.learn(made.bytes.view(), naive::how_to("t", 0.5), naive::crew(0));
  floats.learn(made.floats.view(), naive::how_to("t", 0.5), naive::crew(0));
  EXPECT_THROW(floats.learn(made.bytes.view(), naive::how_to("t", 0.5), naive::crew(0)), Error);
  EXPECT_THROW(bytes.distances(made.floats.view(), naive::crew(0)), Error);
  EXPECT_THROW(floats.distances(made.bytes.view(), naive::crew(0)), Error);
  EXPECT_THROW(Memory::merge(bytes, floats, 20, naive::crew(0)), Error);
}

// Means are bytes in its file.
TEST_F(MemoryOfBytes, IsCalibratedInBytes) {
  Dice dice(21);
  const Both some = some_features(dice, 60, 8, 0);
  Memory memory(8, 40, Consolidate{}, Scalar::kUint8);
  memory.learn(some.bytes.view(), naive::how_to("a", 0.5), naive::crew(0));
  const ImageScores scores{30, {1, 2}};
  const VectorView image = some.bytes.view();
  memory.calibrate("a", std::span(&scores, 1), std::span(&image, 1), Memory::Keep::kLatest);
  const Memory again = reopened(memory);
  EXPECT_EQ(again.recognise(image), 0U);
  EXPECT_EQ(again.calibration_scores(0), memory.calibration_scores(0));
  EXPECT_EQ(bytes_of(again) == bytes_of(memory), true);
  const Safetensors file(path("reopened"), "a memory");
  EXPECT_TRUE(file.has("calibration.means", "U8"));
}

}  // namespace
}  // namespace contcore
