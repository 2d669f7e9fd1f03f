#include "backbone/constants.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "backbone/attributes.h"
#include "backbone/quantize.h"
#include "backbone/resize.h"
#include "backbone/shapes.h"

namespace contcore {
namespace {

using Ints = std::vector<std::int64_t>;

std::size_t size_of(const Node& node, const Shape& shape) {
  return static_cast<std::size_t>(count_of(node, shape));
}

Ints row_major_strides(const Shape& shape) {
  Ints strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Calls visit(offset) for every index of `shape`, row-major, with the offset that `strides` give
// it.
template <typename Visit>
void walk(const Shape& shape, const Ints& strides, std::int64_t offset, const Visit& visit) {
  const std::size_t rank = shape.size();
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  Ints index(rank, 0);
  const std::int64_t inner = rank > 0 ? shape[rank - 1] : 1;
  const std::int64_t step = rank > 0 ? strides[rank - 1] : 0;
  for (;;) {
    for (std::int64_t i = 0; i < inner; ++i) visit(offset + i * step);
    std::size_t axis = rank;
    for (;;) {
      if (axis < 2) return;
      --axis;  // the axis above
      const std::size_t up = axis - 1;
      offset += strides[up];
      if (++index[up] < shape[up]) break;
      offset -= strides[up] * shape[up];
      index[up] = 0;
    }
  }
}

template <typename T>
const std::vector<T>& numbers(const Tensor& tensor) {
  if constexpr (std::is_same_v<T, float>) {
    return *tensor.floats;
  } else {
    return *tensor.ints;
  }
}

// Calls work with a number of the tensor's own type.
template <typename Work>
Tensor typed(const Tensor& tensor, const Work& work) {
  return tensor.is_float() ? work(float{}) : work(std::int64_t{});
}

// Numbers of `source` picked by strides: transposing, slicing and repeating are all of this kind.
Tensor strided(const Node& node, const Tensor& source, Shape shape, const Ints& strides,
               std::int64_t offset) {
  const std::size_t count = size_of(node, shape);
  return typed(source, [&](auto zero) {
    using T = decltype(zero);
    const auto& from = numbers<T>(source);
    std::vector<T> to;
    to.reserve(count);
    walk(shape, strides, offset,
         [&](std::int64_t at) { to.push_back(from[static_cast<std::size_t>(at)]); });
    return Tensor::of(std::move(shape), std::move(to));
  });
}

// Strides with which a tensor of shape `from` is read as one of the larger shape `to`.
Ints broadcast_strides(const Shape& from, const Shape& to) {
  const Ints dense = row_major_strides(from);
  Ints strides(to.size(), 0);
  const std::size_t skip = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) strides[skip + i] = from[i] == 1 ? 0 : dense[i];
  return strides;
}

Tensor expanded(const Node& node, const Tensor& tensor, const Shape& shape) {
  if (tensor.shape == shape) return tensor;
  return strided(node, tensor, shape, broadcast_strides(tensor.shape, shape), 0);
}

Tensor with_shape(Tensor tensor, Shape shape) {
  tensor.shape = std::move(shape);
  tensor.codes.reset();  // their scales go with the first axis
  return tensor;
}

Tensor as_float(const Tensor& tensor) {
  if (tensor.is_float()) return tensor;
  std::vector<float> out(tensor.ints->begin(), tensor.ints->end());
  return Tensor::of(tensor.shape, std::move(out));
}

std::int64_t to_int(float value) {  // truncated, and defined for every value
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63f) return std::numeric_limits<std::int64_t>::max();
  if (value <= -0x1p63f) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

Tensor as_int(const Tensor& tensor) {
  if (!tensor.is_float()) return tensor;
  Ints out(tensor.size());
  std::transform(tensor.floats->begin(), tensor.floats->end(), out.begin(), to_int);
  return Tensor::of(tensor.shape, std::move(out));
}

// ---- one number at a time ----------------------------------------------------------------------

std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

float combine(const Node& node, float a, float b) {
  const std::string& op = node.op;
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Pow") return std::pow(a, b);
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Mod") return std::fmod(a, b);
  fail(node, "is not supported on float tensors");
}

std::int64_t divide(const Node& node, std::int64_t a, std::int64_t b) {
  if (b == 0) fail(node, "divides by zero");
  return b == -1 ? wrap(0 - bits(a)) : a / b;
}

std::int64_t power(std::int64_t a, std::int64_t b) {
  return to_int(static_cast<float>(std::pow(static_cast<double>(a), static_cast<double>(b))));
}

std::int64_t combine(const Node& node, std::int64_t a, std::int64_t b) {
  const std::string& op = node.op;
  if (op == "Add") return wrap(bits(a) + bits(b));
  if (op == "Sub") return wrap(bits(a) - bits(b));
  if (op == "Mul") return wrap(bits(a) * bits(b));
  if (op == "Div") return divide(node, a, b);
  if (op == "Pow") return power(a, b);
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "And") return a != 0 && b != 0;
  if (op == "Or") return a != 0 || b != 0;
  if (op == "Mod") {
    if (b == 0) fail(node, "divides by zero");
    const std::int64_t rest = b == -1 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  fail(node, "is not supported on whole numbers");
}

template <typename T>
bool holds(const std::string& op, T a, T b) {
  if (op == "Equal") return a == b;
  if (op == "Less") return a < b;
  if (op == "Greater") return a > b;
  if (op == "LessOrEqual") return a <= b;
  return a >= b;  // GreaterOrEqual
}

// The two tensors in one type and one shape.
struct Pair {
  Tensor a, b;
};

Pair aligned(const Node& node, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shape(node, a.shape, b.shape);
  const bool floats = a.is_float() || b.is_float();
  return {expanded(node, floats ? as_float(a) : a, shape),
          expanded(node, floats ? as_float(b) : b, shape)};
}

Tensor elementwise(const Node& node, const Tensor& left, const Tensor& right) {
  const Pair pair = aligned(node, left, right);
  return typed(pair.a, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> out(pair.a.size());
    const auto& a = numbers<T>(pair.a);
    const auto& b = numbers<T>(pair.b);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = combine(node, a[i], b[i]);
    return Tensor::of(pair.a.shape, std::move(out));
  });
}

Tensor arithmetic(const Node& node, std::int64_t, Inputs inputs) {
  Tensor result = required_input(node, inputs, 0);
  for (std::size_t i = 1; i < inputs.size(); ++i) {  // Min and Max take any number
    result = elementwise(node, result, required_input(node, inputs, i));
  }
  return result;
}

Tensor compare(const Node& node, std::int64_t, Inputs inputs) {
  const Pair pair = aligned(node, required_input(node, inputs, 0), required_input(node, inputs, 1));
  Ints out(pair.a.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = pair.a.is_float() ? holds(node.op, (*pair.a.floats)[i], (*pair.b.floats)[i])
                               : holds(node.op, (*pair.a.ints)[i], (*pair.b.ints)[i]);
  }
  return Tensor::of(pair.a.shape, std::move(out));
}

Tensor where(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& condition = required_input(node, inputs, 0);
  if (condition.is_float()) fail(node, "its condition must be of truth values");
  Pair pair = aligned(node, required_input(node, inputs, 1), required_input(node, inputs, 2));
  const Shape shape = broadcast_shape(node, condition.shape, pair.a.shape);
  const Tensor choice = expanded(node, condition, shape);
  const Tensor a = expanded(node, pair.a, shape);
  const Tensor b = expanded(node, pair.b, shape);
  return typed(a, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> out(a.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = (*choice.ints)[i] != 0 ? numbers<T>(a)[i] : numbers<T>(b)[i];
    }
    return Tensor::of(shape, std::move(out));
  });
}

