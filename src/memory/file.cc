// A memory's file: safetensors (base/safetensors.h) with these arrays, n vectors of D numbers,
//
//   vectors              F32 n × D   the memory, in its order; or U8, of bytes
//   origin               I32 n       the task each came from, a number in "tasks"
//   radius               F32 n       its distance to the rest when expansion took it
//   slack                F32 n       the certificate's radius around it (docs/method.md)
//   calibration.task     I32 h       of each image that calibrates: its task,
//   calibration.vectors  I32 h       the vectors that had when it was scored,
//   calibration.first    F32 h       its score then,
//   calibration.level    I32 h       the level of its first score below, and
//   calibration.end      I32 h       the place behind its last
//   calibration.scores   F32 s       with 2^(-level / 2) of those vectors, level after level
//   calibration.hash     I32 2 h     a hash of its features, the lower half first
//   calibration.strange  F32 h       how far its mean patch was from those of others; 0: not known
//   calibration.means    F32 k × D   mean patches of images, or U8 as the vectors are,
//   calibration.mean_of  I32 k       and the task of each
//   learned.hash         I32 l       of learned images the smallest hashes, their upper halves,
//   learned.end          I32 t       of each task: the place behind its last, and
//   learned.limit        I32 t       the limit below which there are all; unsigned, as the hashes
//   suspects.patches     F32 q × D   where images that calibrate are strangest, or U8,
//   suspects.image       I32 q       the image of each, a row of calibration.task, rising,
//   suspects.distance    F32 q       its distance when that was scored, and
//   suspects.value       F32 q       the map's value there
//   defects.patches      F32 b × D   known defects, or U8, in the order they were picked,
//   defects.patch_of     I32 b       and the task of each, rising
//   defects.image        I32 2 e     hashes of the images that showed them, the lower half first,
//   defects.image_of     I32 e       and the task of each, rising; earlier versions lack these
//   eight
//
// and this text: "format", "capacity", "consolidate", "q", "greedy_order", "tasks" (a JSON list),
// "journal" (memory/journal.h) where lessons came from one, and one entry "source.NAME" for all
// that says where the features come from.
//
// "format" is "contcore memory 3" where a task has a region of interest, which versions that know
// "contcore memory 2" alone would not look through: then "tasks" has its text
// (contcore/region_of_interest.h).
//
// "contcore memory 1", which is read too, has of each of h held-out images calibration.means (F32
// h × D), calibration.task, calibration.first and calibration.score (now), and patches to be scored
// again: calibration.patches (F32 c × D) and calibration.image (I32 c). It has no
// calibration.strange, as earlier files of version 2.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/refuse.h"
#include "base/region_json.h"
#include "base/rows.h"
#include "base/safetensors.h"
#include "contcore/error.h"
#include "memory/state.h"

