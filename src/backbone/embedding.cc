// The embedding as one sparse linear map.
//
// Let layer l have C channels, N = C·k² neighbourhood entries e = c·k² + tap, and let there be L
// layers brought to D numbers each. The last average turns L·D numbers into D, so its windows are
// exactly the L numbers from o·L on: output o is the mean of pooled numbers j ∈ [oL, oL + L), of
// which those in [lD, lD + D) belong to layer l. Pooled number j of a layer is the mean of the
// entries ⌊jN/D⌋ … ⌈(j+1)N/D⌉ - 1. So output o is, in each layer, a weighted sum over a short run
// of entries.
//
// A run covers few channels, and how it weighs the taps of a channel repeats from output to output.
// With 512 channels, k = 3, L = 2 and D = 1024, output o < 512 reads channel o of the first layer
// with weights 2/10 in the centre and 1/10 around it. Such a repeating vector of tap weights is a
// `pattern`: each is summed over the neighbourhood for all channels at once (contiguous in the
// channels, hence fast), and an output then adds up one or a few of these sums. Interpolation is
// linear too and so comes last, on the D/L or so numbers that a layer contributes.
#include "contcore/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kWidestNeighbourhood = 31;

// One summand of an output: a place in the sums (pattern after pattern, channel after channel).
struct Term {
  std::size_t sum;
  float weight;
};

// What one layer adds to the outputs [first, last).
struct LayerMap {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t side = 0;                      // k
  std::size_t taps = 0;                      // k²
  std::vector<std::vector<float>> patterns;  // each with `taps` weights, the largest of them 1
  std::vector<std::size_t> ends;             // the terms of output first + i end at ends[i]
  std::vector<Term> terms;
  // Not 0: each output is the next `stride` channels' sums, all of one pattern and weight.
  std::size_t stride = 0;
};

// ---- The map
// -------------------------------------------------------------------------------------

// The weights of one output in one layer, entry after entry from `begin` on.
struct Run {
  std::size_t begin = 0;
  std::vector<double> weights;
};

struct Sizes {
  std::size_t channels, side, dimension, layers, layer;
  std::size_t taps() const { return side * side; }
};

void find_run(std::size_t output, const Sizes& s, Run& run) {
  const std::size_t entries = s.channels * s.taps();
  const std::size_t from = std::max(output * s.layers, s.layer * s.dimension);
  const std::size_t to = std::min((output + 1) * s.layers, (s.layer + 1) * s.dimension);
  run.weights.clear();
  for (std::size_t pooled = from; pooled < to; ++pooled) {
    const std::size_t j = pooled - s.layer * s.dimension;
    const std::size_t begin = j * entries / s.dimension;
    const std::size_t end = ((j + 1) * entries + s.dimension - 1) / s.dimension;
    if (pooled == from) run.begin = begin;
    run.weights.resize(end - run.begin);
    const double weight = 1.0 / static_cast<double>((end - begin) * s.layers);
    for (std::size_t e = begin; e < end; ++e) run.weights[e - run.begin] += weight;
  }
}

std::size_t pattern_index(LayerMap& map, const std::vector<float>& pattern) {
  const auto found = std::find(map.patterns.begin(), map.patterns.end(), pattern);
  if (found != map.patterns.end()) return static_cast<std::size_t>(found - map.patterns.begin());
  map.patterns.push_back(pattern);
  return map.patterns.size() - 1;
}

// Adds the terms of one output, channel by channel. False if there are too many patterns.
bool add_by_patterns(LayerMap& map, const Run& run, std::size_t channels) {
  std::vector<float> pattern(map.taps);
  const std::size_t end = run.begin + run.weights.size();
  for (std::size_t c = run.begin / map.taps; c * map.taps < end; ++c) {
    const std::size_t from = std::max(run.begin, c * map.taps);
    const std::size_t to = std::min(end, (c + 1) * map.taps);
    const auto weight = [&](std::size_t e) { return run.weights[e - run.begin]; };
    double largest = 0;
    for (std::size_t e = from; e < to; ++e) largest = std::max(largest, weight(e));
    std::fill(pattern.begin(), pattern.end(), 0.0f);
    for (std::size_t e = from; e < to; ++e) {
      pattern[e - c * map.taps] = static_cast<float>(weight(e) / largest);
    }
    const std::size_t index = pattern_index(map, pattern);
    if (index >= map.taps) return false;
    map.terms.push_back({index * channels + c, static_cast<float>(largest)});
  }
  map.ends.push_back(map.terms.size());
  return true;
}

