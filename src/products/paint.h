// What generated products are painted with: surfaces, noise, shapes, defects, light and a camera.
//
// Everything is plain float32 arithmetic in a fixed order, without the C library's sin, exp and so
// on, so that the pixels are the same on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "contcore/image.h"

namespace contcore::paint {

constexpr int kSide = 256;  // pixels of an image, each way

// ---- Numbers -----------------------------------------------------------------------------------

inline float clamp01(float x) { return x < 0 ? 0.0f : x > 1 ? 1.0f : x; }
inline float blend(float a, float b, float t) { return a + (b - a) * t; }
/// 0 below a, 1 above b, smooth between.
inline float step(float a, float b, float x) {
  const float t = clamp01((x - a) / (b - a));
  return t * t * (3 - 2 * t);
}
inline int floor_of(float x) {
  const int i = static_cast<int>(x);
  return i - (static_cast<float>(i) > x ? 1 : 0);
}
inline float fraction(float x) { return x - static_cast<float>(floor_of(x)); }
/// sin(2π · turns) to three digits.
inline float sine(float turns) {
  const float x = 2 * fraction(turns) - 1;
  const float y = -4 * x * (1 - std::abs(x));
  return 0.225f * (y * std::abs(y) - y) + y;
}
inline float cosine(float turns) { return sine(turns + 0.25f); }
/// The angle of (x, y) in turns, from −0.5 to 0.5.
inline float angle(float x, float y) {
  const float ax = std::abs(x), ay = std::abs(y);
  if (ax + ay == 0) return 0;
  const float z = ax > ay ? ay / ax : ax / ay;
  const float eighth = z * (0.125f + 0.0437f * (1 - z));
  const float quarter = ax > ay ? eighth : 0.25f - eighth;
  const float half = x < 0 ? 0.5f - quarter : quarter;
  return y < 0 ? -half : half;
}
/// A random number for a pair of whole numbers, in [0, 1).
float chance(int x, int y, std::uint32_t seed);

float between(Random& random, float low, float high);

/// Smooth noise in [−1, 1] with features of about one unit.
class Noise {
 public:
  explicit Noise(Random& random);
  float at(float x, float y) const {
    const int i = floor_of(x), j = floor_of(y);
    const float fx = x - static_cast<float>(i), fy = y - static_cast<float>(j);
    const float tx = fx * fx * (3 - 2 * fx), ty = fy * fy * (3 - 2 * fy);
    const std::size_t i0 = static_cast<std::size_t>(i & (kPeriod - 1));
    const std::size_t i1 = static_cast<std::size_t>((i + 1) & (kPeriod - 1));
    const std::size_t j0 = static_cast<std::size_t>(j & (kPeriod - 1)) * kPeriod;
    const std::size_t j1 = static_cast<std::size_t>((j + 1) & (kPeriod - 1)) * kPeriod;
    return blend(blend(lattice_[j0 + i0], lattice_[j0 + i1], tx),
                 blend(lattice_[j1 + i0], lattice_[j1 + i1], tx), ty);
  }
  /// Several octaves, each half as large and strong as the one before.
  float octaves(float x, float y, int count) const;

 private:
  static constexpr int kPeriod = 64;
  std::array<float, kPeriod * kPeriod> lattice_;
};

// ---- Surfaces ----------------------------------------------------------------------------------

struct Colour {
  float r = 0, g = 0, b = 0;
};
inline Colour operator*(float s, Colour c) { return {s * c.r, s * c.g, s * c.b}; }
inline Colour blend(Colour a, Colour b, float t) {
  return {blend(a.r, b.r, t), blend(a.g, b.g, t), blend(a.b, b.b, t)};
}

/// One point of a surface: its colour from 0 to 1 and its height in pixels.
struct Texel {
  Colour colour;
  float height = 0;
};

struct Surface {
  std::vector<Texel> texels = std::vector<Texel>(std::size_t{kSide} * kSide);
};

/// Where the product lies under the camera.
struct Pose {
  float cos = 1, sin = 0, dx = 0, dy = 0, scale = 1;

