#include "evaluate/feature_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/npy_writer.h"
#include "base/sha256.h"
#include "contcore/error.h"
#include "detector/extract_images.h"
#include "evaluate/leftovers.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostPlaces = std::size_t{256} << 20;

// The vectors of a file that is there and whole; nothing of another.
std::optional<NpyVectors> whole_vectors(const std::string& path, std::size_t rows,
                                        std::size_t cols) {
  try {
    NpyVectors vectors(path);
    if (vectors.view().rows == rows && vectors.view().cols == cols) return vectors;
  } catch (const Error&) {
    // Not there, or damaged.
  }
  return {};
}

// A lock that says that the file is read, as long as it is open. Who looks whether there is one has
// the lock for a moment; who makes room has it until the file is gone, which then is not opened.
// Without one where none can be had.
File open_to_read(const std::string& path) {
  constexpr int kTries = 100;
  constexpr std::chrono::milliseconds kBetween{10};
  for (int i = 0; i < kTries; ++i) {
    File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) break;
    const bool taken = ::flock(file.fd(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && is_still_at(file.fd(), path)) return file;
    std::this_thread::sleep_for(kBetween);
  }
  return File(-1);
}

// A half-written file of vectors.
class FeatureFile {
 public:
  FeatureFile(const std::string& base, std::size_t cols, Scalar scalar)
      : half_(base), cols_(cols), writer_(half_.file().fd(), cols, scalar) {
    if (!half_.file().is_open()) fail();
  }

  void append(const Vectors& rows) {
    if (!writer_.append(rows.view())) fail();
  }

  void finish() {
    if (!writer_.finish() || !half_.finish()) fail();
  }

  std::size_t rows() const { return writer_.rows(); }
  std::size_t bytes() const { return writer_.bytes(); }
  const std::string& path() const { return half_.path(); }

  /// Gives the file its name, unless another process was sooner with its own, which is as good. On
  /// NFS a file is kept for those who have it open on the machine that removes it, not for those on
  /// others, so what is there is replaced only if it is damaged.
  void take_name(const std::string& name) {
    if (half_.link_to(name) || whole_vectors(name, rows(), cols_)) return;
    if (!half_.rename_to(name)) {
      throw Error(Error::Kind::kInput, fmt::format("{}: {}", name, std::strerror(errno)));
    }
  }

  /// The file, locked by who reads it and no longer by who wrote it.
  File to_read() {
    ::flock(half_.file().fd(), LOCK_SH);
    return std::move(half_.file());
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: {}; free some space or name another folder with --cache", path(),
                            std::strerror(errno)));
  }

  HalfWritten half_;
  std::size_t cols_;
  NpyWriter writer_;
};

std::string temporary_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

nlohmann::json to_json(const ImageFeatures& features) {
  nlohmann::json places = nlohmann::json::array();
  for (const ImagePlace& p : features.images) {
    places.push_back({p.end, p.grid_width, p.grid_height, p.input.width, p.input.height,
                      p.input.left, p.input.top, p.input.right, p.input.bottom, p.image_width,
                      p.image_height, p.input.tile});
  }
  return {{"images", places}, {"seconds", features.seconds}};
}

// Nothing when it is not what `to_json` wrote for these vectors.
bool read_places(const std::string& path, ImageFeatures& features) {
  const std::vector<std::uint8_t> bytes = read_whole(path, "a list of places", kMostPlaces);
  const nlohmann::json read = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, false);
  if (!read.is_object() || !read.contains("images") || !read.contains("seconds")) return false;
  try {
    features.seconds = read["seconds"].get<double>();
    std::size_t end = 0;
    for (const nlohmann::json& p : read["images"]) {
      ImagePlace place;
      place.end = p.at(0).get<std::size_t>();
      place.grid_width = p.at(1).get<std::size_t>();
      place.grid_height = p.at(2).get<std::size_t>();
      place.input.width = p.at(3).get<std::size_t>();
      place.input.height = p.at(4).get<std::size_t>();
      place.input.left = p.at(5).get<double>();
      place.input.top = p.at(6).get<double>();
      place.input.right = p.at(7).get<double>();
      place.input.bottom = p.at(8).get<double>();
      place.image_width = p.at(9).get<std::size_t>();
      place.image_height = p.at(10).get<std::size_t>();
      if (p.size() > 11) place.input.tile = p.at(11).get<std::size_t>();
      constexpr std::size_t kMostSide = 1 << 20;
      if (place.end <= end ||
          std::max({place.grid_width, place.grid_height, place.input.width, place.input.height,
                    place.input.tile}) > kMostSide ||
          place.end - end != place.grid_width * place.grid_height || place.input.width == 0 ||
          place.input.height == 0) {
        return false;
      }
      end = place.end;
      features.images.push_back(std::move(place));
    }
    return end == features.vectors.view().rows;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

FeatureCache::FeatureCache(std::string folder, std::size_t limit)
    : folder_(std::move(folder)), limit_(limit) {
  if (folder_.empty()) {
    remove_leftovers(temporary_folder());
    return;
  }
  std::error_code reason, ignored;
  fs::create_directories(folder_, reason);
  if (!fs::is_directory(folder_, ignored)) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: the folder for the cache cannot be made: {}; name another with "
                            "--cache, or set XDG_CACHE_HOME",
                            folder_, reason.message()));
  }
  remove_leftovers(folder_);
}

