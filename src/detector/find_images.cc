#include "detector/find_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "contcore/detector.h"
#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

}  // namespace

bool is_image_name(const std::string& name) {
  constexpr std::array<std::string_view, 9> kEndings = {".png",  ".jpg",  ".jpeg", ".bmp", ".tif",
                                                        ".tiff", ".webp", ".pgm",  ".ppm"};
  const fs::path path(name);
  if (path.filename().string().starts_with(".")) return false;
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

std::vector<std::string> images_in_folder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored) && is_image_name(at->path().string())) {
      files.push_back(at->path().string());
    }
  }
  if (error) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: cannot be searched: {}", folder, error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> find_images(const std::vector<std::string>& paths) {
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
    const std::vector<std::string> found = images_in_folder(path);
    if (found.empty()) {
      throw Error(
          Error::Kind::kInput,
          fmt::format("{}: no images in this folder (PNG, JPEG, BMP, TIFF, WebP, PNM)", path));
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace contcore
