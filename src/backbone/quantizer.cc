// In: a float network and how far its tensors go. Out: the network in 8 bits. The file is the one
// that came in, edited: what is not touched stays as it was, whether we know it or not. Fails on
// files without convolutions to quantise and on numbers that are not finite.
#include "backbone/quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

#include "backbone/attributes.h"
#include "backbone/graph_passes.h"
#include "backbone/onnx.h"
#include "backbone/plan.h"
#include "base/refuse.h"

namespace contcore {
namespace {

constexpr std::int64_t kOpset = 13;  // the first with scales for each channel
constexpr const char* kOriginKey = "contcore.float.sha256";
constexpr const char* kFormKey = "contcore.8bit";
constexpr const char* kForm = "2";  // to be raised when other bytes are made of the same network
// The image's own levels, whatever it shows: −2.13 … 2.68 holds all that pixels can be (−2.12
// … 2.64 with ImageNet's mean and deviation), in steps a little larger than a gray level (0.0175).
constexpr float kImageScale = 1.0f / 53;
constexpr std::uint8_t kImageZero = 113;

bool is_any(const std::string& op, std::initializer_list<const char*> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](const char* one) { return op == one; });
}

// ---- what is known of tensors ------------------------------------------------------------------

struct TensorFacts {
  bool of_image = false;      // depends on the image
  bool of_conv = false;       // a convolution lies on the way from the image
  bool pooled = false;        // one number a channel: what squeezing and exciting works on
  std::string unknown;        // an operator on the way that contcore does not have; empty: none
  bool not_negative = false;  // for every image
};

using Facts = std::unordered_map<std::string, TensorFacts>;

