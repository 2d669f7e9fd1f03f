// Fewer, larger steps of the same meaning.
//
// In: a plan as lower() makes it, and the values that have to stay as they are. Out: the plan with
// padding folded into windows, functions that exporters take apart put together, and steps joined
// to the ones before them. Rounding to a grid becomes part of the convolution that makes the value.
// Nothing fails: what does not fit a pattern stays as it is.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backbone/constants.h"
#include "backbone/plan.h"
#include "backbone/shapes.h"

namespace contcore {
namespace {

using Kind = Step::Kind;
using Function = Unary::Kind;

bool is_function(const Step* step, Function kind) {
  return step != nullptr && step->kind == Kind::kUnary && step->post_ops.size() == 1 &&
         step->post_ops[0].unary->kind == kind;
}

bool near(float a, double b) { return std::abs(static_cast<double>(a) - b) < 1e-6 * std::abs(b); }

bool is_linear(const Step* step, double alpha, float beta) {
  return is_function(step, Function::kLinear) && near(step->post_ops[0].unary->alpha, alpha) &&
         step->post_ops[0].unary->beta == beta;
}

bool is_binary(const Step* step, Step::Combine combine) {
  return step != nullptr && step->kind == Kind::kBinary && step->combine == combine &&
         step->post_ops.empty();
}

bool has_sum(const Step& step) {
  return std::any_of(step.post_ops.begin(), step.post_ops.end(),
                     [](const PostOp& op) { return !op.unary; });
}

bool bounds(const Unary& unary) {
  return unary.kind == Function::kClip || (unary.kind == Function::kRelu && unary.alpha == 0);
}

// First one, then the other.
Unary bounds_of_both(const Unary& first, const Unary& second) {
  Unary both{Function::kClip, std::numeric_limits<float>::lowest(),
             std::numeric_limits<float>::max()};
  for (const Unary& one : {first, second}) {
    const bool relu = one.kind == Function::kRelu;
    const float low = relu ? 0 : one.alpha;
    const float high = relu ? std::numeric_limits<float>::max() : one.beta;
    both.alpha = std::min(std::max(both.alpha, low), high);
    both.beta = std::min(std::max(both.beta, low), high);
  }
  return both;
}

// Two linear functions in a row are one, and so are two bounds.
void append_function(std::vector<PostOp>& post_ops, const Unary& unary) {
  if (!post_ops.empty() && post_ops.back().unary && bounds(unary) &&
      bounds(*post_ops.back().unary)) {
    Unary& last = *post_ops.back().unary;
    const bool same = unary.kind == last.kind && unary.kind == Function::kRelu;
    if (!same) last = bounds_of_both(last, unary);
    return;
  }
  if (unary.kind == Function::kLinear && !post_ops.empty() && post_ops.back().unary &&
      post_ops.back().unary->kind == Function::kLinear) {
    Unary& last = *post_ops.back().unary;
    last = {Function::kLinear, unary.alpha * last.alpha, unary.alpha * last.beta + unary.beta};
    if (last.alpha == 1 && last.beta == 0) post_ops.pop_back();
    return;
  }
  post_ops.push_back({unary, 0});
}

class Fuser {
 public:
  Fuser(Plan& plan, const std::vector<std::size_t>& kept)
      : plan_(plan),
        producer_(plan.values.size(), kNoProducer),
        uses_(plan.values.size(), 0),
        dead_(plan.steps.size(), false) {
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      producer_[plan.steps[i].out] = i;
      for_inputs(plan.steps[i], [&](std::size_t value) { ++uses_[value]; });
    }
    // Two more uses than one, so that a kept value never looks like one that passes by.
    for (const std::size_t value : kept) uses_[value] += 2;
  }

  void run() {
    each([this](Step& step) { fold_padding(step); });
    each([this](Step& step) {
      if (!find_swish(step) && !find_gelu(step)) find_layer_norm(step);
    });
    each([this](Step& step) { drop_rounding(step); });
    each([this](Step& step) {
      join(step);
      follow_grid(step);
    });
    drop_unused();
  }

 private:
  static constexpr std::size_t kNoProducer = static_cast<std::size_t>(-1);

  template <typename Visit>
  static void for_inputs(const Step& step, const Visit& visit) {
    for (const std::size_t value : step.in) visit(value);
    for (const PostOp& op : step.post_ops) {
      if (!op.unary) visit(op.other);
    }
  }
  template <typename Work>
  void each(const Work& work) {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      if (!dead_[i]) work(plan_.steps[i]);
    }
  }