// The same with each tap as a pattern of its own: for channel counts where next to nothing repeats.
void add_by_taps(LayerMap& map, const Run& run, std::size_t channels) {
  for (std::size_t i = 0; i < run.weights.size(); ++i) {
    const std::size_t c = (run.begin + i) / map.taps;
    const std::size_t tap = (run.begin + i) % map.taps;
    map.terms.push_back({tap * channels + c, static_cast<float>(run.weights[i])});
  }
  map.ends.push_back(map.terms.size());
}

std::size_t stride_of(const LayerMap& map) {
  const std::size_t outputs = map.last - map.first;
  const std::size_t stride = map.terms.size() / outputs;
  if (map.patterns.size() != 1 || stride * outputs != map.terms.size()) return 0;
  for (std::size_t i = 0; i < map.terms.size(); ++i) {
    if (map.terms[i].sum != i || map.terms[i].weight != map.terms[0].weight) return 0;
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    if (map.ends[i] != (i + 1) * stride) return 0;
  }
  return stride;
}

LayerMap layer_map(const Sizes& s) {
  LayerMap map;
  map.side = s.side;
  map.taps = s.taps();
  map.first = s.layer * s.dimension / s.layers;
  map.last = ((s.layer + 1) * s.dimension + s.layers - 1) / s.layers;
  Run run;
  bool repeats = true;
  for (std::size_t o = map.first; o < map.last && repeats; ++o) {
    find_run(o, s, run);
    repeats = add_by_patterns(map, run, s.channels);
  }
  if (!repeats) {
    map.patterns.assign(s.taps(), std::vector<float>(s.taps()));
    for (std::size_t tap = 0; tap < s.taps(); ++tap) map.patterns[tap][tap] = 1;
    map.terms.clear();
    map.ends.clear();
    for (std::size_t o = map.first; o < map.last; ++o) {
      find_run(o, s, run);
      add_by_taps(map, run, s.channels);
    }
  }
  map.stride = stride_of(map);
  return map;
}

// ---- On one place
// --------------------------------------------------------------------------------

// sums[c] = Σ weights[tap] · rows[tap][c]. Rows of a neighbourhood that lie outside are absent.
struct WeightedRow {
  const float* row;
  float weight;
};

void weighted_sum(std::span<const WeightedRow> rows, std::size_t n, float* sums) {
  constexpr std::size_t kBlock = 1024;  // sums that stay in the first cache
  for (std::size_t from = 0; from < n; from += kBlock) {
    const std::size_t to = std::min(n, from + kBlock);
    float* const sum = sums + from;
    const std::size_t m = to - from;
    std::size_t r = 0;
    if (rows.size() % 2 == 1) {
      const float* const a = rows[0].row + from;
      const float wa = rows[0].weight;
      for (std::size_t c = 0; c < m; ++c) sum[c] += wa * a[c];
      r = 1;
    }
    for (; r < rows.size(); r += 2) {
      const float* const a = rows[r].row + from;
      const float* const b = rows[r + 1].row + from;
      const float wa = rows[r].weight;
      const float wb = rows[r + 1].weight;
      for (std::size_t c = 0; c < m; ++c) sum[c] += wa * a[c] + wb * b[c];
    }
  }
}

// The patterns' sums around place (y, x).
void sum_patterns(const LayerMap& layer, const FeatureMap& map, std::size_t y, std::size_t x,
                  std::vector<WeightedRow>& rows, std::vector<float>& sums) {
  const std::size_t side = layer.side;
  sums.assign(layer.patterns.size() * map.channels, 0.0f);
  for (std::size_t p = 0; p < layer.patterns.size(); ++p) {
    rows.clear();
    for (std::size_t tap = 0; tap < layer.taps; ++tap) {
      // Unsigned: what lies before the first row or column wraps around and is beyond the last.
      const std::size_t row = y + tap / side - side / 2;
      const std::size_t col = x + tap % side - side / 2;
      if (layer.patterns[p][tap] == 0 || row >= map.height || col >= map.width) continue;
      rows.push_back({map.data + (row * map.width + col) * map.channels, layer.patterns[p][tap]});
    }
    weighted_sum(rows, map.channels, sums.data() + p * map.channels);
  }
}

void add_outputs(const LayerMap& layer, const float* sums, float* out) {
  const std::size_t outputs = layer.last - layer.first;
  const float weight = layer.terms[0].weight;
  if (layer.stride == 1) {
    for (std::size_t i = 0; i < outputs; ++i) out[i] += weight * sums[i];
  } else if (layer.stride == 2) {
    for (std::size_t i = 0; i < outputs; ++i) out[i] += weight * (sums[2 * i] + sums[2 * i + 1]);
  } else {
    for (std::size_t i = 0, t = 0; i < outputs; ++i) {
      float sum = 0;
      for (; t < layer.ends[i]; ++t) sum += layer.terms[t].weight * sums[layer.terms[t].sum];
      out[i] += sum;
    }
  }
}