  /// Turned by up to `turn` turns, moved by up to `move` pixels, scaled by up to `grow`.
  static Pose random(Random& random, float turn, float move, float grow);
};

/// A part of the product, in its own coordinates: pixels from the middle of the image.
struct Box {
  float left = -1e6f, top = -1e6f, right = 1e6f, bottom = 1e6f;

  static Box around(float x, float y, float reach) {
    return {x - reach, y - reach, x + reach, y + reach};
  }
};

/// The pixels of the image that a box may touch: [left, right) × [top, bottom).
struct Pixels {
  int left, top, right, bottom;
};
Pixels pixels_of(const Pose& pose, const Box& box);

/// Calls paint(u, v, texel) for the texels that the box may touch; (u, v) is where in the product
/// the texel is.
template <typename Paint>
void paint(Surface& surface, const Pose& pose, const Box& box, const Paint& with) {
  const Pixels pixels = pixels_of(pose, box);
  const float shrink = 1 / pose.scale;
  for (int y = pixels.top; y < pixels.bottom; ++y) {
    for (int x = pixels.left; x < pixels.right; ++x) {
      const float px = (static_cast<float>(x) - (kSide - 1) * 0.5f - pose.dx) * shrink;
      const float py = (static_cast<float>(y) - (kSide - 1) * 0.5f - pose.dy) * shrink;
      with(pose.cos * px + pose.sin * py, pose.cos * py - pose.sin * px,
           surface.texels[static_cast<std::size_t>(y * kSide + x)]);
    }
  }
}

// ---- Shapes: signed distances in pixels, negative inside ----------------------------------------

/// How much of a pixel at that distance from the edge lies inside.
inline float inside(float distance) { return clamp01(0.5f - distance); }
inline float circle(float x, float y, float radius) { return std::sqrt(x * x + y * y) - radius; }
/// A box of half sizes a × b with rounded corners.
inline float rounded_box(float x, float y, float a, float b, float corner) {
  const float qx = std::abs(x) - a + corner, qy = std::abs(y) - b + corner;
  const float ox = std::max(qx, 0.0f), oy = std::max(qy, 0.0f);
  return std::sqrt(ox * ox + oy * oy) + std::min(std::max(qx, qy), 0.0f) - corner;
}
float segment(float x, float y, float x0, float y0, float x1, float y1);

// ---- Defects that any product can have ----------------------------------------------------------

struct Spot {
  float x = 0, y = 0;
};

/// A fine groove with bright and dark sides, slightly bent.
void scratch(Surface& surface, const Pose& pose, Spot at, Random& random);
/// A hollow: the colour stays, the light changes.
void dent(Surface& surface, const Pose& pose, Spot at, Random& random);
/// A patch of another tint with a ragged edge.
void stain(Surface& surface, const Pose& pose, Spot at, Colour colour, Random& random);
/// A ragged hole through which `below` is seen.
void hole(Surface& surface, const Pose& pose, Spot at, Colour below, Random& random);
/// A thin jagged line, dark.
void crack(Surface& surface, const Pose& pose, Spot at, Random& random);

// ---- Light and camera ---------------------------------------------------------------------------

struct Light {
  float relief = 0.25f;      ///< how much slopes show
  float x = 0.7f, y = 0.7f;  ///< where slopes are bright
  float gradient_x = 0, gradient_y = 0;
  float exposure = 1;
  Colour tint = {1, 1, 1};
  float grain = 1.6f;  ///< standard deviation of the sensor's noise in grey levels

  static Light random(Random& random);
};

/// The surface as a camera sees it. The noise depends on `seed` only.
Image photograph(const Surface& surface, const Light& light, std::uint64_t seed);

/// Where two surfaces differ so that it can be seen: 255, else 0; small gaps are closed.
std::vector<std::uint8_t> difference(const Surface& a, const Surface& b);

}  // namespace contcore::paint
