// Ranks cases from standard input, for compare_sklearn.py: a line has n, then n labels (1 for a
// defect), then n scores; the answer to it is a line with AUROC, AP and the largest F1, or with
// "undefined".
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "contcore/metrics.h"

int main() {
  contcore::Compute compute(2);
  std::size_t n = 0;
  while (std::cin >> n) {
    std::vector<int> labels(n);
    std::vector<float> good;
    std::vector<float> defect;
    for (int& label : labels) std::cin >> label;
    for (std::size_t i = 0; i < n; ++i) {
      std::string score;  // as a word: streams read neither "inf" nor hexadecimal floats
      std::cin >> score;
      (labels[i] == 1 ? defect : good).push_back(std::stof(score));
    }
    const contcore::Ranking ranking = contcore::rank(good, defect, compute);
    if (ranking.auroc && ranking.ap && ranking.f1_max) {
      std::printf("%.17g %.17g %.17g\n", *ranking.auroc, *ranking.ap, *ranking.f1_max);
    } else {
      std::puts("undefined");
    }
  }
  return 0;
}