float map_one(const std::string& op, float x) {
  if (op == "Neg") return -x;
  if (op == "Abs") return std::abs(x);
  if (op == "Floor") return std::floor(x);
  if (op == "Ceil") return std::ceil(x);
  if (op == "Round") return std::nearbyint(x);
  if (op == "Sqrt") return std::sqrt(x);
  if (op == "Exp") return std::exp(x);
  if (op == "Log") return std::log(x);
  if (op == "Erf") return std::erf(x);
  if (op == "Tanh") return std::tanh(x);
  if (op == "Sin") return std::sin(x);
  if (op == "Cos") return std::cos(x);
  if (op == "Relu") return std::max(x, 0.0f);
  if (op == "Reciprocal") return 1 / x;
  return 1 / (1 + std::exp(-x));  // Sigmoid
}

std::int64_t map_one(const std::string& op, std::int64_t x) {
  if (op == "Neg") return wrap(0 - bits(x));
  if (op == "Abs") return x < 0 ? wrap(0 - bits(x)) : x;
  if (op == "Relu") return std::max<std::int64_t>(x, 0);
  return x;  // Floor, Ceil and Round
}

Tensor map_all(const Node& node, std::int64_t, Inputs inputs) {
  static const char* const kWhole[] = {"Neg", "Abs", "Relu", "Floor", "Ceil", "Round"};
  const Tensor& tensor = required_input(node, inputs, 0);
  if (!tensor.is_float() &&
      std::find(std::begin(kWhole), std::end(kWhole), node.op) == std::end(kWhole)) {
    fail(node, "is not supported on whole numbers");
  }
  return typed(tensor, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> out(tensor.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = map_one(node.op, numbers<T>(tensor)[i]);
    return Tensor::of(tensor.shape, std::move(out));
  });
}

