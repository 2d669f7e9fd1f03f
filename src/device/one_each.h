// What each worker of a crew computes with by itself.
#pragma once

#include <cstddef>
#include <deque>

#include "contcore/compute.h"

namespace contcore {

/// A Compute of one thread for each worker of a crew, on the crew's device. Made once for many
/// items, since a GPU takes longer to get ready than to do one of them.
class OneEach {
 public:
  explicit OneEach(Compute& crew) {
    for (std::size_t i = 0; i < crew.threads().count(); ++i) all_.emplace_back(1, crew.device());
  }

  Compute& operator[](std::size_t worker) { return all_[worker]; }

 private:
  std::deque<Compute> all_;  // which stay where they are
};

}  // namespace contcore
