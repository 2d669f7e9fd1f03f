// A program of another project: how well scores tell defects from good.
#include <contcore/metrics.h>

#include <cstdio>

int main() {
  const float good[] = {1, 2, 3};
  const float defect[] = {2.5F, 4};
  contcore::Compute compute(2);
  const auto ranking = contcore::rank(good, defect, compute);
  std::printf("AUROC %.4f\n", ranking.auroc.value_or(0));
  return ranking.auroc && *ranking.auroc > 0.83 && *ranking.auroc < 0.84 ? 0 : 1;
}
