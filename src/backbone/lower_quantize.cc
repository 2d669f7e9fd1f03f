// QuantizeLinear and DequantizeLinear on the image's way.
//
// In: a node with a constant scale and zero point, for the whole tensor or for each index of an
// axis. Out: one step that rounds to the levels, for QuantizeLinear, and nothing for the
// DequantizeLinear behind it: between the two a plan holds what the codes stand for, not the codes.
// With several scales the arithmetic is written out, in floats, and the codes are the value. Fails:
// scales and zero points that make no sense, whole numbers where floats belong and the reverse.
#include <algorithm>

#include "backbone/attributes.h"
#include "backbone/lower.h"
#include "backbone/quantize.h"

namespace contcore {
namespace {

constexpr float kMostCode = 1024;  // beyond every code, with its zero point taken off

bool moves_numbers(const std::string& op) {
  static const char* const kMoving[] = {"MaxPool",   "Concat",  "Reshape",  "Flatten",
                                        "Squeeze",   "Slice",   "Split",    "Gather",
                                        "Unsqueeze", "Dropout", "Identity", "Transpose"};
  return std::find(std::begin(kMoving), std::end(kMoving), op) != std::end(kMoving);
}

// The shape in which one number for each index of an axis is broadcast.
Shape along(const Shape& shape, const Levels& levels) {
  Shape form(shape.size(), 1);
  if (levels.per_axis()) form[levels.axis] = shape[levels.axis];
  return form;
}

// One step of arithmetic with a number for each level; `name` is what it makes.
void add_arithmetic(PlanBuilder& plan, const Node& node, const std::string& in,
                    Step::Combine combine, const Levels& levels, std::vector<float> numbers,
                    const std::string& name) {
  const Shape shape = plan.plan().values[plan.value(in)].shape;
  const std::string constant = name + "/numbers";
  plan.add_constant(constant, Tensor::of(along(shape, levels), std::move(numbers)));
  Step step = new_step(node, Step::Kind::kBinary);
  step.combine = combine;
  step.in = {plan.value(in), plan.value(constant)};
  plan.add_step(std::move(step), shape, name);
}

std::vector<float> as_floats(const std::vector<std::int64_t>& whole) {
  return {whole.begin(), whole.end()};
}

void quantize_by_axis(PlanBuilder& plan, const Node& node, const Levels& levels) {
  using Combine = Step::Combine;
  const std::string name = output_name(node);
  plan.value(node, 0);
  add_arithmetic(plan, node, node.inputs[0], Combine::kDiv, levels, levels.scale, name + "/div");
  Step round = new_step(node, Step::Kind::kUnary);
  round.in = {plan.value(name + "/div")};
  round.post_ops = {{Unary{Unary::Kind::kClip, -kMostCode, kMostCode}, 0},
                    {Unary{Unary::Kind::kRound, 0, 0}, 0}};
  plan.add_step(std::move(round), plan.shape(node, 0), name + "/round");
  add_arithmetic(plan, node, name + "/round", Combine::kAdd, levels, as_floats(levels.zero),
                 name + "/add");
  Step clip = new_step(node, Step::Kind::kUnary);
  clip.in = {plan.value(name + "/add")};
  clip.post_ops = {{Unary{Unary::Kind::kClip, static_cast<float>(levels.lowest()),
                          static_cast<float>(levels.highest())},
                    0}};
  plan.add_step(std::move(clip), plan.shape(node, 0), name);
  plan.set_whole(name, {std::nullopt, levels.width});
}

// Levels that are not those of the QuantizeLinear before: the codes stand for something else.
void change_levels(PlanBuilder& plan, const Node& node, const Grid& from, const Grid& to) {
  const float alpha = to.scale / from.scale;
  const float beta = to.scale * static_cast<float>(from.zero - to.zero);
  plan.add_functions(node, 0, {{Unary::Kind::kLinear, alpha, beta}});
}

}  // namespace

void lower_quantize(PlanBuilder& plan, const Node& node) {
  const auto inputs = plan.constants(node);
  const Levels levels = levels_of(node, plan.shape(node, 0), inputs);
  if (levels.width == Tensor::Width::kInt32) {
    fail(node, "its zero point must be of type uint8 or int8; quantise the model to 8 bits");
  }
  if (levels.per_axis()) return quantize_by_axis(plan, node, levels);
  Step step = new_step(node, Step::Kind::kQuantize);
  step.in = {plan.value(node, 0)};
  Shape shape = plan.shape(node, 0);
  plan.add_step(node, std::move(step), std::move(shape));
  plan.set_grid(output_name(node), levels.grid());
  plan.set_whole(output_name(node), {levels.grid(), levels.width});
}

void lower_dequantize(PlanBuilder& plan, const Node& node) {
  const auto inputs = plan.constants(node);
  const auto* whole = plan.whole(node.inputs[0]);
  if (whole == nullptr) {
    fail(node, "takes numbers that no QuantizeLinear made; put one before it");
  }
  Levels levels = levels_of(node, plan.shape(node, 0), inputs);
  if (!has_input(node, 2)) levels.width = whole->width;
  if (levels.width != whole->width) {
    fail(node, "its zero point is not of the type of its numbers; the file is damaged");
  }
  if (!whole->grid) {
    const std::string name = output_name(node);
    add_arithmetic(plan, node, node.inputs[0], Step::Combine::kSub, levels, as_floats(levels.zero),
                   name + "/sub");
    return add_arithmetic(plan, node, name + "/sub", Step::Combine::kMul, levels, levels.scale,
                          name);
  }
  if (levels.per_axis()) {
    fail(node,
         "has a scale for each channel where its QuantizeLinear has one; quantise the model "
         "again");
  }
  const Grid from = *whole->grid;
  if (from == levels.grid()) return plan.add_alias(node);
  change_levels(plan, node, from, levels.grid());
}

void check_whole(const PlanBuilder& plan, const Node& node) {
  if (node.op == "Shape" || node.op == "Size") return;
  const PlanBuilder::Whole* first = nullptr;
  for (const std::string& name : node.inputs) {
    const auto* whole = plan.whole(name);
    if (whole == nullptr) continue;
    if (node.op != "DequantizeLinear" && !moves_numbers(node.op)) {
      fail(node, fmt::format("calculates with '{}', the whole numbers of a QuantizeLinear; put a "
                             "DequantizeLinear before it",
                             name));
    }
    if (first != nullptr && *first != *whole) {
      fail(node, "joins whole numbers of different scales; put a DequantizeLinear before it");
    }
    first = whole;
  }
  if (first != nullptr && node.op == "Concat" &&
      !std::all_of(node.inputs.begin(), node.inputs.end(),
                   [&](const std::string& name) { return plan.whole(name) != nullptr; })) {
    fail(node, "joins whole numbers and floats; put a DequantizeLinear before it");
  }
}

void hand_on_whole(PlanBuilder& plan, const Node& node) {
  if (!moves_numbers(node.op)) return;
  for (const std::string& name : node.inputs) {
    const auto* whole = plan.whole(name);
    if (whole == nullptr) continue;
    const PlanBuilder::Whole same = *whole;
    for (const std::string& output : node.outputs) plan.set_whole(output, same);
    return;
  }
}

}  // namespace contcore
