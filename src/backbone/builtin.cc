#include "backbone/builtin.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace contcore {
namespace {

constexpr std::int64_t kOrientations = 8;
constexpr std::int64_t kScales = 4;
constexpr std::int64_t kSize = 7;  // of an oriented filter, pixels each way
constexpr std::int64_t kColours = 3;
// Of one scale and one sign: a bar and an edge filter for each orientation, a spot for each colour.
constexpr std::int64_t kFilters = 2 * kOrientations + kColours;

constexpr std::int64_t kEnergies = 3 * kOrientations;  // of the three finer scales

constexpr double kWavelength = 4.5;  // pixels
constexpr double kReach = 4.4;       // where the window of a filter ends
constexpr double kColourGain = 2;    // colours vary less than luminance
constexpr float kMeanGain = 0.1f;
// How much each scale counts, finest first: defects are small.
constexpr std::array<float, kScales> kScaleGain = {2, 1.5f, 1, 0.5f};
constexpr float kSecondGain = 2;
// Responses count relative to those around them, so that the strong edges of a product do not drown
// a faint mark on a plain surface; those below kNoise count little, being noise.
constexpr float kNoise = 0.02f;
// Relative responses below this count in proportion, those above by their square root.
constexpr float kFaint = 0.1f;

using Kernel = std::array<double, kSize * kSize>;

// cos(π x) by its series, which unlike the C library's gives the same bits everywhere.
double cosine(double x) {
  constexpr double kPi = 3.141592653589793;
  while (x > 1) x -= 2;
  while (x < -1) x += 2;
  const double square = kPi * kPi * x * x;
  double sum = 1, term = 1;
  for (int n = 2; n <= 24; n += 2) {
    term *= -square / (n * (n - 1));
    sum += term;
  }
  return sum;
}

double sine(double x) { return cosine(x - 0.5); }

// A window like a Gaussian's, without its exponential.
double window(double x, double y, double reach) {
  const double t = 1 - (x * x + y * y) / (reach * reach);
  return t > 0 ? t * t * t : 0;
}

// Takes out the mean under the window, so that plain surfaces give zero, and sets the sum of the
// absolute values to one.
void balance(Kernel& kernel, const Kernel& under) {
  double sum = 0, weight = 0, size = 0;
  for (const double value : kernel) sum += value;
  for (const double value : under) weight += value;
  for (std::size_t i = 0; i < kernel.size(); ++i) kernel[i] -= under[i] * sum / weight;
  for (const double value : kernel) size += std::abs(value);
  for (double& value : kernel) value /= size;
}

template <typename Function>
Kernel sampled(const Function& function) {
  Kernel kernel;
  for (std::int64_t i = 0; i < kSize * kSize; ++i) {
    kernel[static_cast<std::size_t>(i)] = function(static_cast<double>(i % kSize - kSize / 2),
                                                   static_cast<double>(i / kSize - kSize / 2));
  }
  return kernel;
}

// A wave under a window: symmetric (a bar) or antisymmetric (an edge).
Kernel oriented(std::int64_t orientation, bool edge) {
  const double turn = static_cast<double>(orientation) / kOrientations;
  const double c = cosine(turn), s = sine(turn);
  const auto under = [](double x, double y) { return window(x, y, kReach); };
  Kernel kernel = sampled([&](double x, double y) {
    const double phase = 2 * (c * x + s * y) / kWavelength;
    return under(x, y) * (edge ? sine(phase) : cosine(phase));
  });
  balance(kernel, sampled(under));
  return kernel;
}

// A bright centre against what is around it.
Kernel spot() {
  Kernel kernel = sampled([](double x, double y) { return window(x, y, 2.2); });
  balance(kernel, sampled([](double x, double y) { return window(x, y, 3.9); }));
  return kernel;
}

class Builder {
 public:
  Builder() {
    graph_.input = "image";
    graph_.input_shape = {-1, 3, -1, -1};
  }

  std::string conv(const std::string& name, const std::string& input, Shape shape,
                   std::vector<float> weights, std::int64_t stride, std::int64_t groups) {
    const std::int64_t size = shape[2], pad = size / 2;
    Node& node = add("Conv", name, {input, constant(name, std::move(shape), std::move(weights))});
    node.attributes["kernel_shape"] = Shape{size, size};
    node.attributes["strides"] = Shape{stride, stride};
    node.attributes["pads"] = Shape{pad, pad, pad, pad};
    node.attributes["group"] = groups;
    return name;
  }