  Step* producer(std::size_t value) {
    return producer_[value] == kNoProducer ? nullptr : &plan_.steps[producer_[value]];
  }
  // The step that makes a value of which only one step knows.
  Step* sole_producer(std::size_t value) { return uses_[value] == 1 ? producer(value) : nullptr; }
  // The same, if the value is not rounded before it is read.
  Step* joinable(std::size_t value) { return grid(value) ? nullptr : sole_producer(value); }
  const Tensor* constant(std::size_t value) const {
    const auto& tensor = plan_.values[value].constant;
    return tensor ? &*tensor : nullptr;
  }
  const Shape& shape(std::size_t value) const { return plan_.values[value].shape; }

  void kill(const Step& step) {
    dead_[static_cast<std::size_t>(&step - plan_.steps.data())] = true;
    producer_[step.out] = kNoProducer;
    for_inputs(step, [this](std::size_t value) { --uses_[value]; });
  }
  // Kills the chain of single-use steps that leads to a value which lost its last use.
  void release(std::size_t value) {
    Step* step = producer(value);
    if (step == nullptr || uses_[value] > 0) return;
    const std::vector<std::size_t> inputs = step->in;
    kill(*step);
    for (const std::size_t input : inputs) release(input);
  }
  // Makes `step` a function of one value and lets go of what it used before.
  void become_function(Step& step, std::size_t in, std::vector<Unary> functions) {
    const std::vector<std::size_t> before = step.in;
    ++uses_[in];
    step.kind = Kind::kUnary;
    step.in = {in};
    step.post_ops.clear();
    for (const Unary& f : functions) step.post_ops.push_back({f, 0});
    for (const std::size_t value : before) {
      --uses_[value];
      release(value);
    }
  }
  // Puts `earlier` in the place of `step`, which it has taken in.
  void replace(Step& step, Step& earlier, Step merged) {
    merged.out = step.out;
    kill(earlier);
    for_inputs(step, [this](std::size_t value) { --uses_[value]; });
    step = std::move(merged);
    for_inputs(step, [this](std::size_t value) { ++uses_[value]; });
  }

  void fold_padding(Step& step);
  bool find_swish(Step& step);
  bool find_gelu(Step& step);
  void find_layer_norm(Step& step);
  void drop_rounding(Step& step);
  void follow_grid(Step& step);
  bool join_rounding(Step& step);
  bool round_after_pool(Step& step);
  const std::optional<Grid>& grid(std::size_t value) const { return plan_.values[value].grid; }
  bool is_integer(const Step& step) const {
    return step.kind == Kind::kConv && step.weights.codes != nullptr && grid(step.in[0]);
  }
  void join(Step& step);
  bool join_affine(Step& step);
  bool join_function(Step& step);
  bool join_row(Step& step);
  bool join_sum(Step& step);
  void drop_unused();
  bool never_negative(std::size_t value);

  Plan& plan_;
  std::vector<std::size_t> producer_;
  std::vector<std::size_t> uses_;
  std::vector<bool> dead_;
};

// ---- padding -----------------------------------------------------------------------------------

bool Fuser::never_negative(std::size_t value) {
  const Step* step = producer(value);
  if (step == nullptr || step->post_ops.empty() || !step->post_ops.back().unary) return false;
  const Unary& last = *step->post_ops.back().unary;
  return (last.kind == Function::kRelu && last.alpha == 0) || last.kind == Function::kSigmoid ||
         (last.kind == Function::kClip && last.alpha >= 0);
}

void Fuser::fold_padding(Step& step) {
  if (step.kind != Kind::kConv && step.kind != Kind::kMaxPool && step.kind != Kind::kMeanPool)
    return;
  Step* pad = sole_producer(step.in[0]);
  if (pad == nullptr || pad->kind != Kind::kHost || pad->node.op != "Pad") return;
  std::vector<const Tensor*> inputs;
  std::size_t next = 0;
  for (const std::string& name : pad->node.inputs) {
    inputs.push_back(name.empty() ? nullptr : constant(pad->in[next++]));
  }
  const std::vector<std::int64_t> pads = padding(pad->node, 4, inputs);
  const float value = padding_value(pad->node, inputs);
  if (std::any_of(pads.begin(), pads.end(), [](std::int64_t x) { return x < 0; })) return;
  if (pads[0] != 0 || pads[1] != 0 || pads[4] != 0 || pads[5] != 0) return;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t reach = (step.kernel[i] - 1) * step.dilations[i] + 1;
    const bool small =
        step.pads_begin[i] + pads[i + 2] < reach && step.pads_end[i] + pads[i + 6] < reach;
    if (step.kind != Kind::kConv && !small) return;
    if (step.kind == Kind::kMeanPool && (step.pads_begin[i] > 0 || step.pads_end[i] > 0)) return;
  }
  const bool lowest = value <= std::numeric_limits<float>::lowest();
  const bool exact = step.kind == Kind::kMaxPool
                         ? lowest || (value == 0 && never_negative(pad->in[0]))
                         : value == 0;
  if (!exact) return;
  Step merged = step;
  merged.in = {pad->in[0]};
  merged.count_padding = true;
  for (std::size_t i = 0; i < 2; ++i) {
    merged.pads_begin[i] += pads[i + 2];
    merged.pads_end[i] += pads[i + 6];
  }
  replace(step, *pad, std::move(merged));
}

