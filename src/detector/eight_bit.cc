// In: a float network. Out: its 8-bit form and the scale of its features, out of the cache or made
// anew and kept there. A cache that cannot be written is told of and no error.
#include "detector/eight_bit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "backbone/builtin.h"
#include "backbone/fetch.h"
#include "backbone/hash.h"
#include "backbone/magnitudes.h"
#include "backbone/onnx.h"
#include "base/file.h"
#include "base/refuse.h"
#include "contcore/error.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kImages = 60;
constexpr std::size_t kSide = 384;
constexpr std::uint64_t kSeed = 8;
constexpr double kPart = 0.9999;  // of the values that must not saturate
constexpr std::size_t kMostLanes = 8;
constexpr std::size_t kLargestScaleFile = 4096;

void tell(const Notice& notice, const std::string& what) {
  if (notice) notice(what);
}

void report_part(const Progress& progress, std::size_t done, std::size_t all) {
  if (progress && !progress(static_cast<double>(done) / static_cast<double>(all))) {
    throw Error(Error::Kind::kCancelled, "stopped");
  }
}

// ---- running -----------------------------------------------------------------------------------

NetworkInput calibration_input(const Backbone& backbone, const Image& image) {
  const auto [height, width] = backbone.input_size();
  if (height != width) {
    refuse(backbone.file(), fmt::format("takes images of {} x {}, and can be calibrated only with "
                                        "square ones; export it with free sides",
                                        height, width));
  }
  Geometry geometry;
  geometry.resize = height == 0 ? kSide : height;
  return prepare(image, geometry);
}

// Calls use(maps, lane) for each image, up to kMostLanes of them at a time, a thread for each: the
// maps of all tensors of a network take much memory, and a thread alone never waits for others. On
// the processor, so that what is made and kept is the same on every machine.
template <typename Use>
void run_images(const Backbone& backbone, const CalibrationImages& images, Compute& compute,
                const Progress& progress, const Use& use) {
  std::atomic<std::size_t> next = 0;
  const std::size_t lanes = std::min({compute.threads().count(), kMostLanes, images.count});
  compute.threads().run(lanes, [&](std::size_t lane, std::size_t worker) {
    Compute one(1);
    auto runner = backbone.runner();
    try {
      for (std::size_t i = next++; i < images.count; i = next++) {
        if (worker == 0) report_part(progress, i, images.count);  // the calling thread
        const NetworkInput input = calibration_input(backbone, images.image(i));
        use(runner.run(input.chw, input.height, input.width, one), lane);
      }
    } catch (...) {
      next = images.count;  // the others need not go on
      throw;
    }
  });
  report_part(progress, images.count, images.count);
}

std::span<const float> values_of(const FeatureMap& map) {
  return {map.data, map.channels * map.height * map.width};
}

std::vector<float> embedded(const std::vector<FeatureMap>& maps, const PatchEmbedding& how) {
  Compute one(1);
  std::vector<float> vectors(maps[0].height * maps[0].width * how.dimension);
  embed(maps, how, vectors.data(), one);
  return vectors;
}

// What the bytes of the vectors stand for.
std::vector<float> embedded_in_bytes(const std::vector<FeatureMap>& maps, const PatchEmbedding& how,
                                     const ByteScale& scale) {
  Compute one(1);
  std::vector<std::uint8_t> bytes(maps[0].height * maps[0].width * how.dimension);
  if (!embed(maps, how, scale, bytes.data(), one)) refuse("features that are not finite");
  std::vector<float> vectors(bytes.size());
  std::transform(bytes.begin(), bytes.end(), vectors.begin(), [&](std::uint8_t byte) {
    return scale.scale * static_cast<float>(byte - scale.zero);
  });
  return vectors;
}

std::map<std::string, float> find_ranges(const Backbone& backbone, const CalibrationImages& images,
                                         Compute& compute, const Progress& progress) {
  const std::vector<std::string>& tensors = backbone.layers();
  using Ranges = std::vector<Magnitudes>;
  std::vector<Ranges> lanes(kMostLanes);
  run_images(backbone, images, compute, progress,
             [&](const std::vector<FeatureMap>& maps, std::size_t lane) {
               lanes[lane].resize(maps.size());
               for (std::size_t i = 0; i < maps.size(); ++i) {
                 lanes[lane][i].add(values_of(maps[i]));
               }
             });
  Ranges magnitudes(tensors.size());
  for (const Ranges& lane : lanes) {
    for (std::size_t i = 0; i < lane.size(); ++i) magnitudes[i].add(lane[i]);
  }
  std::map<std::string, float> ranges;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!magnitudes[i].finite()) {
      refuse(backbone.file(),
             fmt::format("the values of '{}' are not finite on the images it is calibrated by; it "
                         "cannot be used in 8 bits",
                         tensors[i]));
    }
    ranges[tensors[i]] = magnitudes[i].quantile(kPart);
  }
  return ranges;
}

