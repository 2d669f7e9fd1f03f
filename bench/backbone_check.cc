// Our feature maps and times against ONNX Runtime's.
//
//   backbone_check image SIDE IMAGE.bin             writes a random image, 3 × SIDE × SIDE float32
//   backbone_check compare MODEL.onnx IMAGE.bin SIDE THREADS REPEATS ORT.json...
//   backbone_check profile MODEL.onnx SIDE THREADS  the time of each primitive
//
// ORT.json is what compare_ort.mjs prints; of several runs the best time counts. The floor is the
// sum of the model's bare convolutions: each alone in a loop, nothing before or after it, of bytes
// where the model is in 8 bits there. Maps of 8-bit models differ where one rounds up and the other
// down: of those the mean difference counts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backbone/builtin.h"
#include "backbone/graph_passes.h"
#include "backbone/onednn_program.h"
#include "backbone/onnx.h"
#include "backbone/plan.h"
#include "base/random.h"
#include "contcore/backbone.h"
#include "contcore/error.h"

namespace {

using contcore::Backbone;
using contcore::FeatureMap;
using contcore::Plan;
using contcore::Step;

template <typename Work>
double best_milliseconds(int repeats, const Work& work) {
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

std::vector<float> read_floats(const std::string& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) throw contcore::Error(contcore::Error::Kind::kInput, path + ": cannot be read");
  std::vector<float> numbers(static_cast<std::size_t>(stream.tellg()) / sizeof(float));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(numbers.data()),
              static_cast<std::streamsize>(numbers.size() * sizeof(float)));
  return numbers;
}

void write_image(std::size_t side, const std::string& path) {
  contcore::Random random(1);
  std::ofstream stream(path, std::ios::binary);
  for (std::size_t i = 0; i < 3 * side * side; ++i) {
    const float value = random.gaussian();
    stream.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

struct Difference {
  double most = 0, mean = 0;
};

// max and mean |a − b|, over max |b|, b laid out as ONNX Runtime does: (C, height, width) or
// (tokens, C).
Difference difference(const FeatureMap& map, const std::vector<float>& theirs, bool tokens) {
  const std::size_t places = map.height * map.width;
  const float* start = theirs.data() + (tokens ? theirs.size() - places * map.channels : 0);
  double most = 0, scale = 0, sum = 0;
  for (std::size_t p = 0; p < places; ++p) {
    for (std::size_t c = 0; c < map.channels; ++c) {
      const float b = start[tokens ? p * map.channels + c : c * places + p];
      const float a = map.data[p * map.channels + c];
      most = std::max(most, static_cast<double>(std::abs(a - b)));
      scale = std::max(scale, static_cast<double>(std::abs(b)));
      sum += static_cast<double>(std::abs(a - b));
    }
  }
  return {most / scale, sum / scale / static_cast<double>(places * map.channels)};
}

// ---- the floor ---------------------------------------------------------------------------------

using Type = dnnl::memory::data_type;

dnnl::memory::desc any(const contcore::Shape& shape, Type type) {
  return {shape, type, dnnl::memory::format_tag::any};
}

bool takes_bytes(const Plan& plan, const Step& step) {
  return step.weights.codes != nullptr && plan.values[step.in[0]].grid;
}

Type result_type(const Plan& plan, const Step& step) {
  return takes_bytes(plan, step) && plan.values[step.out].grid ? Type::u8 : Type::f32;
}

double bare_conv(const Plan& plan, const Step& step, const dnnl::engine& engine, int repeats) {
  const bool bytes = takes_bytes(plan, step);
  const contcore::Shape& form = step.weights.shape;
  contcore::Shape grouped = form;
  if (step.group > 1) grouped = {step.group, form[0] / step.group, form[1], form[2], form[3]};
  const dnnl::memory::desc bias({form[0]}, dnnl::memory::data_type::f32,
                                dnnl::memory::format_tag::a);
  const dnnl::convolution_forward::desc operation(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      any(plan.values[step.in[0]].shape, bytes ? Type::u8 : Type::f32),
      any(grouped, bytes ? Type::s8 : Type::f32), bias,
      any(plan.values[step.out].shape, result_type(plan, step)), step.strides,
      {step.dilations[0] - 1, step.dilations[1] - 1}, step.pads_begin, step.pads_end);
  const dnnl::convolution_forward::primitive_desc description(operation, engine);
  const dnnl::convolution_forward conv(description);
  dnnl::stream stream(engine);
  std::unordered_map<int, dnnl::memory> arguments;
  std::vector<contcore::Vectors> blocks;
  const auto add = [&](int role, const dnnl::memory::desc& desc) {
    blocks.emplace_back(1, desc.get_size() / sizeof(float) + 1);
    std::fill_n(blocks.back().data(), blocks.back().cols(), 0.5f);
    arguments[role] = dnnl::memory(desc, engine, blocks.back().data());
  };
  add(DNNL_ARG_SRC, description.src_desc());
  add(DNNL_ARG_WEIGHTS, description.weights_desc());
  add(DNNL_ARG_BIAS, bias);
  add(DNNL_ARG_DST, description.dst_desc());
  return best_milliseconds(repeats, [&] {
    conv.execute(stream, arguments);
    stream.wait();
  });
}

double bare_convolutions(const std::string& file, const std::vector<std::string>& layers,
                         std::int64_t side, std::size_t threads, int repeats) {
  const std::string bytes = contcore::read_model_file(file);
  contcore::Graph graph = contcore::parse_onnx(bytes.data(), bytes.size());
  contcore::fold_constants(graph);
  Plan plan = contcore::lower(graph, contcore::needed_nodes(graph, layers), side, side);
  std::vector<std::size_t> kept;
  for (const std::string& layer : layers) kept.push_back(plan.names.at(layer));
  contcore::fuse(plan, kept);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const contcore::OpenMpThreads scope(threads);
  std::map<std::vector<std::int64_t>, double> known;  // convolutions of one shape take one time
  double sum = 0;
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::kConv) continue;
    std::vector<std::int64_t> key = plan.values[step.in[0]].shape;
    for (const auto* part :
         {&step.weights.shape, &step.strides, &step.pads_begin, &step.dilations}) {
      key.insert(key.end(), part->begin(), part->end());
    }
    key.push_back(step.group);
    key.push_back(takes_bytes(plan, step) + 2 * (result_type(plan, step) == Type::u8));
    const auto found = known.find(key);
    const double taken =
        found != known.end() ? found->second : bare_conv(plan, step, engine, repeats);
    known[key] = taken;
    sum += taken;
  }
  return sum;
}