// ---- functions taken apart ---------------------------------------------------------------------

// x · sigmoid(x); x · hard_sigmoid(x); x · clip(x + 3, 0, 6), which is 6 times the hard swish.
bool Fuser::find_swish(Step& step) {
  if (!is_binary(&step, Step::Combine::kMul)) return false;
  for (const std::size_t side : {0u, 1u}) {
    const std::size_t x = step.in[side];
    const Step* gate = sole_producer(step.in[1 - side]);
    if (gate == nullptr || gate->kind != Kind::kUnary) continue;
    if (is_function(gate, Function::kSigmoid) && gate->in[0] == x) {
      become_function(step, x, {{Function::kSwish, 1, 0}});
      return true;
    }
    const auto& ops = gate->post_ops;
    if (ops.size() == 2 && gate->in[0] == x && ops[0].unary->kind == Function::kLinear &&
        near(ops[0].unary->alpha, 1.0 / 6) && ops[0].unary->beta == 0.5f) {
      become_function(step, x, {{Function::kHardSwish, 0, 0}});
      return true;
    }
    const Step* shifted = sole_producer(gate->in[0]);
    if (is_function(gate, Function::kClip) && ops[0].unary->alpha == 0 && ops[0].unary->beta == 6 &&
        is_linear(shifted, 1, 3) && shifted->in[0] == x) {
      become_function(step, x, {{Function::kHardSwish, 0, 0}, {Function::kLinear, 6, 0}});
      return true;
    }
  }
  return false;
}

// x · (1 + erf(x / √2)), with the half of it before or after.
bool Fuser::find_gelu(Step& step) {
  if (!is_binary(&step, Step::Combine::kMul)) return false;
  for (const std::size_t side : {0u, 1u}) {
    const Step* plus_one = sole_producer(step.in[side]);
    if (!is_linear(plus_one, 1, 1)) continue;
    const Step* erf = sole_producer(plus_one->in[0]);
    if (erf == nullptr || erf->kind != Kind::kHost || erf->node.op != "Erf") continue;
    const Step* scaled = sole_producer(erf->in[0]);
    if (!is_linear(scaled, std::sqrt(0.5), 0)) continue;
    const std::size_t x = scaled->in[0];
    const std::size_t other = step.in[1 - side];
    if (other == x) {
      become_function(step, x, {{Function::kGelu, 0, 0}, {Function::kLinear, 2, 0}});
      return true;
    }
    const Step* half = sole_producer(other);
    if (is_linear(half, 0.5, 0) && half->in[0] == x) {
      become_function(step, x, {{Function::kGelu, 0, 0}});
      return true;
    }
  }
  return false;
}

// (x − mean(x)) / √(mean((x − mean(x))²) + ε) along the last axis.
void Fuser::find_layer_norm(Step& step) {
  if (!is_binary(&step, Step::Combine::kDiv)) return;
  const std::size_t centred = step.in[0];
  const auto last = [&](const Step* mean) {
    return mean != nullptr && mean->kind == Kind::kMean && mean->axes.size() == 1 &&
           mean->axes[0] + 1 == static_cast<std::int64_t>(shape(mean->in[0]).size());
  };
  const Step* root = sole_producer(step.in[1]);
  if (!is_function(root, Function::kSqrt)) return;
  const Step* plus = sole_producer(root->in[0]);
  if (!is_function(plus, Function::kLinear) || plus->post_ops[0].unary->alpha != 1) return;
  const Step* variance = sole_producer(plus->in[0]);
  if (!last(variance)) return;
  const Step* square = sole_producer(variance->in[0]);
  std::size_t uses = 2;  // of the centred values: squared, divided
  if (is_function(square, Function::kPower)) {
    const Unary& power = *square->post_ops[0].unary;
    if (power.alpha != 1 || power.beta != 2) return;
  } else if (is_binary(square, Step::Combine::kMul) && square->in[0] == square->in[1]) {
    ++uses;
  } else {
    return;
  }
  if (square->in[0] != centred || uses_[centred] != uses) return;
  const Step* minus = producer(centred);
  if (!is_binary(minus, Step::Combine::kSub)) return;
  const Step* mean = sole_producer(minus->in[1]);
  const std::size_t x = minus->in[0];
  if (!last(mean) || mean->in[0] != x) return;
  const float epsilon = plus->post_ops[0].unary->beta;
  const auto channels = static_cast<std::size_t>(shape(x).back());
  become_function(step, x, {});
  step.kind = Kind::kLayerNorm;
  step.epsilon = epsilon;
  step.scale.assign(channels, 1.0f);
  step.bias.assign(channels, 0.0f);
}