namespace contcore {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "contcore memory 2";
constexpr char kWithRegions[] = "contcore memory 3";
constexpr char kFormer[] = "contcore memory 1";
constexpr char kJournal[] = "journal";
constexpr std::string_view kSource = "source.";
constexpr std::size_t kMostDimension = std::size_t{1} << 20;

// JSON has no infinity, which is what a task has that lost all its vectors.
Json covering_text(float covering) {
  return std::isfinite(covering) ? Json(covering) : Json(nullptr);
}

float read_covering(const Json& entry) {
  const auto found = entry.find("covering");
  if (found == entry.end()) return 0;  // of the paper's rule, by an earlier version
  return found->is_null() ? std::numeric_limits<float>::infinity() : found->get<float>();
}

std::string tasks_text(const std::vector<TaskRecord>& tasks) {
  Json list = Json::array();
  for (const TaskRecord& task : tasks) {
    list.push_back({{"name", task.name},
                    {"images", task.images},
                    {"patches", task.patches},
                    {"picked", task.picked},
                    {"epsilon", task.epsilon},
                    {"epsilon_hat", task.epsilon_hat},
                    {"covering", covering_text(task.covering)},
                    {"learned", task.learned}});
    if (task.set.score) list.back()["threshold"] = {{"score", *task.set.score}};
    if (task.set.false_alarms) {
      list.back()["threshold"] = {{"false_alarms", *task.set.false_alarms}};
    }
    if (task.region) list.back()["region"] = Json::parse(region_text(*task.region));
  }
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of an entry that is a whole number from 0 on: Json::get() would convert any other number, and one
// that is out of range in an undefined way.
std::uint64_t read_count(const Json& entry, const char* key) {
  return entry.at(key).get_ref<const Json::number_unsigned_t&>();
}

SetThreshold read_threshold(const Json& entry) {
  SetThreshold set;
  const auto found = entry.find("threshold");
  if (found == entry.end()) return set;
  if (found->contains("score")) set.score = found->at("score").get<float>();
  if (found->contains("false_alarms")) set.false_alarms = found->at("false_alarms").get<double>();
  return set;
}

SharedRegion read_task_region(const Json& entry) {
  const auto found = entry.find("region");
  if (found == entry.end()) return nullptr;
  return std::make_shared<const RegionOfInterest>(region_in(*found));
}

bool has_regions(const std::vector<TaskRecord>& tasks) {
  return std::any_of(tasks.begin(), tasks.end(),
                     [](const TaskRecord& task) { return task.region != nullptr; });
}

std::vector<TaskRecord> read_tasks(const std::string& text) {
  std::vector<TaskRecord> tasks;
  for (const Json& entry : Json::parse(text)) {
    TaskRecord task;
    task.name = entry.at("name").get<std::string>();
    task.images = read_count(entry, "images");
    task.patches = read_count(entry, "patches");
    task.picked = read_count(entry, "picked");
    task.epsilon = entry.at("epsilon").get<float>();
    task.epsilon_hat = entry.at("epsilon_hat").get<float>();
    task.covering = read_covering(entry);
    task.learned = entry.at("learned").get<std::string>();
    task.set = read_threshold(entry);
    task.region = read_task_region(entry);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

struct CalibrationArrays {
  std::vector<std::int32_t> task;
  std::vector<std::int32_t> vectors;
  std::vector<float> first;
  std::vector<std::int32_t> level;
  std::vector<std::int32_t> end;
  std::vector<float> scores;
  std::vector<std::int32_t> hash;
  std::vector<float> strange;
  std::vector<float> means;
  std::vector<std::int32_t> mean_of;
  std::vector<std::int32_t> learned_hash;
  std::vector<std::int32_t> learned_end;
  std::vector<std::int32_t> learned_limit;
};

// Vectors one behind the other.
class Stacked {
 public:
  Stacked(std::size_t dimension, Scalar scalar) : dimension_(dimension), scalar_(scalar) {}

  void add(VectorView vectors) {
    const auto* bytes = static_cast<const std::uint8_t*>(vectors.data);
    bytes_.insert(bytes_.end(), bytes, bytes + vectors.bytes());
    rows_ += vectors.rows;
  }

  std::size_t rows() const { return rows_; }
  TensorView tensor(const char* name) const {
    if (scalar_ == Scalar::kUint8) {
      return {name, {rows_, dimension_}, std::span<const std::uint8_t>(bytes_)};
    }
    const auto* floats = reinterpret_cast<const float*>(bytes_.data());
    return {name, {rows_, dimension_}, std::span(floats, rows_ * dimension_)};
  }

 private:
  std::size_t dimension_;
  Scalar scalar_;
  std::size_t rows_ = 0;
  std::vector<std::uint8_t> bytes_;
};

// Known defects, and what calibrates them.
struct DefectArrays {
  DefectArrays(std::size_t dimension, Scalar scalar)
      : suspects(dimension, scalar), patches(dimension, scalar) {}

  Stacked suspects;
  std::vector<std::int32_t> suspect_image;
  std::vector<float> suspect_distance;
  std::vector<float> suspect_value;
  Stacked patches;
  std::vector<std::int32_t> patch_of;
  std::vector<std::int32_t> image;
  std::vector<std::int32_t> image_of;
};

DefectArrays flatten_defects(const Calibration& calibration, std::size_t dimension, Scalar scalar) {
  DefectArrays out(dimension, scalar);
  std::int32_t number = 0;  // of the image
  for (std::size_t t = 0; t < calibration.tasks.size(); ++t) {
    for (const CalibratedImage& image : calibration.tasks[t].images) {
      const std::size_t kept = image.suspects_kept;
      if (kept > 0) out.suspects.add(image.suspects->patches.view().part(0, kept));
      for (std::size_t k = 0; k < kept; ++k) {
        out.suspect_image.push_back(number);
        out.suspect_distance.push_back(image.suspects->distances[k]);
        out.suspect_value.push_back(image.suspects->values[k]);
      }
      ++number;
    }
    const DefectBank& defects = calibration.tasks[t].defects;
    const auto task = static_cast<std::int32_t>(t);
    if (defects.patches.rows() > 0) out.patches.add(defects.patches.view());
    out.patch_of.resize(out.patches.rows(), task);
    for (const std::uint64_t image : defects.images) {
      out.image.push_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(image)));
      out.image.push_back(static_cast<std::int32_t>(image >> 32));
      out.image_of.push_back(task);
    }
  }
  return out;
}

CalibrationArrays flatten(const Calibration& calibration) {
  CalibrationArrays out;
  for (std::size_t t = 0; t < calibration.tasks.size(); ++t) {
    const auto task = static_cast<std::int32_t>(t);
    for (const CalibratedImage& image : calibration.tasks[t].images) {
      out.task.push_back(task);
      out.vectors.push_back(static_cast<std::int32_t>(image.vectors));
      out.first.push_back(image.first);
      out.level.push_back(static_cast<std::int32_t>(image.level));
      out.scores.insert(out.scores.end(), image.scores.begin(), image.scores.end());
      out.end.push_back(static_cast<std::int32_t>(out.scores.size()));
      out.hash.push_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(image.hash)));
      out.hash.push_back(static_cast<std::int32_t>(image.hash >> 32));
      out.strange.push_back(image.strange);
    }
    for (const std::vector<float>& mean : calibration.tasks[t].means) {
      out.means.insert(out.means.end(), mean.begin(), mean.end());
      out.mean_of.push_back(task);
    }
    const LearnedImages& learned = calibration.tasks[t].learned;
    for (const std::uint32_t hash : learned.hashes) {
      out.learned_hash.push_back(static_cast<std::int32_t>(hash));
    }
    out.learned_end.push_back(static_cast<std::int32_t>(out.learned_hash.size()));
    out.learned_limit.push_back(static_cast<std::int32_t>(learned.limit));
  }
  return out;
}