Tensor logical_not(const Node& node, std::int64_t, Inputs inputs) {
  Ints out = int_input(node, inputs, 0);
  for (auto& value : out) value = value == 0;
  return Tensor::of(inputs[0]->shape, std::move(out));
}

Tensor cast(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  switch (int_attribute(node, "to", 1)) {
    case 1:   // float
    case 10:  // float16
    case 11:  // double
      return as_float(tensor);
    case 9: {  // bool: whatever is not 0 is true, also 0.5
      Ints out(tensor.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = tensor.is_float() ? (*tensor.floats)[i] != 0 : (*tensor.ints)[i] != 0;
      }
      return Tensor::of(tensor.shape, std::move(out));
    }
    default:
      return as_int(tensor);
  }
}

// ---- shapes ------------------------------------------------------------------------------------

Tensor reshape(const Node& node, std::int64_t opset, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  return with_shape(tensor, reshaped(node, opset, tensor.shape, inputs));
}

Tensor pass(const Node& node, std::int64_t, Inputs inputs) {
  return required_input(node, inputs, 0);
}

Tensor shape_tensor(const Node& node, std::int64_t, Inputs inputs) {
  const Shape& shape = required_input(node, inputs, 0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto bounded = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = bounded(int_attribute(node, "start", 0));
  const std::int64_t end = std::max(start, bounded(int_attribute(node, "end", rank)));
  Ints out(shape.begin() + start, shape.begin() + end);
  const auto count = static_cast<std::int64_t>(out.size());
  return Tensor::of({count}, std::move(out));
}

Tensor size_tensor(const Node& node, std::int64_t, Inputs inputs) {
  return Tensor::of({}, Ints{count_of(node, required_input(node, inputs, 0).shape)});
}

Tensor constant(const Node& node, std::int64_t, Inputs) {
  if (const auto* value = find_attribute<Tensor>(node, "value")) return *value;
  if (const auto* value = find_attribute<std::int64_t>(node, "value_int")) {
    return Tensor::of({}, Ints{*value});
  }
  if (const auto* value = find_attribute<float>(node, "value_float")) {
    return Tensor::of({}, std::vector<float>{*value});
  }
  if (const auto* value = find_attribute<Ints>(node, "value_ints")) {
    return Tensor::of({static_cast<std::int64_t>(value->size())}, *value);
  }
  if (const auto* value = find_attribute<std::vector<float>>(node, "value_floats")) {
    return Tensor::of({static_cast<std::int64_t>(value->size())}, *value);
  }
  fail(node, "holds no numbers that are supported");
}

Tensor constant_of_shape(const Node& node, std::int64_t, Inputs inputs) {
  const Shape shape = int_input(node, inputs, 0);
  const Tensor zero = Tensor::of({1}, std::vector<float>{0});
  const Tensor value = attribute<Tensor>(node, "value", zero);
  if (value.size() != 1) fail(node, "its value must be one number");
  return expanded(node, with_shape(value, {}), shape);
}

Tensor range(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& start = required_input(node, inputs, 0);
  const Tensor& limit = required_input(node, inputs, 1);
  const Tensor& delta = required_input(node, inputs, 2);
  if (start.size() != 1 || limit.size() != 1 || delta.size() != 1) {
    fail(node, "its bounds must be one number each");
  }
  const auto one = [](const Tensor& tensor) {
    return static_cast<double>(as_float(tensor).floats->front());
  };
  const double steps = std::ceil((one(limit) - one(start)) / one(delta));
  if (!(steps < static_cast<double>(kMostNumbers))) fail(node, "has no end");
  const auto count = static_cast<std::int64_t>(std::max(steps, 0.0));
  return typed(start, [&](auto zero) {
    using T = decltype(zero);
    if (limit.type != start.type || delta.type != start.type)
      fail(node, "its bounds differ in type");
    std::vector<T> out(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < out.size(); ++i) {
      if constexpr (std::is_same_v<T, float>) {
        out[i] = start.floats->front() + static_cast<float>(i) * delta.floats->front();
      } else {
        out[i] = wrap(bits(start.ints->front()) + i * bits(delta.ints->front()));
      }
    }
    return Tensor::of({count}, std::move(out));
  });
}

// ---- moving numbers ----------------------------------------------------------------------------

Tensor transpose(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  const Ints order = permutation(node, tensor.shape.size());
  const Ints dense = row_major_strides(tensor.shape);
  Shape shape;
  Ints strides;
  for (const std::int64_t axis : order) {
    shape.push_back(tensor.shape[static_cast<std::size_t>(axis)]);
    strides.push_back(dense[static_cast<std::size_t>(axis)]);
  }
  return strided(node, tensor, std::move(shape), strides, 0);
}

Tensor cut(const Node& node, const Tensor& tensor, const Slice& slice) {
  Ints strides = row_major_strides(tensor.shape);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    offset += slice.starts[i] * strides[i];
    strides[i] *= slice.steps[i];
  }
  return strided(node, tensor, slice.shape, strides, offset);
}