// ---- joining a step to the one before ----------------------------------------------------------

bool takes_functions(const Step& step, const std::vector<PostOp>& functions) {
  switch (step.kind) {
    case Kind::kConv:
    case Kind::kMatMul:
    case Kind::kBinary:
    case Kind::kUnary:
      return true;
    case Kind::kAffine:  // what is left of a batch norm ends in a plain relu at most
      return step.post_ops.empty() && functions.size() == 1 &&
             functions[0].unary->kind == Function::kRelu && functions[0].unary->alpha == 0;
    default:
      return false;
  }
}

void scale_and_shift(Step& step, const std::vector<float>& scale, const std::vector<float>& shift) {
  if (step.scale.empty()) step.scale.assign(scale.size(), 1.0f);
  if (step.bias.empty()) step.bias.assign(scale.size(), 0.0f);
  for (std::size_t c = 0; c < scale.size(); ++c) {
    step.scale[c] *= scale[c];
    step.bias[c] = step.bias[c] * scale[c] + shift[c];
  }
}

bool Fuser::join_affine(Step& step) {
  if (step.kind != Kind::kAffine) return false;
  Step* earlier = joinable(step.in[0]);
  if (earlier == nullptr || !earlier->post_ops.empty() ||
      (earlier->kind != Kind::kConv && earlier->kind != Kind::kAffine)) {
    return false;
  }
  Step merged = *earlier;
  scale_and_shift(merged, step.scale, step.bias);
  merged.post_ops = step.post_ops;
  replace(step, *earlier, std::move(merged));
  return true;
}

// Two functions of one kind stay apart unless their numbers are the same: oneDNN 2.6 would give the
// second those of the first.
bool runs_together(const std::vector<PostOp>& functions) {
  for (std::size_t i = 0; i < functions.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto& a = functions[i].unary;
      const auto& b = functions[j].unary;
      if (a && b && a->kind == b->kind && (a->alpha != b->alpha || a->beta != b->beta))
        return false;
    }
  }
  return true;
}

bool Fuser::join_function(Step& step) {
  if (step.kind != Kind::kUnary) return false;
  Step* earlier = joinable(step.in[0]);
  if (earlier == nullptr || !takes_functions(*earlier, step.post_ops)) return false;
  Step merged = *earlier;
  for (const PostOp& op : step.post_ops) append_function(merged.post_ops, *op.unary);
  if (!runs_together(merged.post_ops)) return false;
  replace(step, *earlier, std::move(merged));
  return true;
}

// A constant row added to, or multiplied with, a matrix product or a layer norm.
bool Fuser::join_row(Step& step) {
  const bool sum = is_binary(&step, Step::Combine::kAdd);
  if (!sum && !is_binary(&step, Step::Combine::kMul)) return false;
  const Tensor* row = constant(step.in[1]);
  Step* earlier = joinable(step.in[0]);
  if (row == nullptr || !row->is_float() || earlier == nullptr || !earlier->post_ops.empty())
    return false;
  if (earlier->kind != Kind::kMatMul && earlier->kind != Kind::kLayerNorm) return false;
  const auto columns = static_cast<std::size_t>(shape(step.out).back());
  if (row->size() != columns || row->shape.empty() ||
      row->shape.back() != static_cast<std::int64_t>(columns)) {
    return false;
  }
  if (earlier->kind == Kind::kMatMul && earlier->in.size() > 1) return false;
  Step merged = *earlier;
  const std::vector<float> ones(columns, 1.0f), zeros(columns, 0.0f);
  scale_and_shift(merged, sum ? ones : *row->floats, sum ? *row->floats : zeros);
  replace(step, *earlier, std::move(merged));
  return true;
}

// What drop_rounding leaves behind an integer convolution: bounds, and nothing else. All of
// oneDNN's integer convolutions take them before a sum; not all float ones do.
bool ends_in_bounds(const Step& step) {
  return step.kind == Kind::kConv && step.weights.codes != nullptr && step.group == 1 &&
         step.post_ops.size() == 1 && step.post_ops[0].unary &&
         step.post_ops[0].unary->kind == Function::kClip;
}

