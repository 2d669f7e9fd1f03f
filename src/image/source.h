// An image file's bytes as a decoder meets them: every one of them may be hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "contcore/image.h"

namespace contcore {

/// A small file of few pixels may still keep a decoder busy. Within these one image takes a core
/// about two seconds: a scan costs up to 0.7 ns a pixel, a byte unpacked up to 4.5 ns. Sixteen
/// scans, or eight bits of four colours, of the largest picture.
inline constexpr std::size_t kMostScanned = 16 * (std::size_t{100} << 20);
inline constexpr std::size_t kMostUnpacked = 4 * (std::size_t{100} << 20);

/// Every read is within the bytes or ends in words; so does everything else that is wrong with
/// them: Error (kInput) with the name, the reason and the remedy.
class ImageBytes {
 public:
  /// All of them must outlive it.
  ImageBytes(std::span<const std::uint8_t> bytes, const std::string& name,
             const ImageLimits& limits, const char* format)
      : bytes_(bytes), name_(name), limits_(limits), format_(format) {}

  std::size_t size() const { return bytes_.size(); }
  const std::uint8_t* data() const { return bytes_.data(); }

  std::size_t byte(std::size_t at) const {
    need(at, 1);
    return bytes_[at];
  }
  std::size_t big32(std::size_t at) const {
    return byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
  }
  std::size_t little16(std::size_t at) const { return byte(at) | byte(at + 1) << 8; }
  std::size_t little32(std::size_t at) const { return little16(at) | little16(at + 2) << 16; }

  std::span<const std::uint8_t> part(std::size_t at, std::size_t count) const {
    need(at, count);
    return bytes_.subspan(at, count);
  }
  void need(std::size_t at, std::size_t count) const {
    if (at > size() || size() - at < count) cut_short();
  }

  [[noreturn]] void cut_short() const;
  [[noreturn]] void damaged(const std::string& what) const;
  /// A kind of image, such as "a GIF".
  [[noreturn]] void unread(const std::string& kind) const;
  /// `why` is what the library says of it, if anything.
  [[noreturn]] void undecodable(std::string_view why) const;

  /// To be asked before anything is allocated or decoded.
  void check_size(std::size_t width, std::size_t height) const;
  /// Bytes that compressed pixels become before they are converted.
  void check_unpacked(std::size_t width, std::size_t height, std::size_t bytes) const;
  [[noreturn]] void too_many_scans(std::size_t width, std::size_t height, std::size_t scans) const;

 private:
  std::span<const std::uint8_t> bytes_;
  const std::string& name_;
  const ImageLimits& limits_;
  const char* format_;
};

}  // namespace contcore
