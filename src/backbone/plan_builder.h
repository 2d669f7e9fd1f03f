// A plan while it grows: values by name, constants, steps.
//
// In: a graph and an image size, then node by node what the operators come to. Out: the plan.
// Fails with Error (kInput), naming the node: an input that is missing or not constant where it
// has to be, a tensor that is empty or too large.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backbone/graph.h"
#include "backbone/plan.h"

namespace contcore {

inline bool has_input(const Node& node, std::size_t i) {
  return i < node.inputs.size() && !node.inputs[i].empty();
}

/// The first output's name.
const std::string& output_name(const Node& node);

class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, std::int64_t height, std::int64_t width);

  const Plan& plan() const { return plan_; }
  Plan take() { return std::move(plan_); }

  // ---- values ----
  /// The value that is the node's i-th input. May add to, and so move, the values.
  std::size_t value(const Node& node, std::size_t i);
  std::size_t value(const std::string& name) const { return plan_.names.at(name); }
  const Shape& shape(const Node& node, std::size_t i) { return plan_.values[value(node, i)].shape; }
  /// The i-th input's numbers; null where it is left out or depends on the image.
  const Tensor* constant(const Node& node, std::size_t i);
  const Tensor& float_constant(const Node& node, std::size_t i, const char* what);
  /// The same of all inputs.
  std::vector<const Tensor*> constants(const Node& node);
  float number(const Node& node, std::size_t i, float otherwise);
  /// The shape of the first input, which must be a map (N, C, height, width).
  const Shape& map_shape(const Node& node);
  /// Whether the i-th input is one of the graph's own weights, the same at every image size.
  bool is_weight(const Node& node, std::size_t i) const {
    return graph_.weights.contains(node.inputs[i]);
  }
  void add_constant(const std::string& name, Tensor tensor);

  // ---- whole numbers, between QuantizeLinear and DequantizeLinear ----
  /// What the tensor's value means: with a grid the numbers that the whole ones stand for, without
  /// one the whole numbers themselves.
  struct Whole {
    std::optional<Grid> grid;
    Tensor::Width width = Tensor::Width::kUint8;
    bool operator==(const Whole&) const = default;
  };
  /// Null: the tensor is not of whole numbers.
  const Whole* whole(const std::string& name) const {
    const auto found = whole_.find(name);
    return found == whole_.end() ? nullptr : &found->second;
  }
  void set_whole(const std::string& name, const Whole& whole) { whole_[name] = whole; }
  void set_grid(const std::string& name, const Grid& grid) {
    plan_.values[plan_.names.at(name)].grid = grid;
  }

  // ---- steps ----
  void add_step(Step step, Shape shape, const std::string& name);
  void add_step(const Node& node, Step step, Shape shape) {
    add_step(std::move(step), std::move(shape), output_name(node));
  }
  /// A function of the i-th input, or several in turn.
  void add_functions(const Node& node, std::size_t i, const std::vector<Unary>& functions);
  /// A step, or none where the shape is the same already.
  void add_reshape(const Node& node, std::size_t in, Shape shape, const std::string& name);
  /// The node's output is its first input.
  void add_alias(const Node& node) { plan_.names[output_name(node)] = value(node, 0); }

 private:
  Shape image_shape(std::int64_t height, std::int64_t width);
  std::size_t add_value(const std::string& name, Shape shape);

  const Graph& graph_;
  Plan plan_;
  std::map<std::string, Whole> whole_;
};

/// A step that stands for a node, or for a part of one.
Step new_step(const Node& node, Step::Kind kind);

/// One window as large as the map.
void set_whole_window(const Shape& map, Step& step);

}  // namespace contcore
