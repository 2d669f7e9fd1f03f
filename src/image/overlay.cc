// The picture a person judges by.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "contcore/error.h"
#include "contcore/image.h"
#include "image/opencv.h"

namespace contcore {
namespace {

constexpr std::size_t kLegibleWidth = 320;  // narrower images are enlarged, or given a margin
constexpr std::size_t kMostEnlargement = 9;
constexpr std::size_t kMostEnlarged = std::size_t{4} << 20;  // pixels
constexpr std::size_t kLongestCaption = 200;

const cv::Scalar kWhite(255, 255, 255, 255);
const cv::Scalar kDark(20, 20, 20, 255);
const cv::Scalar kMargin(48, 48, 48);
const cv::Scalar kAccepted(24, 120, 56);
const cv::Scalar kRejected(190, 24, 36);
const cv::Scalar kUnjudged(90, 90, 90);

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

void blend_heat(cv::Mat picture, const cv::Mat& map, float low, float high) {
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
  for (int y = 0; y < picture.rows; ++y) {
    std::uint8_t* const pixels = picture.ptr<std::uint8_t>(y);
    const float* const values = map.ptr<float>(y);
    for (int x = 0; x < picture.cols; ++x) {
      const float heat = (values[x] - low) / range;
      if (!(heat > 0)) continue;  // cold, or not a number
      const auto step = static_cast<std::size_t>(std::min(heat, 1.0f) * (kSteps - 1) + 0.5f);
      const Colour& colour = colours[step];
      std::uint8_t* const p = pixels + 3 * x;
      p[0] = blend(p[0], colour.red, colour.opacity);
      p[1] = blend(p[1], colour.green, colour.opacity);
      p[2] = blend(p[2], colour.blue, colour.opacity);
    }
  }
}

// ---- Outline
// -------------------------------------------------------------------------------------

// White with a dark edge: seen on any ground. `mask` is not 0 where the map is above the level.
void draw_outline(cv::Mat picture, const cv::Mat& mask) {
  std::vector<std::vector<cv::Point>> contours;
  cv::findContours(mask, contours, cv::RETR_CCOMP, cv::CHAIN_APPROX_SIMPLE);
  const int side = std::min(picture.cols, picture.rows);
  const int width = side / 240 | 1;  // odd: lines of even width are drawn off centre
  cv::drawContours(picture, contours, -1, kDark, width + 2 * std::max(1, width / 2), cv::LINE_8);
  cv::drawContours(picture, contours, -1, kWhite, width, cv::LINE_8);
}

// ---- Caption
// -------------------------------------------------------------------------------------

// OpenCV's letters are ASCII.
std::string drawable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kLongestCaption)) {
    const bool follows = (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // within a UTF-8 letter
    if (!follows) out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out;
}

constexpr int kFont = cv::FONT_HERSHEY_DUPLEX;

struct Lettering {
  double scale;
  int thickness() const { return std::max(1, static_cast<int>(std::lround(scale * 1.2))); }
  int width(const std::string& text) const {
    int baseline = 0;
    return cv::getTextSize(text, kFont, scale, thickness(), &baseline).width;
  }
  int height() const { return static_cast<int>(std::lround(22 * scale)); }  // of a capital
};

// Breaks the text at spaces where it outgrows the width, within a word if need be.
std::vector<std::string> lines_of(std::string text, const Lettering& letters, int width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::size_t fits = text.size();
    while (fits > 1 && letters.width(text.substr(0, fits)) > width) --fits;
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
  const double fills = 0.98 * width / std::max(1, Lettering{1.0}.width(text));
  return {std::clamp(fills, kReadable, suits)};
}

// The picture with a bar below it; places in the picture keep their coordinates if it has no
// margin.
Image add_bar(const cv::Mat& picture, const Overlay& overlay) {
  const int width = std::max(picture.cols, static_cast<int>(kLegibleWidth));
  const int pad = std::max(8, width / 60);
  const std::string text = drawable(overlay.caption);
  const Lettering letters = lettering_for(text, width - 2 * pad);
  const std::vector<std::string> lines = lines_of(text, letters, width - 2 * pad);
  const int step = letters.height() * 9 / 5;
  const int bar = letters.height() + step * static_cast<int>(lines.size() - 1) + 2 * pad;

  Image out =
      blank_image(static_cast<std::size_t>(width), static_cast<std::size_t>(picture.rows + bar));
  cv::Mat canvas = pixels_of(out);
  canvas.setTo(kMargin);
  picture.copyTo(canvas({(width - picture.cols) / 2, 0, picture.cols, picture.rows}));
  const cv::Scalar& colour = !overlay.judged ? kUnjudged : overlay.rejected ? kRejected : kAccepted;
  canvas.rowRange(picture.rows, picture.rows + bar).setTo(colour);
  int baseline = picture.rows + pad + letters.height();
  for (const std::string& line : lines) {
    cv::putText(canvas, line, {pad, baseline}, kFont, letters.scale, kWhite, letters.thickness(),
                cv::LINE_AA);
    baseline += step;
  }
  return out;
}

// By how much a small image is enlarged. Odd: then the centre of each pixel is the centre of one of
// the enlarged map's, and a peak of one pixel keeps its height through the interpolation.
std::size_t enlargement(const Image& image) {
  std::size_t factor = 1;
  while (factor * image.width < kLegibleWidth && factor < kMostEnlargement &&
         (factor + 2) * (factor + 2) <= kMostEnlarged / (image.width * image.height)) {
    factor += 2;
  }
  return factor;
}

std::vector<std::uint8_t> encode_mat(const cv::Mat& picture) {
  std::vector<std::uint8_t> bytes;
  if (!cv::imencode(".png", picture, bytes)) {
    throw Error(Error::Kind::kInternal, "a picture cannot be encoded");
  }
  return bytes;
}

}  // namespace