  // The mean of size × size, at every stride-th place. With 3 and 2 it halves the grid, rounding
  // up, as the strided convolutions do: maps meet at any image size.
  std::string average(const std::string& name, const std::string& input, std::int64_t size,
                      std::int64_t stride) {
    const std::int64_t pad = size / 2;
    Node& node = add("AveragePool", name, {input});
    node.attributes["kernel_shape"] = Shape{size, size};
    node.attributes["strides"] = Shape{stride, stride};
    node.attributes["pads"] = Shape{pad, pad, pad, pad};
    return name;
  }
  std::string halve(const std::string& name, const std::string& input) {
    return average(name, input, 3, 2);
  }

  std::string relu(const std::string& name, const std::string& input) {
    add("Relu", name, {input});
    return name;
  }

  // What is not negative, times the gain, in relation to the mean of all `channels` around it.
  std::string relate(const std::string& name, const std::string& input, std::int64_t channels,
                     float gain) {
    const std::vector<float> weights(static_cast<std::size_t>(channels),
                                     1 / (gain * static_cast<float>(channels)));
    const std::string mean = conv(name + ".mean", input, {1, channels, 1, 1}, weights, 1, 1);
    const std::string around = average(name + ".around", mean, 7, 1);
    add("Add", name + ".level", {around, constant(name + ".noise", {1}, {kNoise / gain})});
    add("Div", name, {input, name + ".level"});
    return name;
  }

  // √(x + faint) of what is not negative. The constant √faint, where there is nothing, is the same
  // in every image.
  std::string compress(const std::string& name, const std::string& input) {
    add("Add", name + ".raised", {input, constant(name + ".faint", {1}, {kFaint})});
    add("Sqrt", name, {name + ".raised"});
    return name;
  }

  std::string concat(const std::string& name, std::vector<std::string> inputs) {
    add("Concat", name, std::move(inputs)).attributes["axis"] = std::int64_t{1};
    return name;
  }

  Graph finish(std::vector<std::string> outputs) {
    graph_.outputs = std::move(outputs);
    return std::move(graph_);
  }

 private:
  Node& add(const std::string& op, const std::string& name, std::vector<std::string> inputs) {
    graph_.nodes.push_back({op, name, std::move(inputs), {name}, {}});
    return graph_.nodes.back();
  }

  std::string constant(const std::string& name, Shape shape, std::vector<float> values) {
    const std::string weight = name + ".weight";
    graph_.weights.emplace(weight, Tensor::of(std::move(shape), std::move(values)));
    return weight;
  }