template <typename Work>
auto naming_network(const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", name, error.what()));
  }
}

Quantizer quantizer_of(const std::string& name, const std::string& model) {
  return naming_network(name, [&] { return Quantizer(model); });
}

QuantizedNetwork quantized(const std::string& name, const std::string& model,
                           const Quantizer& quantizer, const CalibrationImages& images,
                           Compute& compute, const Progress& progress) {
  const Backbone floats = Backbone::of_bytes(name, model, quantizer.tensors());
  const auto ranges = find_ranges(floats, images, compute, progress);
  return {naming_network(name, [&] { return quantizer.file(ranges, hash_of(model)); }),
          quantizer.convolutions(), quantizer.stay_float()};
}

// ---- the cache ---------------------------------------------------------------------------------

// Empty if there is none.
std::string cache_file(const std::string& name) {
  const std::optional<std::string> folder = backbone_cache();
  return folder ? (fs::path(*folder) / name).string() : "";
}

// `work` is what has to be done again where it cannot be kept.
void keep(const std::string& file, const std::string& bytes, const std::string& work,
          const Notice& notice) {
  try {
    if (file.empty()) refuse("neither XDG_CACHE_HOME nor HOME names a folder");
    make_folder_of(file);
    const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
    write_whole(file, std::array{part});
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    tell(notice, fmt::format("{}{}, or {} again each time", error.what(), kCacheRemedy, work));
  }
}

// The kept bytes; empty if there are none that can be read.
std::string kept(const std::string& file, std::size_t most) {
  try {
    if (file.empty() || !fs::is_regular_file(file)) return "";
    const std::vector<std::uint8_t> bytes = read_whole(file, "a kept file", most);
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception&) {
    return "";
  }
}

constexpr std::size_t kMostModelBytes = std::size_t{2} << 30;
constexpr char kChecksumFile[] = ".sha256";

std::string form_file(const std::string& backbone, const std::string& origin) {
  if (backbone == "builtin" || backbone == "resnet50") return eight_bit_file(backbone);
  const std::string fetched = cache_file("resnet50.onnx");
  if (!fetched.empty() && backbone == fetched) return eight_bit_file("resnet50");
  return cache_file("8bit-" + origin + ".onnx");
}

bool in_eight_bits(const std::string& name, const std::string& bytes) {
  try {
    return is_quantized(parse_onnx(bytes.data(), bytes.size()));
  } catch (const Error& error) {
    refuse(name, error.what());
  }
}

// The form that is there; without bytes if there is none.
EightBitForm known_form(const std::string& backbone, const std::string& model) {
  if (in_eight_bits(backbone, model)) return {resolve_backbone(backbone), model, true};
  const std::string origin = hash_of(model);
  EightBitForm form{form_file(backbone, origin), {}, false};
  form.bytes = kept(form.file, kMostModelBytes);
  // A bit that was turned over in the weights is seen by the checksum alone.
  if (quantized_origin(form.bytes) != origin ||
      kept(form.file + kChecksumFile, 64) != hash_of(form.bytes)) {
    form.bytes.clear();
  }
  return form;
}

// ---- the scale ---------------------------------------------------------------------------------

// What the scale belongs to, one line each.
std::string scale_key(const Backbone& backbone, const PatchEmbedding& embedding) {
  return fmt::format(
      "contcore byte scale 1\nbackbone {}\nlayers {}\ndimension {}\nneighbourhood {}\n",
      backbone.hash(), fmt::join(backbone.layers(), ","), embedding.dimension,
      embedding.neighbourhood);
}

std::string scale_text(const std::string& key, const ByteScale& scale) {
  return fmt::format("{}scale {}\nzero {}\n", key, scale.scale, scale.zero);
}

// The scale in a kept file; nothing if it is none of ours.
std::optional<ByteScale> parse_scale(const std::string& key, const std::string& text) {
  const std::string begin = key + "scale ";
  const std::size_t zero = text.find("\nzero ");
  if (!text.starts_with(begin) || zero == text.npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  ByteScale scale;
  std::from_chars(text.data() + begin.size(), end, scale.scale);
  std::from_chars(text.data() + zero + 6, end, scale.zero);
  if (!is_sane(scale) || scale_text(key, scale) != text) return std::nullopt;
  return scale;
}

ByteScale measure_scale(const Backbone& backbone, const PatchEmbedding& embedding, Compute& compute,
                        const Progress& progress) {
  std::vector<Magnitudes> lanes(kMostLanes);
  run_images(backbone, generated_images(), compute, progress,
             [&](const std::vector<FeatureMap>& maps, std::size_t lane) {
               lanes[lane].add(embedded(maps, embedding));
             });
  Magnitudes all;
  for (const Magnitudes& lane : lanes) all.add(lane);
  const bool negative = all.negative();
  const auto largest = static_cast<double>(all.quantile(kPart));
  const ByteScale scale{static_cast<float>(largest / (negative ? 127 : 255)),
                        static_cast<std::uint8_t>(negative ? 128 : 0)};
  if (!all.finite() || !is_sane(scale)) {
    refuse(
        backbone.file(),
        fmt::format("its features (layers {}) are {} on the images it is calibrated by; they "
                    "cannot be bytes: choose other layers, or float",
                    fmt::join(backbone.layers(), ", "), all.finite() ? "all zero" : "not finite"));
  }
  return scale;
}

}  // namespace

