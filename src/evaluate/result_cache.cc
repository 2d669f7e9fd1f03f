#include "evaluate/result_cache.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "contcore/error.h"
#include "evaluate/leftovers.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostProgram = std::size_t{4} << 30;
constexpr std::size_t kMostResult = std::size_t{256} << 20;

std::string hash(const std::vector<std::uint8_t>& bytes) {
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
  return sha256({&part, 1});
}

// The file that this code was loaded from: the program, or a library that a program has loaded.
std::string own_file() {
  static const char inside = 0;
  const auto address = reinterpret_cast<std::uintptr_t>(&inside);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string permissions, offset, device, inode, path;
    fields >> std::hex >> begin >> dash >> end >> permissions >> offset >> device >> inode;
    if (address < begin || address >= end) continue;
    std::getline(fields >> std::ws, path);
    std::error_code error;
    // This name opens a program that was deleted or replaced, too.
    return path == fs::read_symlink("/proc/self/exe", error) ? "/proc/self/exe" : path;
  }
  return "/proc/self/exe";
}

const std::string& program_hash() {
  static const std::string value = hash(read_whole(own_file(), "a program", kMostProgram));
  return value;
}

struct Picture {
  const char* name;
  Image Verdict::*image;
};
constexpr Picture kPictures[] = {
    {"image", &Verdict::image}, {"heat", &Verdict::heat}, {"mask", &Verdict::mask}};

}  // namespace

ResultCache::ResultCache(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!fs::is_directory(folder_, error)) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: the folder for results cannot be made; name another with --cache",
                            folder_));
  }
  remove_leftovers(folder_);
}

std::string ResultCache::path(const std::string& key) const {
  const std::string text = program_hash() + "\n" + key;
  return (fs::path(folder_) / hash({text.begin(), text.end()}).substr(0, 32)).string();
}

bool ResultCache::has(const std::string& key) const {
  std::error_code error;
  return !folder_.empty() && fs::exists(path(key) + ".json", error);
}

std::optional<RunResult> ResultCache::find(const std::string& key) const {
  if (!has(key)) return {};
  const std::string base = path(key);
  std::error_code error;
  try {
    const std::vector<std::uint8_t> bytes = read_whole(base + ".json", "a result", kMostResult);
    RunResult result = result_from_json({bytes.begin(), bytes.end()}, base + ".json");
    for (std::size_t i = 0; i < result.gallery.size(); ++i) {
      for (const Picture& picture : kPictures) {
        const std::string file = fmt::format("{}-{}-{}.png", base, i, picture.name);
        if (fs::exists(file, error)) result.gallery[i].*picture.image = read_image(file);
      }
    }
    return result;
  } catch (const Error&) {
    return {};  // made anew
  }
}

void ResultCache::keep(const std::string& key, const RunResult& result) const {
  if (folder_.empty()) return;
  const std::string base = path(key);
  for (std::size_t i = 0; i < result.gallery.size(); ++i) {
    for (const Picture& picture : kPictures) {
      const Image& image = result.gallery[i].*picture.image;
      if (image.width == 0) continue;
      const std::vector<std::uint8_t> png = encode_png(image);
      write_to_cache(fmt::format("{}-{}-{}.png", base, i, picture.name),
                     std::as_bytes(std::span(png)));
    }
  }
  const std::string text = to_json(result);
  // Last: it says that all is there.
  write_to_cache(base + ".json", std::as_bytes(std::span(text)));
}

}  // namespace contcore
