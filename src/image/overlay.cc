// The picture a person judges by.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "contcore/error.h"
#include "contcore/image.h"
#include "image/lettering.h"
#include "image/outline.h"
#include "image/pixels.h"
#include "image/png.h"
#include "image/resize.h"

namespace contcore {
namespace {

constexpr std::size_t kLegibleWidth = 320;  // narrower images are enlarged, or given a margin
constexpr std::size_t kMostEnlargement = 9;
constexpr std::size_t kScreen = 1280;  // longest side of what is shown, without the bar
constexpr std::size_t kLongestCaption = 200;

using Rgb = std::array<std::uint8_t, 3>;
constexpr Rgb kWhite = {255, 255, 255};
constexpr Rgb kDark = {20, 20, 20};
constexpr Rgb kMargin = {48, 48, 48};
constexpr Rgb kAccepted = {24, 120, 56};
constexpr Rgb kRejected = {190, 24, 36};
constexpr Rgb kUnjudged = {90, 90, 90};
constexpr Rgb kUnknown = {150, 90, 0};

// ---- Heat
// ----------------------------------------------------------------------------------------

// From nothing over yellow to red, each step both more opaque and darker than the last, so that the
// order can be told without telling the hues apart.
struct Colour {
  float red, green, blue, opacity;
};

Colour heat_colour(float heat) {
  constexpr std::array<Colour, 4> kStops = {
      {{255, 240, 120, 0.0f}, {255, 205, 40, 0.45f}, {250, 110, 20, 0.60f}, {200, 0, 30, 0.70f}}};
  const float at = heat * static_cast<float>(kStops.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(at), kStops.size() - 2);
  const float part = at - static_cast<float>(low);
  const auto mix = [&](float Colour::*c) {
    return kStops[low].*c + part * (kStops[low + 1].*c - kStops[low].*c);
  };
  return {mix(&Colour::red), mix(&Colour::green), mix(&Colour::blue), mix(&Colour::opacity)};
}

void blend_heat(Image& picture, const Map& map, float low, float high) {
  constexpr std::size_t kSteps = 256;
  std::array<Colour, kSteps> colours;
  for (std::size_t i = 0; i < kSteps; ++i) {
    colours[i] = heat_colour(static_cast<float>(i) / static_cast<float>(kSteps - 1));
  }
  const float range = std::max(high - low, 1e-30f);
  const auto blend = [](std::uint8_t under, float over, float opacity) {
    const float u = static_cast<float>(under);
    return static_cast<std::uint8_t>(u + opacity * (over - u) + 0.5f);
  };
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    const float heat = (map.values[i] - low) / range;
    if (!(heat > 0)) continue;  // cold, or not a number
    const auto step = static_cast<std::size_t>(std::min(heat, 1.0f) * (kSteps - 1) + 0.5f);
    const Colour& colour = colours[step];
    std::uint8_t* const p = picture.rgb.data() + 3 * i;
    p[0] = blend(p[0], colour.red, colour.opacity);
    p[1] = blend(p[1], colour.green, colour.opacity);
    p[2] = blend(p[2], colour.blue, colour.opacity);
  }
}

// ---- Outline
// -------------------------------------------------------------------------------------

// White with a dark edge: seen on any ground. A pixel has `channels` bytes, those behind the colour
// opaque.
void draw_outline(const Map& map, float level, std::size_t channels, std::uint8_t* pixels) {
  for (const Ink ink : outline(map, level)) {
    if (ink != Ink::kNone) {
      const Rgb& colour = ink == Ink::kLine ? kWhite : kDark;
      std::copy(colour.begin(), colour.end(), pixels);
      std::fill(pixels + colour.size(), pixels + channels, 255);
    }
    pixels += channels;
  }
}

// ---- Caption
// -------------------------------------------------------------------------------------

// There are letters for ASCII.
std::string drawable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kLongestCaption)) {
    const bool follows = (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // within a UTF-8 letter
    if (!follows) out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out;
}

// Breaks the text at spaces where it outgrows the width, within a word if need be.
std::vector<std::string> lines_of(std::string text, const Lettering& letters, int width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::size_t fits = text.size();
    while (fits > 1 && letters.width(std::string_view(text).substr(0, fits)) > width) --fits;
    std::size_t end = fits;
    if (fits < text.size()) {
      const std::size_t space = text.rfind(' ', fits);
      if (space != text.npos && space > 0) end = space;
    }
    lines.push_back(text.substr(0, end));
    text.erase(0, std::min(text.find_first_not_of(' ', end), text.size()));
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

// As large as suits the picture, smaller down to what can be read if that keeps it on one line.
Lettering lettering_for(const std::string& text, int width) {
  constexpr double kReadable = 0.45;
  const double suits = std::clamp(width / 800.0, 0.55, 4.0);
  const double fills = 0.98 * width / std::max(1, Lettering(1.0).width(text));
  return Lettering(std::clamp(fills, kReadable, suits));
}

void fill_rows(Image& image, std::size_t from, std::size_t to, const Rgb& colour) {
  for (std::size_t i = from * image.width; i < to * image.width; ++i) {
    std::copy(colour.begin(), colour.end(), image.rgb.begin() + static_cast<std::ptrdiff_t>(3 * i));
  }
}

// The picture with a bar below it; places in the picture keep their coordinates if it has no
// margin.
Image add_bar(const Image& picture, const Overlay& overlay) {
  const std::size_t width = std::max(picture.width, kLegibleWidth);
  const int pad = std::max(8, static_cast<int>(width / 60));
  const int room = static_cast<int>(width) - 2 * pad;
  const std::string text = drawable(overlay.caption);
  const Lettering letters = lettering_for(text, room);
  const std::vector<std::string> lines = lines_of(text, letters, room);
  const int step = letters.height() * 9 / 5;
  const int bar = letters.height() + step * static_cast<int>(lines.size() - 1) + 2 * pad;

  Image out = blank_image(width, picture.height + static_cast<std::size_t>(bar));
  fill_rows(out, 0, picture.height, kMargin);
  const std::size_t left = (width - picture.width) / 2;
  for (std::size_t y = 0; y < picture.height; ++y) {
    std::copy_n(picture.rgb.data() + 3 * y * picture.width, 3 * picture.width,
                out.rgb.data() + 3 * (y * width + left));
  }
  fill_rows(out, picture.height, out.height,
            overlay.unknown    ? kUnknown
            : !overlay.judged  ? kUnjudged
            : overlay.rejected ? kRejected
                               : kAccepted);
  int baseline = static_cast<int>(picture.height) + pad + letters.height();
  for (const std::string& line : lines) {
    letters.draw(line, pad, baseline, out);
    baseline += step;
  }
  return out;
}

// ---- Size
// ----------------------------------------------------------------------------------------

struct ShownSize {
  std::size_t width, height;
};

// A large image shrinks to the screen, its shape kept; a small one is enlarged. Enlarged by an odd
// number: then the centre of each pixel is the centre of one of the enlarged map's, and a peak of
// one pixel keeps its height through the interpolation.
ShownSize shown_size(const Image& image) {
  const std::size_t longest = std::max(image.width, image.height);
  if (longest > kScreen) {
    const auto side = [&](std::size_t n) {
      return std::max<std::size_t>(1, (2 * n * kScreen + longest) / (2 * longest));
    };
    return {side(image.width), side(image.height)};
  }
  std::size_t factor = 1;
  while (factor * image.width < kLegibleWidth && factor < kMostEnlargement &&
         (factor + 2) * longest <= kScreen) {
    factor += 2;
  }
  return {factor * image.width, factor * image.height};
}

// The largest value of what each pixel of a smaller map stands for: a peak of one pixel is not
// averaged away. What is not a number counts for nothing.
Map shrunk_map(const Map& map, const ShownSize& size) {
  Map out{size.width, size.height,
          std::vector<float>(size.width * size.height, -std::numeric_limits<float>::infinity())};
  const auto last_of = [](std::size_t i, std::size_t to, std::size_t from) {
    return ((i + 1) * from - 1) / to;
  };
  for (std::size_t y = 0; y < size.height; ++y) {
    float* const row = out.values.data() + y * size.width;
    for (std::size_t v = y * map.height / size.height; v <= last_of(y, size.height, map.height);
         ++v) {
      const float* const from = map.values.data() + v * map.width;
      for (std::size_t x = 0; x < size.width; ++x) {
        const std::size_t last = last_of(x, size.width, map.width);
        for (std::size_t u = x * map.width / size.width; u <= last; ++u) {
          if (from[u] > row[x]) row[x] = from[u];
        }
      }
    }
  }
  return out;
}

}  // namespace

Image draw_overlay(const Image& image, const Map& map, const Overlay& overlay) {
  check_image(image);
  check_map(map);
  if (map.width != image.width || map.height != image.height) {
    throw Error(Error::Kind::kInternal,
                fmt::format("a map of {} × {} over an image of {} × {} pixels", map.width,
                            map.height, image.width, image.height));
  }
  const ShownSize size = shown_size(image);
  Image picture = resize_image(image, size.width, size.height);
  const Map heat = size.width < image.width || size.height < image.height
                       ? shrunk_map(map, size)
                       : resize_map(map, size.width, size.height);
  blend_heat(picture, heat, overlay.low, overlay.high);
  draw_outline(heat, overlay.level, 3, picture.rgb.data());
  return add_bar(picture, overlay);
}

std::vector<std::uint8_t> heat_png(const Map& map, float low, float high) {
  check_map(map);
  const float range = std::max(high - low, 1e-30f);
  std::vector<std::uint8_t> rgba(4 * map.values.size());
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    const float heat = (map.values[i] - low) / range;
    if (!(heat > 0)) continue;
    const Colour colour = heat_colour(std::min(heat, 1.0f));
    std::uint8_t* const p = rgba.data() + 4 * i;
    p[0] = static_cast<std::uint8_t>(colour.red);
    p[1] = static_cast<std::uint8_t>(colour.green);
    p[2] = static_cast<std::uint8_t>(colour.blue);
    p[3] = static_cast<std::uint8_t>(colour.opacity * 255);
  }
  return encode_png_rgba(map.width, map.height, rgba);
}

std::vector<std::uint8_t> outline_png(const Map& map, float level) {
  check_map(map);
  std::vector<std::uint8_t> rgba(4 * map.values.size());
  draw_outline(map, level, 4, rgba.data());
  return encode_png_rgba(map.width, map.height, rgba);
}

}  // namespace contcore
