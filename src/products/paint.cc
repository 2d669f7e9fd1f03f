#include "products/paint.h"

#include <algorithm>

namespace contcore::paint {
namespace {

constexpr std::size_t kPixels = std::size_t{kSide} * kSide;

// A difference in colour or height that a person would point at.
constexpr float kVisible = 0.025f;
constexpr float kVisibleHeight = 0.12f;

std::uint32_t scramble(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

std::size_t at(int x, int y) { return static_cast<std::size_t>(y * kSide + x); }

// The sensor's noise: a fast generator, as there are many pixels. Four 16-bit numbers of one draw
// add up to something near a normal distribution, of deviation 1.
class Grain {
 public:
  explicit Grain(std::uint64_t seed) : state_(seed) {}
  float next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const std::uint64_t sum =
        (z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + (z >> 48);
    return (static_cast<float>(sum) - 131070.0f) * (1.0f / 37837.0f);
  }

 private:
  std::uint64_t state_;
};

Colour soft(Colour a, Colour b, Colour c) {
  return {0.25f * (a.r + c.r) + 0.5f * b.r, 0.25f * (a.g + c.g) + 0.5f * b.g,
          0.25f * (a.b + c.b) + 0.5f * b.b};
}

// The lens: the kernel 1 2 1 along rows, then along columns. The outermost pixels stay as they are.
std::vector<Colour> softened(const std::vector<Colour>& pixels) {
  std::vector<Colour> rows = pixels;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 1; x + 1 < kSide; ++x) {
      const std::size_t i = at(x, y);
      rows[i] = soft(pixels[i - 1], pixels[i], pixels[i + 1]);
    }
  }
  std::vector<Colour> out = rows;
  for (std::size_t i = kSide; i + kSide < kPixels; ++i) {
    out[i] = soft(rows[i - kSide], rows[i], rows[i + kSide]);
  }
  return out;
}

// Every texel's colour under the light.
std::vector<Colour> lit(const Surface& surface, const Light& light) {
  std::vector<Colour> pixels(kPixels);
  constexpr float kUnit = 2.0f / kSide;
  for (int y = 0; y < kSide; ++y) {
    const Texel* row = surface.texels.data() + at(0, y);
    const Texel* above = y == 0 ? row : row - kSide;
    const Texel* below = y + 1 == kSide ? row : row + kSide;
    for (int x = 0; x < kSide; ++x) {
      const float left = row[std::max(x - 1, 0)].height;
      const float right = row[std::min(x + 1, kSide - 1)].height;
      const float slope = light.x * (left - right) + light.y * (above[x].height - below[x].height);
      const float u = static_cast<float>(x) * kUnit - 1;
      const float v = static_cast<float>(y) * kUnit - 1;
      const float falloff = 1 - 0.07f * (u * u + v * v);
      const float level = light.exposure * falloff *
                          (1 + light.gradient_x * u + light.gradient_y * v) *
                          (1 + std::clamp(light.relief * slope, -0.6f, 0.8f));
      const Colour c = surface.texels[at(x, y)].colour;
      pixels[at(x, y)] = {c.r * level * light.tint.r, c.g * level * light.tint.g,
                          c.b * level * light.tint.b};
    }
  }
  return pixels;
}

std::uint8_t quantise(float value, float noise) {
  const float level = clamp01(value) * 255;
  // Brighter pixels are noisier, as they count more photons.
  return static_cast<std::uint8_t>(
      std::clamp(level + noise * (0.6f + 0.8f * clamp01(value)) + 0.5f, 0.0f, 255.0f));
}

// The largest (or smallest) of each 3 × 3 neighbourhood, within `pixels`.
void spread(std::vector<std::uint8_t>& mask, const Pixels& pixels, bool grow) {
  const std::vector<std::uint8_t> old = mask;
  for (int y = pixels.top; y < pixels.bottom; ++y) {
    for (int x = pixels.left; x < pixels.right; ++x) {
      std::uint8_t value = old[at(x, y)];
      for (int j = -1; j <= 1; ++j) {
        for (int i = -1; i <= 1; ++i) {
          const std::uint8_t near = old[at(x + i, y + j)];
          value = grow ? std::max(value, near) : std::min(value, near);
        }
      }
      mask[at(x, y)] = value;
    }
  }
}

}  // namespace

// ---- Numbers -----------------------------------------------------------------------------------

float chance(int x, int y, std::uint32_t seed) {
  const std::uint32_t h = scramble(static_cast<std::uint32_t>(x) * 0x9e3779b9u +
                                   scramble(static_cast<std::uint32_t>(y) + seed));
  return static_cast<float>(h >> 8) * 0x1p-24f;
}

float between(Random& random, float low, float high) {
  return low + (high - low) * static_cast<float>(random.uniform());
}

Noise::Noise(Random& random) {
  for (float& value : lattice_) value = between(random, -1, 1);
}

