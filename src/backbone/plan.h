// A graph at one image size: every shape known, constants computed, operators reduced to a few
// kinds of steps. lower() makes it, fuse() makes it shorter, an Engine compiles it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backbone/graph.h"
#include "backbone/quantize.h"

namespace contcore {

/// A tensor on the image's way, or a constant. If it has a grid, its numbers lie on that, and bytes
/// can hold them: a convolution or kQuantize that makes such a value rounds to it.
struct Value {
  std::string name;
  Shape shape;
  std::optional<Tensor> constant;
  std::optional<Grid> grid;
};

/// A function of one number.
struct Unary {
  enum class Kind {
    kRelu,  ///< max(x, 0) + alpha · min(x, 0)
    kClip,  ///< min(max(x, alpha), beta)
    kSigmoid,
    kSwish,  ///< x · sigmoid(alpha · x)
    kHardSwish,
    kTanh,
    kGelu,  ///< with erf
    kGeluTanh,
    kSqrt,
    kExp,
    kLog,
    kAbs,
    kElu,
    kLinear,  ///< alpha · x + beta
    kPower,   ///< alpha · x^beta
    kRound,   ///< to the nearest whole number, of two the even one
  };
  Kind kind = Kind::kRelu;
  float alpha = 0, beta = 0;
};

/// What is done to a step's result before it is written: a function, or the sum with another value.
/// Of functions of one kind a step has several only if their numbers are the same; kAffine has a
/// plain relu at most.
struct PostOp {
  std::optional<Unary> unary;
  std::size_t other = 0;  ///< the value added, where there is no function
};

struct Step {
  enum class Kind {
    kConv,       ///< in[0]; weights, bias
    kMaxPool,    ///< in[0]
    kMeanPool,   ///< in[0]; a sum divided by the whole window, or by what of it is in the map
    kAffine,     ///< in[0], channel by channel: scale · x + bias
    kUnary,      ///< in[0]; functions are in `post_ops`
    kBinary,     ///< in[0] and in[1], which is broadcast to it
    kConcat,     ///< in…, along axes[0]
    kMatMul,     ///< in[0] with weights, or with in[1]
    kLayerNorm,  ///< in[0] along the last axis; scale, bias, epsilon
    kSoftmax,    ///< in[0] along axes[0]
    kReshape,    ///< in[0]
    kTranspose,  ///< in[0], axes[i] is the axis that becomes the i-th
    kSlice,      ///< in[0] from `starts` on
    kMean,       ///< in[0] along `axes`, which stay with length 1
    kQuantize,   ///< in[0], rounded to the grid of the result
    kHost,       ///< the node itself, by evaluate()
  };
  enum class Combine { kAdd, kSub, kMul, kDiv, kMin, kMax };

  Kind kind = Kind::kHost;
  Node node;                        ///< where it comes from, for messages and kHost
  std::vector<std::size_t> in;      ///< values
  std::size_t out = 0;              ///< value
  std::vector<PostOp> post_ops;     ///< in order
  Combine combine = Combine::kAdd;  ///< of kBinary

  Tensor weights;            ///< of kConv (O, I/group, h, w) and kMatMul (K, N)
  std::vector<float> scale;  ///< for each channel, before the bias; may be empty
  std::vector<float> bias;   ///< for each channel; may be empty
  std::vector<std::int64_t> kernel, strides, dilations;  ///< of height and width
  std::vector<std::int64_t> pads_begin, pads_end;        ///< the same
  bool shared = false;  ///< the weights are the graph's own, the same at every size
  std::int64_t group = 1;
  bool count_padding = false;  ///< of kMeanPool: the whole window, whatever lies in it
  float epsilon = 0;
  std::vector<std::int64_t> axes, starts;
};

struct Plan {
  std::vector<Value> values;
  std::vector<Step> steps;
  std::map<std::string, std::size_t> names;  ///< tensor name to value; several may share one
  std::size_t input = 0;
  bool channels_last = false;  ///< the graph takes (N, height, width, 3)
  std::int64_t opset = 13;
};

/// A value that is handed out as a map.
struct PlanOutput {
  std::size_t value = 0;
  bool channels_last =
      false;               ///< of four dimensions: (N, height, width, C), not (N, C, height, width)
  std::size_t height = 0;  ///< of a value (N, tokens, C): the last height · width tokens
  std::size_t width = 0;
};

/// The plan for one image of this size, through the nodes given. Throws Error (kInput) naming the
/// node that cannot be run; if `tolerant`, such nodes and all that depend on them are left out
/// instead.
Plan lower(const Graph& graph, const std::vector<std::size_t>& nodes, std::int64_t height,
           std::int64_t width, bool tolerant = false);

/// Folds batch norm into convolutions, activations and sums into the steps before, and finds the
/// functions that exporters take apart. The values in `kept` stay as they are.
void fuse(Plan& plan, const std::vector<std::size_t>& kept);

/// Multiplies and adds (each is one) of a step.
double flops(const Plan& plan, const Step& step);

/// Whether an operator can be run at all.
bool known_operator(const std::string& op);

}  // namespace contcore
