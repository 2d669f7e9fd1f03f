// Which verdicts are worth a look, and their pictures.
#pragma once

#include <cstddef>
#include <vector>

#include "contcore/compute.h"
#include "contcore/evaluate.h"
#include "evaluate/evaluation.h"

namespace contcore {

/// The score of one test image after the last task.
struct TestScore {
  std::size_t product = 0;
  std::size_t image = 0;  ///< of the product's test images
  float score = 0;
};

/// The score above which calling an image a defect gives the largest F1 (halfway to the next score
/// below); the largest score where there are no defects.
float best_level(const std::vector<TestScore>& scores, const Product& product);

/// A few verdicts of each kind: the clearest right ones, the clearest wrong ones, the closest
/// calls. Scores are compared as parts of their class's level; where a class has scores below 0, by
/// their distance from it.
std::vector<Verdict> choose_verdicts(const std::vector<TestScore>& scores,
                                     const std::vector<Product>& products,
                                     std::vector<TestScore>* chosen);

/// Draws one: the image as the backbone saw it, the mask, and the heat.
void draw_verdict(const Extractor& extractor, const TestImage& image, const Map& map,
                  const ImagePlace& place, Score score, Verdict& verdict);

}  // namespace contcore