float Noise::octaves(float x, float y, int count) const {
  float sum = 0, weight = 0.5f;
  for (int i = 0; i < count; ++i) {
    sum += weight * at(x, y);
    weight *= 0.5f;
    // Not quite double, so that the lattices do not fall on each other.
    x = 2.03f * x + 17.3f;
    y = 2.03f * y + 5.7f;
  }
  return sum;
}

// ---- Surfaces ----------------------------------------------------------------------------------

Pose Pose::random(Random& random, float turn, float move, float grow) {
  const float turns = between(random, -turn, turn);
  Pose pose;
  pose.cos = cosine(turns);
  pose.sin = sine(turns);
  // The polynomial's cos and sin make no exact rotation; let the scale be exact.
  const float norm = std::sqrt(pose.cos * pose.cos + pose.sin * pose.sin);
  pose.cos /= norm;
  pose.sin /= norm;
  pose.dx = between(random, -move, move);
  pose.dy = between(random, -move, move);
  pose.scale = 1 + between(random, -grow, grow);
  return pose;
}

Pixels pixels_of(const Pose& pose, const Box& box) {
  if (box.right - box.left > 4 * kSide) return {0, 0, kSide, kSide};
  const float cx = 0.5f * (box.left + box.right), cy = 0.5f * (box.top + box.bottom);
  const float a = 0.5f * (box.right - box.left), b = 0.5f * (box.bottom - box.top);
  const float x = pose.scale * (pose.cos * cx - pose.sin * cy) + pose.dx + (kSide - 1) * 0.5f;
  const float y = pose.scale * (pose.sin * cx + pose.cos * cy) + pose.dy + (kSide - 1) * 0.5f;
  const float c = std::abs(pose.cos), s = std::abs(pose.sin);
  const float reach_x = pose.scale * (c * a + s * b) + 2,
              reach_y = pose.scale * (s * a + c * b) + 2;
  const auto limit = [](float value) { return std::clamp(floor_of(value), 0, kSide); };
  return {limit(x - reach_x), limit(y - reach_y), limit(x + reach_x + 1), limit(y + reach_y + 1)};
}

// ---- Shapes ------------------------------------------------------------------------------------

