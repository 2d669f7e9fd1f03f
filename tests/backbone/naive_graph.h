// The operators by their definitions, in double precision, one loop an index: the slow twin of the
// backbone. It knows nothing of fusing, layouts or oneDNN.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "backbone/graph.h"

namespace contcore::testing {

struct Array {
  Shape shape;
  std::vector<double> data;

  std::int64_t dim(std::size_t i) const { return shape[i]; }
  double& at(std::int64_t c, std::int64_t y, std::int64_t x) {
    return data[static_cast<std::size_t>((c * shape[2] + y) * shape[3] + x)];
  }
  double at(std::int64_t c, std::int64_t y, std::int64_t x) const {
    return const_cast<Array*>(this)->at(c, y, x);
  }
};

inline std::int64_t count(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

inline Array zeros(Shape shape) {
  const auto n = static_cast<std::size_t>(count(shape));
  return {std::move(shape), std::vector<double>(n, 0.0)};
}

inline Array to_array(const Tensor& tensor) {
  Array out{tensor.shape, {}};
  if (tensor.is_float()) {
    out.data.assign(tensor.floats->begin(), tensor.floats->end());
  } else {
    for (const std::int64_t x : *tensor.ints) out.data.push_back(static_cast<double>(x));
  }
  return out;
}

// Every index of a shape, in order.
inline void each_index(const Shape& shape, const std::function<void(const Shape&)>& visit) {
  Shape index(shape.size(), 0);
  for (std::int64_t n = count(shape); n > 0; --n) {
    visit(index);
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

// The number at an index, axes of length 1 repeated and missing ones in front ignored.
inline double pick(const Array& array, const Shape& index) {
  std::size_t at = 0;
  const std::size_t skip = index.size() - array.shape.size();
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    const std::int64_t x = array.shape[i] == 1 ? 0 : index[skip + i];
    at = at * static_cast<std::size_t>(array.shape[i]) + static_cast<std::size_t>(x);
  }
  return array.data[at];
}

class NaiveGraph {
 public:
  explicit NaiveGraph(const Graph& graph) : graph_(graph) {}

  /// Every tensor of the graph for an image of 3 × height × width.
  std::map<std::string, Array> run(const std::vector<float>& chw, std::int64_t height,
                                   std::int64_t width) {
    tensors_.clear();
    Array image{{1, 3, height, width}, std::vector<double>(chw.begin(), chw.end())};
    if (graph_.input_shape.back() == 3) image = permuted(image, {0, 2, 3, 1});
    tensors_[graph_.input] = image;
    for (const auto& [name, tensor] : graph_.weights) tensors_[name] = to_array(tensor);
    for (const Node& node : graph_.nodes) run(node);
    return tensors_;
  }

 private:
  const Array& in(const Node& node, std::size_t i) const { return tensors_.at(node.inputs.at(i)); }
  bool has(const Node& node, std::size_t i) const {
    return i < node.inputs.size() && !node.inputs[i].empty();
  }
  template <typename T>
  static T get(const Node& node, const std::string& name, T otherwise) {
    const auto at = node.attributes.find(name);
    return at == node.attributes.end() ? otherwise : std::get<T>(at->second);
  }
  static Shape ints(const Node& node, const std::string& name, Shape otherwise) {
    return get<std::vector<std::int64_t>>(node, name, std::move(otherwise));
  }
  static double real(const Node& node, const std::string& name, float otherwise) {
    return static_cast<double>(get<float>(node, name, otherwise));
  }
  static Array mapped(Array array, const std::function<double(double)>& f) {
    std::transform(array.data.begin(), array.data.end(), array.data.begin(), f);
    return array;
  }
  static Array permuted(const Array& array, const Shape& order) {
    Shape shape;
    for (const std::int64_t axis : order)
      shape.push_back(array.dim(static_cast<std::size_t>(axis)));
    Array out{shape, {}};
    each_index(shape, [&](const Shape& index) {
      Shape source(index.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        source[static_cast<std::size_t>(order[i])] = index[i];
      }
      out.data.push_back(pick(array, source));
    });
    return out;
  }

  // Where windows lie: pads before, and how many places, of height and width.
  struct Windows {
    Shape kernel, strides, dilations, before, places, ends;
  };
  Windows windows(const Node& node, const Array& x, const Shape& kernel) const {
    Windows w{kernel, ints(node, "strides", {1, 1}), ints(node, "dilations", {1, 1}), {}, {}, {}};
    const Shape pads = ints(node, "pads", {0, 0, 0, 0});
    const auto automatic = get<std::string>(node, "auto_pad", "NOTSET");
    const bool ceil = get<std::int64_t>(node, "ceil_mode", 0) != 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t length = x.dim(i + 2);
      const std::int64_t reach = (kernel[i] - 1) * w.dilations[i] + 1;
      std::int64_t before = pads[i], behind = pads[i + 2];
      if (automatic.starts_with("SAME")) {
        const std::int64_t places = (length + w.strides[i] - 1) / w.strides[i];
        const std::int64_t all =
            std::max<std::int64_t>(0, (places - 1) * w.strides[i] + reach - length);
        before = automatic == "SAME_UPPER" ? all / 2 : (all + 1) / 2;
        behind = all - before;
      }
      const double room = static_cast<double>(length + before + behind - reach);
      const double steps = room / static_cast<double>(w.strides[i]);
      auto places = static_cast<std::int64_t>(ceil ? std::ceil(steps) : std::floor(steps)) + 1;
      if (ceil && (places - 1) * w.strides[i] >= length + before) --places;
      w.before.push_back(before);
      w.ends.push_back(length + behind);
      w.places.push_back(places);
    }
    return w;
  }

  Array conv(const Node& node) {
    const Array& x = in(node, 0);
    const Array& k = in(node, 1);
    const Windows w = windows(node, x, {k.dim(2), k.dim(3)});
    const std::int64_t group = get<std::int64_t>(node, "group", 1);
    const std::int64_t each = k.dim(0) / group;
    Array y = zeros({1, k.dim(0), w.places[0], w.places[1]});
    each_index(y.shape, [&](const Shape& at) {
      const std::int64_t o = at[1];
      double sum = has(node, 2) ? in(node, 2).data[static_cast<std::size_t>(o)] : 0;
      for (std::int64_t i = 0; i < k.dim(1); ++i) {
        for (std::int64_t ky = 0; ky < k.dim(2); ++ky) {
          for (std::int64_t kx = 0; kx < k.dim(3); ++kx) {
            const std::int64_t row = at[2] * w.strides[0] + ky * w.dilations[0] - w.before[0];
            const std::int64_t col = at[3] * w.strides[1] + kx * w.dilations[1] - w.before[1];
            if (row < 0 || col < 0 || row >= x.dim(2) || col >= x.dim(3)) continue;
            const std::int64_t tap = ((o * k.dim(1) + i) * k.dim(2) + ky) * k.dim(3) + kx;
            sum += x.at(o / each * k.dim(1) + i, row, col) * k.data[static_cast<std::size_t>(tap)];
          }
        }
      }
      y.at(o, at[2], at[3]) = sum;
    });
    return y;
  }

  Array pool(const Node& node) {
    const Array& x = in(node, 0);
    const bool max = node.op == "MaxPool";
    const bool with_pads = get<std::int64_t>(node, "count_include_pad", 0) != 0;
    const Windows w = windows(node, x, ints(node, "kernel_shape", {}));
    Array y = zeros({1, x.dim(1), w.places[0], w.places[1]});
    each_index(y.shape, [&](const Shape& at) {
      double best = -std::numeric_limits<double>::infinity(), sum = 0;
      int inside = 0, padded = 0;
      each_index(w.kernel, [&](const Shape& t) {
        const std::int64_t row = at[2] * w.strides[0] + t[0] * w.dilations[0] - w.before[0];
        const std::int64_t col = at[3] * w.strides[1] + t[1] * w.dilations[1] - w.before[1];
        if (row < w.ends[0] && col < w.ends[1]) ++padded;
        if (row < 0 || col < 0 || row >= x.dim(2) || col >= x.dim(3)) return;
        ++inside;
        sum += x.at(at[1], row, col);
        best = std::max(best, x.at(at[1], row, col));
      });
      y.at(at[1], at[2], at[3]) = max ? best : sum / (with_pads ? padded : inside);
    });
    return y;
  }

  Array mean(const Node& node, Shape axes, bool keep) {
    const Array& x = in(node, 0);
    const auto rank = static_cast<std::int64_t>(x.shape.size());
    for (auto& axis : axes) axis = axis < 0 ? axis + rank : axis;
    Shape kept = x.shape;
    for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
    Array y = zeros(kept);
    each_index(kept, [&](const Shape& base) {
      Shape span(x.shape.size(), 1);
      for (const std::int64_t axis : axes) {
        span[static_cast<std::size_t>(axis)] = x.dim(static_cast<std::size_t>(axis));
      }
      double sum = 0;
      each_index(span, [&](const Shape& step) {
        Shape index = base;
        for (std::size_t i = 0; i < index.size(); ++i) index[i] += step[i];
        sum += pick(x, index);
      });
      std::size_t flat = 0;
      for (std::size_t i = 0; i < base.size(); ++i) {
        flat = flat * static_cast<std::size_t>(kept[i]) + static_cast<std::size_t>(base[i]);
      }
      y.data[flat] = sum / static_cast<double>(count(span));
    });
    if (!keep) {
      Shape shape;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) == axes.end()) {
          shape.push_back(kept[i]);
        }
      }
      y.shape = shape;
    }
    return y;
  }

  Array batch_norm(const Node& node) {
    Array y = in(node, 0);
    const double epsilon = real(node, "epsilon", 1e-5f);
    const std::int64_t each = count(y.shape) / y.dim(1);
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      const std::size_t c = i / static_cast<std::size_t>(each);
      y.data[i] = (y.data[i] - in(node, 3).data[c]) / std::sqrt(in(node, 4).data[c] + epsilon) *
                      in(node, 1).data[c] +
                  in(node, 2).data[c];
    }
    return y;
  }

  Array combine(const Node& node, const std::function<double(double, double)>& f) {
    const Array& a = in(node, 0);
    const Array& b = in(node, 1);
    Shape shape(std::max(a.shape.size(), b.shape.size()), 1);
    for (const Array* array : {&a, &b}) {
      for (std::size_t i = 0; i < array->shape.size(); ++i) {
        auto& dim = shape[shape.size() - array->shape.size() + i];
        dim = std::max(dim, array->shape[i]);
      }
    }
    Array y{shape, {}};
    each_index(shape, [&](const Shape& at) { y.data.push_back(f(pick(a, at), pick(b, at))); });
    return y;
  }

  Array concat(const Node& node) {
    auto axis = get<std::int64_t>(node, "axis", 1);
    Array y = in(node, 0);
    if (axis < 0) axis += static_cast<std::int64_t>(y.shape.size());
    const auto a = static_cast<std::size_t>(axis);
    y.shape[a] = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) y.shape[a] += in(node, i).dim(a);
    y.data.clear();
    each_index(y.shape, [&](const Shape& at) {
      Shape index = at;
      std::size_t part = 0;
      while (index[a] >= in(node, part).dim(a)) index[a] -= in(node, part++).dim(a);
      y.data.push_back(pick(in(node, part), index));
    });
    return y;
  }

  Array matmul(const Array& a, const Array& b) {
    Shape shape = a.shape.size() >= b.shape.size() ? a.shape : b.shape;
    const std::size_t rank = shape.size();
    shape[rank - 2] = a.shape[a.shape.size() - 2];
    shape[rank - 1] = b.shape.back();
    Array y{shape, {}};
    each_index(shape, [&](const Shape& at) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.shape.back(); ++k) {
        Shape left = at, right = at;
        left[rank - 1] = k;
        right[rank - 2] = k;
        sum += pick(a, left) * pick(b, right);
      }
      y.data.push_back(sum);
    });
    return y;
  }

  // Along the last axis.
  static Array by_rows(Array x, const std::function<void(double*, std::size_t)>& f) {
    const auto row = static_cast<std::size_t>(x.shape.back());
    for (std::size_t i = 0; i < x.data.size(); i += row) f(x.data.data() + i, row);
    return x;
  }

  Array pad(const Node& node) {
    const Array& x = in(node, 0);
    const auto& pads = in(node, 1).data;
    const double value = has(node, 2) ? in(node, 2).data[0] : 0;
    const std::size_t rank = x.shape.size();
    Array y{x.shape, {}};
    for (std::size_t i = 0; i < rank; ++i) {
      y.shape[i] += static_cast<std::int64_t>(pads[i] + pads[i + rank]);
    }
    each_index(y.shape, [&](const Shape& at) {
      Shape index = at;
      bool inside = true;
      for (std::size_t i = 0; i < rank; ++i) {
        index[i] -= static_cast<std::int64_t>(pads[i]);
        inside = inside && index[i] >= 0 && index[i] < x.shape[i];
      }
      y.data.push_back(inside ? pick(x, index) : value);
    });
    return y;
  }

  // QuantizeLinear and DequantizeLinear: the scale and zero point of each number, along an axis or
  // one for all.
  Array levels(const Node& node, const std::function<double(double, double, double)>& f) {
    Array y = in(node, 0);
    const auto& scale = in(node, 1).data;
    const auto axis = static_cast<std::size_t>(get<std::int64_t>(node, "axis", 1));
    std::size_t behind = 1;
    for (std::size_t i = axis + 1; i < y.shape.size(); ++i) {
      behind *= static_cast<std::size_t>(y.shape[i]);
    }
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      const std::size_t j = scale.size() == 1 ? 0 : i / behind % scale.size();
      y.data[i] = f(y.data[i], scale[j], has(node, 2) ? in(node, 2).data[j] : 0);
    }
    return y;
  }

  void run(const Node& node) {
    const std::string& op = node.op;
    Array y;
    const auto f = [&](const std::function<double(double)>& g) { y = mapped(in(node, 0), g); };
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    if (op == "QuantizeLinear") {
      const bool whole = has(node, 2) && graph_.weights.contains(node.inputs[2]);
      const bool negative =
          whole && graph_.weights.at(node.inputs[2]).width == Tensor::Width::kInt8;
      const double low = negative ? -128 : 0;
      y = levels(node, [=](double x, double scale, double zero) {
        return std::clamp(std::nearbyint(x / scale) + zero, low, low + 255);
      });
    } else if (op == "DequantizeLinear") {
      y = levels(node, [](double x, double scale, double zero) { return (x - zero) * scale; });
    } else if (op == "Conv") {
      y = conv(node);
    } else if (op == "MaxPool" || op == "AveragePool") {
      y = pool(node);
    } else if (op == "GlobalAveragePool") {
      y = mean(node, {2, 3}, true);
    } else if (op == "ReduceMean") {
      y = mean(node, ints(node, "axes", {}), get<std::int64_t>(node, "keepdims", 1) != 0);
    } else if (op == "BatchNormalization") {
      y = batch_norm(node);
    } else if (op == "Relu") {
      f([](double x) { return std::max(x, 0.0); });
    } else if (op == "LeakyRelu") {
      const double alpha = real(node, "alpha", 0.01f);
      f([=](double x) { return x < 0 ? alpha * x : x; });
    } else if (op == "Clip") {
      const double low = has(node, 1) ? in(node, 1).data[0] : real(node, "min", -1e30f);
      const double high = has(node, 2) ? in(node, 2).data[0] : real(node, "max", 1e30f);
      f([=](double x) { return std::min(std::max(x, low), high); });
    } else if (op == "Sigmoid") {
      f(sigmoid);
    } else if (op == "HardSigmoid") {
      const double alpha = real(node, "alpha", 0.2f), beta = real(node, "beta", 0.5f);
      f([=](double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); });
    } else if (op == "HardSwish") {
      f([](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); });
    } else if (op == "Tanh") {
      f([](double x) { return std::tanh(x); });
    } else if (op == "Sqrt") {
      f([](double x) { return std::sqrt(x); });
    } else if (op == "Erf") {
      f([](double x) { return std::erf(x); });
    } else if (op == "Gelu") {
      f([](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); });
    } else if (op == "Identity" || op == "Dropout") {
      y = in(node, 0);
    } else if (op == "Add") {
      y = combine(node, [](double a, double b) { return a + b; });
    } else if (op == "Sub") {
      y = combine(node, [](double a, double b) { return a - b; });
    } else if (op == "Mul") {
      y = combine(node, [](double a, double b) { return a * b; });
    } else if (op == "Div") {
      y = combine(node, [](double a, double b) { return a / b; });
    } else if (op == "Pow") {
      y = combine(node, [](double a, double b) { return std::pow(a, b); });
    } else if (op == "Concat") {
      y = concat(node);
    } else if (op == "MatMul") {
      y = matmul(in(node, 0), in(node, 1));
    } else if (op == "Gemm") {
      Array b = in(node, 1);
      if (get<std::int64_t>(node, "transB", 0) != 0) b = permuted(b, {1, 0});
      y = matmul(in(node, 0), b);
      const double alpha = real(node, "alpha", 1), beta = real(node, "beta", 1);
      const auto cols = static_cast<std::size_t>(y.shape[1]);
      for (std::size_t i = 0; i < y.data.size(); ++i) {
        y.data[i] = alpha * y.data[i] + beta * in(node, 2).data[i % cols];
      }
    } else if (op == "Softmax") {
      y = by_rows(in(node, 0), [](double* row, std::size_t n) {
        const double top = *std::max_element(row, row + n);
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += row[i] = std::exp(row[i] - top);
        for (std::size_t i = 0; i < n; ++i) row[i] /= sum;
      });
    } else if (op == "LayerNormalization") {
      const double epsilon = real(node, "epsilon", 1e-5f);
      y = by_rows(in(node, 0), [&](double* row, std::size_t n) {
        double sum = 0, squares = 0;
        for (std::size_t i = 0; i < n; ++i) sum += row[i];
        sum /= static_cast<double>(n);
        for (std::size_t i = 0; i < n; ++i) squares += (row[i] - sum) * (row[i] - sum);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
        for (std::size_t i = 0; i < n; ++i) {
          row[i] = (row[i] - sum) * scale * in(node, 1).data[i] + in(node, 2).data[i];
        }
      });
    } else if (op == "Transpose") {
      y = permuted(in(node, 0), ints(node, "perm", {}));
    } else if (op == "Pad") {
      y = pad(node);
    } else if (op == "Reshape") {
      y = in(node, 0);
      const Shape before = y.shape;
      y.shape.clear();
      std::int64_t known = 1;
      for (std::size_t i = 0; i < in(node, 1).data.size(); ++i) {
        const auto dim = static_cast<std::int64_t>(in(node, 1).data[i]);
        y.shape.push_back(dim == 0 ? before[i] : dim);
        if (y.shape.back() > 0) known *= y.shape.back();
      }
      for (auto& dim : y.shape) {
        if (dim == -1) dim = count(before) / known;
      }
    } else if (op == "Flatten") {
      y = in(node, 0);
      y.shape = {y.shape[0], count(y.shape) / y.shape[0]};
    } else if (op == "Slice") {  // along one axis, forwards
      const Array& x = in(node, 0);
      const auto axis = static_cast<std::size_t>(in(node, 3).data[0]);
      const auto start = static_cast<std::int64_t>(in(node, 1).data[0]);
      const auto end = static_cast<std::int64_t>(in(node, 2).data[0]);
      const auto step = has(node, 4) ? static_cast<std::int64_t>(in(node, 4).data[0]) : 1;
      y.shape = x.shape;
      y.shape[axis] = (end - start + step - 1) / step;
      each_index(y.shape, [&](const Shape& at) {
        Shape index = at;
        index[axis] = start + at[axis] * step;
        y.data.push_back(pick(x, index));
      });
    } else if (op == "Gather") {  // one or more indices, given as a list
      const Array& x = in(node, 0);
      const Array& indices = in(node, 1);
      const auto axis = static_cast<std::size_t>(get<std::int64_t>(node, "axis", 0));
      y.shape = x.shape;
      y.shape[axis] = count(indices.shape);
      each_index(y.shape, [&](const Shape& at) {
        Shape index = at;
        index[axis] = static_cast<std::int64_t>(indices.data[static_cast<std::size_t>(at[axis])]);
        y.data.push_back(pick(x, index));
      });
      if (indices.shape.empty()) y.shape.erase(y.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    } else {
      throw std::logic_error("no naive " + op);
    }
    tensors_[node.outputs[0]] = y;
  }

  const Graph& graph_;
  std::map<std::string, Array> tensors_;
};

}  // namespace contcore::testing
