// In: an image. Out: its patch vectors. Fails when the network's answer is not finite, and when
// made: as Backbone does, or because a memory was learned with another one.
#include "contcore/extractor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <utility>

#include "backbone/fetch.h"
#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/score.h"
#include "detector/eight_bit.h"
#include "detector/tiling.h"
#include "device/or_processor.h"
#include "image/region_mask.h"

namespace contcore {
namespace {

using Source = std::map<std::string, std::string>;

// Infinities and NaNs have all bits of the exponent set.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  bool bad = false;
  for (const float value : values) {
    bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent;
  }
  return !bad;
}

std::string comma_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::vector<std::string> of_comma_list(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

// A name stays a name; a file is told by its whole path.
std::string lasting_name(const std::string& backbone, Precision precision) {
  if (backbone == "builtin" || backbone == "resnet50") return backbone;
  if (backbone_cache() && backbone == cached_backbone("resnet50")) return "resnet50";
  for (const char* name : {"resnet50", "builtin"}) {
    if (precision == Precision::k8Bit && backbone == eight_bit_file(name)) return name;
  }
  std::error_code ignored;
  return std::filesystem::weakly_canonical(backbone, ignored).string();
}

const std::string& said(const Source& source, const std::string& name, const std::string& key) {
  const auto found = source.find(key);
  if (found != source.end()) return found->second;
  throw Error(
      Error::Kind::kInput,
      fmt::format("{}: the memory does not say its {}; it was not learned from images", name, key));
}

// A source that says nothing of it is of floats.
Precision precision_of(const Source& source, const std::string& name) {
  const auto found = source.find("precision");
  if (found == source.end() || found->second == "float") return Precision::kFloat;
  if (found->second == "8bit") return Precision::k8Bit;
  throw Error(Error::Kind::kInput,
              fmt::format("{}: its features have the precision '{}', which this version does not "
                          "make; use a later one",
                          name, found->second));
}

void check_score(const Source& source, const std::string& name) {
  try {
    score_of(source);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", name, error.what()));
  }
}

// The numbers of a text, all of it.
template <typename Number>
Number number_in(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? number : Number{};
}

ByteScale scale_of(const Source& source, const std::string& name) {
  const std::string& scale = said(source, name, "scale");
  const std::string& zero = said(source, name, "zero");
  const ByteScale found{number_in<float>(scale), number_in<std::uint8_t>(zero)};
  if (is_sane(found) && (found.zero != 0 || zero == "0")) return found;
  throw Error(Error::Kind::kInput,
              fmt::format("{}: its bytes have the scale '{}' and the zero '{}', which cannot be; "
                          "learn it again, or restore it from a copy",
                          name, scale, zero));
}

// A source that says nothing of tiles is of images seen at once.
Geometry geometry_of(const Source& source, const std::string& name) {
  const std::string& resize = said(source, name, "resize");
  const std::string& crop = said(source, name, "crop");
  if (!source.contains("tile")) return Geometry::parse(resize, crop);
  return Geometry::parse({resize, crop, said(source, name, "tile"), said(source, name, "overlap")},
                         Geometry{});
}

Backbone open_backbone(const std::string& named, const std::vector<std::string>& layers,
                       Precision precision, const Notice& notice, const std::string& wanted) {
  if (precision == Precision::kFloat) return Backbone(resolve_backbone(named), layers);
  Compute compute;  // the form is the same on every machine: no GPU's floats are in it
  const EightBitForm form = eight_bit_form(named, compute, notice, {}, wanted);
  return Backbone::of_bytes(form.file.empty() ? named : form.file, form.bytes, layers);
}

}  // namespace

Precision parse_precision(const std::string& word) {
  if (word == "float") return Precision::kFloat;
  if (word == "8bit") return Precision::k8Bit;
  throw Error(Error::Kind::kUsage,
              fmt::format("'{}' is not a precision; there are float and 8bit", word));
}

std::string precision_word(Precision precision) {
  return precision == Precision::kFloat ? "float" : "8bit";
}

struct Extractor::State {
  State(Backbone network, const Geometry& how, const PatchEmbedding& patches)
      : backbone(std::move(network)), geometry(how), embedding(patches) {
    if (geometry.tile != 0) steps = tile_steps(backbone, geometry);
  }

