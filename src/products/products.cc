#include "products/products.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>

#include "contcore/error.h"
#include "products/paint.h"

namespace contcore {
namespace {

using namespace paint;
namespace fs = std::filesystem;

// What one piece is painted from. Painting it twice, with and without a defect, gives the same
// piece: nothing is drawn from a random generator that a defect could put out of step.
struct Piece {
  Pose pose;
  Noise coarse;
  Noise fine;
  std::uint32_t seed;  // for what is scattered over it
  std::string defect;  // "" for none
  Random chance;       // for the defect

  bool has(const char* kind) const { return defect == kind; }
};

Spot spot_in(Random& random, float reach) {
  const float x = between(random, -reach, reach);
  return {x, between(random, -reach, reach)};
}

Spot spot_on_ring(Random& random, float inner, float outer) {
  const float turn = between(random, 0, 1), radius = between(random, inner, outer);
  return {radius * cosine(turn), radius * sine(turn)};
}

Colour grey(float level) { return {level, level, level}; }

// ---- Brushed plate -----------------------------------------------------------------------------

void draw_brushed_plate(const Piece& piece, Surface& surface) {
  constexpr float kHoles = 72;
  Random random = piece.chance;
  const std::uint64_t filled = piece.has("missing_hole") ? random.below(4) : 4;
  paint::paint(surface, piece.pose, {}, [&](float u, float v, Texel& texel) {
    const float edge = rounded_box(u, v, 104, 104, 9);
    const float felt = 0.12f + 0.05f * piece.fine.octaves(u * 0.4f, v * 0.4f, 2);
    const float streaks = 0.6f * piece.fine.at(u * 0.012f, v * 0.55f) +
                          0.5f * piece.fine.at(u * 0.035f + 9, v * 1.3f) +
                          0.3f * piece.coarse.at(u * 0.1f, v * 2.1f);
    const float sheen = 0.05f * sine(u * 0.0045f + 0.15f * piece.coarse.at(u * 0.01f, v * 0.01f));
    const float metal = 0.6f + 0.13f * streaks + sheen;
    texel.colour = blend(grey(felt), {metal, metal * 1.005f, metal * 1.02f}, inside(edge));
    texel.height = 2.2f * step(-5, 0.5f, -edge);
    // A hole that was not drilled has been punched all the same.
    const bool punched = (u > 0 ? 1u : 0u) + (v > 0 ? 2u : 0u) == filled;
    const float rim = circle(std::abs(u) - kHoles, std::abs(v) - kHoles, punched ? 2.5f : 8.5f);
    texel.height -= 2.5f * step(0, 5, 5 - rim);
    texel.colour = blend(texel.colour, grey(0.07f), inside(rim));
  });
}

void mark_brushed_plate(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot spot = spot_in(random, 58);
  if (piece.has("scratch")) scratch(surface, piece.pose, spot, random);
  if (piece.has("dent")) dent(surface, piece.pose, spot, random);
  if (piece.has("stain")) stain(surface, piece.pose, spot, {0.36f, 0.3f, 0.24f}, random);
}

// ---- Woven cloth -------------------------------------------------------------------------------

constexpr float kThread = 7.5f;  // pixels from thread to thread

struct Thread {
  float profile;  // 1 on its middle line, 0 at its edge
  Colour colour;
};

Thread thread_at(const Piece& piece, float along, float across, int number, int way, float swell) {
  const float offset = 2 * fraction(across / kThread) - 1;
  const float thickness = 0.85f + 0.15f * chance(number, way, piece.seed) + swell;
  const float profile = std::max(0.0f, 1 - offset * offset / (thickness * thickness));
  const float fibre =
      piece.fine.at(along * 0.25f + static_cast<float>(number) * 7.1f, across * 1.7f);
  const float dye = 1 + 0.09f * (chance(number, way + 2, piece.seed) - 0.5f) + 0.07f * fibre;
  const Colour base = way == 0 ? Colour{0.36f, 0.45f, 0.6f} : Colour{0.5f, 0.58f, 0.68f};
  return {profile, dye * base};
}

void draw_woven_cloth(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot spot = spot_in(random, 78);
  const float half_length = between(random, 16, 36);
  const int fault = floor_of(spot.x / kThread);
  const float thick = piece.has("thick_thread") ? between(random, 0.5f, 0.9f) : 0.0f;
  paint::paint(surface, piece.pose, {}, [&](float u, float v, Texel& texel) {
    const float x = u + 2.2f * piece.coarse.at(u * 0.016f, v * 0.016f);
    const float y = v + 2.2f * piece.coarse.at(u * 0.016f + 31, v * 0.016f);
    const int i = floor_of(x / kThread), j = floor_of(y / kThread);
    const bool faulty = i == fault && std::abs(v - spot.y) < half_length;
    const Thread warp = thread_at(piece, y, x, i, 0, faulty ? thick : 0.0f);
    const Thread weft = thread_at(piece, x, y, j, 1, 0);
    // A twill: each thread goes over two and under two. Where it dives its middle is lower.
    const bool warp_above =
        (((i + j) & 3) < 2 || (faulty && thick > 0)) && !(faulty && piece.has("missing_thread"));
    const Thread& top = warp_above ? warp : weft;
    const float shade = 0.45f + 0.55f * std::sqrt(top.profile);
    texel.colour = shade * top.colour;
    texel.height = 1.1f * top.profile;
    if (faulty && piece.has("missing_thread") && ((i + j) & 3) < 2) {
      texel.colour = 0.62f * texel.colour;
      texel.height -= 0.7f;
    }
    if (faulty && piece.has("wrong_colour") && warp_above) {
      texel.colour = blend(texel.colour, shade * Colour{0.66f, 0.5f, 0.4f}, 0.75f);
    }
  });
}

void mark_woven_cloth(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot spot = spot_in(random, 78);
  if (piece.has("hole")) hole(surface, piece.pose, spot, {0.06f, 0.05f, 0.05f}, random);
  if (piece.has("stain")) stain(surface, piece.pose, spot, {0.22f, 0.2f, 0.14f}, random);
}

// ---- Ceramic tile ------------------------------------------------------------------------------

// A speck in some cells of a grid: dark ones, brown ones and pale ones, the larger the paler.
void add_specks(const Piece& piece, Surface& surface, float cell, std::uint32_t layer) {
  const int reach = floor_of(210 / cell);  // a turned and shifted image lies within
  for (int j = -reach; j < reach; ++j) {
    for (int i = -reach; i < reach; ++i) {
      const float kind = chance(i, j, piece.seed + layer);
      if (kind > 0.7f) continue;
      const float x = cell * (static_cast<float>(i) + chance(i, j, piece.seed + layer + 1));
      const float y = cell * (static_cast<float>(j) + chance(i, j, piece.seed + layer + 2));
      const float radius = cell * (0.12f + 0.5f * kind * kind);
      const Colour colour = kind < 0.2f   ? Colour{0.33f, 0.31f, 0.3f}
                            : kind < 0.5f ? Colour{0.62f, 0.5f, 0.42f}
                                          : Colour{0.87f, 0.85f, 0.8f};
      paint::paint(surface, piece.pose, Box::around(x, y, 1.7f * radius + 1),
                   [&](float u, float v, Texel& texel) {
                     const float a = u - x, b = v - y;
                     const float distance =
                         0.6f * (std::abs(a) + std::abs(b) + std::abs(a + 0.6f * b)) - radius;
                     texel.colour = blend(texel.colour, colour, 0.85f * inside(distance));
                   });
    }
  }
}

void draw_ceramic_tile(const Piece& piece, Surface& surface) {
  paint::paint(surface, piece.pose, {}, [&](float u, float v, Texel& texel) {
    const float cloud = 0.05f * piece.coarse.octaves(u * 0.02f, v * 0.02f, 3);
    const float grain = 0.02f * piece.fine.at(u * 0.6f, v * 0.6f);
    texel.colour = (1 + cloud + grain) * Colour{0.76f, 0.71f, 0.64f};
    texel.height = 0.25f * piece.fine.at(u * 0.15f, v * 0.15f);
  });
  add_specks(piece, surface, 13, 0);
  add_specks(piece, surface, 6.5f, 10);
}

void mark_ceramic_tile(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot spot = spot_in(random, 74);
  if (piece.has("crack")) crack(surface, piece.pose, spot, random);
  if (piece.has("chip")) hole(surface, piece.pose, spot, {0.55f, 0.5f, 0.47f}, random);
  if (piece.has("scratch")) scratch(surface, piece.pose, spot, random);
  if (piece.has("glue")) stain(surface, piece.pose, spot, {0.93f, 0.9f, 0.74f}, random);
}

// ---- Wood --------------------------------------------------------------------------------------

Colour wood_at(const Piece& piece, float u, float v, Spot knot, float knot_strength) {
  const float x = u - knot.x, y = v - knot.y;
  // The grain runs round a knot.
  const float round = knot_strength * step(0, 1, 1 - std::sqrt(x * x * 0.25f + y * y) / 26);
  const float depth = v * 0.055f + 1.5f * piece.coarse.octaves(u * 0.006f, v * 0.018f, 3) +
                      round * 3.2f * (1 - std::sqrt(x * x * 0.3f + y * y) / 14);
  const float ring = fraction(depth);
  const float late = step(0.35f, 0.9f, ring) * (1 - step(0.92f, 1, ring));
  const float pores = piece.fine.at(u * 0.045f, v * 0.95f);
  const float pore = step(0.45f, 0.9f, pores);
  const float level = 1 - 0.2f * late - 0.12f * pore + 0.05f * piece.coarse.at(u * 0.02f, v * 0.2f);
  const float dark = 0.45f * round * step(0.4f, 1, round);
  return level * (1 - dark) * Colour{0.71f, 0.52f, 0.33f};
}

void draw_wood(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot spot = spot_in(random, 76);
  const float knot = piece.has("knot") ? between(random, 0.7f, 1.0f) : 0.0f;
  paint::paint(surface, piece.pose, {}, [&](float u, float v, Texel& texel) {
    texel.colour = wood_at(piece, u, v, spot, knot);
    texel.height = 0.3f * piece.fine.at(u * 0.03f, v * 0.7f);
  });
}

void mark_wood(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot spot = spot_in(random, 76);
  if (piece.has("scratch")) scratch(surface, piece.pose, spot, random);
  if (piece.has("hole")) hole(surface, piece.pose, spot, {0.16f, 0.1f, 0.06f}, random);
  if (piece.has("stain")) stain(surface, piece.pose, spot, {0.3f, 0.24f, 0.2f}, random);
}

// ---- Gear --------------------------------------------------------------------------------------

constexpr int kTeeth = 20;
constexpr int kWindows = 5;

int tooth_at(float turn) { return (floor_of(turn * kTeeth + 0.5f) + kTeeth) % kTeeth; }

// Signed distance to the toothed edge; `cut` makes the tooth of that number lower.
float gear_edge(float radius, float turn, int damaged, float cut) {
  const float place = turn * kTeeth;
  const float off = std::abs(place - static_cast<float>(floor_of(place + 0.5f)));
  const float height = tooth_at(turn) == damaged ? 14 * (1 - cut) : 14;
  return radius - 84 - height * (1 - step(0.2f, 0.34f, off));
}

// Where a tooth broke the steel is bright and coarse.
void show_break(const Piece& piece, float u, float v, float edge, Texel& texel) {
  const float grain = piece.fine.at(u * 0.9f, v * 0.9f);
  const float depth = step(-7, -2, edge) * inside(edge);
  texel.colour = blend(texel.colour, grey(0.78f + 0.16f * grain), depth);
  texel.height += 0.5f * depth * grain;
}

// Sand of the mould that was not shaken out.
void fill_window(const Piece& piece, float u, float v, float opening, Texel& texel) {
  const float grain = piece.fine.octaves(u * 0.45f, v * 0.45f, 2);
  texel.colour =
      blend(texel.colour, (0.85f + 0.4f * grain) * Colour{0.5f, 0.41f, 0.3f}, inside(opening));
  texel.height += 0.8f * grain * inside(opening);
}

void draw_gear(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const int damaged = static_cast<int>(random.below(kTeeth));
  const int blocked = static_cast<int>(random.below(kWindows));
  const float chipped = between(random, 0.5f, 0.85f);
  const float cut = piece.has("missing_tooth")   ? 0.95f
                    : piece.has("chipped_tooth") ? chipped
                                                 : 0.0f;
  paint::paint(surface, piece.pose, {}, [&](float u, float v, Texel& texel) {
    const float radius = std::sqrt(u * u + v * v), turn = angle(u, v);
    const float edge = gear_edge(radius, turn, damaged, cut);
    const float belt = 0.7f + 0.06f * piece.coarse.octaves(u * 0.15f, v * 0.15f, 3);
    const float turned = piece.fine.at(radius * 0.6f, turn * 6);
    const float sheen = 0.06f * cosine(2 * turn + 0.1f);
    const float steel =
        0.43f + 0.045f * turned + sheen + 0.03f * piece.coarse.at(u * 0.03f, v * 0.03f);
    texel.colour =
        blend(belt * Colour{1, 0.98f, 0.93f}, {steel, steel * 1.01f, steel * 1.05f}, inside(edge));
    texel.height = 2.5f * step(-3, 1, -edge);
    const float place = turn * kWindows;
    const int window = (floor_of(place + 0.5f) + kWindows) % kWindows;
    const float way = static_cast<float>(window) / kWindows;
    float opening = circle(u - 55 * cosine(way), v - 55 * sine(way), 12.5f);
    if (cut > 0 && tooth_at(turn) == damaged) show_break(piece, u, v, edge, texel);
    if (window == blocked && piece.has("blocked_window")) {
      fill_window(piece, u, v, opening, texel);
      opening = 9;
    }
    const float key = rounded_box(u - 20, v, 8, 5, 1);
    const float bore = std::min({circle(u, v, 21), key, opening});
    texel.height -= 2.5f * step(-1, 3, 1 - bore);
    texel.colour = blend(texel.colour, (belt * 0.72f) * Colour{1, 0.98f, 0.93f}, inside(bore));
  });
}

void mark_gear(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot spot = spot_on_ring(random, 72, 80);
  if (piece.has("scratch")) scratch(surface, piece.pose, spot_on_ring(random, 34, 76), random);
  if (piece.has("rust")) stain(surface, piece.pose, spot, {0.45f, 0.24f, 0.12f}, random);
}

// ---- Bottle cap --------------------------------------------------------------------------------

// How much print there is: a ring with gaps and a star.
float print_at(float u, float v, float radius, float turn) {
  const float ring = std::abs(radius - 62) - 4;
  const float gap = std::abs(fraction(turn * 6 + 0.5f) - 0.5f) - 0.08f;
  const float point = std::abs(fraction(turn * 5 + 0.5f) - 0.5f) * 2;
  const float star = radius - blend(40, 17, step(0, 1, point));
  const float bar = rounded_box(u, v, 9, 3, 1);
  return std::max({inside(ring) * clamp01(gap * 60), inside(star) * (1 - inside(bar))});
}

void draw_bottle_cap(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot worn = spot_on_ring(random, 20, 62);
  const float worn_size = between(random, 10, 18);
  const float squeeze = piece.has("bent_edge") ? between(random, 7, 13) : 0.0f;
  const float squeezed = between(random, -0.5f, 0.5f);
  paint::paint(surface, piece.pose, {}, [&](float u, float v, Texel& texel) {
    const float radius = std::sqrt(u * u + v * v), turn = angle(u, v);
    const float away = std::abs(fraction(turn - squeezed + 0.5f) - 0.5f);
    const float bent = squeeze * step(0, 1, 1 - away / 0.06f);
    const float knurl = 1.6f * sine(turn * 48);
    const float edge = radius - 99 + bent + knurl;
    const float bench = 0.86f + 0.03f * piece.coarse.octaves(u * 0.05f, v * 0.05f, 3);
    const float plastic = 1 + 0.03f * piece.fine.octaves(u * 0.3f, v * 0.3f, 2);
    float print = print_at(u, v, radius, turn);
    if (piece.has("misprint")) {
      const float ragged = 4 * piece.fine.at(u * 0.2f, v * 0.2f);
      print *= 1 - inside(circle(u - worn.x, v - worn.y, worn_size) + ragged);
    }
    const Colour body =
        plastic * blend(Colour{0.1f, 0.3f, 0.5f}, {0.88f, 0.88f, 0.84f}, 0.92f * print);
    const float wall = step(82, 88, radius + bent);
    texel.colour = blend(bench * Colour{0.97f, 0.98f, 1}, (1 - 0.3f * wall) * body, inside(edge));
    texel.height = 5 * step(0, 1, (98 - bent - radius) / 17) + 0.5f * wall * knurl * inside(edge);
  });
}

void mark_bottle_cap(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const Spot spot = spot_on_ring(random, 0, 66);
  if (piece.has("scratch")) scratch(surface, piece.pose, spot, random);
  if (piece.has("dent")) dent(surface, piece.pose, spot, random);
  if (piece.has("dirt")) stain(surface, piece.pose, spot, {0.22f, 0.19f, 0.16f}, random);
}

// ---- Circuit -----------------------------------------------------------------------------------

struct Part {
  enum class Type { kChip, kResistor, kCapacitor } type;
  float x, y, a, b;  // middle and half sizes
};

constexpr std::array<Part, 11> kParts = {{{Part::Type::kChip, -38, -34, 26, 26},
                                          {Part::Type::kChip, 48, 40, 20, 14},
                                          {Part::Type::kCapacitor, 52, -58, 17, 17},
                                          {Part::Type::kCapacitor, 88, -22, 11, 11},
                                          {Part::Type::kResistor, 16, -10, 9, 4.5f},
                                          {Part::Type::kResistor, 16, 6, 9, 4.5f},
                                          {Part::Type::kResistor, -72, 26, 4.5f, 9},
                                          {Part::Type::kResistor, -54, 26, 4.5f, 9},
                                          {Part::Type::kResistor, -36, 26, 4.5f, 9},
                                          {Part::Type::kResistor, -20, 74, 9, 4.5f},
                                          {Part::Type::kResistor, -62, 74, 9, 4.5f}}};

struct Trace {
  float x0, y0, x1, y1;
};

constexpr std::array<Trace, 16> kTraces = {{{-110, -90, -60, -90},
                                            {-60, -90, -44, -74},
                                            {-110, -80, -66, -80},
                                            {-12, -10, 7, -10},
                                            {25, -10, 60, -10},
                                            {60, -10, 88, -38},
                                            {25, 6, 48, 24},
                                            {-72, 35, -72, 60},
                                            {-72, 60, -71, 74},
                                            {-54, 35, -54, 52},
                                            {-54, 52, -29, 74},
                                            {-11, 74, 22, 74},
                                            {22, 74, 40, 56},
                                            {-110, 96, 20, 96},
                                            {20, 96, 60, 56},
                                            {72, 48, 110, 86}}};

constexpr Colour kSolder = {0.7f, 0.71f, 0.72f};

void add_board(const Piece& piece, Surface& surface) {
  paint::paint(surface, piece.pose, {}, [&](float u, float v, Texel& texel) {
    const float level = 1 + 0.06f * piece.coarse.octaves(u * 0.02f, v * 0.02f, 3) +
                        0.05f * piece.fine.at(u * 0.5f, v * 0.5f);
    texel.colour = level * Colour{0.08f, 0.33f, 0.2f};
    texel.height = 0.1f * piece.fine.at(u * 0.7f, v * 0.7f);
    // Plated holes on a grid, where no part is.
    const float x = 22 * (fraction(u / 22) - 0.5f), y = 22 * (fraction(v / 22) - 0.5f);
    if (chance(floor_of(u / 22), floor_of(v / 22), 77) < 0.3f) {
      texel.colour = blend(texel.colour, {0.6f, 0.52f, 0.3f}, inside(circle(x, y, 3.2f)));
      texel.colour = blend(texel.colour, grey(0.08f), inside(circle(x, y, 1.4f)));
    }
  });
}

void add_trace(const Piece& piece, Surface& surface, const Trace& trace, float gap) {
  const Box box = {std::min(trace.x0, trace.x1) - 4, std::min(trace.y0, trace.y1) - 4,
                   std::max(trace.x0, trace.x1) + 4, std::max(trace.y0, trace.y1) + 4};
  const float mx = 0.5f * (trace.x0 + trace.x1), my = 0.5f * (trace.y0 + trace.y1);
  paint::paint(surface, piece.pose, box, [&](float u, float v, Texel& texel) {
    float cover = inside(segment(u, v, trace.x0, trace.y0, trace.x1, trace.y1) - 2.2f);
    if (gap > 0) cover *= 1 - inside(circle(u - mx, v - my, gap));
    texel.colour = blend(texel.colour, {0.26f, 0.58f, 0.34f}, cover);
    texel.height += 0.5f * cover;
  });
}

void add_chip(const Piece& piece, Surface& surface, const Part& part, int bent_pin) {
  paint::paint(surface, piece.pose, Box::around(part.x, part.y, part.a + 12),
               [&](float u, float v, Texel& texel) {
                 const float x = u - part.x, y = v - part.y;
                 const int number = floor_of((y + part.b) / 8) + (x > 0 ? 8 : 0);
                 const float middle = 8 * (fraction((y + part.b) / 8) - 0.5f);
                 const float slant = number == bent_pin ? 1.1f * (std::abs(x) - part.a) : 0.0f;
                 const float reach = std::abs(x) - part.a - 3.5f;
                 const float row = std::abs(y) - part.b + 1;
                 const float pin = rounded_box(reach, middle - slant, 4, 1.8f, 0.5f);
                 const float metal = row < 0 ? inside(pin) : 0.0f;
                 texel.colour = blend(texel.colour, kSolder, metal);
                 texel.height += 0.8f * metal;
                 const float body = rounded_box(x, y, part.a, part.b, 2);
                 const float level = 0.13f + 0.02f * piece.fine.at(u * 0.8f, v * 0.8f);
                 texel.colour = blend(texel.colour, grey(level), inside(body));
                 texel.height += 2.5f * step(-3, 0, -body);
                 const float dot = circle(x + part.a - 6, y + part.b - 6, 2.4f);
                 texel.colour = blend(texel.colour, grey(0.3f), inside(dot));
                 const float print = rounded_box(x, std::abs(y - 2) - 4, part.a * 0.5f, 1.2f, 0.5f);
                 texel.colour = blend(texel.colour, grey(0.42f), 0.8f * inside(print));
               });
}

void add_capacitor(const Piece& piece, Surface& surface, const Part& part) {
  paint::paint(
      surface, piece.pose, Box::around(part.x, part.y, part.a + 3),
      [&](float u, float v, Texel& texel) {
        const float x = u - part.x, y = v - part.y;
        const float rim = circle(x, y, part.a);
        const float top = 0.66f + 0.03f * piece.fine.at(u * 0.3f, v * 0.3f);
        const Colour can = blend(grey(top), {0.12f, 0.12f, 0.16f}, inside(x + 0.45f * part.a));
        const float cross = std::min(std::abs(x), std::abs(y)) - 0.8f;
        texel.colour = blend(texel.colour, can, inside(rim));
        texel.colour =
            blend(texel.colour, 0.75f * can, inside(cross) * inside(circle(x, y, 0.75f * part.a)));
        texel.height += 3 * step(-3, 0, -rim);
      });
}

// Two pads, and the resistor on them unless it is missing.
void add_resistor(const Piece& piece, Surface& surface, const Part& part, bool missing,
                  float turn) {
  const float c = cosine(turn), s = sine(turn);
  const bool flat = part.a > part.b;
  paint::paint(
      surface, piece.pose, Box::around(part.x, part.y, 20), [&](float u, float v, Texel& texel) {
        const float x = flat ? u - part.x : v - part.y, y = flat ? v - part.y : u - part.x;
        const float pads = rounded_box(std::abs(x) - 9, y, 4, 5, 1);
        texel.colour = blend(texel.colour, kSolder, inside(pads));
        texel.height += 0.6f * step(-2, 0, -pads);
        if (missing) return;
        const float tx = c * x + s * y, ty = c * y - s * x;
        const float body = rounded_box(tx, ty, 9, 4.5f, 0.8f);
        const Colour colour = std::abs(tx) > 6.3f ? Colour{0.78f, 0.78f, 0.77f} : grey(0.16f);
        texel.colour = blend(texel.colour, colour, inside(body));
        texel.height += 1.2f * step(-2, 0, -body);
      });
}

void add_bridge(const Piece& piece, Surface& surface, Spot at, Random& random) {
  const float reach = between(random, 5, 8);
  paint::paint(
      surface, piece.pose, Box::around(at.x, at.y, 13), [&](float u, float v, Texel& texel) {
        const float blob =
            rounded_box(u - at.x, v - at.y, 4, reach, 3) + piece.fine.at(u * 0.3f, v * 0.3f);
        texel.colour = blend(texel.colour, {0.76f, 0.77f, 0.78f}, inside(blob));
        texel.height += 1.2f * step(-3, 0, -blob);
      });
}

void draw_circuit(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  const std::size_t cut = piece.has("broken_trace") ? random.below(kTraces.size()) : kTraces.size();
  const std::size_t part_with_fault = 4 + random.below(kParts.size() - 4);
  const float gap = between(random, 4, 7);
  const float slip = between(random, 0.05f, 0.13f) * (random.below(2) == 0 ? 1.0f : -1.0f);
  const int pin = static_cast<int>(random.below(6)) + (random.below(2) == 0 ? 0 : 8);
  add_board(piece, surface);
  for (std::size_t i = 0; i < kTraces.size(); ++i) {
    add_trace(piece, surface, kTraces[i], i == cut ? gap : 0.0f);
  }
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const Part& part = kParts[i];
    const bool fault = i == part_with_fault;
    if (part.type == Part::Type::kChip) {
      add_chip(piece, surface, part, i == 0 && piece.has("bent_pin") ? pin : -1);
    } else if (part.type == Part::Type::kCapacitor) {
      add_capacitor(piece, surface, part);
    } else {
      add_resistor(piece, surface, part, fault && piece.has("missing_part"),
                   fault && piece.has("turned_part") ? slip : 0.0f);
    }
  }
  const float pin_y = kParts[0].y - kParts[0].b + 8 * static_cast<float>(1 + random.below(5));
  const float side = random.below(2) == 0 ? -1.0f : 1.0f;
  const Spot between_pins = {kParts[0].x + side * (kParts[0].a + 4), pin_y};
  if (piece.has("solder_bridge")) add_bridge(piece, surface, between_pins, random);
}

void mark_circuit(const Piece& piece, Surface& surface) {
  Random random = piece.chance;
  if (piece.has("scratch")) scratch(surface, piece.pose, spot_in(random, 74), random);
}

// ---- The catalogue -----------------------------------------------------------------------------

struct Product {
  std::string name;
  std::vector<std::string> faults;  // kinds of defect that are drawn: a piece made wrongly
  std::vector<std::string> marks;   // kinds of defect that are put on a good piece
  float turn, move, grow;           // how differently pieces lie
  void (*draw)(const Piece& piece, Surface& surface);
  void (*mark)(const Piece& piece, Surface& surface);
};

const std::vector<Product>& catalogue() {
  static const std::vector<Product> products = {
      {"brushed_plate",
       {"missing_hole"},
       {"dent", "scratch", "stain"},
       0.02f,
       5,
       0.02f,
       draw_brushed_plate,
       mark_brushed_plate},
      {"woven_cloth",
       {"missing_thread", "thick_thread", "wrong_colour"},
       {"hole", "stain"},
       0.012f,
       20,
       0.03f,
       draw_woven_cloth,
       mark_woven_cloth},
      {"ceramic_tile",
       {},
       {"chip", "crack", "glue", "scratch"},
       0.5f,
       20,
       0.03f,
       draw_ceramic_tile,
       mark_ceramic_tile},
      {"wood", {"knot"}, {"hole", "scratch", "stain"}, 0.012f, 20, 0.04f, draw_wood, mark_wood},
      {"gear",
       {"blocked_window", "chipped_tooth", "missing_tooth"},
       {"rust", "scratch"},
       0.5f,
       4,
       0.02f,
       draw_gear,
       mark_gear},
      {"bottle_cap",
       {"bent_edge", "misprint"},
       {"dent", "dirt", "scratch"},
       0.03f,
       5,
       0.02f,
       draw_bottle_cap,
       mark_bottle_cap},
      {"circuit",
       {"bent_pin", "broken_trace", "missing_part", "solder_bridge", "turned_part"},
       {"scratch"},
       0.008f,
       4,
       0.015f,
       draw_circuit,
       mark_circuit},
  };
  return products;
}

bool among(const std::vector<std::string>& kinds, const std::string& kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

const Product& find_product(const std::string& name) {
  for (const Product& product : catalogue()) {
    if (product.name == name) return product;
  }
  throw Error(Error::Kind::kUsage, fmt::format("{}: no such product; there are {}", name,
                                               fmt::join(product_names(), ", ")));
}

// One number out of several, each of which changes it altogether.
std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x7f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t combine(std::uint64_t a, const std::string& text) {
  for (const char c : text) a = combine(a, static_cast<unsigned char>(c));
  return a;
}

// ---- Writing -----------------------------------------------------------------------------------

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
  }
}

