#include "backbone/graph_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <unordered_set>

#include "backbone/attributes.h"
#include "backbone/constants.h"
#include "contcore/error.h"

namespace contcore {
namespace {

// Elsewhere an infinity may be meant: a bound that does not bind, a mask.
bool multiplies(const std::string& op) {
  static const std::unordered_set<std::string> kOperators = {
      "BatchNormalization",    "Conv",   "ConvTranspose", "Gemm",
      "InstanceNormalization", "MatMul", "Mul",           "LayerNormalization"};
  return kOperators.contains(op);
}

// Without a branch, so that it costs no more than reading: all bits of the exponent are set.
bool has_not_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  bool found = false;
  for (const float value : values) {
    found |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent;
  }
  return found;
}

void check_weight(const Node& node, const std::string& name, std::span<const float> values) {
  if (!has_not_finite(values)) return;
  const bool infinite_too = multiplies(node.op);
  const auto bad = std::find_if(values.begin(), values.end(), [&](float value) {
    return infinite_too ? !std::isfinite(value) : std::isnan(value);
  });
  if (bad == values.end()) return;
  fail(node, fmt::format("its weight '{}' holds {}, which is not finite; export the network again, "
                         "from weights that are",
                         name, *bad));
}

}  // namespace

std::vector<std::size_t> needed_nodes(const Graph& graph, const std::vector<std::string>& targets) {
  std::unordered_set<std::string> needed(targets.begin(), targets.end());
  std::vector<std::size_t> nodes;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](const std::string& name) { return needed.contains(name); })) {
      continue;
    }
    nodes.push_back(i);
    needed.insert(node.inputs.begin(), node.inputs.end());
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

void fold_constants(Graph& graph) {
  constexpr std::size_t kMostFolded = std::size_t{1} << 28;
  std::size_t folded = 0;
  std::vector<Node> rest;
  for (Node& node : graph.nodes) {
    std::vector<const Tensor*> inputs;
    bool fixed = can_evaluate(node.op);
    for (const std::string& name : node.inputs) {
      const auto weight = graph.weights.find(name);
      inputs.push_back(weight == graph.weights.end() ? nullptr : &weight->second);
      fixed = fixed && (name.empty() || inputs.back() != nullptr);
    }
    try {
      const auto results = fixed ? evaluate(node, graph.opset, inputs) : std::vector<Tensor>{};
      for (const Tensor& result : results) folded += result.size();
      fixed = fixed && folded <= kMostFolded;
      for (std::size_t i = 0; fixed && i < results.size() && i < node.outputs.size(); ++i) {
        graph.weights[node.outputs[i]] = results[i];
      }
    } catch (const Error&) {
      fixed = false;  // to be reported when the node is needed
    }
    if (!fixed) rest.push_back(std::move(node));
  }
  graph.nodes = std::move(rest);
  // What only folded nodes needed: 8-bit weights are held as floats and codes from here on.
  std::unordered_set<std::string> used(graph.outputs.begin(), graph.outputs.end());
  for (const Node& node : graph.nodes) used.insert(node.inputs.begin(), node.inputs.end());
  std::erase_if(graph.weights, [&](const auto& weight) { return !used.contains(weight.first); });
}

void check_weights(const Graph& graph, const std::vector<std::size_t>& nodes) {
  for (const std::size_t i : nodes) {
    if (graph.nodes[i].op == "QuantizeLinear" || graph.nodes[i].op == "DequantizeLinear") {
      continue;  // these say more of their scales when they are lowered
    }
    for (const std::string& name : graph.nodes[i].inputs) {
      const auto weight = graph.weights.find(name);
      if (weight == graph.weights.end() || !weight->second.is_float()) continue;
      check_weight(graph.nodes[i], name, *weight->second.floats);
    }
  }
}

}  // namespace contcore