  Backbone::Runner take(std::size_t threads, const Device& device) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      const auto found = std::find_if(idle.begin(), idle.end(), [&](const Idle& one) {
        return one.threads == threads && one.device == device;
      });
      if (found != idle.end()) {
        Backbone::Runner runner = std::move(found->runner);
        idle.erase(found);
        return runner;
      }
    }
    return backbone.runner();
  }

  void put_back(std::size_t threads, const Device& device, Backbone::Runner runner) {
    const std::lock_guard<std::mutex> lock(mutex);
    idle.push_back({threads, device, std::move(runner)});
  }

  Patches extract(const Image& image, Compute& compute);
  Patches extract_inside(const Image& image, const SharedRegion& region, Compute& compute);
  Patches extract_at_once(const Image& image, Compute& compute);
  Vectors see(const NetworkInput& input, Compute& compute, std::size_t* columns = nullptr);

  // False if a number is not finite.
  bool embed_into(const std::vector<FeatureMap>& maps, Vectors& vectors, Compute& compute) const {
    const std::size_t rows = maps[0].width * maps[0].height;
    if (bytes) {
      vectors = Vectors(rows, embedding.dimension, Scalar::kUint8);
      return embed(maps, embedding, *bytes, vectors.byte_data(), compute);
    }
    vectors = Vectors(rows, embedding.dimension);
    embed(maps, embedding, vectors.data(), compute);
    return all_finite({vectors.data(), rows * embedding.dimension});
  }

  Scalar scalar() const { return bytes ? Scalar::kUint8 : Scalar::kFloat32; }
  TiledImage cut(std::size_t width, std::size_t height) const {
    return tiled_image({width, height}, geometry, *steps);
  }

  struct Idle {
    std::size_t threads;
    Device device;
    Backbone::Runner runner;
  };
  Backbone backbone;
  Geometry geometry;
  std::optional<TileSteps> steps;  // with tiles
  PatchEmbedding embedding;
  std::optional<ByteScale> bytes;  // in 8 bits
  Source source;
  std::mutex mutex;
  std::vector<Idle> idle;
};

Extractor::Extractor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Extractor::~Extractor() = default;
Extractor::Extractor(Extractor&&) noexcept = default;
Extractor& Extractor::operator=(Extractor&&) noexcept = default;

Extractor::Extractor(const ExtractorOptions& options) {
  const std::string named = options.backbone.empty() ? default_backbone() : options.backbone;
  PatchEmbedding embedding;
  embedding.dimension = options.dimension;
  state_ = std::make_unique<State>(
      open_backbone(named, options.layers, options.precision, options.notice, ""), options.geometry,
      embedding);
  state_->source = {{"backbone", lasting_name(named, options.precision)},
                    {"backbone.sha256", backbone().hash()},
                    {"layers", comma_list(backbone().layers())},
                    {"resize", options.geometry.resize_text()},
                    {"crop", options.geometry.crop_text()},
                    {"neighbourhood", fmt::format("{}", embedding.neighbourhood)}};
  if (options.geometry.tile != 0) {
    state_->source["tile"] = options.geometry.tile_text();
    state_->source["overlap"] = options.geometry.overlap_text();
  }
  if (options.precision == Precision::kFloat) return;
  Compute compute;  // as for the 8-bit form
  state_->bytes = find_byte_scale(backbone(), embedding, compute, options.notice);
  state_->source["precision"] = precision_word(options.precision);
  state_->source["scale"] = fmt::format("{}", state_->bytes->scale);
  state_->source["zero"] = fmt::format("{}", state_->bytes->zero);
}

Extractor Extractor::of_source(const Source& source, std::size_t dimension, const std::string& name,
                               const std::string& backbone_file, const Notice& notice) {
  const auto entry = [&](const std::string& key) -> const std::string& {
    return said(source, name, key);
  };
  const std::string named = backbone_file.empty() ? entry("backbone") : backbone_file;
  if (named != "builtin" && named != "resnet50" && !std::filesystem::exists(named)) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: its backbone {} is not there; name the file with --backbone", name,
                            named));
  }
  const Precision precision = precision_of(source, name);
  check_score(source, name);  // whoever inspects with it asks for it
  Backbone backbone = open_backbone(named, of_comma_list(entry("layers")), precision, notice,
                                    entry("backbone.sha256"));
  if (backbone.hash() != entry("backbone.sha256")) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: was learned with another backbone ({}{}, sha256 {:.12}…) than {} "
                    "(sha256 {:.12}…); name the right one with --backbone",
                    name, entry("backbone"), precision == Precision::k8Bit ? " in 8 bits" : "",
                    entry("backbone.sha256"), backbone.file(), backbone.hash()));
  }
  PatchEmbedding embedding;
  embedding.dimension = dimension;
  if (entry("neighbourhood") != fmt::format("{}", embedding.neighbourhood)) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: was learned with neighbourhoods of {}, which this version does not "
                    "make",
                    name, entry("neighbourhood")));
  }
  auto state = std::make_unique<State>(std::move(backbone), geometry_of(source, name), embedding);
  if (precision == Precision::k8Bit) state->bytes = scale_of(source, name);
  state->source = source;
  return Extractor(std::move(state));
}

const Source& Extractor::source() const { return state_->source; }
const Backbone& Extractor::backbone() const { return state_->backbone; }
const Geometry& Extractor::geometry() const { return state_->geometry; }

NetworkInput Extractor::input_of(std::size_t width, std::size_t height) const {
  if (state_->steps) return state_->cut(width, height).input;
  return seen_of({width, height}, geometry());
}