// Reads arrays and checks that they agree with each other.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(path, "a contcore memory") {
    const auto format = file_.metadata().find("format");
    if (format == file_.metadata().end() ||
        (format->second != kFormat && format->second != kWithRegions &&
         format->second != kFormer)) {
      throw Error(Error::Kind::kInput,
                  fmt::format("{}: this is not a contcore memory{}", path,
                              format == file_.metadata().end()
                                  ? ""
                                  : fmt::format(" this version knows ('{}')", format->second)));
    }
  }

  const std::string& text(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) refuse_damaged(path_, fmt::format("'{}' is missing", key));
    return found->second;
  }

  /// Memories of earlier versions do not say it: theirs was the paper's.
  Consolidate::Rule rule() const {
    const auto found = file_.metadata().find("consolidate");
    if (found == file_.metadata().end()) return Consolidate::Rule::kPaper;
    try {
      return Consolidate::parse(found->second);
    } catch (const Error&) {
      throw Error(Error::Kind::kInput,
                  fmt::format("{}: is consolidated by a rule '{}' that this version does not know; "
                              "use a newer contcore",
                              path_, found->second));
    }
  }

  double number(const std::string& key) const {
    const std::string& written = text(key);
    double value = 0;
    const char* end = written.data() + written.size();
    const auto [rest, error] = std::from_chars(written.data(), end, value);
    if (error != std::errc() || rest != end)
      refuse_damaged(path_, fmt::format("'{}' is no number", key));
    return value;
  }

  /// Of a number of columns and a kind, if they are given.
  Vectors vectors(const std::string& name, std::size_t cols,
                  std::optional<Scalar> kind = std::nullopt) const {
    Safetensors::Shape shape;
    const bool bytes = file_.has(name, "U8");
    if (kind && bytes != (*kind == Scalar::kUint8)) wrong(name);
    if (bytes) {
      const std::span<const std::uint8_t> values = file_.bytes(name, shape);
      if (cols != 0 && shape.cols != cols) wrong(name);
      Vectors out(shape.rows, shape.cols, Scalar::kUint8);
      std::copy(values.begin(), values.end(), out.byte_data());
      return out;
    }
    const std::span<const float> values = file_.floats(name, 2, shape);
    if (cols != 0 && shape.cols != cols) wrong(name);
    for (const float value : values) {
      if (!std::isfinite(value))
        refuse_damaged(path_, fmt::format("'{}' has values not finite", name));
    }
    Vectors out(shape.rows, shape.cols);
    std::copy(values.begin(), values.end(), out.data());
    return out;
  }

  /// Numbers that are not NaN and not negative.
  std::vector<float> lengths(const std::string& name, std::size_t rows) const {
    Safetensors::Shape shape;
    const std::span<const float> values = file_.floats(name, 1, shape);
    if (shape.rows != rows) wrong(name);
    for (const float value : values) {
      if (!(value >= 0)) wrong(name);
    }
    return {values.begin(), values.end()};
  }

  std::vector<std::int32_t> numbers(const std::string& name, std::size_t rows,
                                    std::size_t below) const {
    Safetensors::Shape shape;
    const std::span<const std::int32_t> values = file_.ints(name, shape);
    if (shape.rows != rows) wrong(name);
    for (const std::int32_t value : values) {
      if (value < 0 || static_cast<std::size_t>(value) >= below) wrong(name);
    }
    return {values.begin(), values.end()};
  }

  [[noreturn]] void wrong(const std::string& name) const {
    refuse_damaged(path_, fmt::format("'{}' does not agree with the rest", name));
  }

  const Safetensors& file() const { return file_; }
  bool is_former() const { return text("format") == kFormer; }

  /// All of an array of floats, whatever its length, none of them negative or without end.
  std::vector<float> finite(const std::string& name) const {
    Safetensors::Shape shape;
    const std::span<const float> values = file_.floats(name, 1, shape);
    for (const float value : values) {
      if (!(value >= 0 && std::isfinite(value))) wrong(name);
    }
    return {values.begin(), values.end()};
  }
  /// Of so many images.
  std::vector<std::uint64_t> hashes(const std::string& name, std::size_t images) const {
    std::vector<std::uint64_t> out(images, 0);
    Safetensors::Shape shape;
    const std::span<const std::int32_t> halves = file_.ints(name, shape);
    if (shape.rows != 2 * images) wrong(name);
    for (std::size_t i = 0; i < images; ++i) {
      out[i] = std::uint64_t{static_cast<std::uint32_t>(halves[2 * i + 1])} << 32 |
               static_cast<std::uint32_t>(halves[2 * i]);
    }
    return out;
  }
  std::vector<std::uint32_t> unsigned_numbers(const std::string& name) const {
    Safetensors::Shape shape;
    const std::span<const std::int32_t> values = file_.ints(name, shape);
    return {values.begin(), values.end()};
  }
  std::size_t rows_of(const std::string& name) const {
    Safetensors::Shape shape;
    file_.ints(name, shape);
    return shape.rows;
  }

 private:
  std::string path_;
  Safetensors file_;
};

