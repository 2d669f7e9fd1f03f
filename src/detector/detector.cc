#include "contcore/detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "backbone/fetch.h"
#include "base/file.h"
#include "base/peak_memory.h"
#include "base/rows.h"
#include "contcore/error.h"
#include "detector/feature_store.h"
#include "detector/in_order.h"
#include "detector/lessons.h"
#include "detector/parts.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kExtractShare = 0.85;     // of the time that learning takes, about
constexpr std::size_t kImagesAtATime = 8;  // for each thread
constexpr double kDefaultP = 0.01;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

// As long as it lives the memory may change; it is as before where an exception ends that. The copy
// is put back, not learned into: the memory keeps what makes learning online fast.
class PutBack {
 public:
  explicit PutBack(Memory& memory)
      : memory_(memory), before_(memory.copy()), exceptions_(std::uncaught_exceptions()) {}
  ~PutBack() {
    if (std::uncaught_exceptions() > exceptions_) memory_ = std::move(before_);
  }
  PutBack(const PutBack&) = delete;
  PutBack& operator=(const PutBack&) = delete;

 private:
  Memory& memory_;
  Memory before_;
  int exceptions_;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

}  // namespace

Detector::Detector(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Detector::~Detector() = default;
Detector::Detector(Detector&&) noexcept = default;
Detector& Detector::operator=(Detector&&) noexcept = default;

Detector::Detector(const DetectorOptions& options) {
  const std::string named = options.backbone.empty() ? default_backbone() : options.backbone;
  Backbone backbone(resolve_backbone(named), options.layers);
  Memory memory(options.dimension, options.capacity, options.consolidate);
  const bool is_name = named == "builtin" || named == "resnet50";
  std::error_code ignored;
  memory.source["backbone"] = is_name ? named
                              : named == cached_backbone("resnet50")
                                  ? "resnet50"
                                  : std::filesystem::weakly_canonical(named, ignored).string();
  memory.source["backbone.sha256"] = backbone.hash();
  memory.source["layers"] = contcore::join(backbone.layers());
  memory.source["resize"] = options.geometry.resize_text();
  memory.source["crop"] = options.geometry.crop_text();
  PatchEmbedding embedding;
  embedding.dimension = options.dimension;
  memory.source["neighbourhood"] = fmt::format("{}", embedding.neighbourhood);
  parts_ =
      std::make_unique<Parts>(std::move(backbone), options.geometry, embedding, std::move(memory));
}

Detector Detector::open(const std::string& path, const std::string& backbone,
                        std::size_t* lessons) {
  SavedMemory saved = open_saved(path);
  auto parts = Parts::with_backbone(std::move(saved.memory), path, backbone);
  parts->path = path;
  parts->folded = saved.folded;
  if (!saved.records.empty()) {
    Compute compute;
    replay(parts->memory, parts->extractor, saved.records, journal_of(path), compute);
  }
  if (lessons != nullptr) *lessons = saved.records.size();
  return Detector(std::move(parts));
}

std::unique_ptr<Detector::Parts> Detector::Parts::with_backbone(Memory memory,
                                                                const std::string& path,
                                                                const std::string& backbone_file) {
  const auto said = [&](const std::string& key) -> const std::string& {
    const auto found = memory.source.find(key);
    if (found != memory.source.end()) return found->second;
    throw Error(Error::Kind::kInput,
                fmt::format("{}: the memory does not say its {}; it was not learned from images",
                            path, key));
  };
  const std::string named = backbone_file.empty() ? said("backbone") : backbone_file;
  const std::string file = resolve_backbone(named);
  if (file != "builtin" && !std::filesystem::exists(file)) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: its backbone {} is not there; name the file with --backbone", path, file));
  }
  Backbone backbone(file, split(said("layers")));
  if (backbone.hash() != said("backbone.sha256")) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: was learned with another backbone ({}, sha256 {:.12}…) than {} "
                    "(sha256 {:.12}…); name the right one with --backbone",
                    path, said("backbone"), said("backbone.sha256"), file, backbone.hash()));
  }
  const Geometry geometry = Geometry::parse(said("resize"), said("crop"));
  PatchEmbedding embedding;
  embedding.dimension = memory.dimension();
  if (said("neighbourhood") != fmt::format("{}", embedding.neighbourhood)) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: was learned with neighbourhoods of {}, which this version does not "
                    "make",
                    path, said("neighbourhood")));
  }
  return std::make_unique<Parts>(std::move(backbone), geometry, embedding, std::move(memory));
}