std::size_t Extractor::tiles_of(std::size_t width, std::size_t height) const {
  if (!state_->steps) return 1;
  const TileSteps& steps = *state_->steps;
  return tiled_side(width, steps).tiles.size() * tiled_side(height, steps).tiles.size();
}

Image Extractor::view_of(const Image& image) const {
  if (!state_->steps) return picture(prepare(image, geometry()));
  Image room;
  NetworkInput input = input_of(image.width, image.height);
  cut_tile(resized_for_tiles(image, geometry(), room), 0, 0, input);
  return picture(input);
}

const PatchEmbedding& Extractor::embedding() const { return state_->embedding; }
const std::optional<ByteScale>& Extractor::byte_scale() const { return state_->bytes; }
Precision Extractor::precision() const {
  return state_->bytes ? Precision::k8Bit : Precision::kFloat;
}

void Extractor::release() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->idle.clear();
}

// The patches of what the backbone sees at once, and how many are in a row.
Vectors Extractor::State::see(const NetworkInput& input, Compute& compute, std::size_t* columns) {
  const std::size_t threads = compute.threads().count();
  const Device device = compute.device();
  Backbone::Runner runner = take(threads, device);
  const std::vector<FeatureMap> maps = runner.run(input.chw, input.height, input.width, compute);
  if (columns != nullptr) *columns = maps[0].width;
  Vectors vectors;
  const bool finite = embed_into(maps, vectors, compute);
  put_back(threads, device, std::move(runner));
  if (!finite) {
    throw Error(Error::Kind::kInput,
                "the backbone gives values that are not finite for this image; another backbone or "
                "preprocessing is needed");
  }
  return vectors;
}

Patches Extractor::State::extract_at_once(const Image& image, Compute& compute) {
  Patches patches;
  patches.input = prepare(image, geometry);
  patches.image_width = image.width;
  patches.image_height = image.height;
  patches.vectors = see(patches.input, compute, &patches.grid_width);
  patches.grid_height = patches.vectors.rows() / patches.grid_width;
  patches.input.chw = {};
  return patches;
}

Patches Extractor::State::extract(const Image& image, Compute& compute) {
  if (!steps) return extract_at_once(image, compute);
  const auto see_tile = [&](const NetworkInput& tile, Compute& alone) { return see(tile, alone); };
  return patches_in_tiles(image, geometry, *steps, embedding.dimension, scalar(), see_tile,
                          compute);
}

// The network sees the whole image, as it does without a region; what is kept is what is inside.
Patches Extractor::State::extract_inside(const Image& image, const SharedRegion& region,
                                         Compute& compute) {
  if (!fits_region(*region, image.width, image.height)) {
    throw Error(Error::Kind::kInput,
                fmt::format("the image has {} × {} pixels, and the region of interest is of images "
                            "of {} × {} or of the same shape",
                            image.width, image.height, region->width, region->height));
  }
  const RegionRows rows = region_rows(*region, image.width, image.height);
  Patches all = extract(painted_outside(image, rows), compute);
  auto inside = std::make_shared<GridRegion>();
  inside->region = region;
  inside->places = places_touched(rows, all.input, all.grid_width, all.grid_height);
  if (inside->places.empty()) {
    throw Error(Error::Kind::kInput,
                "the region of interest lies outside of what the network sees of the image; draw "
                "another, or learn without a crop");
  }
  all.vectors = gather(all.vectors.view(), inside->places);
  all.inside = std::move(inside);
  return all;
}

Patches Extractor::extract(const Image& image, Compute& compute, const SharedRegion& region) const {
  return or_processor(compute, [&](Compute& with) {
    return region ? state_->extract_inside(image, region, with) : state_->extract(image, with);
  });
}

Patches Patches::copy() const {
  Patches same;
  same.vectors = Vectors(vectors.rows(), vectors.cols(), vectors.scalar());
  same.vectors.set_rows(0, vectors.view());
  same.grid_width = grid_width;
  same.grid_height = grid_height;
  same.input = input;
  same.inside = inside;
  same.image_width = image_width;
  same.image_height = image_height;
  return same;
}

std::string tiles_text(const Source& source) {
  const auto tile = source.find("tile");
  const auto overlap = source.find("overlap");
  if (tile == source.end() || overlap == source.end()) return "";
  return fmt::format(", in tiles of {} that overlap by {}", tile->second, overlap->second);
}

std::string backbone_text(const Source& source) {
  const std::string& crop = source.at("crop");
  const bool bytes = source.contains("precision") && source.at("precision") == "8bit";
  return fmt::format("{} ({}){}, images resized to {}{}{}", source.at("backbone"),
                     source.at("layers"), bytes ? " in 8 bits" : "", source.at("resize"),
                     crop == "none" ? "" : ", cropped to " + crop, tiles_text(source));
}

}  // namespace contcore
