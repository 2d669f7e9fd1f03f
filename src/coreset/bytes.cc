#include "coreset/bytes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace contcore {
namespace {

constexpr int kMostOfQuery = kernels::kByteOffset - 1;
constexpr double kRounding = 8 * kUnit;  // of a value, relative to the squared lengths of both

// H y, for a width that is a power of four: the factor 1/√width is then exact.
void hadamard(float* y, std::size_t width) {
  for (std::size_t half = 1; half < width; half *= 2) {
    for (std::size_t at = 0; at < width; at += 2 * half) {
      for (std::size_t j = at; j < at + half; ++j) {
        const float a = y[j];
        const float b = y[j + half];
        y[j] = a + b;
        y[j + half] = a - b;
      }
    }
  }
  const float factor = 1.0f / std::sqrt(static_cast<float>(width));
  for (std::size_t j = 0; j < width; ++j) y[j] *= factor;
}

// The rows of a tile behind the steps: what Σk of the query's offset comes to, s, r and h.
float* behind(float* numbers, std::size_t width, std::size_t row) {
  return numbers + (width / 4 + row) * kernels::kTile;
}

}  // namespace

void to_bytes(const Sketch& sketch, const float* row, int most, ByteSketch* out) {
  const std::size_t width = sketch.width(0);
  float y[kernels::kMostByteWidth];
  std::copy(row, row + width, y);
  hadamard(y, width);
  float largest = 0;
  double squared = 0;
  for (std::size_t j = 0; j < width; ++j) {
    largest = std::max(largest, std::abs(y[j]));
    squared += static_cast<double>(y[j]) * static_cast<double>(y[j]);
  }
  out->steps.assign(width, 0);
  out->r = sketch.r(row, 0);
  // Where a step would be next to nothing, all of y is error.
  out->scale = largest > 0x1p-100f ? largest / static_cast<float>(most) : 0.0f;
  const float steps = out->scale > 0 ? 1.0f / out->scale : 0.0f;
  const double scale = static_cast<double>(out->scale);
  double lost = 0;
  int sum = 0;
  for (std::size_t j = 0; j < width; ++j) {
    const float exact = y[j] * steps;
    const int k = std::clamp(static_cast<int>(exact + (exact < 0 ? -0.5f : 0.5f)), -most, most);
    out->steps[j] = static_cast<std::int8_t>(k);
    const double off = static_cast<double>(y[j]) - scale * k;
    lost += off * off;
    sum += k * k;
  }
  out->norm = scale * scale * sum + static_cast<double>(out->r) * static_cast<double>(out->r);
  // The transform has at most 8 stages, each off by half a unit of its results.
  out->error = (std::sqrt(lost) + 16 * kUnit * std::sqrt(squared)) * kSlack +
               static_cast<double>(sketch.e(row, 0));
}

ByteTile::ByteTile(std::size_t width)
    : width_(width), numbers_(1, kernels::byte_tile_floats(width)) {
  for (std::size_t lane = 0; lane < kernels::kTile; ++lane) clear(lane);
}

void ByteTile::clear(std::size_t lane) {
  behind(numbers_.data(), width_, 3)[lane] = -std::numeric_limits<float>::infinity();
}

void ByteTile::put(std::size_t lane, const ByteSketch& sketch) {
  auto* bytes = reinterpret_cast<std::int8_t*>(numbers_.data());
  std::int32_t sum = 0;
  for (std::size_t j = 0; j < width_; ++j) {
    bytes[(j / 4 * kernels::kTile + lane) * 4 + j % 4] = sketch.steps[j];
    sum += sketch.steps[j];
  }
  behind(numbers_.data(), width_, 0)[lane] = std::bit_cast<float>(-kernels::kByteOffset * sum);
  behind(numbers_.data(), width_, 1)[lane] = sketch.scale;
  behind(numbers_.data(), width_, 2)[lane] = sketch.r;
  behind(numbers_.data(), width_, 3)[lane] =
      round_up((-0.5 + kRounding) * sketch.norm + 1e-12 * sketch.norm + 1e-37);
  error_ = std::max(error_, sketch.error);
}

ByteQuery::ByteQuery(const Sketch& sketch, const float* row) {
  to_bytes(sketch, row, kMostOfQuery, &sketch_);
  point.scale = sketch_.scale;
  point.r = sketch_.r;
  for (std::size_t j = 0; j < sketch_.steps.size(); ++j) {
    point.bytes[j] = static_cast<std::uint8_t>(sketch_.steps[j] + kernels::kByteOffset);
  }
}

// ‖a − b‖² > (R + E_b)²  ⇔  a·b − ½‖b‖² < ½‖a‖² − ½(R + E_b)², with R = reach + E_a.
float ByteQuery::gate(double reach, double tile_error) const {
  const double sum = reach + sketch_.error + tile_error;
  return round_down((0.5 - kRounding) * sketch_.norm * (1 - 1e-12) - 0.5 * sum * sum * kSlack -
                    1e-37);
}

}  // namespace contcore
