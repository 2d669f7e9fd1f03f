#include "evaluate/regions.h"

#include <algorithm>

namespace contcore {
namespace {

// A forest over runs whose roots are the first runs of their regions.
class Forest {
 public:
  /// Adds trees of one run until there are `runs` runs.
  void grow(std::size_t runs) {
    while (parent_.size() < runs) parent_.push_back(parent_.size());
  }

  std::size_t root(std::size_t run) {
    while (parent_[run] != run) {
      parent_[run] = parent_[parent_[run]];
      run = parent_[run];
    }
    return run;
  }

  void join(std::size_t a, std::size_t b) {
    a = root(a);
    b = root(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

// Adds the runs of the row that begins at pixel `row`.
void find_runs(const Mask& mask, std::size_t row, std::vector<Run>& runs) {
  const std::size_t row_end = row + mask.width;
  for (std::size_t at = row; at < row_end; ++at) {
    if (mask.values[at] == 0) continue;
    const std::size_t begin = at;
    while (at < row_end && mask.values[at] != 0) ++at;
    runs.push_back({begin, at, 0});
  }
}

// Joins the runs [middle, end) of a row with those of the row above, [begin, middle), that they
// touch. Both are in order, so those above that end left of one run are left of all that follow.
void join_rows(const std::vector<Run>& runs, std::size_t begin, std::size_t middle, std::size_t end,
               std::size_t width, Forest& forest) {
  for (std::size_t i = middle; i < end; ++i) {
    while (begin < middle && runs[begin].end + width < runs[i].begin) ++begin;
    for (std::size_t j = begin; j < middle && runs[j].begin + width <= runs[i].end; ++j) {
      forest.join(i, j);
    }
  }
}

}  // namespace

std::vector<Run> connected_runs(const Mask& mask) {
  std::vector<Run> runs;
  Forest forest;
  std::size_t above = 0;  // the first run of the row above
  for (std::size_t row = 0; row < mask.values.size(); row += mask.width) {
    const std::size_t first = runs.size();
    find_runs(mask, row, runs);
    forest.grow(runs.size());
    join_rows(runs, above, first, runs.size(), mask.width, forest);
    above = first;
  }
  std::uint32_t regions = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t root = forest.root(i);
    runs[i].region = root == i ? regions++ : runs[root].region;
  }
  return runs;
}

}  // namespace contcore