// ---- Bilinear
// ------------------------------------------------------------------------------------

// Where a place of the first layer's grid lies in another's, along one side.
struct Interpolation {
  std::size_t low, high;
  float part;  // of `high`
};

std::vector<Interpolation> interpolations(std::size_t size, std::size_t target) {
  std::vector<Interpolation> out(target);
  for (std::size_t i = 0; i < target; ++i) {
    const double scale = static_cast<double>(size) / static_cast<double>(target);
    const double at = std::max(0.0, (static_cast<double>(i) + 0.5) * scale - 0.5);
    const std::size_t low = std::min(static_cast<std::size_t>(at), size - 1);
    const std::size_t high = std::min(low + 1, size - 1);
    out[i] = {low, high, low == high ? 0.0f : static_cast<float>(at - static_cast<double>(low))};
  }
  return out;
}

// ---- All of it
// -----------------------------------------------------------------------------------

void check(std::span<const FeatureMap> maps, const PatchEmbedding& how) {
  const auto fail = [](const std::string& what) { throw Error(Error::Kind::kUsage, what); };
  if (how.dimension == 0 || how.dimension > kLargestDimension) {
    fail(fmt::format("a patch embedding of {} numbers; give from 1 to {}, such as 1024",
                     how.dimension, kLargestDimension));
  }
  if (how.neighbourhood % 2 == 0 || how.neighbourhood > kWidestNeighbourhood) {
    fail(fmt::format("a neighbourhood of {} places; give an odd number up to {}, such as 3",
                     how.neighbourhood, kWidestNeighbourhood));
  }
  if (maps.empty()) fail("a patch embedding of no layers; choose at least one");
  for (const FeatureMap& map : maps) {
    if (map.channels == 0 || map.height == 0 || map.width == 0 || map.data == nullptr) {
      fail(
          fmt::format("a feature map of {} × {} × {} has nothing to embed; choose another layer or "
                      "a larger image",
                      map.channels, map.height, map.width));
    }
  }
}

struct Scratch {
  std::vector<WeightedRow> rows;
  std::vector<float> sums;
  std::vector<float> row;  // of bytes, before they are rounded
};

// A layer whose outputs are each a sum of several whole channels, all alike, is summed up first:
// what is then summed over the neighbourhood is shorter.
struct SummedLayer {
  LayerMap layer;
  FeatureMap map;
  std::vector<float> sums;  // the map's numbers, if they are our own
};

void sum_channels(const float* in, std::size_t stride, std::size_t outputs, float* out) {
  if (stride == 2) {
    for (std::size_t i = 0; i < outputs; ++i) out[i] = in[2 * i] + in[2 * i + 1];
    return;
  }
  if (stride == 4) {
    for (std::size_t i = 0; i < outputs; ++i) {
      out[i] = (in[4 * i] + in[4 * i + 1]) + (in[4 * i + 2] + in[4 * i + 3]);
    }
    return;
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    float sum = 0;
    for (std::size_t c = 0; c < stride; ++c) sum += in[i * stride + c];
    out[i] = sum;
  }
}

SummedLayer summed(LayerMap layer, const FeatureMap& map, Compute& compute) {
  SummedLayer out{std::move(layer), map, {}};
  const std::size_t stride = out.layer.stride;
  if (stride < 2) return out;
  const std::size_t outputs = out.layer.last - out.layer.first;
  out.sums.resize(map.height * map.width * outputs);
  compute.threads().run(map.height, [&](std::size_t y, std::size_t) {
    for (std::size_t at = y * map.width; at < (y + 1) * map.width; ++at) {
      sum_channels(map.data + at * map.channels, stride, outputs, out.sums.data() + at * outputs);
    }
  });
  out.map.channels = outputs;
  out.map.data = out.sums.data();
  out.layer.stride = 1;
  return out;
}

// What a layer after the first contributes, on its own grid and where that lies in the first's.
struct Contribution {
  SummedLayer from;
  std::vector<float> values;
  std::vector<Interpolation> rows;
  std::vector<Interpolation> cols;

  const LayerMap& layer() const { return from.layer; }
  const FeatureMap& map() const { return from.map; }
  std::size_t outputs() const { return layer().last - layer().first; }
  float* at(std::size_t y, std::size_t x) {
    return values.data() + (y * map().width + x) * outputs();
  }
};