std::string FeatureCache::state_of(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    throw Error(Error::Kind::kInput, fmt::format("{}: {}", file, std::strerror(errno)));
  }
  return fmt::format("{} {} {} {}", fs::absolute(file).string(), status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string FeatureCache::key(const Extractor& extractor, const std::vector<std::string>& files) {
  const Backbone& backbone = extractor.backbone();
  std::string text = "features 1\n" + backbone.hash() + "\n";
  for (const std::string& layer : backbone.layers()) text += layer + "\n";
  const Geometry& geometry = extractor.geometry();
  text += fmt::format("{} {} {} {}\n", geometry.resize_text(), geometry.crop_text(),
                      extractor.embedding().dimension, extractor.embedding().neighbourhood);
  if (geometry.tile != 0) {
    text += fmt::format("tiles {} {}\n", geometry.tile_text(), geometry.overlap_text());
  }
  if (const auto& bytes = extractor.byte_scale()) {
    text += fmt::format("bytes {} {}\n", bytes->scale, bytes->zero);
  }
  for (const std::string& file : files) text += state_of(file) + "\n";
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  return sha256({&part, 1}).substr(0, 32);
}

bool FeatureCache::has(const Extractor& extractor, const std::vector<std::string>& files) const {
  const std::string name = key(extractor, files);
  if (folder_.empty()) return nameless_.count(name) != 0;
  const std::string base = (fs::path(folder_) / name).string();
  return fs::exists(base + ".json") && fs::exists(base + ".npy");
}

void FeatureCache::look_again() const {
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
  }
}

std::shared_ptr<const ImageFeatures> FeatureCache::open(const std::string& key) const {
  const std::string base = (fs::path(folder_) / key).string();
  std::error_code error;
  if (!fs::exists(base + ".json", error) || !fs::exists(base + ".npy", error)) return nullptr;
  auto features = std::make_shared<ImageFeatures>();
  try {
    features->read = open_to_read(base + ".npy");
    if (!features->read.is_open()) return nullptr;
    features->vectors = NpyVectors(base + ".npy");
    if (!read_places(base + ".json", *features)) return nullptr;
  } catch (const Error&) {
    return nullptr;  // made anew
  }
  ::utimensat(AT_FDCWD, (base + ".npy").c_str(), nullptr, 0);  // used now
  return features;
}

std::shared_ptr<const ImageFeatures> FeatureCache::get(const Extractor& extractor,
                                                       const std::vector<std::string>& files,
                                                       Compute& compute,
                                                       const Progress& progress) const {
  const std::string name = key(extractor, files);
  if (folder_.empty()) {
    if (const auto known = nameless_.find(name); known != nameless_.end()) return known->second;
  } else if (auto found = open(name)) {
    return found;
  }
  const std::string folder = folder_.empty() ? temporary_folder() : folder_;
  auto features = std::make_shared<ImageFeatures>();
  const auto start = std::chrono::steady_clock::now();
  std::optional<FeatureFile> writer;
  const Scalar scalar = extractor.byte_scale() ? Scalar::kUint8 : Scalar::kFloat32;
  writer.emplace((fs::path(folder) / name).string(), extractor.embedding().dimension, scalar);
  extract_images(extractor, ImageFiles(files), 0, files.size(), false, compute, progress,
                 [&](std::size_t, Extracted& image) {
                   if (!image.patches) throw Error(Error::Kind::kInput, image.error);
                   Patches& patches = *image.patches;
                   writer->append(patches.vectors);
                   features->images.push_back({writer->rows(), patches.grid_width,
                                               patches.grid_height, std::move(patches.input),
                                               patches.image_width, patches.image_height});
                 });
  writer->finish();
  extractor.release();
  features->seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::size_t bytes = writer->bytes();
  features->vectors = NpyVectors(writer->path());  // the mapping outlives the name
  if (folder_.empty()) nameless_[name] = features;
  if (folder_.empty() || bytes > limit_) return features;
  make_room(bytes, writer->path());
  const std::string base = (fs::path(folder_) / name).string();
  writer->take_name(base + ".npy");
  features->read = writer->to_read();  // before the others are told that it is there
  const std::string places = to_json(*features).dump();
  const std::span<const std::byte> part = std::as_bytes(std::span(places));
  write_to_cache(base + ".json", part);
  return features;
}

void FeatureCache::make_room(std::size_t bytes, const std::string& own) const {
  remove_leftovers(folder_);
  struct Entry {
    fs::file_time_type used;
    fs::path path;
    std::size_t bytes;
  };
  std::vector<Entry> entries;
  std::size_t total = bytes;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    // What others are writing takes room too.
    if (is_half_written(entry.path().filename().string()) && entry.path() != own) {
      const std::uintmax_t size = entry.file_size(error);
      if (!error) total += static_cast<std::size_t>(size);
    }
    if (entry.path().extension() != ".npy") continue;
    entries.push_back({entry.last_write_time(error), entry.path(),
                       static_cast<std::size_t>(entry.file_size(error))});
    total += entries.back().bytes;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_) break;
    const File ours = lock_unused(entry.path.string());  // until it is gone
    if (!ours.is_open()) continue;
    fs::path places = entry.path;
    fs::remove(places.replace_extension(".json"), error);
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

}  // namespace contcore