bool is_quantized(const std::string& file) {
  const std::string bytes = contcore::read_model_file(file);
  const contcore::Graph graph = contcore::parse_onnx(bytes.data(), bytes.size());
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const contcore::Node& node) { return node.op == "QuantizeLinear"; });
}

// ---- commands ----------------------------------------------------------------------------------

int compare(const std::vector<std::string>& arguments) {
  const std::string& file = arguments[0];
  const std::vector<float> image = read_floats(arguments[1]);
  const auto side = static_cast<std::size_t>(std::stoul(arguments[2]));
  const std::size_t threads = std::stoul(arguments[3]);
  const int repeats = std::stoi(arguments[4]);
  nlohmann::json theirs;
  double ort = std::numeric_limits<double>::max();
  for (std::size_t i = 5; i < arguments.size(); ++i) {
    theirs = nlohmann::json::parse(std::ifstream(arguments[i]));
    ort = std::min(ort, theirs["milliseconds"].get<double>());
  }
  std::vector<std::string> layers;
  for (const auto& output : theirs["outputs"]) layers.push_back(output["name"]);
  const Backbone backbone(file, layers);
  contcore::Compute compute(threads);
  auto runner = backbone.runner();
  const std::vector<FeatureMap> maps = runner.run(image, side, side, compute);
  const bool whole = is_quantized(file);
  const double limit = whole ? 1e-2 : 1e-4;
  double worst = 0;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const auto& output = theirs["outputs"][i];
    const Difference off =
        difference(maps[i], read_floats(output["file"]), output["shape"].size() == 3);
    fmt::print("  {:<14} {:>4} x {:>3} x {:>3}  off by {:.1e}, {:.1e} in the mean\n", layers[i],
               maps[i].channels, maps[i].height, maps[i].width, off.most, off.mean);
    worst = std::max(worst, whole ? off.mean : off.most);
  }
  double ours = std::numeric_limits<double>::max();
  double floor = ours;
  for (int i = 0; i < 3; ++i) {  // in turns: the machine may be busy for a while
    ours =
        std::min(ours, best_milliseconds(repeats, [&] { runner.run(image, side, side, compute); }));
    floor = std::min(floor, bare_convolutions(file, layers, static_cast<std::int64_t>(side),
                                              threads, repeats / 3 + 1));
  }
  fmt::print(
      "  ours {:.2f} ms   bare convolutions {:.2f} ms ({:.2f} x)   ONNX Runtime {:.2f} ms "
      "({:.2f} x)\n",
      ours, floor, ours / floor, ort, ort / ours);
  if (!(worst < limit)) fmt::print("  DIFFERS by more than {}\n", limit);
  return worst < limit ? 0 : 1;
}

int profile(const std::vector<std::string>& arguments) {
  const auto side = static_cast<std::int64_t>(std::stol(arguments[1]));
  contcore::Graph graph;
  if (arguments[0] == "builtin") {
    graph = contcore::builtin_graph();
  } else {
    const std::string bytes = contcore::read_model_file(arguments[0]);
    graph = contcore::parse_onnx(bytes.data(), bytes.size());
  }
  contcore::fold_constants(graph);
  Plan plan = contcore::lower(graph, contcore::needed_nodes(graph, graph.outputs), side, side);
  std::vector<contcore::PlanOutput> outputs;
  std::vector<std::size_t> kept;
  for (const auto& name : graph.outputs) {
    contcore::PlanOutput output;
    output.value = plan.names.at(name);
    kept.push_back(output.value);
    outputs.push_back(output);
  }
  contcore::fuse(plan, kept);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  contcore::PackedWeights weights;
  contcore::OneDnnProgram program(plan, outputs, std::stoul(arguments[2]), engine, weights);
  const std::vector<float> image(static_cast<std::size_t>(3 * side * side), 0.5f);
  auto timings = program.profile(image.data(), 20);
  double sum = 0;
  for (const auto& timing : timings) sum += timing.milliseconds;
  fmt::print("{} primitives, {:.2f} ms, {:.1f} MiB of activations\n", timings.size(), sum,
             static_cast<double>(program.arena_bytes()) / (1 << 20));
  for (const auto& timing : timings) {
    fmt::print("  {:8.3f} ms  {}\n", timing.milliseconds, timing.what);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const std::string command = arguments.empty() ? "" : arguments[0];
    const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                        arguments.end());
    if (command == "image" && rest.size() == 2) {
      write_image(std::stoul(rest[0]), rest[1]);
      return 0;
    }
    if (command == "compare" && rest.size() >= 6) return compare(rest);
    if (command == "profile" && rest.size() == 3) return profile(rest);
    fmt::print(stderr, "usage: see the top of bench/backbone_check.cc\n");
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
}
