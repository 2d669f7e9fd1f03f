#include "backbone/integer_sums.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace contcore {
namespace {

// More would not fit 32 bits: codes go to 255 and to −128.
constexpr std::int64_t kMostProducts = (std::int64_t{1} << 31) / (255 * 128) - 1;

// The factor from sums of codes to numbers, for each channel.
std::vector<float> factors(const Step& step, const Grid& source) {
  const std::vector<float>& scale = step.weights.codes->scale;
  std::vector<float> all(static_cast<std::size_t>(step.weights.shape[0]));
  for (std::size_t c = 0; c < all.size(); ++c) {
    all[c] = source.scale * scale[scale.size() > 1 ? c : 0];
    if (!step.scale.empty()) all[c] *= step.scale[c];
  }
  return all;
}

// The bias in units of the sums, to which it is added; nothing if there is no such number.
std::optional<std::vector<float>> bias_of_sums(const Step& step, const std::vector<float>& factor) {
  std::vector<float> bias(factor.size(), 0.0f);
  for (std::size_t c = 0; c < factor.size(); ++c) {
    if (!std::isfinite(factor[c])) return std::nullopt;
    if (!step.bias.empty() && step.bias[c] != 0) bias[c] = step.bias[c] / factor[c];
    if (!std::isfinite(bias[c])) return std::nullopt;
  }
  return bias;
}

// Whether a step's functions mean the same in units of a grid's scale.
bool scales_with(const std::vector<PostOp>& post_ops) {
  return std::all_of(post_ops.begin(), post_ops.end(), [](const PostOp& op) {
    return !op.unary || op.unary->kind == Unary::Kind::kRelu ||
           op.unary->kind == Unary::Kind::kClip;
  });
}

bool is_linear_function(const PostOp& op) {
  return op.unary && op.unary->kind == Unary::Kind::kLinear;
}

}  // namespace

std::optional<AfterSums> after_sums(const Plan& plan, const Step& step, bool other_has_bytes) {
  const auto& from = plan.values[step.in[0]].grid;
  const auto& levels = plan.values[step.out].grid;
  if (step.weights.codes == nullptr || !from) return std::nullopt;
  if (step.weights.shape[1] * step.kernel[0] * step.kernel[1] > kMostProducts) return std::nullopt;
  AfterSums after;
  after.other = summand(step);
  after.other_bytes = after.other && levels && other_has_bytes;
  after.second = after.other && levels && !after.other_bytes;
  const bool at_once = levels && scales_with(step.post_ops) && !after.second;
  if (levels && !at_once) {
    if (std::any_of(step.post_ops.begin(), step.post_ops.end(), is_linear_function)) {
      return std::nullopt;  // oneDNN 2.6 would give the second linear function the first's numbers
    }
    after.last = 1 / levels->scale;
  }
  if (at_once) after.unit = 1 / levels->scale;
  after.factor = factors(step, *from);
  for (float& f : after.factor) f *= after.unit;
  Step scaled = step;
  for (float& b : scaled.bias) b *= after.unit;
  const auto bias = bias_of_sums(scaled, after.factor);
  if (!bias) return std::nullopt;
  after.bias = *bias;
  return after;
}

}  // namespace contcore