// Of hashes, of their ends and their limits, as many as there are tasks or fewer.
void read_learned(const Reader& reader, std::size_t tasks, Calibration& calibration) {
  const std::vector<std::uint32_t> hashes = reader.unsigned_numbers("learned.hash");
  const std::vector<std::uint32_t> end = reader.unsigned_numbers("learned.end");
  const std::vector<std::uint32_t> limit = reader.unsigned_numbers("learned.limit");
  if (end.size() > tasks) reader.wrong("learned.end");
  if (limit.size() != end.size()) reader.wrong("learned.limit");
  std::size_t begin = 0;
  for (std::size_t t = 0; t < end.size(); ++t) {
    if (end[t] < begin || end[t] > hashes.size()) reader.wrong("learned.end");
    LearnedImages& learned = calibration.of(t).learned;
    learned.limit = limit[t];
    learned.hashes.assign(hashes.begin() + static_cast<std::ptrdiff_t>(begin),
                          hashes.begin() + static_cast<std::ptrdiff_t>(end[t]));
    const bool sorted = std::adjacent_find(learned.hashes.begin(), learned.hashes.end(),
                                           std::greater_equal<>()) == learned.hashes.end();
    const bool below = learned.hashes.empty() || learned.hashes.back() < learned.limit;
    if (!sorted || !below || learned.hashes.size() > Calibration::kMostLearned) {
      reader.wrong("learned.hash");
    }
    begin = end[t];
  }
  if (begin != hashes.size()) reader.wrong("learned.end");
}

