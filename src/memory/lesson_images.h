// The images of a lesson, as they came, in a file of their own, so that the lesson can be taken
// again when one before it is taken back.
//
//   8 bytes   "CCIMGS1\n"
//   images    u32  length
//             u32  CRC-32C of the length and the bytes
//             bytes
//
// All numbers are little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace contcore {

/// Writes such a file. It is removed again unless it is released.
class LessonImagesWriter {
 public:
  /// Begins the file at `path`, in place of one that may be there, with the rights of the file
  /// `like`. Throws Error (kInput).
  LessonImagesWriter(const std::string& path, const std::string& like, std::size_t most_bytes);
  ~LessonImagesWriter();
  LessonImagesWriter(const LessonImagesWriter&) = delete;
  LessonImagesWriter& operator=(const LessonImagesWriter&) = delete;

  /// Throws Error (kInput) when the disk does not take it. With more than the most bytes none of
  /// them is kept any more.
  void append(std::span<const std::uint8_t> image);

  /// Takes some out again, by their numbers. Throws Error (kInput) when the disk fails, and nothing
  /// of them is to be kept then.
  void leave_out(const std::vector<bool>& without);

  bool is_too_large() const { return is_too_large_; }
  std::size_t bytes() const { return bytes_; }

  /// Flushes, and gives the file a name that stays. Throws Error (kInput).
  void keep_as(const std::string& path);

 private:
  void write(std::span<const std::uint8_t> data);

  std::string path_;
  File file_;
  std::size_t most_;
  std::size_t bytes_ = 0;
  bool is_too_large_ = false;
};

/// Reads it, one image after the other.
class LessonImagesReader {
 public:
  /// Throws Error: kInput when it is not there or is no such file.
  explicit LessonImagesReader(const std::string& path);

  /// Nothing behind the last. Throws Error (kDamaged) where the file is cut short or altered; no
  /// more is allocated than the file has bytes.
  std::optional<std::vector<std::uint8_t>> next();

 private:
  void read(std::span<std::uint8_t> data);

  std::string path_;
  OpenFile file_;
  std::size_t at_ = 0;
};

}  // namespace contcore
