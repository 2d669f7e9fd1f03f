#include "detector/find_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "contcore/detector.h"
#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kRead = {".png",  ".jpg",  ".jpeg", ".bmp", ".tif",
                                                   ".tiff", ".webp", ".pgm",  ".ppm"};
constexpr std::array<std::string_view, 20> kUnread = {
    ".heic", ".heif", ".avif", ".gif", ".jp2", ".j2k", ".jxl", ".jfif", ".dng", ".raw",
    ".cr2",  ".cr3",  ".nef",  ".arw", ".orf", ".rw2", ".psd", ".exr",  ".tga", ".dcm"};

bool ends_as(const std::string& name, std::span<const std::string_view> endings) {
  const fs::path path(name);
  if (path.filename().string().starts_with(".")) return false;
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

}  // namespace

bool is_image_name(const std::string& name) { return ends_as(name, kRead); }
bool is_unread_picture(const std::string& name) { return ends_as(name, kUnread); }

std::vector<std::string> images_in_folder(const std::string& folder,
                                          std::vector<std::string>* unread) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;
    const std::string name = at->path().string();
    if (is_image_name(name)) files.push_back(name);
    if (unread != nullptr && is_unread_picture(name)) unread->push_back(name);
  }
  if (error) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: cannot be searched: {}", folder, error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string joined(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

std::string remark_on_unread(std::vector<std::string> unread) {
  constexpr std::size_t kMostNamed = 3;
  std::sort(unread.begin(), unread.end());
  return fmt::format("{} of a format that is not read, and left out: {}; convert {} to PNG or JPEG",
                     unread.size() == 1 ? "1 file is" : fmt::format("{} files are", unread.size()),
                     joined(unread, kMostNamed), unread.size() == 1 ? "it" : "them");
}

std::vector<std::string> find_images(const std::vector<std::string>& paths,
                                     std::vector<std::string>* unread) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      throw Error(Error::Kind::kInput, fmt::format("{}: there is no such file or folder", path));
    }
    if (!fs::is_directory(status)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> others;
    const std::vector<std::string> found = images_in_folder(path, &others);
    if (found.empty()) {
      std::sort(others.begin(), others.end());
      throw Error(
          Error::Kind::kInput,
          fmt::format("{}: no images in this folder (PNG, JPEG, BMP, TIFF, WebP, PNM){}", path,
                      others.empty() ? ""
                                     : fmt::format("; {} is of a format that is not read: "
                                                   "convert it to PNG or JPEG",
                                                   others.front())));
    }
    if (unread != nullptr) unread->insert(unread->end(), others.begin(), others.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace contcore