// The end of the run of equal values that begins at `begin`; they are to rise.
std::size_t end_of_run(const std::vector<std::int32_t>& values, std::size_t begin) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(begin);
  return static_cast<std::size_t>(
      std::find_if(at, values.end(), [&](std::int32_t value) { return value != *at; }) -
      values.begin());
}

// `images` are all that calibrate, in the file's order.
void read_suspects(const Reader& reader, std::size_t dimension, Scalar kind,
                   const std::vector<CalibratedImage*>& images) {
  const Vectors patches = reader.vectors("suspects.patches", dimension, kind);
  const auto image = reader.numbers("suspects.image", patches.rows(), images.size());
  const auto distance = reader.finite("suspects.distance");
  const auto value = reader.finite("suspects.value");
  if (distance.size() != patches.rows()) reader.wrong("suspects.distance");
  if (value.size() != patches.rows()) reader.wrong("suspects.value");
  if (!std::is_sorted(image.begin(), image.end())) reader.wrong("suspects.image");
  for (std::size_t begin = 0; begin < image.size();) {
    const std::size_t end = end_of_run(image, begin);
    const std::size_t n = end - begin;
    if (n > Suspects::kMost) reader.wrong("suspects.image");
    auto own = std::make_shared<Suspects>();
    own->patches = Vectors(n, dimension, kind);
    own->patches.set_rows(0, patches.view().part(begin, n));
    own->distances.assign(distance.data() + begin, distance.data() + end);
    own->values.assign(value.data() + begin, value.data() + end);
    CalibratedImage& to = *images[static_cast<std::size_t>(image[begin])];
    to.suspects = std::move(own);
    to.suspects_kept = static_cast<std::uint32_t>(n);
    begin = end;
  }
}

void read_defects(const Reader& reader, std::size_t dimension, Scalar kind, std::size_t tasks,
                  Calibration& calibration) {
  const auto has = [&](const char* name) { return reader.file().has(name); };
  if (!has("defects.patches") && !has("suspects.patches")) return;  // of an earlier version
  std::vector<CalibratedImage*> images;
  for (TaskCalibration& task : calibration.tasks) {
    for (CalibratedImage& image : task.images) images.push_back(&image);
  }
  read_suspects(reader, dimension, kind, images);
  const Vectors patches = reader.vectors("defects.patches", dimension, kind);
  const auto patch_of = reader.numbers("defects.patch_of", patches.rows(), tasks);
  if (!std::is_sorted(patch_of.begin(), patch_of.end())) reader.wrong("defects.patch_of");
  for (std::size_t begin = 0; begin < patch_of.size();) {
    const std::size_t n = end_of_run(patch_of, begin) - begin;
    if (n > DefectBank::kMostPatches) reader.wrong("defects.patch_of");
    DefectBank& own = calibration.of(static_cast<std::size_t>(patch_of[begin])).defects;
    own.patches = Vectors(n, dimension, kind);
    own.patches.set_rows(0, patches.view().part(begin, n));
    begin += n;
  }
  const std::size_t shown = reader.rows_of("defects.image_of");
  const auto image_of = reader.numbers("defects.image_of", shown, tasks);
  const auto image = reader.hashes("defects.image", shown);
  for (std::size_t i = 0; i < shown; ++i) {
    std::vector<std::uint64_t>& own =
        calibration.of(static_cast<std::size_t>(image_of[i])).defects.images;
    const bool rises = own.empty() || own.back() < image[i];
    if (!rises || own.size() == DefectBank::kMostImages) reader.wrong("defects.image");
    own.push_back(image[i]);
  }
  Compute alone(1);
  for (TaskCalibration& task : calibration.tasks) task.measure_suspects(true, alone);
}