bool makes_not_negative(const Node& node, const Graph& graph) {
  if (node.op == "Clip") {
    if (const float* low = find_attribute<float>(node, "min")) return *low >= 0;
    if (node.inputs.size() < 2) return false;
    const auto low = graph.weights.find(node.inputs[1]);
    return low != graph.weights.end() && low->second.is_float() && low->second.size() == 1 &&
           low->second.floats->front() >= 0;
  }
  return is_any(node.op, {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Sqrt", "Exp"});
}

bool keeps_not_negative(const std::string& op) {
  return is_any(op, {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Concat",
                     "Add", "Mul", "Div", "Identity", "Dropout", "Reshape", "Flatten", "Transpose",
                     "Slice", "Split", "ReduceMean", "Max", "DequantizeLinear"});
}

bool all_at_least_zero(const Tensor& tensor) {
  return !tensor.is_float() || std::all_of(tensor.floats->begin(), tensor.floats->end(),
                                           [](float value) { return value >= 0; });
}

TensorFacts facts_of(const Node& node, const Graph& graph, const Facts& known) {
  TensorFacts facts;
  facts.pooled = true;
  facts.not_negative = true;
  if (!known_operator(node.op)) facts.unknown = node.op;
  for (const std::string& name : node.inputs) {
    const auto found = known.find(name);
    if (found == known.end()) {
      const auto weight = graph.weights.find(name);
      facts.not_negative = facts.not_negative &&
                           (weight == graph.weights.end() || all_at_least_zero(weight->second));
      continue;
    }
    const TensorFacts& input = found->second;
    if (!input.of_image) continue;
    facts.of_image = true;
    facts.of_conv = facts.of_conv || input.of_conv;
    facts.pooled = facts.pooled && input.pooled;
    if (facts.unknown.empty()) facts.unknown = input.unknown;
    facts.not_negative = facts.not_negative && input.not_negative;
  }
  facts.of_conv = facts.of_conv || node.op == "Conv";
  facts.pooled =
      facts.of_image &&
      (facts.pooled || is_any(node.op, {"GlobalAveragePool", "GlobalMaxPool", "ReduceMean"}));
  facts.not_negative =
      (facts.not_negative && keeps_not_negative(node.op)) || makes_not_negative(node, graph);
  return facts;
}

Facts find_facts(const Graph& graph) {
  Facts facts;
  facts[graph.input].of_image = true;
  for (const Node& node : graph.nodes) {
    const TensorFacts made = facts_of(node, graph, facts);
    for (const std::string& name : node.outputs) facts[name] = made;
  }
  return facts;
}

// ---- numbers -----------------------------------------------------------------------------------

double as_double(float value) { return static_cast<double>(value); }

// To the nearest, halves to the even one, whatever the rounding mode.
double round_half_even(double x) {
  const double low = std::floor(x);
  const double part = x - low;
  if (part != 0.5) return part < 0.5 ? low : low + 1;
  return std::fmod(low, 2) == 0 ? low : low + 1;
}

struct ChannelWeights {
  std::vector<std::int8_t> values;
  std::vector<float> scales;
};

// The largest of each channel becomes 127.
ChannelWeights quantize_weights(const Node& node, const Shape& shape,
                                const std::vector<float>& weights) {
  const auto channels = static_cast<std::size_t>(shape[0]);
  const std::size_t each = channels == 0 ? 0 : weights.size() / channels;
  ChannelWeights out;
  out.values.resize(weights.size());
  out.scales.resize(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const float* const row = weights.data() + c * each;
    float largest = 0;
    for (std::size_t i = 0; i < each; ++i) {
      if (!std::isfinite(row[i])) fail(node, "has weights that are not finite");
      largest = std::max(largest, std::abs(row[i]));
    }
    const auto scale = static_cast<float>(as_double(largest) / 127);
    if (scale < std::numeric_limits<float>::min()) {  // all but zero: nothing is lost by zeros
      out.scales[c] = 1;
      continue;
    }
    out.scales[c] = scale;
    for (std::size_t i = 0; i < each; ++i) {
      const double q =
          std::clamp(round_half_even(as_double(row[i]) / as_double(scale)), -127.0, 127.0);
      out.values[c * each + i] = static_cast<std::int8_t>(q);
    }
  }
  return out;
}

// ---- plan --------------------------------------------------------------------------------------

// A convolution as it is to be: with the batch norm behind it folded in, and in 8 bits or not.
struct ConvolutionWork {
  std::size_t node = 0;  // in the graph
  bool eight_bit = false;
  bool of_image = false;  // what it reads is the image itself
  std::string norm;       // what the batch norm makes; empty: there is none
  std::string norm_name;
  Tensor weights;
  std::vector<float> bias;  // with a batch norm
};

}  // namespace

struct Quantizer::Work {
  onnx::ModelProto model;
  Graph graph;
  Facts facts;
  std::unordered_map<std::string, std::size_t> makers;              // tensor to node
  std::unordered_map<std::string, std::vector<std::size_t>> users;  // tensor to nodes
  std::unordered_map<std::string, ConvolutionWork> convolutions;    // by what they make
  std::unordered_set<std::string> folded_norms;                     // by what they make
  std::vector<std::string> tensors;                                 // that get a pair
  std::unordered_map<std::string, std::string> groups;  // tensor to the one whose scale it shares
  std::vector<std::pair<std::string, std::string>> alike;  // tensors of one scale
  std::vector<FloatConvolution> stay_float;
  std::size_t eight_bit = 0;
  bool behind_first = false;  // whether a convolution of features is among them

  explicit Work(const std::string& bytes);
  void find_convolutions();
  void fold_norm(ConvolutionWork& conv);
  std::string why_float(const Node& node) const;
  bool moves_only(const Node& node) const;
  void need(const std::string& tensor);
  void join_groups();
  const std::string& group(const std::string& tensor) const;
  void check_opset();
};

namespace {

const Tensor* constant_of(const Graph& graph, const Node& node, std::size_t i) {
  if (i >= node.inputs.size()) return nullptr;
  const auto found = graph.weights.find(node.inputs[i]);
  return found == graph.weights.end() || !found->second.is_float() ? nullptr : &found->second;
}

const std::string& shown_name(const Node& node) {
  return node.name.empty() && !node.outputs.empty() ? node.outputs.front() : node.name;
}

// Operators whose meaning is the same in every operator set from 7 to 13, as far as networks of
// convolutions use them.
bool same_since_seven(const std::string& op) {
  return is_any(op, {"Add",
                     "AveragePool",
                     "BatchNormalization",
                     "Concat",
                     "Constant",
                     "Conv",
                     "Div",
                     "Dropout",
                     "Flatten",
                     "Gemm",
                     "GlobalAveragePool",
                     "GlobalMaxPool",
                     "HardSigmoid",
                     "Identity",
                     "LeakyRelu",
                     "MatMul",
                     "MaxPool",
                     "Mul",
                     "PRelu",
                     "Relu",
                     "Reshape",
                     "Sigmoid",
                     "Sqrt",
                     "Sub",
                     "Tanh",
                     "Transpose",
                     "Abs",
                     "Exp",
                     "Elu"});
}

}  // namespace

// Another operator set is another meaning of some operators: only what means the same is carried
// over to the one we need.
void Quantizer::Work::check_opset() {
  if (graph.opset >= kOpset) return;
  for (const auto& node : model.graph().node()) {
    const bool clip = node.op_type() == "Clip" && node.input_size() > 1;
    if (same_since_seven(node.op_type()) || clip) continue;
    refuse(
        fmt::format("written for operator set {}, in which {} (node '{}') is another than in 13; "
                    "export it again with 13 or later",
                    graph.opset, node.op_type(), node.name()));
  }
}

Quantizer::Work::Work(const std::string& bytes) : graph(parse_onnx(bytes.data(), bytes.size())) {
  model.ParseFromString(bytes);
  fold_constants(graph);
  if (is_quantized(graph)) refuse("is in 8 bits already; it can be used as it is");
  check_opset();
  facts = find_facts(graph);
  std::vector<std::size_t> weighted;  // others may not be needed by any layer
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op == "Conv") weighted.push_back(i);
    for (const std::string& name : graph.nodes[i].outputs) makers[name] = i;
    for (const std::string& name : graph.nodes[i].inputs) users[name].push_back(i);
  }
  check_weights(graph, weighted);  // before anything is measured
  find_convolutions();
  if (behind_first) return;
  std::string why;
  if (!stay_float.empty()) {
    why = fmt::format(" ({} stays float: {})", stay_float.front().name, stay_float.front().why);
  }
  refuse(fmt::format(
      "has no 8-bit form: no convolution behind the first can be in 8 bits{}; use it in "
      "float (--precision float)",
      why));
}

