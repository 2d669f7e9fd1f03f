// What can be done with a memory that was opened.
#pragma once

#include <algorithm>
#include <cmath>

#include "contcore/compute.h"
#include "contcore/memory.h"
#include "fuzz.h"

namespace contcore::fuzz {

/// A memory that was taken can be used like any other. It may hold anything; it must not break.
/// Learning takes a hundred times as long as the rest.
inline void use(Memory memory, bool learn) {
  expect(memory.size() <= memory.capacity() && memory.dimension() > 0);
  expect(!std::isnan(memory.certificate()));
  expect(memory.states().size() == memory.tasks().size());
  for (std::size_t t = 0; t < memory.tasks().size() && t < 4; ++t) {
    const auto threshold = memory.threshold(t, 0.05);
    expect(!threshold || !std::isnan(threshold->score));
  }
  if (memory.dimension() > 64) return;
  static Compute compute(1);
  const bool bytes = memory.scalar() == Scalar::kUint8;
  Vectors patches(3, memory.dimension(), memory.scalar());
  for (std::size_t i = 0; i < 3 * memory.dimension(); ++i) {
    if (bytes) {
      patches.byte_data()[i] = static_cast<std::uint8_t>(37 * i);
    } else {
      patches.data()[i] = static_cast<float>(i) / 7;
    }
  }
  memory.recognise(patches.view());
  for (std::size_t t = 0; t < memory.tasks().size() && t < 4; ++t) {
    const auto strangeness = memory.strangeness(t, patches.view(), 0.01);
    expect(!strangeness || (!std::isnan(strangeness->distance) && !std::isnan(strangeness->limit)));
  }
  if (memory.size() > 1) {
    std::vector<float> distances = memory.distances(patches.view(), compute);
    expect(distances.size() == 3);
    for (std::size_t t = 0; t < memory.tasks().size() && t < 4; ++t) {
      memory.raise(t, patches.view(), distances, compute);
    }
    taken([&] { memory.shrink(memory.size() - 1, compute); });
  }
  if (!learn) return;
  taken([&] {
    LearnHow how;
    how.task = "bottle";
    how.p = 0.5;
    how.time = "now";
    memory.learn_online(patches.view(), how, compute);
    memory.learn(patches.view(), how, compute);
    expect(memory.size() > 0 && memory.size() <= memory.capacity());
    const ImageScores scores{memory.size(), {1, 2}, 7, nullptr, mean_of_patches(patches.view())};
    const VectorView image = patches.view();
    const std::uint64_t learned = 7;
    memory.calibrate("bottle", std::span(&scores, 1), std::span(&image, 1), Memory::Keep::kLatest,
                     std::span(&learned, 1));
    expect(!memory.is_new("bottle", 7));
    for (std::uint64_t i = 0; i < 10; ++i) {
      memory.learn_defect("bottle", patches.view(), i, compute);
    }
    Memory::merge(memory, memory.copy(), memory.capacity(), compute);
  });
}

}  // namespace contcore::fuzz
