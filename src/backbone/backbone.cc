#include "contcore/backbone.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "backbone/attributes.h"
#include "backbone/builtin.h"
#include "backbone/engine.h"
#include "backbone/graph_passes.h"
#include "backbone/hash.h"
#include "backbone/layers.h"
#include "backbone/onnx.h"
#include "backbone/plan.h"
#include "backbone/shapes.h"
#include "contcore/error.h"
#include "device/gpu.h"

namespace contcore {
namespace {

constexpr std::size_t kSizesKept = 4;
constexpr std::size_t kLargestSide = 1 << 15;

// ---- shapes as maps ----------------------------------------------------------------------------

// The grid of a vision transformer's patches: what its first convolution makes.
std::pair<std::size_t, std::size_t> patch_grid(const Plan& plan) {
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::kConv) continue;
    const Shape& out = plan.values[step.out].shape;
    return {static_cast<std::size_t>(out[2]), static_cast<std::size_t>(out[3])};
  }
  return {0, 0};
}

// The map a tensor is; nothing if it is none. `producer` is the node that makes it.
std::optional<PlanOutput> as_map(const Plan& plan, std::size_t value, const Node& producer,
                                 std::pair<std::size_t, std::size_t> grid) {
  const Shape& shape = plan.values[value].shape;
  if (plan.values[value].constant || shape.empty() || shape[0] != 1) return std::nullopt;
  PlanOutput output;
  output.value = value;
  if (shape.size() == 4) {
    output.channels_last = (plan.channels_last && value == plan.input) ||
                           (producer.op == "Transpose" &&
                            permutation(producer, 4) == std::vector<std::int64_t>{0, 2, 3, 1});
    return output;
  }
  if (shape.size() == 3) {
    output.height = grid.first;
    output.width = grid.second;
    const std::size_t patches = grid.first * grid.second;
    if (patches == 0 || static_cast<std::size_t>(shape[1]) < patches) return std::nullopt;
    return output;
  }
  return shape.size() == 2 ? std::optional(output) : std::nullopt;
}

LayerShape shape_of(const Plan& plan, const PlanOutput& output) {
  const Shape& shape = plan.values[output.value].shape;
  const auto dim = [&](std::size_t i) { return static_cast<std::size_t>(shape[i]); };
  LayerShape layer;
  if (shape.size() == 4 && output.channels_last) {
    layer.channels = dim(3), layer.height = dim(1), layer.width = dim(2);
  } else if (shape.size() == 4) {
    layer.channels = dim(1), layer.height = dim(2), layer.width = dim(3);
  } else if (shape.size() == 3) {
    layer.channels = dim(2), layer.height = output.height, layer.width = output.width;
  } else {
    layer.channels = dim(1), layer.height = layer.width = 1;
  }
  return layer;
}