const Memory& Detector::memory() const { return parts_->memory; }

void Detector::save(const std::string& path) const {
  const bool same = !parts_->path.empty() && real_path(parts_->path) == real_path(path);
  const bool folded = same && parts_->folded;
  parts_->memory.save(path, folded ? parts_->folded->text() : "");
}

void Detector::shrink(std::size_t count, Compute& compute) {
  parts_->memory = parts_->memory.shrink(count, compute);
}

std::string Detector::backbone_text() const { return contcore::backbone_text(parts_->memory); }

std::unique_ptr<Detector::Parts> Detector::take_apart() && { return std::move(parts_); }

LearnReport Detector::learn(const std::vector<std::string>& files, const LearnOptions& options,
                            Compute& compute) {
  if (options.task.empty()) {
    throw Error(Error::Kind::kUsage, "a task needs a name; give it with --task NAME");
  }
  Memory& memory = parts_->memory;
  memory.check_task(options.task);  // before the images are looked at, which may take long
  const std::size_t limit = options.memory_limit != 0 ? options.memory_limit : machine_memory() / 2;
  LearnReport report;
  LearnHow how;
  how.task = options.task;
  how.p = options.p != 0 ? options.p : options.online ? kOnlineRatio : kDefaultP;

  FeatureStore features(memory.dimension(), limit / 2);
  FeatureStore held(memory.dimension(), limit / 8);
  std::vector<std::size_t> held_ends;
  const auto hold_out = [&](const Patches& patches) {
    held.append(patches.vectors.data(), patches.vectors.rows());
    held_ends.push_back(held.rows());
    ++report.held_out;
  };
  // The last to be learned waits: should the next images not be readable, it is held out.
  std::optional<Patches> last;
  Clock::time_point start = Clock::now();
  const Progress extracting = part_of(options.progress, 0.0, options.online ? 1.0 : kExtractShare);
  std::vector<Patches> waiting;  // online, for the memory to learn with all threads
  const auto learn_last = [&] {
    if (!last) return;
    report.patches += last->vectors.rows();
    ++report.learned;
    if (options.online) {
      waiting.push_back(std::move(*last));
    } else {
      features.append(last->vectors.data(), last->vectors.rows());
    }
    last.reset();
  };
  std::size_t usable = 0;
  const auto take = [&](std::size_t i, Extracted& image) {
    if (!image.patches) {
      if (options.strict) throw Error(Error::Kind::kInput, image.error);
      report.skipped.push_back({files[i], image.error});
    } else if (is_held_out(usable++, files.size() - report.skipped.size(), options.hold_out)) {
      hold_out(*image.patches);
    } else {
      learn_last();
      last = std::move(image.patches);
    }
  };
  std::optional<PutBack> put_back;
  const auto learn_waiting = [&] {
    const Clock::time_point sampling = Clock::now();
    if (!put_back) put_back.emplace(memory);
    for (const Patches& patches : waiting)
      memory.learn_online(patches.vectors.view(), how, compute);
    waiting.clear();
    report.sample_seconds += seconds_since(sampling);
  };
  const std::size_t at_a_time = options.online ? kImagesAtATime * compute.threads().count()
                                               : std::max<std::size_t>(1, files.size());
  for (std::size_t first = 0; first < files.size(); first += at_a_time) {
    for_images(parts_->extractor, files, first, std::min(at_a_time, files.size() - first), compute,
               extracting, take);
    learn_waiting();
  }
  if (held_ends.empty() && options.hold_out > 0 && report.learned > 0 && last) {
    hold_out(*last);
    last.reset();
  }
  learn_last();
  learn_waiting();
  parts_->extractor.rest();
  report.extract_seconds = seconds_since(start) - report.sample_seconds;
  report.on_disk = features.on_disk();
  if (report.learned == 0) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("task '{}': none of {} images can be used: {}", options.task, files.size(),
                    report.skipped.empty() ? "there are none" : report.skipped[0].reason));
  }
  start = Clock::now();
  if (!options.online) {
    const std::size_t taken = own_memory() + 3 * memory.capacity() * memory.dimension() * 4;
    const std::size_t least = limit / 8;
    how.memory_limit = limit > taken + least ? limit - taken : least;
    how.images = report.learned;
    how.progress = part_of(options.progress, kExtractShare, 1.0);
    memory.learn(features.view(), how, compute);
  }
  memory.hold_out(held.view(), held_ends, options.task, compute);
  memory.recalibrate(compute);
  report.sample_seconds += seconds_since(start);
  return report;
}