Image as_image(const ProductImage& product) {
  Image image{product.image.width, product.image.height, {}};
  image.rgb.reserve(3 * product.mask.size());
  for (const std::uint8_t value : product.mask) image.rgb.insert(image.rgb.end(), 3, value);
  return image;
}

// Indices of pieces, so that none is used twice.
constexpr std::size_t kTestGood = 1'000'000;
constexpr std::size_t kTestDefective = 2'000'000;

void write_one(const fs::path& folder, const Product& product, std::size_t i,
               const ProductCounts& counts, std::uint64_t seed) {
  const auto write = [&](const std::string& part, std::size_t number, std::size_t index,
                         const std::string& defect) {
    const ProductImage made = make_product(product.name, index, defect, seed, counts.placing);
    const fs::path home = folder / part / made.kind;
    make_folder(home);
    write_image((home / fmt::format("{:03}.png", number)).string(), made.image);
    if (!made.defective) return;
    const fs::path masks = folder / "ground_truth" / made.kind;
    make_folder(masks);
    write_image((masks / fmt::format("{:03}_mask.png", number)).string(), as_image(made));
  };
  if (i < counts.train) return write("train", i, i, "");
  i -= counts.train;
  if (i < counts.test_good) return write("test", i, kTestGood + i, "");
  i -= counts.test_good;
  const std::vector<std::string> kinds = product_defects(product.name);
  write("test", i / kinds.size(), kTestDefective + i, kinds[i % kinds.size()]);
}

}  // namespace