Calibration read_calibration(const Reader& reader, std::size_t dimension, Scalar kind,
                             std::size_t tasks) {
  Calibration calibration;
  const std::size_t images = reader.rows_of("calibration.task");
  const std::vector<float> scores = reader.finite("calibration.scores");
  const auto task = reader.numbers("calibration.task", images, tasks);
  const auto vectors = reader.numbers("calibration.vectors", images, VectorStore::kMostVectors + 1);
  const auto first = reader.finite("calibration.first");
  const auto level = reader.numbers("calibration.level", images, kMostLevels);
  const auto end = reader.numbers("calibration.end", images, scores.size() + 1);
  const auto hash = reader.hashes("calibration.hash", images);
  if (first.size() != images) reader.wrong("calibration.first");
  std::vector<float> strange(images, 0);
  if (reader.file().has("calibration.strange")) {
    strange = reader.finite("calibration.strange");
    if (strange.size() != images) reader.wrong("calibration.strange");
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < images; ++i) {
    const auto behind = static_cast<std::size_t>(end[i]);
    if (behind <= begin) reader.wrong("calibration.end");
    CalibratedImage image{static_cast<std::uint32_t>(vectors[i]),
                          static_cast<std::uint32_t>(level[i]),
                          first[i],
                          {scores.begin() + static_cast<std::ptrdiff_t>(begin),
                           scores.begin() + static_cast<std::ptrdiff_t>(behind)},
                          hash[i]};
    image.strange = strange[i];
    if (image.vectors == 0) reader.wrong("calibration.vectors");
    // A score with fewer vectors is never lower.
    const bool sorted = std::is_sorted(image.scores.begin(), image.scores.end());
    if (!sorted || image.level + image.scores.size() > kMostLevels) {
      reader.wrong("calibration.scores");
    }
    calibration.of(static_cast<std::size_t>(task[i])).images.push_back(std::move(image));
    begin = behind;
  }
  if (begin != scores.size()) reader.wrong("calibration.scores");
  const Vectors means = reader.vectors("calibration.means", dimension, kind);
  std::vector<float> scratch(dimension);
  const auto mean_of = reader.numbers("calibration.mean_of", means.rows(), tasks);
  for (std::size_t i = 0; i < means.rows(); ++i) {
    const float* mean = means.view().row(i, scratch.data());
    calibration.of(static_cast<std::size_t>(mean_of[i])).means.emplace_back(mean, mean + dimension);
  }
  read_learned(reader, tasks, calibration);
  read_defects(reader, dimension, kind, tasks, calibration);
  return calibration;
}

