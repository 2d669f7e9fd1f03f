// A network as a list of operators on named tensors: what the ONNX reader makes, what the built-in
// backbone is written in, and what an engine compiles.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace contcore {

using Shape = std::vector<std::int64_t>;

/// The whole numbers behind float ones: (n, ...) of them, times one scale, or one for each of n.
struct Codes {
  std::vector<std::int8_t> numbers;
  std::vector<float> scale;
};

/// A constant: numbers, row-major, that copies share. Float tensors are float32, all others
/// (integers of any width, booleans) int64. A scalar has an empty shape and one number.
struct Tensor {
  enum class Type { kFloat, kInt };
  enum class Width { kOther, kInt8, kUint8, kInt32 };
  Type type = Type::kFloat;
  Width width = Width::kOther;  // of kInt: what the file held, where quantising asks for it
  Shape shape;
  std::shared_ptr<const std::vector<float>> floats;       // kFloat: as many as the shape says
  std::shared_ptr<const std::vector<std::int64_t>> ints;  // kInt: as many as the shape says
  std::shared_ptr<const Codes> codes;  // kFloat: of weights that DequantizeLinear made

  static Tensor of(Shape shape, std::vector<float> values) {
    Tensor tensor;
    tensor.shape = std::move(shape);
    tensor.floats = std::make_shared<const std::vector<float>>(std::move(values));
    return tensor;
  }
  static Tensor of(Shape shape, std::vector<std::int64_t> values) {
    Tensor tensor;
    tensor.type = Type::kInt;
    tensor.shape = std::move(shape);
    tensor.ints = std::make_shared<const std::vector<std::int64_t>>(std::move(values));
    return tensor;
  }
  static Tensor of(Shape shape, std::vector<std::int64_t> values, Width width) {
    Tensor tensor = of(std::move(shape), std::move(values));
    tensor.width = width;
    return tensor;
  }
  bool is_float() const { return type == Type::kFloat; }
  std::size_t size() const { return is_float() ? floats->size() : ints->size(); }
};

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                               std::vector<float>, Tensor>;

/// One operator, with ONNX's names for operators, inputs and attributes (op "Conv" with attributes
/// "strides", "pads", "group" …, and the same defaults for those left out).
struct Node {
  std::string op;
  std::string name;                  // may be empty
  std::vector<std::string> inputs;   // tensor names; "" for an optional one left out
  std::vector<std::string> outputs;  // tensor names, each made by one node only
  std::map<std::string, Attribute> attributes;
};

struct Graph {
  std::vector<Node> nodes;                // each after those that make its inputs
  std::map<std::string, Tensor> weights;  // tensors that do not depend on the image
  std::string input;                      // the one tensor that does: the image
  Shape input_shape;                      // as declared, -1 where free: [N,3,H,W] or [N,H,W,3]
  std::vector<std::string> outputs;       // tensor names
  std::int64_t opset = 13;
};

}  // namespace contcore
