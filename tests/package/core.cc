// A program of another project: greedy picks and nearest neighbours of a few points.
#include <contcore/greedy.h>
#include <contcore/nearest.h>

#include <cstdio>

int main() {
  const float points[] = {0, 0, 1, 0, 10, 0, 0, 7};
  contcore::Compute compute(2);
  contcore::GreedyOptions options;
  options.count = 2;
  const auto coreset = contcore::greedy_sample({points, 4, 2}, {}, options, compute);
  const contcore::NearestIndex index({points, 4, 2}, compute);
  const auto found = index.search({points + 2, 1, 2}, 1, compute);
  std::printf("picks %d %d, nearest %d\n", static_cast<int>(coreset.picks[0]),
              static_cast<int>(coreset.picks[1]), static_cast<int>(found.ids[0]));
  return coreset.picks[0] == 2 && coreset.picks[1] == 3 && found.ids[0] == 1 ? 0 : 1;
}