std::string Quantizer::Work::why_float(const Node& node) const {
  const Tensor* weights = constant_of(graph, node, 1);
  if (weights == nullptr || weights->shape.size() != 4) return "its weights are not constant";
  const auto input = facts.find(node.inputs[0]);
  if (node.inputs[0] == graph.input) return "";
  if (input == facts.end() || !input->second.of_conv) {
    return "it reads an image that the network prepares";
  }
  if (input->second.pooled) return "it reads one number a channel (squeeze and excite)";
  if (!input->second.unknown.empty()) {
    return fmt::format("it lies behind the operator {}, which is not supported",
                       input->second.unknown);
  }
  return "";
}

void Quantizer::Work::find_convolutions() {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op != "Conv" || node.inputs.empty() || node.outputs.empty()) continue;
    ConvolutionWork conv;
    conv.node = i;
    const std::string why = why_float(node);
    conv.eight_bit = why.empty();
    conv.of_image = node.inputs[0] == graph.input;
    if (conv.eight_bit) {
      ++eight_bit;
      if (!conv.of_image) {
        behind_first = true;
        need(node.inputs[0]);
      }
    } else {
      stay_float.push_back({shown_name(node), why});
    }
    const Tensor* weights = constant_of(graph, node, 1);
    if (weights != nullptr && weights->shape.size() == 4) {
      conv.weights = *weights;
      fold_norm(conv);
    }
    convolutions.emplace(node.outputs[0], std::move(conv));
  }
  join_groups();
}

// Folds the batch norm that alone reads the convolution.
void Quantizer::Work::fold_norm(ConvolutionWork& conv) {
  const Node& node = graph.nodes[conv.node];
  const std::string& out = node.outputs[0];
  const auto readers = users.find(out);
  if (readers == users.end() || readers->second.size() != 1 ||
      std::find(graph.outputs.begin(), graph.outputs.end(), out) != graph.outputs.end()) {
    return;
  }
  const Node& norm = graph.nodes[readers->second[0]];
  if (norm.op != "BatchNormalization" || norm.inputs.size() != 5 || norm.inputs[0] != out) return;
  const auto channels = static_cast<std::size_t>(conv.weights.shape[0]);
  const Tensor* parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    parts[i] = constant_of(graph, norm, i + 1);
    if (parts[i] == nullptr || parts[i]->size() != channels) return;
  }
  const Tensor* bias = constant_of(graph, node, 2);
  const bool has_bias = node.inputs.size() > 2 && !node.inputs[2].empty();
  if (has_bias && (bias == nullptr || bias->size() != channels)) return;
  const double epsilon = as_double(float_attribute(norm, "epsilon", 1e-5f));
  std::vector<float> weights = *conv.weights.floats;
  const std::size_t each = channels == 0 ? 0 : weights.size() / channels;
  conv.bias.resize(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto part = [&](std::size_t i) { return as_double((*parts[i]->floats)[c]); };
    const double scale = part(0) / std::sqrt(part(3) + epsilon);
    const double before = has_bias ? as_double((*bias->floats)[c]) : 0;
    conv.bias[c] = static_cast<float>((before - part(2)) * scale + part(1));
    if (!std::isfinite(conv.bias[c])) fail(norm, "has numbers that are not finite");
    for (std::size_t i = 0; i < each; ++i) {
      float& weight = weights[c * each + i];
      weight = static_cast<float>(as_double(weight) * scale);
    }
  }
  conv.weights = Tensor::of(conv.weights.shape, std::move(weights));
  conv.norm = norm.outputs[0];
  conv.norm_name = norm.name;
  folded_norms.insert(conv.norm);
}