// A residual connection: the later of the two steps adds the other's result to its own.
bool Fuser::join_sum(Step& step) {
  if (!is_binary(&step, Step::Combine::kAdd) || step.in[0] == step.in[1]) return false;
  if (shape(step.in[0]) != shape(step.in[1])) return false;
  std::size_t sides[] = {0, 1};
  const auto when = [&](std::size_t side) {
    const std::size_t at = producer_[step.in[side]];
    return at == kNoProducer ? 0 : at + 1;
  };
  if (when(1) > when(0)) std::swap(sides[0], sides[1]);
  for (const std::size_t side : sides) {
    Step* earlier = joinable(step.in[side]);
    if (earlier == nullptr || has_sum(*earlier)) continue;
    if (!earlier->post_ops.empty() && !ends_in_bounds(*earlier)) continue;
    if (earlier->kind != Kind::kConv && earlier->kind != Kind::kMatMul) continue;
    Step merged = *earlier;
    merged.post_ops.push_back({std::nullopt, step.in[1 - side]});
    replace(step, *earlier, std::move(merged));
    return true;
  }
  return false;
}

// ---- rounding ----------------------------------------------------------------------------------

bool only_bounds(const Step& step) {
  return step.kind == Kind::kUnary &&
         std::all_of(step.post_ops.begin(), step.post_ops.end(),
                     [](const PostOp& op) { return op.unary && bounds(*op.unary); });
}

// Some tools round a convolution's result before the function or the sum that follows, since their
// kernels do. Here that follows in the same pass, on what is not rounded: of the rounding only the
// bounds remain, which may be the whole activation.
void Fuser::drop_rounding(Step& step) {
  if (!only_bounds(step) && !is_binary(&step, Step::Combine::kAdd)) return;
  for (const std::size_t value : step.in) {
    Step* rounding = sole_producer(value);
    if (rounding == nullptr || rounding->kind != Kind::kQuantize) continue;
    const Step* conv = sole_producer(rounding->in[0]);
    if (conv == nullptr || conv->kind != Kind::kConv) continue;
    const Grid levels = *grid(value);
    plan_.values[value].grid.reset();
    rounding->kind = Kind::kUnary;
    rounding->post_ops = {{Unary{Function::kClip, levels.lowest(), levels.highest()}, 0}};
    return;  // one side of a sum is enough: the other is a value of its own
  }
}

// Numbers that only move stay on their grid.
void Fuser::follow_grid(Step& step) {
  if (step.kind != Kind::kMaxPool && step.kind != Kind::kConcat) return;
  const auto& first = grid(step.in[0]);
  if (first && std::all_of(step.in.begin(), step.in.end(),
                           [&](std::size_t value) { return grid(value) == first; })) {
    plan_.values[step.out].grid = first;
  }
}

// The largest of rounded numbers is the largest one, rounded: of fewer numbers, where they were
// made as floats.
bool Fuser::round_after_pool(Step& step) {
  if (step.kind != Kind::kMaxPool) return false;
  Step* rounding = sole_producer(step.in[0]);
  if (rounding == nullptr || rounding->kind != Kind::kQuantize) return false;
  Value& between = plan_.values[rounding->out];
  Value& last = plan_.values[step.out];
  last.grid = between.grid;
  between.grid.reset();
  between.shape = last.shape;
  std::swap(step, *rounding);
  rounding->in.swap(step.in);
  std::swap(rounding->out, step.out);
  return true;
}

bool Fuser::join_rounding(Step& step) {
  if (step.kind != Kind::kQuantize) return false;
  Step* earlier = sole_producer(step.in[0]);
  if (earlier == nullptr || !is_integer(*earlier) || grid(earlier->out)) return false;
  replace(step, *earlier, *earlier);
  return true;
}

void Fuser::join(Step& step) {
  if (join_rounding(step) || round_after_pool(step)) return;
  if (!join_affine(step) && !join_function(step) && !join_row(step)) join_sum(step);
}

void Fuser::drop_unused() {
  for (std::size_t i = plan_.steps.size(); i-- > 0;) {
    if (!dead_[i] && uses_[plan_.steps[i].out] == 0) kill(plan_.steps[i]);
  }
  std::vector<Step> steps;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    if (!dead_[i]) steps.push_back(std::move(plan_.steps[i]));
  }
  plan_.steps = std::move(steps);
}

}  // namespace

void fuse(Plan& plan, const std::vector<std::size_t>& kept) { Fuser(plan, kept).run(); }

}  // namespace contcore