// Held-out images of an earlier version: they calibrate as they are, and their patches stay until
// the memory changes.
Calibration read_former_calibration(const Reader& reader, std::size_t dimension,
                                    const std::vector<std::size_t>& vectors) {
  Calibration calibration;
  const Vectors means = reader.vectors("calibration.means", dimension, Scalar::kFloat32);
  const auto task = reader.numbers("calibration.task", means.rows(), vectors.size());
  const auto first = reader.finite("calibration.first");
  const auto score = reader.finite("calibration.score");
  if (first.size() != means.rows()) reader.wrong("calibration.first");
  if (score.size() != means.rows()) reader.wrong("calibration.score");
  const Vectors patches = reader.vectors("calibration.patches", dimension, Scalar::kFloat32);
  const auto image = reader.numbers("calibration.image", patches.rows(), means.rows());
  std::vector<std::vector<std::uint32_t>> of_image(means.rows());
  for (std::size_t j = 0; j < image.size(); ++j) {
    of_image[static_cast<std::size_t>(image[j])].push_back(static_cast<std::uint32_t>(j));
  }
  for (std::size_t i = 0; i < means.rows(); ++i) {
    if (of_image[i].empty()) reader.wrong("calibration.image");
    const auto t = static_cast<std::size_t>(task[i]);
    TaskCalibration& own = calibration.of(t);
    const std::size_t has = std::max<std::size_t>(1, vectors[t]);
    own.images.push_back({static_cast<std::uint32_t>(has), 0, first[i], {score[i]}, 0});
    own.means.emplace_back(means.row(i), means.row(i) + dimension);
    own.patches.push_back(gather(patches.view(), of_image[i]));
  }
  return calibration;
}

}  // namespace

std::string Memory::save(const std::string& path, const std::string& journal,
                         const Before& before) const {
  if (state_->calibration.has_patches()) {
    Compute alone(1);
    const Memory same = copy();
    same.state_->score_kept_patches(alone);
    return same.save(path, journal, before);
  }
  const std::size_t n = size();
  const std::size_t d = dimension();
  const Entries all = state_->contents->store.entries();
  const CalibrationArrays known = flatten(state_->calibration);
  const DefectArrays defects = flatten_defects(state_->calibration, d, scalar());
  const std::size_t images = known.task.size();
  // Means of bytes are rounded to them.
  const bool bytes = all.vectors.scalar() == Scalar::kUint8;
  std::vector<std::uint8_t> byte_means;
  if (bytes) byte_means.assign(known.means.begin(), known.means.end());
  std::map<std::string, std::string> text;
  text["format"] = has_regions(tasks()) ? kWithRegions : kFormat;
  text["capacity"] = fmt::format("{}", capacity());
  text["consolidate"] = consolidation().name();
  text["q"] = fmt::format("{}", consolidation().q);
  text["greedy_order"] = state_->contents->greedy_order ? "yes" : "no";
  text["tasks"] = tasks_text(tasks());
  if (!journal.empty()) text[kJournal] = journal;
  for (const auto& [key, value] : source) text[std::string(kSource) + key] = value;
  // Whatever is wrong with it, the last good file is still there then.
  const auto read_back = [&](const std::string& written) {
    Saved saved;
    try {
      open(written, &saved);
    } catch (const Error& error) {
      refuse(path, fmt::format("what was written cannot be read back, so the file is as before: {}",
                               error.what()));
    }
    if (before) before(written, saved.checksum);
  };
  const TensorView vectors =
      scalar() == Scalar::kUint8
          ? TensorView("vectors", {n, d}, std::span(all.vectors.byte_data(), n * d))
          : TensorView("vectors", {n, d}, std::span(all.vectors.data(), n * d));
  return write_safetensors(
      path, text,
      {vectors,
       {"origin", {n}, std::span<const std::int32_t>(all.origin)},
       {"radius", {n}, std::span<const float>(all.radius)},
       {"slack", {n}, std::span<const float>(all.slack)},
       {"calibration.task", {images}, std::span<const std::int32_t>(known.task)},
       {"calibration.vectors", {images}, std::span<const std::int32_t>(known.vectors)},
       {"calibration.first", {images}, std::span<const float>(known.first)},
       {"calibration.level", {images}, std::span<const std::int32_t>(known.level)},
       {"calibration.end", {images}, std::span<const std::int32_t>(known.end)},
       {"calibration.scores", {known.scores.size()}, std::span<const float>(known.scores)},
       {"calibration.hash", {known.hash.size()}, std::span<const std::int32_t>(known.hash)},
       {"calibration.strange", {images}, std::span<const float>(known.strange)},
       bytes ? TensorView("calibration.means", {known.mean_of.size(), d},
                          std::span<const std::uint8_t>(byte_means))
             : TensorView("calibration.means", {known.mean_of.size(), d},
                          std::span<const float>(known.means)),
       {"calibration.mean_of",
        {known.mean_of.size()},
        std::span<const std::int32_t>(known.mean_of)},
       {"learned.hash",
        {known.learned_hash.size()},
        std::span<const std::int32_t>(known.learned_hash)},
       {"learned.end",
        {known.learned_end.size()},
        std::span<const std::int32_t>(known.learned_end)},
       {"learned.limit",
        {known.learned_limit.size()},
        std::span<const std::int32_t>(known.learned_limit)},
       defects.suspects.tensor("suspects.patches"),
       {"suspects.image",
        {defects.suspect_image.size()},
        std::span<const std::int32_t>(defects.suspect_image)},
       {"suspects.distance",
        {defects.suspect_distance.size()},
        std::span<const float>(defects.suspect_distance)},
       {"suspects.value",
        {defects.suspect_value.size()},
        std::span<const float>(defects.suspect_value)},
       defects.patches.tensor("defects.patches"),
       {"defects.patch_of",
        {defects.patch_of.size()},
        std::span<const std::int32_t>(defects.patch_of)},
       {"defects.image", {defects.image.size()}, std::span<const std::int32_t>(defects.image)},
       {"defects.image_of",
        {defects.image_of.size()},
        std::span<const std::int32_t>(defects.image_of)}},
      read_back);
}