Tensor slice(const Node& node, std::int64_t opset, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  return cut(node, tensor, sliced(node, opset, tensor.shape, inputs));
}

Tensor expand(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  return expanded(node, tensor, broadcast_shape(node, tensor.shape, int_input(node, inputs, 1)));
}

Tensor tile(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  const Ints& repeats = int_input(node, inputs, 1);
  if (repeats.size() != tensor.shape.size()) fail(node, "needs one count of repeats for each axis");
  // Each axis read as (repeat, length), the repeat with a stride of 0.
  const Ints dense = row_major_strides(tensor.shape);
  Shape split_shape, shape;
  Ints strides;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    split_shape.insert(split_shape.end(), {repeats[i], tensor.shape[i]});
    strides.insert(strides.end(), {0, dense[i]});
    std::int64_t length = 0;
    if (__builtin_mul_overflow(repeats[i], tensor.shape[i], &length)) fail(node, "is too large");
    shape.push_back(length);
  }
  return with_shape(strided(node, tensor, split_shape, strides, 0), std::move(shape));
}

Tensor gather(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  const Ints& indices = int_input(node, inputs, 1);
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", 0), tensor.shape.size());
  const std::int64_t length = tensor.shape[axis];
  Shape shape(tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::size_t outer = size_of(node, shape);
  shape.insert(shape.end(), inputs[1]->shape.begin(), inputs[1]->shape.end());
  const Shape rest(tensor.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                   tensor.shape.end());
  const std::size_t inner = size_of(node, rest);
  shape.insert(shape.end(), rest.begin(), rest.end());
  const std::size_t count = size_of(node, shape);
  for (const std::int64_t index : indices) {
    if (index < -length || index >= length) {
      fail(node, fmt::format("takes index {} of an axis of length {}", index, length));
    }
  }
  return typed(tensor, [&](auto zero) {
    using T = decltype(zero);
    const T* from = numbers<T>(tensor).data();
    std::vector<T> out;
    out.reserve(count);
    for (std::size_t i = 0; i < outer; ++i) {
      for (const std::int64_t index : indices) {
        const auto row = static_cast<std::size_t>(index < 0 ? index + length : index);
        const T* start = from + (i * static_cast<std::size_t>(length) + row) * inner;
        out.insert(out.end(), start, start + inner);
      }
    }
    return Tensor::of(std::move(shape), std::move(out));
  });
}

Tensor concat(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& first = required_input(node, inputs, 0);
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", 0), first.shape.size());
  Shape shape = first.shape;
  shape[axis] = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = required_input(node, inputs, i);
    Shape other = tensor.shape;
    if (tensor.type != first.type || other.size() != shape.size()) {
      fail(node, "its inputs do not fit together");
    }
    shape[axis] += other[axis];
    other[axis] = shape[axis];
    if (other != shape) fail(node, "its inputs do not fit together");
  }
  const std::size_t count = size_of(node, shape);
  const Shape before(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::size_t outer = size_of(node, before);
  return typed(first, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> out;
    out.reserve(count);
    for (std::size_t i = 0; i < outer; ++i) {
      for (const Tensor* tensor : inputs) {
        const std::size_t run = tensor->size() / outer;
        const T* start = numbers<T>(*tensor).data() + i * run;
        out.insert(out.end(), start, start + run);
      }
    }
    return Tensor::of(std::move(shape), std::move(out));
  });
}

