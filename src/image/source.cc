#include "image/source.h"

#include <fmt/format.h>

#include "base/refuse.h"

namespace contcore {
namespace {

constexpr std::size_t kLongestSide = 65535;

// What a library says may quote the file.
std::string printable(std::string_view said) {
  constexpr std::size_t kMost = 120;
  std::string out(said.substr(0, kMost));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

}  // namespace

void ImageBytes::cut_short() const {
  refuse(name_,
         fmt::format("the {} is cut short at byte {}; copy or save it again", format_, size()));
}

void ImageBytes::damaged(const std::string& what) const {
  refuse(name_, fmt::format("the {} is damaged ({}); copy or save it again", format_, what));
}

void ImageBytes::unread(const std::string& kind) const {
  refuse(name_, fmt::format("{} is not read; save it as PNG with 8 bits for each colour", kind));
}

void ImageBytes::undecodable(std::string_view why) const {
  refuse(name_, fmt::format("the {} cannot be decoded{}: it is damaged or of a rare kind; save it "
                            "again as PNG",
                            format_, why.empty() ? "" : " (" + printable(why) + ")"));
}

void ImageBytes::check_size(std::size_t width, std::size_t height) const {
  if (width == 0 || height == 0) damaged(fmt::format("its size is {} × {}", width, height));
  if (width > kLongestSide || height > kLongestSide) {
    refuse(name_,
           fmt::format("claims {} × {} pixels; sides of up to {} are read: cut it into parts",
                       width, height, kLongestSide));
  }
  if (width > limits_.pixels / height) {
    refuse(name_, fmt::format("claims {} × {} pixels, more than the limit of {}; make it smaller",
                              width, height, limits_.pixels));
  }
}

void ImageBytes::check_unpacked(std::size_t width, std::size_t height, std::size_t bytes) const {
  if (bytes > kMostUnpacked) {
    refuse(name_,
           fmt::format("the {} of {} × {} pixels unpacks to {} bytes, more than the limit of {}; "
                       "save it with 8 bits for each colour, or make it smaller",
                       format_, width, height, bytes, kMostUnpacked));
  }
}

void ImageBytes::too_many_scans(std::size_t width, std::size_t height, std::size_t scans) const {
  refuse(name_, fmt::format("the {} has {} × {} pixels in {} scans or more, too many to decode; "
                            "save it without scans (not progressive), or make it smaller",
                            format_, width, height, scans));
}

}  // namespace contcore
