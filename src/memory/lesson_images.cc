// In: images as they came. Out: the same, later. Fails when the disk does not take them, and where
// the file is not what was written.
#include "memory/lesson_images.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "base/file_system.h"
#include "base/refuse.h"
#include "contcore/error.h"
#include "memory/journal_format.h"

namespace contcore {
namespace {

constexpr std::string_view kImagesMagic = "CCIMGS1\n";
constexpr std::size_t kImageHeaderBytes = 8;
constexpr std::size_t kMostImageBytes = 0xFFFFFFFF;
constexpr std::size_t kMostInOneCall = std::size_t{1} << 30;

std::uint32_t image_checksum(const std::uint8_t* length, std::span<const std::uint8_t> image) {
  return crc32c(crc32c(0, {length, 4}), image);
}

}  // namespace

LessonImagesWriter::LessonImagesWriter(const std::string& path, const std::string& like,
                                       std::size_t most_bytes)
    : path_(path),
      file_(file_system().open(
          path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600)),
      most_(most_bytes) {
  if (!file_.is_open()) {
    refuse(path_, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
  share_rights(file_.fd(), like);
  write({reinterpret_cast<const std::uint8_t*>(kImagesMagic.data()), kImagesMagic.size()});
}

LessonImagesWriter::~LessonImagesWriter() {
  if (!path_.empty()) file_system().unlink(path_.c_str());
}

void LessonImagesWriter::write(std::span<const std::uint8_t> data) {
  while (!data.empty()) {
    const ssize_t written = file_system().write(
        file_.fd(), data.data(), std::min(data.size(), kMostInOneCall), static_cast<off_t>(bytes_));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      refuse(path_,
             fmt::format("cannot be written: {}", disk_reason(written < 0 ? errno : ENOSPC)));
    }
    data = data.subspan(static_cast<std::size_t>(written));
    bytes_ += static_cast<std::size_t>(written);
  }
}

void LessonImagesWriter::append(std::span<const std::uint8_t> image) {
  if (is_too_large_) return;
  if (image.size() > kMostImageBytes || bytes_ + kImageHeaderBytes + image.size() > most_) {
    is_too_large_ = true;
    file_system().truncate(file_.fd(), 0);
    return;
  }
  std::array<std::uint8_t, kImageHeaderBytes> header{};
  journal_format::store(header.data(), static_cast<std::uint32_t>(image.size()));
  journal_format::store(header.data() + 4, image_checksum(header.data(), image));
  write(header);
  write(image);
}

// What is written is never ahead of what is read.
void LessonImagesWriter::leave_out(const std::vector<bool>& without) {
  if (is_too_large_) return;
  LessonImagesReader reader(path_);
  bytes_ = kImagesMagic.size();
  for (const bool is_out : without) {
    const auto image = reader.next();
    if (!image) break;
    if (!is_out) append(*image);
  }
  if (file_system().truncate(file_.fd(), static_cast<off_t>(bytes_)) != 0) {
    refuse(path_, fmt::format("cannot be written: {}", disk_reason(errno)));
  }
}

void LessonImagesWriter::keep_as(const std::string& path) {
  if (file_system().sync(file_.fd()) != 0 || !file_.close() ||
      file_system().rename(path_.c_str(), path.c_str()) != 0 || !flush_folder_of(path)) {
    refuse(path, fmt::format("cannot be written: {}", disk_reason(errno)));
  }
  path_.clear();
}

LessonImagesReader::LessonImagesReader(const std::string& path)
    : path_(path), file_(open_regular(path, "the images of a lesson")) {
  std::array<std::uint8_t, kImagesMagic.size()> magic{};
  if (file_.bytes < magic.size()) refuse_damaged(path_, "it is cut short");
  read(magic);
  if (!std::equal(magic.begin(), magic.end(), kImagesMagic.begin())) {
    refuse(path_, "these are not the images of a lesson");
  }
}

void LessonImagesReader::read(std::span<std::uint8_t> data) {
  for (std::size_t done = 0; done < data.size();) {
    const ssize_t got = file_system().read(file_.file.fd(), data.data() + done,
                                           std::min(data.size() - done, kMostInOneCall),
                                           static_cast<off_t>(at_ + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path_, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) refuse_damaged(path_, "it is cut short");
    done += static_cast<std::size_t>(got);
  }
  at_ += data.size();
}

std::optional<std::vector<std::uint8_t>> LessonImagesReader::next() {
  if (at_ == file_.bytes) return std::nullopt;
  std::array<std::uint8_t, kImageHeaderBytes> header{};
  if (file_.bytes - at_ < header.size()) refuse_damaged(path_, "it is cut short");
  read(header);
  const auto length = journal_format::load<std::uint32_t>(header.data());
  if (length > file_.bytes - at_) refuse_damaged(path_, "it is cut short");
  std::vector<std::uint8_t> image(length);
  read(image);
  if (image_checksum(header.data(), image) !=
      journal_format::load<std::uint32_t>(header.data() + 4)) {
    refuse_damaged(path_, "the checksum of an image does not match");
  }
  return image;
}

}  // namespace contcore
