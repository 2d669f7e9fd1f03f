#include "image/lettering.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "image/font.h"

namespace contcore {
namespace {

constexpr double kGap = 2.0;  // between letters, in units of the font

struct InkPoint {
  double x, y;
  bool through;  // or towards
};

using Stroke = std::vector<InkPoint>;

std::vector<Stroke> read_strokes(std::string_view text) {
  std::vector<Stroke> strokes(1);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == '|') strokes.emplace_back();
    if (*at == '|' || *at == ' ' || *at == ')') {
      ++at;
      continue;
    }
    InkPoint point{0, 0, *at != '('};
    at = std::from_chars(at + (point.through ? 0 : 1), end, point.x).ptr;
    at = std::from_chars(at + 1, end, point.y).ptr;
    strokes.back().push_back(point);
  }
  return strokes;
}

InkPoint between(const InkPoint& a, const InkPoint& b, double part) {
  return {a.x + part * (b.x - a.x), a.y + part * (b.y - a.y), true};
}

// Curves as short straight lines. A stroke begins and ends with a point to go through.
Stroke straightened(const Stroke& stroke) {
  constexpr int kSteps = 10;
  Stroke out = {stroke.front()};
  for (std::size_t i = 1; i < stroke.size(); ++i) {
    if (stroke[i].through) {
      out.push_back(stroke[i]);
      continue;
    }
    const InkPoint from = out.back();
    const InkPoint& next = stroke[i + 1];
    const InkPoint to = next.through ? next : between(stroke[i], next, 0.5);
    for (int step = 1; step <= kSteps; ++step) {
      const double part = static_cast<double>(step) / kSteps;
      out.push_back(between(between(from, stroke[i], part), between(stroke[i], to, part), part));
    }
  }
  return out;
}

// A letter in straight lines, in units of the font.
struct Glyph {
  double right = 0;  // how far it reaches
  std::vector<Stroke> strokes;
};

Glyph read_glyph(char c) {
  Glyph glyph;
  for (const Stroke& stroke : read_strokes(strokes_of(c))) {
    glyph.strokes.push_back(straightened(stroke));
    for (const InkPoint& point : glyph.strokes.back()) {
      glyph.right = std::max(glyph.right, point.x);
    }
  }
  return glyph;
}

const Glyph& glyph_of(char c) {
  static const std::vector<Glyph> glyphs = [] {
    std::vector<Glyph> all;
    for (char each = ' '; each <= '~'; ++each) all.push_back(read_glyph(each));
    return all;
  }();
  return glyphs[static_cast<std::size_t>(std::clamp(c, ' ', '~') - ' ')];
}

double distance(const InkPoint& point, const InkPoint& a, const InkPoint& b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double square = dx * dx + dy * dy;
  const double along = square > 0 ? ((point.x - a.x) * dx + (point.y - a.y) * dy) / square : 0;
  const InkPoint nearest = between(a, b, std::clamp(along, 0.0, 1.0));
  return std::hypot(point.x - nearest.x, point.y - nearest.y);
}

// How much of each pixel is covered. Where strokes meet they cover no more than one of them does.
struct Coverage {
  int width, height;
  std::vector<float> parts;

  Coverage(int w, int h)
      : width(w), height(h), parts(static_cast<std::size_t>(w) * static_cast<std::size_t>(h)) {}

  void add_line(const InkPoint& a, const InkPoint& b, double thickness) {
    const double reach = thickness / 2 + 0.5;
    const auto low = [&](double v) { return std::max(0, static_cast<int>(std::floor(v - reach))); };
    const auto high = [&](double v, int size) {
      return std::min(size, static_cast<int>(std::ceil(v + reach)));
    };
    const int right = high(std::max(a.x, b.x), width);
    const int bottom = high(std::max(a.y, b.y), height);
    for (int y = low(std::min(a.y, b.y)); y < bottom; ++y) {
      for (int x = low(std::min(a.x, b.x)); x < right; ++x) {
        const double away = distance({x + 0.5, y + 0.5, true}, a, b);
        const auto part = static_cast<float>(std::clamp(reach - away, 0.0, 1.0));
        float& had = parts[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                           static_cast<std::size_t>(x)];
        had = std::max(had, part);
      }
    }
  }
};

void whiten(Image& image, const Coverage& coverage, int left, int top) {
  const int width = static_cast<int>(image.width);
  const int height = static_cast<int>(image.height);
  std::size_t i = 0;
  for (int y = top; y < top + coverage.height; ++y) {
    for (int x = left; x < left + coverage.width; ++x, ++i) {
      if (x < 0 || x >= width || y < 0 || y >= height) continue;
      std::uint8_t* const p = image.rgb.data() + 3 * (static_cast<std::size_t>(y) * image.width +
                                                      static_cast<std::size_t>(x));
      for (int c = 0; c < 3; ++c) {
        const auto under = static_cast<float>(p[c]);
        p[c] = static_cast<std::uint8_t>(under + coverage.parts[i] * (255 - under) + 0.5f);
      }
    }
  }
}

}  // namespace

Lettering::Lettering(double scale)
    : height_(static_cast<int>(std::lround(22 * scale))),
      thickness_(std::max(1.6, 2.8 * scale)),
      across_(20 * scale / kCapitalHeight),
      small_(std::round(22 * scale * kSmallHeight / kCapitalHeight)) {}

double Lettering::advance(char c) const {
  return (glyph_of(c).right + kGap) * across_ + thickness_;
}

int Lettering::width(std::string_view text) const {
  double sum = 0;
  for (const char c : text) sum += advance(c);
  return static_cast<int>(std::ceil(sum));
}

// Of the middle of a stroke, in pixels above the line; its edge is on the line for y = 0.
double Lettering::above(double y) const {
  const double unit = (small_ - thickness_) / kSmallHeight;
  const double beyond = (height_ - small_) / (kCapitalHeight - kSmallHeight);
  return thickness_ / 2 + std::min(y, kSmallHeight) * unit +
         std::max(0.0, y - kSmallHeight) * beyond;
}

void Lettering::draw(std::string_view text, int x, int baseline, Image& image) const {
  constexpr int kSide = 2;  // room for what reaches out of a letter
  const int over = height_ / 2;
  Coverage coverage(width(text) + 2 * kSide, height_ + 2 * over);
  double pen = kSide + thickness_ / 2;
  for (const char c : text) {
    for (Stroke line : glyph_of(c).strokes) {
      for (InkPoint& point : line) {
        point = {pen + point.x * across_, over + height_ - above(point.y), true};
      }
      for (std::size_t i = 1; i < line.size(); ++i) {
        coverage.add_line(line[i - 1], line[i], thickness_);
      }
    }
    pen += advance(c);
  }
  whiten(image, coverage, x - kSide, baseline - height_ - over);
}

}  // namespace contcore