// Whether the numbers that come out are some of those that go in, or zeros, and all of those can be
// bytes.
bool Quantizer::Work::moves_only(const Node& node) const {
  for (const std::string& input : node.inputs) {
    if (graph.weights.contains(input) || input.empty()) continue;
    const auto known = facts.find(input);
    if (known == facts.end() || !known->second.of_conv || known->second.pooled) return false;
  }
  if (node.op == "MaxPool") return node.outputs.size() == 1;
  if (node.op == "Concat") {
    return std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](const std::string& input) { return graph.weights.contains(input); });
  }
  if (node.op != "Pad" || string_attribute(node, "mode", "constant") != "constant") return false;
  if (float_attribute(node, "value", 0) != 0) return false;
  const bool given = node.inputs.size() > 2 && !node.inputs[2].empty();
  const Tensor* value = constant_of(graph, node, 2);
  return !given || (value != nullptr && value->size() == 1 && value->floats->front() == 0);
}

// A pair for the tensor. What is made without any arithmetic needs none of its own: those it is
// made of get pairs with one scale, and the pool, concatenation or padding works on bytes.
void Quantizer::Work::need(const std::string& tensor) {
  std::vector<std::string> todo = {tensor};
  while (!todo.empty()) {
    const std::string name = std::move(todo.back());
    todo.pop_back();
    if (!groups.try_emplace(name, name).second) continue;
    const Node& maker = graph.nodes[makers.at(name)];
    if (!moves_only(maker)) {
      tensors.push_back(name);
      continue;
    }
    for (const std::string& input : maker.inputs) {
      if (graph.weights.contains(input) || input.empty()) continue;
      todo.push_back(input);
      alike.emplace_back(name, input);
    }
  }
}

void Quantizer::Work::join_groups() {
  for (const auto& [a, b] : alike) {
    const std::string from = group(a);
    groups[from] = group(b);
  }
}

const std::string& Quantizer::Work::group(const std::string& tensor) const {
  const std::string* at = &tensor;
  for (;;) {
    const std::string& parent = groups.at(*at);
    if (parent == *at) return parent;
    at = &parent;
  }
}

// ---- writing -----------------------------------------------------------------------------------

namespace {

// Removes the elements of a repeated field that `unwanted` says.
template <typename Field, typename Unwanted>
void remove_if(Field& field, const Unwanted& unwanted) {
  const auto end = std::remove_if(field.begin(), field.end(), unwanted);
  field.erase(end, field.end());
}

class QuantizedWriter {
 public:
  explicit QuantizedWriter(const onnx::ModelProto& model) : model_(model) {
    for (const auto& node : graph().node()) {
      for (const auto& name : node.output()) taken_.insert(name);
    }
    for (const auto& input : graph().input()) taken_.insert(input.name());
    for (const auto& tensor : graph().initializer()) taken_.insert(tensor.name());
    nodes_.Swap(graph().mutable_node());
    graph().clear_value_info();  // some of it would be of tensors that are no more
    for (auto& import : *model_.mutable_opset_import()) {
      const bool ours = import.domain().empty() || import.domain() == "ai.onnx";
      if (ours && import.version() < kOpset) import.set_version(kOpset);
    }
    constexpr std::int64_t kIrOfOpset = 7;
    if (model_.ir_version() < kIrOfOpset) model_.set_ir_version(kIrOfOpset);
  }