Image draw_overlay(const Image& image, const Map& map, const Overlay& overlay) {
  settle_opencv();
  check_image(image);
  check_map(map);
  if (map.width != image.width || map.height != image.height) {
    throw Error(Error::Kind::kInternal,
                fmt::format("a map of {} × {} over an image of {} × {} pixels", map.width,
                            map.height, image.width, image.height));
  }
  const auto factor = static_cast<double>(enlargement(image));
  cv::Mat picture, heat;
  cv::resize(pixels_of(image), picture, {}, factor, factor, cv::INTER_LINEAR);
  cv::resize(pixels_of(map), heat, {}, factor, factor, cv::INTER_LINEAR);
  blend_heat(picture, heat, overlay.low, overlay.high);
  draw_outline(picture, heat > static_cast<double>(overlay.level));
  return add_bar(picture, overlay);
}

std::vector<std::uint8_t> heat_png(const Map& map, float low, float high) {
  settle_opencv();
  check_map(map);
  const float range = std::max(high - low, 1e-30f);
  cv::Mat picture(static_cast<int>(map.height), static_cast<int>(map.width), CV_8UC4,
                  cv::Scalar::all(0));
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    const float heat = (map.values[i] - low) / range;
    if (!(heat > 0)) continue;
    const Colour colour = heat_colour(std::min(heat, 1.0f));
    std::uint8_t* const p = picture.data + 4 * i;
    p[0] = static_cast<std::uint8_t>(colour.blue);  // as OpenCV writes them
    p[1] = static_cast<std::uint8_t>(colour.green);
    p[2] = static_cast<std::uint8_t>(colour.red);
    p[3] = static_cast<std::uint8_t>(colour.opacity * 255);
  }
  return encode_mat(picture);
}

std::vector<std::uint8_t> outline_png(const Map& map, float level) {
  settle_opencv();
  check_map(map);
  cv::Mat picture(static_cast<int>(map.height), static_cast<int>(map.width), CV_8UC4,
                  cv::Scalar::all(0));
  draw_outline(picture, pixels_of(map) > static_cast<double>(level));
  return encode_mat(picture);
}

}  // namespace contcore