float segment(float x, float y, float x0, float y0, float x1, float y1) {
  const float dx = x1 - x0, dy = y1 - y0;
  const float t = clamp01(((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy + 1e-6f));
  const float px = x - x0 - t * dx, py = y - y0 - t * dy;
  return std::sqrt(px * px + py * py);
}

// ---- Defects -----------------------------------------------------------------------------------

void scratch(Surface& surface, const Pose& pose, Spot spot, Random& random) {
  const float length = between(random, 14, 34), direction = between(random, 0, 1);
  const float bend = between(random, -0.012f, 0.012f), width = between(random, 0.9f, 1.5f);
  const float depth = between(random, 0.6f, 1.0f), pale = between(random, 0.2f, 0.4f);
  const float c = cosine(direction), s = sine(direction);
  paint(surface, pose, Box::around(spot.x, spot.y, length + 6),
        [&](float u, float v, Texel& texel) {
          const float along = c * (u - spot.x) + s * (v - spot.y);
          const float across = c * (v - spot.y) - s * (u - spot.x) - bend * along * along;
          const float reach = clamp01((length - std::abs(along)) * 0.2f);
          const float groove = clamp01(width + 0.5f - std::abs(across)) * reach;
          texel.height -= depth * groove;
          texel.colour = blend(texel.colour, {0.92f, 0.92f, 0.9f}, pale * groove);
        });
}

void dent(Surface& surface, const Pose& pose, Spot spot, Random& random) {
  const float radius = between(random, 8, 18), depth = between(random, 2.0f, 4.0f);
  const float stretch = between(random, 0.7f, 1.3f);
  paint(surface, pose, Box::around(spot.x, spot.y, 1.5f * radius),
        [&](float u, float v, Texel& texel) {
          const float x = (u - spot.x) * stretch, y = (v - spot.y) / stretch;
          const float t = clamp01(1 - (x * x + y * y) / (radius * radius));
          texel.height -= depth * t * t;
          texel.colour = blend(texel.colour, 0.9f * texel.colour, t * t);
        });
}

void stain(Surface& surface, const Pose& pose, Spot spot, Colour colour, Random& random) {
  const float radius = between(random, 8, 19), strength = between(random, 0.3f, 0.62f);
  const Noise edge(random);
  paint(surface, pose, Box::around(spot.x, spot.y, 1.6f * radius),
        [&](float u, float v, Texel& texel) {
          const float x = u - spot.x, y = v - spot.y;
          const float ragged = radius * (1 + 0.45f * edge.octaves(u * 0.09f, v * 0.09f, 3));
          const float t = step(0, 3.5f, ragged - std::sqrt(x * x + y * y));
          const float uneven = 1 + 0.3f * edge.at(u * 0.2f, v * 0.2f);
          texel.colour = blend(texel.colour, colour, t * strength * uneven);
        });
}

void hole(Surface& surface, const Pose& pose, Spot spot, Colour below, Random& random) {
  const float radius = between(random, 4, 10);
  const Noise edge(random);
  paint(surface, pose, Box::around(spot.x, spot.y, 2 * radius + 3),
        [&](float u, float v, Texel& texel) {
          const float x = u - spot.x, y = v - spot.y;
          const float ragged = radius * (1 + 0.6f * edge.octaves(u * 0.22f, v * 0.22f, 2));
          const float distance = std::sqrt(x * x + y * y) - ragged;
          const float rim = clamp01(1 - std::abs(distance) * 0.5f);
          texel.colour = blend(texel.colour, below, inside(distance));
          texel.height += 0.6f * rim - 2 * step(0, 3, -distance);
        });
}

void crack(Surface& surface, const Pose& pose, Spot spot, Random& random) {
  const float turn = between(random, 0, 1), dark = between(random, 0.35f, 0.7f);
  const float width = between(random, 0.5f, 1.1f);
  std::array<Spot, 7> corners;
  float heading = turn;
  corners[0] = spot;
  for (std::size_t i = 1; i < corners.size(); ++i) {
    heading = blend(heading, turn, 0.5f) + between(random, -0.12f, 0.12f);
    const float pace = between(random, 5, 11);
    corners[i] = {corners[i - 1].x + pace * cosine(heading),
                  corners[i - 1].y + pace * sine(heading)};
  }
  // Half of it on each side of the spot.
  const float back_x = corners[3].x - spot.x, back_y = corners[3].y - spot.y;
  for (Spot& corner : corners) corner = {corner.x - back_x, corner.y - back_y};
  paint(surface, pose, Box::around(spot.x, spot.y, 48), [&](float u, float v, Texel& texel) {
    float line = 0;
    for (std::size_t i = 1; i < corners.size(); ++i) {
      const Spot a = corners[i - 1], b = corners[i];
      const float thin = width * (1 - 0.12f * static_cast<float>(i));
      line = std::max(line, inside(segment(u, v, a.x, a.y, b.x, b.y) - thin));
    }
    texel.colour = blend(texel.colour, 0.25f * texel.colour, dark * line);
    texel.height -= 0.5f * line;
  });
}

// ---- Light and camera ---------------------------------------------------------------------------

Light Light::random(Random& random) {
  Light light;
  const float turn = between(random, 0.09f, 0.16f);
  light.x = cosine(turn);
  light.y = sine(turn);
  light.gradient_x = between(random, -0.07f, 0.07f);
  light.gradient_y = between(random, -0.07f, 0.07f);
  light.exposure = between(random, 0.93f, 1.07f);
  const float warm = between(random, -0.02f, 0.02f);
  light.tint = {1 + warm, 1, 1 - warm};
  return light;
}

Image photograph(const Surface& surface, const Light& light, std::uint64_t seed) {
  const std::vector<Colour> pixels = softened(lit(surface, light));
  Image image{kSide, kSide, std::vector<std::uint8_t>(3 * kPixels)};
  Grain grain(seed);
  for (std::size_t i = 0; i < kPixels; ++i) {
    image.rgb[3 * i] = quantise(pixels[i].r, light.grain * grain.next());
    image.rgb[3 * i + 1] = quantise(pixels[i].g, light.grain * grain.next());
    image.rgb[3 * i + 2] = quantise(pixels[i].b, light.grain * grain.next());
  }
  return image;
}

std::vector<std::uint8_t> difference(const Surface& a, const Surface& b) {
  std::vector<std::uint8_t> mask(kPixels);
  Pixels seen = {kSide, kSide, 0, 0};
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const Texel& p = a.texels[at(x, y)];
      const Texel& q = b.texels[at(x, y)];
      const float colour =
          std::max({std::abs(p.colour.r - q.colour.r), std::abs(p.colour.g - q.colour.g),
                    std::abs(p.colour.b - q.colour.b)});
      if (colour <= kVisible && std::abs(p.height - q.height) <= kVisibleHeight) continue;
      mask[at(x, y)] = 255;
      seen = {std::min(seen.left, x), std::min(seen.top, y), std::max(seen.right, x + 1),
              std::max(seen.bottom, y + 1)};
    }
  }
  constexpr int kGap = 2;
  const Pixels around = {std::max(seen.left - kGap, 1), std::max(seen.top - kGap, 1),
                         std::min(seen.right + kGap, kSide - 1),
                         std::min(seen.bottom + kGap, kSide - 1)};
  for (int i = 0; i < kGap; ++i) spread(mask, around, true);
  for (int i = 0; i < kGap; ++i) spread(mask, around, false);
  return mask;
}

}  // namespace contcore::paint