Memory Memory::open(const std::string& path, Saved* saved) {
  const Reader reader(path);
  if (saved != nullptr) {
    const auto& metadata = reader.file().metadata();
    *saved = {reader.text("sha256"), metadata.contains(kJournal) ? metadata.at(kJournal) : ""};
  }
  Consolidate how{reader.rule(), reader.number("q")};
  if (!(how.q >= 0 && how.q <= 1)) reader.wrong("q");
  Entries entries;
  entries.vectors = reader.vectors("vectors", 0);
  const Scalar kind = entries.vectors.scalar();
  if (reader.is_former() && kind != Scalar::kFloat32) reader.wrong("vectors");
  const std::size_t n = entries.vectors.rows();
  const std::size_t dimension = entries.vectors.cols();
  const double capacity = reader.number("capacity");
  if (!(capacity >= std::max(1.0, static_cast<double>(n)) &&
        capacity <= static_cast<double>(VectorStore::kMostVectors)) ||
      std::floor(capacity) != capacity) {
    reader.wrong("capacity");
  }
  // An array without rows may claim any number of columns.
  if (dimension == 0 || dimension > kMostDimension) reader.wrong("vectors");
  auto state = std::make_unique<State>(dimension, static_cast<std::size_t>(capacity), how,
                                       entries.vectors.scalar());
  Contents& contents = *state->contents;
  contents.greedy_order = reader.text("greedy_order") == "yes";
  try {
    contents.tasks = read_tasks(reader.text("tasks"));
  } catch (const Json::exception&) {
    reader.wrong("tasks");
  } catch (const Error&) {  // of a region
    reader.wrong("tasks");
  }
  for (const TaskRecord& task : contents.tasks) {
    const bool fine = task.covering >= 0 && task.epsilon >= 0 && std::isfinite(task.epsilon) &&
                      task.epsilon_hat >= 0 && std::isfinite(task.epsilon_hat) &&
                      is_threshold(task.set);
    if (!fine) reader.wrong("tasks");
  }
  entries.origin = reader.numbers("origin", n, contents.tasks.size());
  entries.radius = reader.lengths("radius", n);
  entries.slack = reader.lengths("slack", n);
  contents.store.assign(std::move(entries));
  if (reader.is_former()) {
    state->calibration = read_former_calibration(reader, dimension, vectors_of_tasks(contents));
  } else {
    state->calibration = read_calibration(reader, dimension, kind, contents.tasks.size());
  }
  Memory memory(std::move(state));
  for (const auto& [key, value] : reader.file().metadata()) {
    if (key.starts_with(kSource)) memory.source[key.substr(kSource.size())] = value;
  }
  return memory;
}

}  // namespace contcore