CalibrationImages generated_images() {
  return {kImages, [](std::size_t i) {
            static const std::vector<std::string> kNames = product_names();
            return make_product(kNames[i % kNames.size()], i / kNames.size(), "", kSeed).image;
          }};
}

CalibrationImages images_of(const std::vector<std::string>& files) {
  const std::size_t count = std::min(files.size(), kImages);
  return {count,
          [files, count](std::size_t i) { return read_image(files[i * files.size() / count]); }};
}

QuantizedNetwork quantize_network(const std::string& name, const std::string& model,
                                  const CalibrationImages& images, Compute& compute,
                                  const Progress& progress) {
  return quantized(name, model, quantizer_of(name, model), images, compute, progress);
}

std::string eight_bit_file(const std::string& name) { return cache_file(name + "-8bit.onnx"); }

std::string model_bytes(const std::string& backbone) {
  return backbone == "builtin" ? onnx_file(builtin_graph())
                               : read_model_file(resolve_backbone(backbone));
}

EightBitForm kept_eight_bit_form(const std::string& backbone) {
  return known_form(backbone, model_bytes(backbone));
}

EightBitForm eight_bit_form(const std::string& backbone, Compute& compute, const Notice& notice,
                            const Progress& progress, const std::string& wanted) {
  if (!wanted.empty() && (backbone == "builtin" || backbone == "resnet50")) {
    EightBitForm form{eight_bit_file(backbone), {}, false};
    form.bytes = kept(form.file, kMostModelBytes);
    if (!form.bytes.empty() && hash_of(form.bytes) == wanted) return form;
  }
  const std::string model = model_bytes(backbone);
  EightBitForm form = known_form(backbone, model);
  if (!form.bytes.empty()) return form;
  const Quantizer quantizer = quantizer_of(backbone, model);  // refuses what has no such form
  tell(notice, fmt::format("{}: making its 8-bit form, once", backbone));
  form.bytes = quantized(backbone, model, quantizer, generated_images(), compute, progress).bytes;
  keep(form.file, form.bytes, "the 8-bit form is made", notice);
  if (!form.file.empty()) keep(form.file + kChecksumFile, hash_of(form.bytes), "", {});
  return form;
}

bool is_sane(const ByteScale& scale) {
  return std::isnormal(scale.scale) && scale.scale > 0 && (scale.zero == 0 || scale.zero == 128);
}

ByteScale find_byte_scale(const Backbone& backbone, const PatchEmbedding& embedding,
                          Compute& compute, const Notice& notice, const Progress& progress) {
  const std::string key = scale_key(backbone, embedding);
  const std::string file = cache_file("scale-" + hash_of(key) + ".txt");
  if (const auto known = parse_scale(key, kept(file, kLargestScaleFile))) return *known;
  const ByteScale scale = measure_scale(backbone, embedding, compute, progress);
  keep(file, scale_text(key, scale), "the scale of its features is measured", notice);
  return scale;
}

FeatureError feature_error(const Backbone& reference, const Backbone& other,
                           const PatchEmbedding& embedding, const CalibrationImages& images,
                           std::size_t most, const std::optional<ByteScale>& bytes) {
  const std::size_t count = std::min(images.count, most);
  FeatureError error{0, true};
  Compute one(1);
  auto first = reference.runner(), second = other.runner();
  double differences = 0, lengths = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const NetworkInput input = calibration_input(reference, images.image(i * images.count / count));
    const auto maps = [&](Backbone::Runner& runner) {
      return runner.run(input.chw, input.height, input.width, one);
    };
    const std::vector<float> a = embedded(maps(first), embedding);
    const std::vector<float> b = bytes ? embedded_in_bytes(maps(second), embedding, *bytes)
                                       : embedded(maps(second), embedding);
    for (std::size_t row = 0; row < a.size(); row += embedding.dimension) {
      double difference = 0, length = 0;
      for (std::size_t d = row; d < row + embedding.dimension; ++d) {
        const auto x = static_cast<double>(a[d]), y = static_cast<double>(b[d]);
        difference += (x - y) * (x - y);
        length += x * x;
        error.all_zero = error.all_zero && y == 0;
      }
      differences += std::sqrt(difference);
      lengths += std::sqrt(length);
    }
  }
  error.relative = lengths > 0 ? differences / lengths : 0;
  return error;
}

}  // namespace contcore
