// In: pictures and captions. Out: one picture of all of them. Fails on an image that is none.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "contcore/image.h"
#include "image/lettering.h"
#include "image/pixels.h"
#include "image/resize.h"

namespace contcore {
namespace {

constexpr std::size_t kAcross = 5;
constexpr std::size_t kThumbnailSide = 256;  // the longer side
constexpr std::size_t kSheetGap = 12;
constexpr std::size_t kSheetFrame = 4;
constexpr double kCaptionScale = 0.5;
constexpr double kTitleScale = 0.7;
constexpr std::array<std::uint8_t, 3> kSheetGround = {32, 32, 36};
constexpr std::array<std::uint8_t, 3> kMarkedFrame = {214, 48, 56};

void fill_box(Image& image, std::size_t left, std::size_t top, std::size_t width,
              std::size_t height, const std::array<std::uint8_t, 3>& colour) {
  for (std::size_t y = top; y < top + height; ++y) {
    for (std::size_t x = left; x < left + width; ++x) {
      std::copy(colour.begin(), colour.end(),
                image.rgb.begin() + static_cast<std::ptrdiff_t>(3 * (y * image.width + x)));
    }
  }
}

Image thumbnail(const Image& image) {
  check_image(image);
  const double scale = static_cast<double>(kThumbnailSide) /
                       static_cast<double>(std::max(image.width, image.height));
  const auto side = [&](std::size_t length) {
    const auto scaled = static_cast<std::size_t>(static_cast<double>(length) * scale + 0.5);
    return std::clamp<std::size_t>(scaled, 1, kThumbnailSide);
  };
  return resize_image(image, side(image.width), side(image.height));
}

void paste(const Image& from, std::size_t left, std::size_t top, Image& onto) {
  for (std::size_t y = 0; y < from.height; ++y) {
    std::copy_n(from.rgb.data() + 3 * y * from.width, 3 * from.width,
                onto.rgb.data() + 3 * ((top + y) * onto.width + left));
  }
}

// Names differ at their ends more than in the middle.
std::string shortened(std::string_view text, const Lettering& letters, std::size_t width) {
  std::string whole;
  for (const char c : text) whole += c >= ' ' && c <= '~' ? c : '?';
  const auto fits = [&](const std::string& line) {
    return letters.width(line) <= static_cast<int>(width);
  };
  if (fits(whole)) return whole;
  for (std::size_t kept = whole.size(); kept > 2; --kept) {
    const std::size_t tail = kept * 2 / 3;
    std::string line = whole.substr(0, kept - tail) + ".." + whole.substr(whole.size() - tail);
    if (fits(line)) return line;
  }
  return {};
}

}  // namespace

Image contact_sheet(const std::string& title, const std::vector<SheetPicture>& pictures) {
  const Lettering heading(kTitleScale);
  const Lettering letters(kCaptionScale);
  std::size_t lines = 0;
  for (const SheetPicture& picture : pictures) lines = std::max(lines, picture.caption.size());
  const auto step = static_cast<std::size_t>(letters.height()) * 9 / 5;
  const std::size_t cell_width = kThumbnailSide + 2 * kSheetFrame;
  const std::size_t cell_height = cell_width + kSheetGap / 2 + lines * step;
  const std::size_t top = 2 * kSheetGap + static_cast<std::size_t>(heading.height()) * 3 / 2;
  const std::size_t rows = (pictures.size() + kAcross - 1) / kAcross;
  Image sheet = blank_image(kSheetGap + kAcross * (cell_width + kSheetGap),
                            top + std::max<std::size_t>(1, rows) * (cell_height + kSheetGap));
  fill_box(sheet, 0, 0, sheet.width, sheet.height, kSheetGround);
  heading.draw(shortened(title, heading, sheet.width - 2 * kSheetGap), kSheetGap,
               static_cast<int>(kSheetGap) + heading.height(), sheet);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const std::size_t x = kSheetGap + i % kAcross * (cell_width + kSheetGap);
    const std::size_t y = top + i / kAcross * (cell_height + kSheetGap);
    const Image small = thumbnail(pictures[i].image);
    const std::size_t left = x + kSheetFrame + (kThumbnailSide - small.width) / 2;
    const std::size_t under = y + kSheetFrame + (kThumbnailSide - small.height) / 2;
    if (pictures[i].marked) {
      fill_box(sheet, left - kSheetFrame, under - kSheetFrame, small.width + 2 * kSheetFrame,
               small.height + 2 * kSheetFrame, kMarkedFrame);
    }
    paste(small, left, under, sheet);
    std::size_t baseline =
        y + cell_width + kSheetGap / 2 + static_cast<std::size_t>(letters.height());
    for (const std::string& line : pictures[i].caption) {
      letters.draw(shortened(line, letters, cell_width), static_cast<int>(x),
                   static_cast<int>(baseline), sheet);
      baseline += step;
    }
  }
  return sheet;
}

}  // namespace contcore