Tensor pad(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  if (!tensor.is_float()) fail(node, "is not supported on whole numbers");
  const std::string mode = string_attribute(node, "mode", "constant");
  if (mode != "constant") fail(node, fmt::format("its mode '{}' is not supported", mode));
  const std::size_t rank = tensor.shape.size();
  const Ints pads = padding(node, rank, inputs);
  // The part of the input that is kept (negative pads cut), and where it goes.
  Slice kept;
  Shape shape(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    if (__builtin_add_overflow(tensor.shape[i], pads[i], &shape[i]) ||
        __builtin_add_overflow(shape[i], pads[i + rank], &shape[i])) {
      fail(node, "is too large");
    }
    kept.starts.push_back(std::max<std::int64_t>(0, -pads[i]));
    const std::int64_t end = tensor.shape[i] - std::max<std::int64_t>(0, -pads[i + rank]);
    kept.shape.push_back(std::max<std::int64_t>(0, end - kept.starts[i]));
  }
  std::vector<float> out(size_of(node, shape), padding_value(node, inputs));
  std::vector<std::int64_t> places;
  if (std::find(kept.shape.begin(), kept.shape.end(), 0) == kept.shape.end()) {
    const Ints from = row_major_strides(tensor.shape);
    const Ints to = row_major_strides(shape);
    std::int64_t source = 0;  // both within their tensors, since something is kept
    std::int64_t target = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      source += kept.starts[i] * from[i];
      target += std::max<std::int64_t>(0, pads[i]) * to[i];
    }
    walk(kept.shape, to, target, [&](std::int64_t at) { places.push_back(at); });
    std::size_t next = 0;
    walk(kept.shape, from, source, [&](std::int64_t at) {
      out[static_cast<std::size_t>(places[next++])] =
          (*tensor.floats)[static_cast<std::size_t>(at)];
    });
  }
  return Tensor::of(std::move(shape), std::move(out));
}

// ---- along axes --------------------------------------------------------------------------------

template <typename T>
T reduce_start(const std::string& op, T first) {
  if (op == "ReduceMax" || op == "ReduceMin") return first;
  return op == "ReduceProd" ? T{1} : T{0};
}