// Puts the file's name before what went wrong with it.
template <typename Work>
auto naming(const std::string& file, const Work& work) {
  try {
    return work();
  } catch (const GpuError&) {
    throw;  // who catches it is to know what it is
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace

// ---- the model ---------------------------------------------------------------------------------

struct Backbone::Model {
  std::string file;
  std::string hash;
  std::vector<std::string> layers;   // as asked for
  std::vector<std::string> tensors;  // what they mean
  Graph graph;
  std::vector<std::size_t> nodes;  // that the layers need
  std::unique_ptr<Engine> engine;

  void read(const std::string& name, const std::string& bytes);
  void prepare(const std::string& name, std::vector<std::string> wanted,
               std::unique_ptr<Engine> how);
  void choose(std::vector<std::string> wanted);
  const Node* producer(const std::string& tensor) const;
  std::vector<PlanOutput> outputs(const Plan& plan) const;
  std::unique_ptr<Program> compile(std::size_t height, std::size_t width, Compute& compute) const;
  std::uint64_t parameters() const;
  std::vector<LayerShape> all_layers(std::int64_t height, std::int64_t width) const;
  BackboneInfo info(std::size_t height, std::size_t width) const;
  std::vector<LayerShape> shapes(std::size_t height, std::size_t width) const;
};

void Backbone::Model::read(const std::string& name, const std::string& bytes) {
  hash = hash_of(bytes);
  graph = naming(name, [&] { return parse_onnx(bytes.data(), bytes.size()); });
}

void Backbone::Model::prepare(const std::string& name, std::vector<std::string> wanted,
                              std::unique_ptr<Engine> how) {
  file = name;
  engine = std::move(how);
  naming(name, [&] {
    sort_nodes(graph);
    fold_constants(graph);
    choose(std::move(wanted));
  });
}

void Backbone::Model::choose(std::vector<std::string> wanted) {
  layers = wanted.empty() ? default_layers(graph) : std::move(wanted);
  for (const std::string& layer : layers) {
    auto tensor = find_layer(graph, layer);
    if (!tensor) throw_unknown_layer(graph, layer);
    tensors.push_back(std::move(*tensor));
  }
  nodes = needed_nodes(graph, tensors);
  for (const std::size_t i : nodes) {
    const Node& node = graph.nodes[i];
    if (!known_operator(node.op)) {
      fail(node,
           "the operator is not supported; choose layers before it, or export the model without "
           "it");
    }
  }
  check_weights(graph, nodes);
}

const Node* Backbone::Model::producer(const std::string& tensor) const {
  for (const Node& node : graph.nodes) {
    if (std::find(node.outputs.begin(), node.outputs.end(), tensor) != node.outputs.end()) {
      return &node;
    }
  }
  return nullptr;
}

std::vector<PlanOutput> Backbone::Model::outputs(const Plan& plan) const {
  std::vector<PlanOutput> maps;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::size_t value = plan.names.at(tensors[i]);
    const auto map = as_map(plan, value, *producer(tensors[i]), patch_grid(plan));
    if (!map) {
      throw Error(Error::Kind::kInput,
                  fmt::format("layer '{}' has the shape [{}], which is no map of features; choose "
                              "another (contcore backbone info)",
                              layers[i], fmt::join(plan.values[value].shape, ", ")));
    }
    maps.push_back(*map);
  }
  return maps;
}

void check_size(std::size_t height, std::size_t width) {
  if (height > 0 && width > 0 && height <= kLargestSide && width <= kLargestSide) return;
  throw Error(Error::Kind::kInput,
              fmt::format("an image of {} x {} cannot be run; sides go from 1 to {}", height, width,
                          kLargestSide));
}

void check_image(std::span<const float> chw, std::size_t height, std::size_t width) {
  check_size(height, width);
  if (chw.size() == 3 * height * width) return;
  throw Error(Error::Kind::kUsage, fmt::format("an image of 3 x {} x {} has {} numbers, not {}",
                                               height, width, 3 * height * width, chw.size()));
}

std::unique_ptr<Program> Backbone::Model::compile(std::size_t height, std::size_t width,
                                                  Compute& compute) const {
  check_size(height, width);
  Plan plan =
      lower(graph, nodes, static_cast<std::int64_t>(height), static_cast<std::int64_t>(width));
  const std::vector<PlanOutput> maps = outputs(plan);
  std::vector<std::size_t> kept;
  for (const PlanOutput& map : maps) kept.push_back(map.value);
  fuse(plan, kept);
  return engine->compile(plan, maps, compute);
}

// The numbers of weights that the chosen layers need.
std::uint64_t Backbone::Model::parameters() const {
  std::uint64_t sum = 0;
  std::unordered_set<std::string> counted;
  for (const std::size_t i : nodes) {
    for (const std::string& name : graph.nodes[i].inputs) {
      const auto weight = graph.weights.find(name);
      if (weight == graph.weights.end() || !weight->second.is_float()) continue;
      if (counted.insert(name).second) sum += weight->second.size();
    }
  }
  return sum;
}

// Every tensor of the whole graph that is a map, as far as the graph can be run at this size.
std::vector<LayerShape> Backbone::Model::all_layers(std::int64_t height, std::int64_t width) const {
  std::vector<std::size_t> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const Plan whole = lower(graph, all, height, width, true);
  const auto grid = patch_grid(whole);
  std::vector<LayerShape> found;
  for (const Node& node : graph.nodes) {
    for (const std::string& name : node.outputs) {
      const auto known = whole.names.find(name);
      if (name.empty() || known == whole.names.end()) continue;
      const auto map = as_map(whole, known->second, node, grid);
      if (!map) continue;
      found.push_back(shape_of(whole, *map));
      found.back().name = name;
      found.back().op = node.op;
      found.back().chosen = std::find(tensors.begin(), tensors.end(), name) != tensors.end();
    }
  }
  return found;
}

BackboneInfo Backbone::Model::info(std::size_t height, std::size_t width) const {
  check_size(height, width);
  const auto h = static_cast<std::int64_t>(height);
  const auto w = static_cast<std::int64_t>(width);
  BackboneInfo info;
  const Plan plan = lower(graph, nodes, h, w);
  outputs(plan);  // refuses layers that are no maps
  for (const Step& step : plan.steps) info.gflops += flops(plan, step) * 1e-9;
  info.parameters = parameters();
  info.layers = all_layers(h, w);
  return info;
}

std::vector<LayerShape> Backbone::Model::shapes(std::size_t height, std::size_t width) const {
  check_size(height, width);
  const Plan plan =
      lower(graph, nodes, static_cast<std::int64_t>(height), static_cast<std::int64_t>(width));
  std::vector<LayerShape> shapes;
  for (const PlanOutput& map : outputs(plan)) {
    shapes.push_back(shape_of(plan, map));
    shapes.back().name = layers[shapes.size() - 1];
    shapes.back().chosen = true;
  }
  return shapes;
}

// ---- the public face ---------------------------------------------------------------------------

Backbone::Backbone(const std::string& file, std::vector<std::string> layers)
    : Backbone(file, std::move(layers), default_engine()) {}

Backbone::Backbone(std::unique_ptr<Model> model) : model_(std::move(model)) {}

Backbone::Backbone(const std::string& file, std::vector<std::string> layers,
                   std::unique_ptr<Engine> engine)
    : model_(std::make_unique<Model>()) {
  if (file == "builtin") {
    model_->graph = builtin_graph();
    model_->hash = hash_of(model_->graph);
  } else {
    model_->read(file, read_model_file(file));
  }
  model_->prepare(file, std::move(layers), std::move(engine));
}

Backbone Backbone::of_bytes(const std::string& name, const std::string& bytes,
                            std::vector<std::string> layers) {
  auto model = std::make_unique<Model>();
  model->read(name, bytes);
  model->prepare(name, std::move(layers), default_engine());
  return Backbone(std::move(model));
}

Backbone::~Backbone() = default;
Backbone::Backbone(Backbone&&) noexcept = default;
Backbone& Backbone::operator=(Backbone&&) noexcept = default;

const std::string& Backbone::file() const { return model_->file; }
const std::vector<std::string>& Backbone::layers() const { return model_->layers; }
const std::string& Backbone::hash() const { return model_->hash; }

Backbone::InputSize Backbone::input_size() const {
  const Shape& shape = model_->graph.input_shape;
  const std::size_t first = shape[1] != 3 && shape[3] == 3 ? 1 : 2;  // (N, height, width, 3)
  const auto side = [](std::int64_t size) {
    return size > 0 ? static_cast<std::size_t>(size) : std::size_t{0};
  };
  return {side(shape[first]), side(shape[first + 1])};
}

BackboneInfo Backbone::info(std::size_t height, std::size_t width) const {
  return naming(model_->file, [&] { return model_->info(height, width); });
}

std::vector<LayerShape> Backbone::shapes(std::size_t height, std::size_t width) const {
  return naming(model_->file, [&] { return model_->shapes(height, width); });
}

struct Backbone::Runner::State {
  struct Compiled {
    std::size_t height = 0;
    std::size_t width = 0;
    std::size_t threads = 0;
    Device device;
    std::unique_ptr<Program> program;
  };
  const Model* model = nullptr;
  std::list<Compiled> compiled;  // the last used first

  Program& program(std::size_t height, std::size_t width, Compute& compute) {
    const std::size_t threads = compute.threads().count();
    const auto found = std::find_if(compiled.begin(), compiled.end(), [&](const Compiled& one) {
      return one.height == height && one.width == width && one.threads == threads &&
             one.device == compute.device();
    });
    if (found != compiled.end()) {
      compiled.splice(compiled.begin(), compiled, found);
    } else {
      compiled.push_front(
          {height, width, threads, compute.device(), model->compile(height, width, compute)});
      if (compiled.size() > kSizesKept) compiled.pop_back();
    }
    return *compiled.front().program;
  }
};

Backbone::Runner::Runner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Backbone::Runner::~Runner() = default;
Backbone::Runner::Runner(Runner&&) noexcept = default;
Backbone::Runner& Backbone::Runner::operator=(Runner&&) noexcept = default;

std::vector<FeatureMap> Backbone::Runner::run(std::span<const float> chw, std::size_t height,
                                              std::size_t width, Compute& compute) {
  return naming(state_->model->file, [&] {
    check_image(chw, height, width);
    return state_->program(height, width, compute).run(chw.data());
  });
}

std::vector<std::vector<FeatureMap>> Backbone::Runner::run_batch(
    const std::vector<std::span<const float>>& images, std::size_t height, std::size_t width,
    Compute& compute) {
  return naming(state_->model->file, [&] {
    std::vector<const float*> all;
    for (const std::span<const float> chw : images) {
      check_image(chw, height, width);
      all.push_back(chw.data());
    }
    return state_->program(height, width, compute).run_batch(all);
  });
}

Backbone::Runner Backbone::runner() const {
  auto state = std::make_unique<Runner::State>();
  state->model = model_.get();
  return Runner(std::move(state));
}

}  // namespace contcore
