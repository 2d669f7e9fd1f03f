#include "backbone/plan.h"

namespace contcore {

double flops(const Plan& plan, const Step& step) {
  double out = 1;
  for (const std::int64_t dim : plan.values[step.out].shape) out *= static_cast<double>(dim);
  if (step.kind == Step::Kind::kConv) {
    const Shape& form = step.weights.shape;
    return 2 * out * static_cast<double>(form[1]) * static_cast<double>(form[2]) *
           static_cast<double>(form[3]);
  }
  if (step.kind == Step::Kind::kMatMul) {
    return 2 * out * static_cast<double>(plan.values[step.in[0]].shape.back());
  }
  return 0;
}

}  // namespace contcore
