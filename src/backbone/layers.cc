#include "backbone/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "contcore/error.h"

namespace contcore {
namespace {

// The nodes whose results depend on the image: not the arithmetic on its size.
std::vector<bool> image_nodes(const Graph& graph) {
  std::unordered_set<std::string> moving = {graph.input};
  std::vector<bool> depends(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == "Shape" || node.op == "Size") continue;
    depends[i] = std::any_of(node.inputs.begin(), node.inputs.end(),
                             [&](const std::string& name) { return moving.contains(name); });
    if (depends[i]) moving.insert(node.outputs.begin(), node.outputs.end());
  }
  return depends;
}

// Whether a node was made in a module: "layer2" for /layer2/layer2.0/conv1/Conv, "features.norm0"
// for /features/norm0/BatchNormalization.
bool in_scope(const std::string& node, std::string scope) {
  const auto inside = [&node](const std::string& path) {
    return node.starts_with(path + "/") || node.find("/" + path + "/") != std::string::npos;
  };
  if (inside(scope)) return true;
  std::replace(scope.begin(), scope.end(), '.', '/');
  return inside(scope);
}

}  // namespace

std::optional<std::string> find_layer(const Graph& graph, const std::string& layer) {
  const std::vector<bool> depends = image_nodes(graph);
  std::optional<std::string> by_node, by_scope;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!depends[i] || node.outputs.empty()) continue;
    if (std::find(node.outputs.begin(), node.outputs.end(), layer) != node.outputs.end() &&
        !layer.empty()) {
      return layer;
    }
    if (node.name == layer && !by_node) by_node = node.outputs.front();
    if (in_scope(node.name, layer)) by_scope = node.outputs.front();
  }
  return by_node ? by_node : by_scope;
}

void throw_unknown_layer(const Graph& graph, const std::string& layer) {
  std::vector<std::string> some;
  const auto add = [&some](const std::string& name) {
    if (!name.empty() && some.size() < 12 &&
        std::find(some.begin(), some.end(), name) == some.end()) {
      some.push_back(name);
    }
  };
  for (const auto& name : graph.outputs) add(name);
  const std::vector<bool> depends = image_nodes(graph);
  std::size_t moving = 0;
  for (const bool d : depends) moving += d ? 1 : 0;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {  // from all over the graph
    if (depends[i] && seen++ % (moving / 8 + 1) == 0 && !graph.nodes[i].outputs.empty()) {
      add(graph.nodes[i].outputs.front());
    }
  }
  throw Error(Error::Kind::kInput,
              fmt::format("has no layer '{}'; some that it has: {} (all: contcore backbone info)",
                          layer, fmt::join(some, ", ")));
}

std::vector<std::string> default_layers(const Graph& graph) {
  std::vector<std::string> layers;
  for (const char* name : {"layer2", "layer3"}) {
    if (find_layer(graph, name)) layers.push_back(name);
  }
  if (layers.empty()) layers = graph.outputs;
  if (layers.empty()) throw Error(Error::Kind::kInput, "has no outputs; name the layers to use");
  return layers;
}

}  // namespace contcore
