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
  Vectors patches(3, memory.dimension());
  for (std::size_t i = 0; i < 3 * memory.dimension(); ++i) {
    patches.data()[i] = static_cast<float>(i) / 7;
  }
  memory.recognise(patches.view());
  if (memory.size() > 1) {
    expect(memory.distances(patches.view(), compute).size() == 3);
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
  });
}

}  // namespace contcore::fuzz