void Detector::learn_online(const Image& image, const LearnOptions& options, Compute& compute) {
  const Patches patches = parts_->extractor.extract(image, compute);
  learn_patches(parts_->memory, patches.vectors.view(), options, "", compute);
}

Inspection Detector::inspect(const Image& image, const InspectOptions& options,
                             Compute& compute) const {
  const Memory& memory = parts_->memory;
  const Patches patches = parts_->extractor.extract(image, compute);
  const std::vector<float> distances = memory.distances(patches.vectors.view(), compute);
  Inspection seen = judge(memory, patches.vectors.view(), distances, options);
  if (!options.map) return seen;
  const NetworkInput& input = patches.input;
  seen.map = to_original(
      anomaly_map(distances, patches.grid_width, patches.grid_height, input.width, input.height),
      input, image);
  const auto peak = std::max_element(seen.map.values.begin(), seen.map.values.end());
  const auto at = static_cast<std::size_t>(peak - seen.map.values.begin());
  seen.peak_x = at % seen.map.width;
  seen.peak_y = at / seen.map.width;
  const auto threshold = seen.threshold ? std::optional(seen.threshold->score) : std::nullopt;
  seen.level = outline_level(seen.score, threshold, *peak);
  return seen;
}

void Detector::inspect(const std::vector<std::string>& files, const InspectOptions& options,
                       Compute& compute, const std::function<bool(Inspected&)>& each) const {
  const auto look = [&](const std::string& file, Compute& with) {
    Inspected result;
    result.file = file;
    const Clock::time_point start = Clock::now();
    try {
      result.image = read_image(file);
      result.seen = inspect(result.image, options, with);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kInput) throw;
      result.error = error.what();
    }
    result.seconds = seconds_since(start);
    return result;
  };
  if (parts_->memory.size() == 0) {
    throw Error(Error::Kind::kInput, "the memory is empty; learn good images first");
  }
  if (files.size() == 1) {
    Inspected result = look(files[0], compute);
    each(result);
    return;
  }
  std::atomic<bool> stop = false;
  run_in_order<Inspected>(
      compute, files.size(), kMostImagesAhead,
      [&](std::size_t i, std::size_t) {
        Compute one(1);
        return stop ? Inspected{} : look(files[i], one);
      },
      [&](std::size_t, Inspected& result) {
        if (!stop && !each(result)) stop = true;
      });
}

const char* verdict(const Inspection& seen) {
  if (!seen.threshold) return "unknown";
  return seen.rejected ? "defect" : "good";
}

Image draw_inspection(const Image& image, const Inspection& seen) {
  Overlay overlay;
  overlay.rejected = seen.rejected;
  overlay.judged = seen.threshold.has_value();
  overlay.level = seen.level;
  const HeatRange range = heat_range(seen.map, seen.level);
  overlay.low = range.low;
  overlay.high = range.high;
  overlay.caption = fmt::format("{}  {:.2f}", seen.rejected ? "DEFECT" : verdict(seen), seen.score);
  if (seen.threshold) overlay.caption += fmt::format(" / {:.2f}", seen.threshold->score);
  return draw_overlay(image, seen.map, overlay);
}

}  // namespace contcore