Tensor reduce(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  const std::size_t rank = tensor.shape.size();
  const Ints axes = reduced_axes(node, rank, inputs);
  if (axes.empty()) return tensor;
  Shape kept = tensor.shape, shape;
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  const bool keep = int_attribute(node, "keepdims", 1) != 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool gone =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
    if (!gone || keep) shape.push_back(kept[i]);
  }
  const std::size_t count = size_of(node, kept);
  if (tensor.size() == 0) fail(node, "reduces a tensor without numbers");
  const Ints places = broadcast_strides(kept, tensor.shape);
  return typed(tensor, [&](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, std::int64_t>;
    const auto& from = numbers<T>(tensor);
    std::vector<Wide> sums(count);
    std::vector<bool> seen(count, false);
    std::size_t next = 0;
    walk(tensor.shape, places, 0, [&](std::int64_t place) {
      const auto at = static_cast<std::size_t>(place);
      const auto x = static_cast<Wide>(from[next++]);
      if (!seen[at]) sums[at] = reduce_start<Wide>(node.op, x);
      seen[at] = true;
      Wide& sum = sums[at];
      if (node.op == "ReduceMax") {
        sum = std::max(sum, x);
      } else if (node.op == "ReduceMin") {
        sum = std::min(sum, x);
      } else if constexpr (std::is_same_v<T, float>) {
        sum = node.op == "ReduceProd" ? sum * x : sum + x;
      } else {
        sum = wrap(node.op == "ReduceProd" ? bits(sum) * bits(x) : bits(sum) + bits(x));
      }
    });
    const auto each = static_cast<Wide>(tensor.size() / count);
    std::vector<T> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = static_cast<T>(node.op == "ReduceMean" ? sums[i] / each : sums[i]);
    }
    return Tensor::of(std::move(shape), std::move(out));
  });
}

Tensor resized(const Node& node, std::int64_t opset, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  if (!tensor.is_float()) fail(node, "is not supported on whole numbers");
  return resize(node, opset, inputs);
}

using Operator = std::function<Tensor(const Node&, std::int64_t, Inputs)>;

const std::unordered_map<std::string, Operator>& operators() {
  static const std::unordered_map<std::string, Operator> kOperators = [] {
    std::unordered_map<std::string, Operator> all;
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Mod", "And", "Or"}) {
      all[op] = arithmetic;
    }
    for (const char* op : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}) {
      all[op] = compare;
    }
    for (const char* op : {"Neg", "Abs", "Floor", "Ceil", "Round", "Sqrt", "Exp", "Log", "Erf",
                           "Tanh", "Sin", "Cos", "Relu", "Reciprocal", "Sigmoid"}) {
      all[op] = map_all;
    }
    for (const char* op : {"ReduceMean", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"}) {
      all[op] = reduce;
    }
    for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}) all[op] = reshape;
    for (const char* op : {"Identity", "Dropout"}) all[op] = pass;
    for (const char* op : {"Resize", "Upsample"}) all[op] = resized;
    all["Not"] = logical_not;
    all["Where"] = where;
    all["Cast"] = cast;
    all["Shape"] = shape_tensor;
    all["Size"] = size_tensor;
    all["Constant"] = constant;
    all["ConstantOfShape"] = constant_of_shape;
    all["Range"] = range;
    all["Transpose"] = transpose;
    all["Slice"] = slice;
    all["Expand"] = expand;
    all["Tile"] = tile;
    all["Gather"] = gather;
    all["Concat"] = concat;
    all["Pad"] = pad;
    all["QuantizeLinear"] = quantized;
    all["DequantizeLinear"] = dequantized;
    return all;
  }();
  return kOperators;
}

}  // namespace

bool can_evaluate(const std::string& op) { return op == "Split" || operators().contains(op); }

std::vector<Tensor> evaluate(const Node& node, std::int64_t opset, Inputs inputs) {
  if (node.op == "Split") {
    const Tensor& tensor = required_input(node, inputs, 0);
    std::vector<Tensor> parts;
    for (const Slice& slice : split(node, tensor.shape, inputs)) {
      parts.push_back(cut(node, tensor, slice));
    }
    return parts;
  }
  const auto found = operators().find(node.op);
  if (found == operators().end()) fail(node, "the operator is not supported on constants");
  return {found->second(node, opset, inputs)};
}

}  // namespace contcore
