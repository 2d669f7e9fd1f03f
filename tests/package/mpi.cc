// A program of another project: greedy picks of points that several processes have.
#include <contcore/memory.h>
#include <contcore/mpi.h>

#include <cstdio>

int main() {
  contcore::MpiRanks ranks;
  const float points[] = {0, 0, 1, 0, 10, 0, 0, 7};
  const std::size_t first = 4 * ranks.rank() / ranks.size();
  const std::size_t end = 4 * (ranks.rank() + 1) / ranks.size();
  contcore::Compute compute(1);
  contcore::Memory memory(2, 2);
  contcore::LearnHow how;
  how.task = "part";
  how.p = 0.5;
  memory.learn({points + 2 * first, end - first, 2}, how, compute, ranks);
  const contcore::Vectors vectors = memory.vectors();
  if (ranks.rank() == 0) {
    std::printf("%d ranks: %g %g\n", static_cast<int>(ranks.size()),
                static_cast<double>(vectors.row(0)[0]), static_cast<double>(vectors.row(1)[1]));
  }
  return memory.size() == 2 && vectors.row(0)[0] == 10 && vectors.row(1)[1] == 7 ? 0 : 1;
}