  Graph graph_;
};

// Luminance, red against green, blue against yellow.
std::vector<float> opponents() {
  return {0.299f, 0.587f, 0.114f, 0.5f, -0.5f, 0, 0.25f, 0.25f, -0.5f};
}

// The binomial 1 4 6 4 1 each way, for each colour by itself.
std::vector<float> smoothing() {
  constexpr std::array<float, 5> kRow = {1, 4, 6, 4, 1};
  std::vector<float> weights;
  for (std::int64_t c = 0; c < kColours; ++c) {
    for (const float a : kRow) {
      for (const float b : kRow) weights.push_back(a * b / 256);
    }
  }
  return weights;
}

// All filters of a scale, then all again with the other sign.
std::vector<float> filter_bank() {
  constexpr std::size_t kTaps = kSize * kSize;
  std::vector<float> weights(2 * kFilters * kColours * kTaps, 0.0f);
  const auto put = [&](std::int64_t filter, std::int64_t colour, const Kernel& kernel,
                       double gain) {
    for (std::int64_t sign = 0; sign < 2; ++sign) {
      const auto at = static_cast<std::size_t>((sign * kFilters + filter) * kColours + colour);
      for (std::size_t t = 0; t < kTaps; ++t) {
        weights[at * kTaps + t] = static_cast<float>((sign == 0 ? gain : -gain) * kernel[t]);
      }
    }
  };
  for (std::int64_t i = 0; i < kOrientations; ++i) {
    put(2 * i, 0, oriented(i, false), 1);
    put(2 * i + 1, 0, oriented(i, true), 1);
  }
  for (std::int64_t colour = 0; colour < kColours; ++colour) {
    put(2 * kOrientations + colour, colour, spot(), colour == 0 ? 1 : kColourGain);
  }
  return weights;
}

// Sums what the filters of one orientation say, of each of three scales: its energy, whatever the
// phase and the sign.
std::vector<float> energies() {
  std::vector<float> weights;
  for (std::int64_t out = 0; out < kEnergies; ++out) {
    for (std::int64_t in = 0; in < 3 * 2 * kFilters; ++in) {
      const std::int64_t scale = in / (2 * kFilters), orientation = in % kFilters / 2;
      const bool same = orientation < kOrientations && scale * kOrientations + orientation == out;
      weights.push_back(same ? 1.0f : 0.0f);
    }
  }
  return weights;
}

// Edges and bars, upright and lying, of both signs, for each energy.
std::vector<float> second_filters() {
  constexpr std::array<float, 3> kSmooth = {0.25f, 0.5f, 0.25f};
  constexpr std::array<float, 3> kEdge = {-0.5f, 0, 0.5f};
  constexpr std::array<float, 3> kBar = {-0.25f, 0.5f, -0.25f};
  std::vector<float> weights;
  for (std::int64_t energy = 0; energy < kEnergies; ++energy) {
    for (const float sign : {1.0f, -1.0f}) {
      for (const auto& [rows, cols] : {std::pair(kSmooth, kEdge), std::pair(kEdge, kSmooth),
                                       std::pair(kBar, kSmooth), std::pair(kSmooth, kBar)}) {
        for (const float row : rows) {
          for (const float col : cols) weights.push_back(kSecondGain * sign * row * col);
        }
      }
    }
  }
  return weights;
}

// The local mean colour, its positive and negative parts.
std::vector<float> mean_parts() {
  std::vector<float> weights(2 * kColours * kColours, 0.0f);
  for (std::size_t i = 0; i < 2 * kColours; ++i) {
    weights[i * kColours + i % kColours] = i < kColours ? kMeanGain : -kMeanGain;
  }
  return weights;
}

}  // namespace

Graph builtin_graph() {
  Builder net;
  std::array<std::string, kScales> pyramid, filtered;
  for (std::size_t scale = 0; scale < kScales; ++scale) {
    const std::string n = std::to_string(scale);
    pyramid[scale] = scale == 0
                         ? net.conv("colours", "image", {kColours, 3, 1, 1}, opponents(), 1, 1)
                         : net.conv("scale" + n, pyramid[scale - 1], {kColours, 1, 5, 5},
                                    smoothing(), 2, kColours);
    // The finest scale is looked at in every second pixel: it is averaged over 8 anyway.
    const std::string bank =
        net.conv("bank" + n, pyramid[scale], {2 * kFilters, kColours, kSize, kSize}, filter_bank(),
                 scale == 0 ? 2 : 1, 1);
    const std::string relative =
        net.relate("relative" + n, net.relu("relu" + n, bank), 2 * kFilters, kScaleGain[scale]);
    filtered[scale] = net.compress("root" + n, relative);
  }
  const std::string stride2 = net.concat("stride2", {filtered[0], filtered[1]});
  const std::string stride4 = net.concat("stride4", {net.halve("half2", stride2), filtered[2]});
  const std::string mean = net.relu(
      "mean", net.conv("parts", pyramid[3], {2 * kColours, kColours, 1, 1}, mean_parts(), 1, 1));
  const std::string stride8 =
      net.concat("stride8", {net.halve("half4", stride4), filtered[3], mean});

  const std::string energy =
      net.conv("energy", stride4, {kEnergies, 3 * 2 * kFilters, 1, 1}, energies(), 1, 1);
  const std::string second = net.relu(
      "second",
      net.conv("second_bank", energy, {kEnergies * 8, 1, 3, 3}, second_filters(), 1, kEnergies));
  const std::string stride16 = net.concat(
      "stride16", {net.halve("half8", stride8), net.halve("quarter", net.halve("half", second))});
  // A little blur, so that a piece that lies a little differently looks much the same.
  return net.finish({net.average("layer2", stride8, 3, 1), net.average("layer3", stride16, 3, 1)});
}

}  // namespace contcore