void add_interpolated(Contribution& from, std::size_t y, std::size_t x,
                      std::vector<WeightedRow>& corners, float* out) {
  const Interpolation& row = from.rows[y];
  const Interpolation& col = from.cols[x];
  corners.clear();
  const auto add = [&](std::size_t r, std::size_t c, float weight) {
    if (weight != 0) corners.push_back({from.at(r, c), weight});
  };
  add(row.low, col.low, (1 - row.part) * (1 - col.part));
  add(row.low, col.high, (1 - row.part) * col.part);
  add(row.high, col.low, row.part * (1 - col.part));
  add(row.high, col.high, row.part * col.part);
  weighted_sum(corners, from.outputs(), out + from.layer().first);
}

// Fills the contributions on their own grids, a row of places at a time.
void contribute(std::vector<Contribution>& others, Compute& compute,
                std::vector<Scratch>& scratch) {
  std::vector<std::pair<Contribution*, std::size_t>> rows;
  for (Contribution& other : others) {
    for (std::size_t y = 0; y < other.map().height; ++y) rows.emplace_back(&other, y);
  }
  compute.threads().run(rows.size(), [&](std::size_t i, std::size_t worker) {
    auto& [other, y] = rows[i];
    Scratch& s = scratch[worker];
    for (std::size_t x = 0; x < other->map().width; ++x) {
      sum_patterns(other->layer(), other->map(), y, x, s.rows, s.sums);
      add_outputs(other->layer(), s.sums.data(), other->at(y, x));
    }
  });
}

// Calls write(place, worker's scratch, fill) for each place; fill(row) computes its numbers. Floats
// are not summed up first: their last bits stay what they were when memories were learned.
template <typename Write>
void embed_places(std::span<const FeatureMap> maps, const PatchEmbedding& how, bool sum_first,
                  Compute& compute, const Write& write) {
  check(maps, how);
  const auto layer_of = [&](std::size_t l) {
    LayerMap layer =
        layer_map({maps[l].channels, how.neighbourhood, how.dimension, maps.size(), l});
    if (sum_first) return summed(std::move(layer), maps[l], compute);
    return SummedLayer{std::move(layer), maps[l], {}};
  };
  const SummedLayer first = layer_of(0);
  std::vector<Contribution> others;
  for (std::size_t l = 1; l < maps.size(); ++l) {
    Contribution other{layer_of(l),
                       {},
                       interpolations(maps[l].height, first.map.height),
                       interpolations(maps[l].width, first.map.width)};
    other.values.resize(maps[l].height * maps[l].width * other.outputs());
    others.push_back(std::move(other));
  }
  std::vector<Scratch> scratch(compute.threads().count());
  contribute(others, compute, scratch);
  compute.threads().run(first.map.height, [&](std::size_t y, std::size_t worker) {
    Scratch& s = scratch[worker];
    for (std::size_t x = 0; x < first.map.width; ++x) {
      write(y * first.map.width + x, s, [&](float* row) {
        std::fill(row, row + how.dimension, 0.0f);
        sum_patterns(first.layer, first.map, y, x, s.rows, s.sums);
        add_outputs(first.layer, s.sums.data(), row);
        for (Contribution& other : others) add_interpolated(other, y, x, s.rows, row);
      });
    }
  });
}

// ---- Bytes
// ---------------------------------------------------------------------------------------

// Infinities and NaNs have all bits of the exponent set.
bool finite_row(const float* row, std::size_t n) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(row[i]) & kExponent);
  }
  return largest != kExponent;
}

// Adding 1.5 · 2²³ leaves no bits for a fraction: the sum is rounded, halves to the even number.
void round_row(const float* row, std::size_t n, const ByteScale& how, std::uint8_t* out) {
  constexpr float kShift = 12582912;
  const float low = -static_cast<float>(how.zero);
  const float high = low + 255;
  for (std::size_t i = 0; i < n; ++i) {
    const float x = std::min(std::max(row[i] / how.scale, low), high);
    const auto bits = std::bit_cast<std::uint32_t>(x + kShift);
    out[i] = static_cast<std::uint8_t>(bits + how.zero);
  }
}

}  // namespace

void embed(std::span<const FeatureMap> maps, const PatchEmbedding& how, float* out,
           Compute& compute) {
  embed_places(maps, how, false, compute, [&](std::size_t place, Scratch&, const auto& fill) {
    fill(out + place * how.dimension);
  });
}

bool embed(std::span<const FeatureMap> maps, const PatchEmbedding& how, const ByteScale& scale,
           std::uint8_t* out, Compute& compute) {
  std::atomic<bool> finite = true;
  embed_places(maps, how, true, compute, [&](std::size_t place, Scratch& s, const auto& fill) {
    s.row.resize(how.dimension);
    fill(s.row.data());
    if (!finite_row(s.row.data(), how.dimension)) finite = false;
    round_row(s.row.data(), how.dimension, scale, out + place * how.dimension);
  });
  return finite;
}

}  // namespace contcore