std::vector<std::string> product_names() {
  std::vector<std::string> names;
  for (const Product& product : catalogue()) names.push_back(product.name);
  return names;
}

std::vector<std::string> product_defects(const std::string& name) {
  const Product& product = find_product(name);
  std::vector<std::string> kinds = product.faults;
  kinds.insert(kinds.end(), product.marks.begin(), product.marks.end());
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

ProductImage make_product(const std::string& name, std::size_t index, const std::string& defect,
                          std::uint64_t seed, Placing placing) {
  const Product& product = find_product(name);
  const bool fault = among(product.faults, defect);
  if (!defect.empty() && !fault && !among(product.marks, defect)) {
    throw Error(Error::Kind::kUsage, fmt::format("{}: no such defect of {}; there are {}", defect,
                                                 name, fmt::join(product_defects(name), ", ")));
  }
  const std::uint64_t number = combine(combine(seed, name), index);
  Random random(number);
  constexpr float kFixture = 0.01f;
  const float turn = placing == Placing::kFixture ? std::min(product.turn, kFixture) : product.turn;
  const Pose pose = Pose::random(random, turn, product.move, product.grow);
  const Light light = Light::random(random);
  const Noise coarse(random), fine(random);
  const Piece piece{pose, coarse,
                    fine, static_cast<std::uint32_t>(random.next()),
                    "",   Random(combine(number, defect))};
  Surface surface;
  product.draw(piece, surface);
  if (defect.empty()) return {photograph(surface, light, number), {}, false, "good"};
  Piece bad = piece;
  bad.defect = defect;
  Surface damaged = surface;
  (fault ? product.draw : product.mark)(bad, damaged);
  return {photograph(damaged, light, number), difference(surface, damaged), true, defect};
}

void write_products(const std::string& folder, const std::vector<std::string>& names,
                    const ProductCounts& counts, std::uint64_t seed, const Progress& progress) {
  const std::size_t each = counts.train + counts.test_good + counts.test_defective;
  for (std::size_t p = 0; p < names.size(); ++p) {
    const Product& product = find_product(names[p]);
    for (std::size_t i = 0; i < each; ++i) {
      write_one(fs::path(folder) / product.name, product, i, counts, seed);
      const double done = static_cast<double>(p * each + i + 1);
      if (progress && !progress(done / static_cast<double>(each * names.size()))) {
        throw Error(Error::Kind::kCancelled, "stopped");
      }
    }
  }
}

}  // namespace contcore