  // The nodes that came in, each to be added again or left out.
  const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes() const { return nodes_; }
  int add(const onnx::NodeProto& node) {
    *graph().add_node() = node;
    return graph().node_size() - 1;
  }
  onnx::NodeProto& node(int i) { return *graph().mutable_node(i); }

  onnx::NodeProto& add(const std::string& op, const std::string& name,
                       const std::vector<std::string>& inputs, const std::string& output) {
    onnx::NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name(name);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }

  // A name that nobody has.
  std::string fresh(std::string name) {
    while (!taken_.insert(name).second) name += '_';
    return name;
  }

  template <typename T>
  std::string constant(const std::string& name, const Shape& shape, const std::vector<T>& values) {
    static_assert(std::endian::native == std::endian::little, "raw_data is little endian");
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(fresh(name));
    tensor.set_data_type(std::is_same_v<T, float>         ? onnx::TensorProto::FLOAT
                         : std::is_same_v<T, std::int8_t> ? onnx::TensorProto::INT8
                                                          : onnx::TensorProto::UINT8);
    for (const std::int64_t size : shape) tensor.add_dims(size);
    tensor.set_raw_data(values.data(), values.size() * sizeof(T));
    return tensor.name();
  }

  void metadata(const std::string& key, const std::string& value) {
    auto& entry = *model_.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }

  // Takes out constants that nobody reads any more, and what they were computed by.
  void drop_unused(std::vector<std::string> names);

  std::string bytes() const { return model_.SerializeAsString(); }

 private:
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  onnx::ModelProto model_;
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes_;
  std::unordered_set<std::string> taken_;
};

void QuantizedWriter::drop_unused(std::vector<std::string> names) {
  std::unordered_map<std::string, std::size_t> uses;
  std::unordered_map<std::string, const onnx::NodeProto*> makers;
  for (const auto& node : graph().node()) {
    for (const auto& name : node.input()) ++uses[name];
    for (const auto& name : node.output()) makers[name] = &node;
  }
  for (const auto& output : graph().output()) ++uses[output.name()];
  std::unordered_set<std::string> unused;
  while (!names.empty()) {
    const std::string name = std::move(names.back());
    names.pop_back();
    const auto maker = makers.find(name);
    if (uses[name] > 0 || (maker != makers.end() && maker->second->output_size() > 1)) continue;
    if (!unused.insert(name).second || maker == makers.end()) continue;
    for (const auto& input : maker->second->input()) {
      if (--uses[input] == 0) names.push_back(input);
    }
  }
  const auto is_unused = [&](const auto& named) { return unused.contains(named.name()); };
  remove_if(*graph().mutable_initializer(), is_unused);
  remove_if(*graph().mutable_input(), is_unused);
  remove_if(*graph().mutable_node(), [&](const onnx::NodeProto& node) {
    return node.output_size() == 1 && unused.contains(node.output(0));
  });
}

void declare_map(onnx::ValueInfoProto& value, const std::string& name, const Shape& shape) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (shape[i] > 0) {
      dim.set_dim_value(shape[i]);
    } else {
      dim.set_dim_param(fmt::format("{}_{}", name, i));
    }
  }
}

void write_attribute(onnx::NodeProto& node, const std::string& name, const Attribute& value) {
  onnx::AttributeProto& out = *node.add_attribute();
  out.set_name(name);
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    out.set_type(onnx::AttributeProto::INT);
    out.set_i(*number);
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&value)) {
    out.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t one : *ints) out.add_ints(one);
  } else {
    throw Error(Error::Kind::kInternal, fmt::format("attribute {} cannot be written", name));
  }
}

// The network with pairs in it, node by node.
class PairWriter {
 public:
  PairWriter(const Quantizer::Work& work, const std::map<std::string, float>& ranges)
      : work_(work), writer_(work.model), paired_(work.tensors.begin(), work.tensors.end()) {
    find_grids(ranges);
  }

  std::string write(const std::string& origin);

 private:
  struct PairGrid {
    float range = 0;
    bool not_negative = true;
    std::string scale, zero;  // constants; empty until they are needed
  };

  void find_grids(const std::map<std::string, float>& ranges);
  void add_node(const onnx::NodeProto& node);
  void change_convolution(onnx::NodeProto& node, const ConvolutionWork& conv);
  void add_pair(onnx::NodeProto& maker, int output);
  const std::string& rounded_image();
  void replace_input(onnx::NodeProto& node, int i, const std::string& name);

  const Quantizer::Work& work_;
  QuantizedWriter writer_;
  std::unordered_set<std::string> paired_;
  std::map<std::string, PairGrid> grids_;  // by group
  std::vector<std::string> displaced_;
  std::string rounded_image_;  // empty until it is needed
};

void PairWriter::find_grids(const std::map<std::string, float>& ranges) {
  for (const std::string& tensor : work_.tensors) {
    const auto range = ranges.find(tensor);
    if (range == ranges.end() || !std::isfinite(range->second) || range->second < 0) {
      refuse(
          fmt::format("the values of '{}' are not finite; the network cannot be quantised with "
                      "these images",
                      tensor));
    }
    PairGrid& grid = grids_[work_.group(tensor)];
    grid.range = std::max(grid.range, range->second);
    grid.not_negative = grid.not_negative && work_.facts.at(tensor).not_negative;
  }
}

void PairWriter::replace_input(onnx::NodeProto& node, int i, const std::string& name) {
  while (node.input_size() <= i) node.add_input("");
  if (!node.input(i).empty()) displaced_.push_back(node.input(i));
  node.set_input(i, name);
}

// The image behind a pair of its own. It keeps its name, and is read as it is by all but
// convolutions.
const std::string& PairWriter::rounded_image() {
  if (rounded_image_.empty()) {
    const std::string& image = work_.graph.input;
    const std::string scale =
        writer_.constant(image + ".scale", {}, std::vector<float>{kImageScale});
    const std::string zero =
        writer_.constant(image + ".zero", {}, std::vector<std::uint8_t>{kImageZero});
    const std::string bytes = writer_.fresh(image + ".8bit");
    rounded_image_ = writer_.fresh(image + ".rounded");
    writer_.add("QuantizeLinear", "", {image, scale, zero}, bytes);
    writer_.add("DequantizeLinear", "", {bytes, scale, zero}, rounded_image_);
  }
  return rounded_image_;
}

void PairWriter::change_convolution(onnx::NodeProto& node, const ConvolutionWork& conv) {
  const Node& was = work_.graph.nodes[conv.node];
  const std::string name = conv.norm.empty() ? was.outputs[0] : conv.norm;
  const Shape& shape = conv.weights.shape;
  if (conv.eight_bit) {
    if (conv.of_image) node.set_input(0, rounded_image());
    const ChannelWeights weights = quantize_weights(was, shape, *conv.weights.floats);
    const std::string values = writer_.constant(name + ".weight", shape, weights.values);
    const std::string scales = writer_.constant(name + ".weight.scale", {shape[0]}, weights.scales);
    const std::string zeros = writer_.constant(name + ".weight.zero", {shape[0]},
                                               std::vector<std::int8_t>(weights.scales.size(), 0));
    const std::string floats = writer_.fresh(name + ".weight.float");
    onnx::NodeProto& widen = writer_.add("DequantizeLinear", "", {values, scales, zeros}, floats);
    write_attribute(widen, "axis", std::int64_t{0});
    replace_input(node, 1, floats);
  } else if (!conv.norm.empty()) {
    replace_input(node, 1, writer_.constant(name + ".weight", shape, *conv.weights.floats));
  }
  if (conv.norm.empty()) return;
  replace_input(node, 2, writer_.constant(name + ".bias", {shape[0]}, conv.bias));
  node.set_output(0, conv.norm);
  node.set_name(conv.norm_name);
}

// The pair takes over the tensor's name, and the name of the node that makes it.
void PairWriter::add_pair(onnx::NodeProto& maker, int output) {
  const std::string tensor = maker.output(output);
  PairGrid& grid = grids_.at(work_.group(tensor));
  if (grid.scale.empty()) {
    const double steps = grid.not_negative ? 255 : 127;
    auto scale = static_cast<float>(as_double(grid.range) / steps);
    if (scale < std::numeric_limits<float>::min()) scale = 1;  // never anything but zero
    const std::uint8_t zero = grid.not_negative ? 0 : 128;
    grid.scale = writer_.constant(tensor + ".scale", {}, std::vector<float>{scale});
    grid.zero = writer_.constant(tensor + ".zero", {}, std::vector<std::uint8_t>{zero});
  }
  const std::string name = maker.name();
  const std::string floats = writer_.fresh(tensor + ".float");
  const std::string bytes = writer_.fresh(tensor + ".8bit");
  maker.set_output(output, floats);
  const auto part = [&](const char* what) { return name.empty() ? name : name + what; };
  if (output == 0) maker.set_name(part("/float"));
  writer_.add("QuantizeLinear", part("/quantize"), {floats, grid.scale, grid.zero}, bytes);
  writer_.add("DequantizeLinear", output == 0 ? name : part("/dequantize"),
              {bytes, grid.scale, grid.zero}, tensor);
}

void PairWriter::add_node(const onnx::NodeProto& node) {
  const std::string& first = node.output_size() == 0 ? node.name() : node.output(0);
  if (work_.folded_norms.contains(first)) {
    for (const auto& input : node.input()) displaced_.push_back(input);
    return;
  }
  onnx::NodeProto changed = node;
  const auto conv = work_.convolutions.find(first);
  if (node.op_type() == "Conv" && conv != work_.convolutions.end()) {
    change_convolution(changed, conv->second);
  }
  std::vector<int> pairs;
  for (int i = 0; i < changed.output_size(); ++i) {
    if (paired_.contains(changed.output(i))) pairs.push_back(i);
  }
  const int at = writer_.add(changed);
  for (const int i : pairs) add_pair(writer_.node(at), i);
}

std::string PairWriter::write(const std::string& origin) {
  // Sorted as the graph is; what it found constant comes first, as the file has it.
  std::unordered_map<std::string, const onnx::NodeProto*> moving;
  for (const auto& node : writer_.nodes()) {
    const bool moves = node.output_size() > 0 && work_.makers.contains(node.output(0));
    if (moves) {
      moving[node.output(0)] = &node;
    } else {
      add_node(node);
    }
  }
  for (const Node& node : work_.graph.nodes) {
    const auto found = node.outputs.empty() ? moving.end() : moving.find(node.outputs[0]);
    if (found != moving.end()) add_node(*found->second);
  }
  writer_.drop_unused(displaced_);
  writer_.metadata(kFormKey, kForm);
  if (!origin.empty()) writer_.metadata(kOriginKey, origin);
  return writer_.bytes();
}

}  // namespace

Quantizer::Quantizer(const std::string& model) : work_(std::make_unique<Work>(model)) {}
Quantizer::~Quantizer() = default;
Quantizer::Quantizer(Quantizer&&) noexcept = default;
Quantizer& Quantizer::operator=(Quantizer&&) noexcept = default;

const std::vector<std::string>& Quantizer::tensors() const { return work_->tensors; }
std::size_t Quantizer::convolutions() const { return work_->eight_bit; }
const std::vector<FloatConvolution>& Quantizer::stay_float() const { return work_->stay_float; }

std::string Quantizer::file(const std::map<std::string, float>& ranges,
                            const std::string& origin) const {
  return PairWriter(*work_, ranges).write(origin);
}

bool is_quantized(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.op == "QuantizeLinear"; });
}

std::string quantized_origin(const std::string& model) {
  onnx::ModelProto proto;
  if (!proto.ParseFromString(model)) return "";
  std::map<std::string, std::string> said;
  for (const auto& entry : proto.metadata_props()) said[entry.key()] = entry.value();
  return said[kFormKey] == kForm ? said[kOriginKey] : "";
}

std::string onnx_file(const Graph& graph) {
  onnx::ModelProto model;
  model.set_ir_version(7);
  model.set_producer_name("contcore");
  model.add_opset_import()->set_version(graph.opset);
  onnx::GraphProto& proto = *model.mutable_graph();
  proto.set_name("network");
  declare_map(*proto.add_input(), graph.input, graph.input_shape);
  for (const std::string& name : graph.outputs) {
    declare_map(*proto.add_output(), name, {-1, -1, -1, -1});
  }
  for (const auto& [name, weight] : graph.weights) {
    onnx::TensorProto& tensor = *proto.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t size : weight.shape) tensor.add_dims(size);
    tensor.set_raw_data(weight.floats->data(), weight.size() * sizeof(float));
  }
  for (const Node& node : graph.nodes) {
    onnx::NodeProto& out = *proto.add_node();
    out.set_op_type(node.op);
    out.set_name(node.name);
    for (const std::string& name : node.inputs) out.add_input(name);
    for (const std::string& name : node.outputs) out.add_output(name);
    for (const auto& [name, value] : node.attributes) write_attribute(out, name, value);
  }
  return model.SerializeAsString();
}

}  // namespace contcore
