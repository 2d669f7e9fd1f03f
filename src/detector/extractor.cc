// In: an image. Out: its patch vectors. Fails when the network's answer is not finite, and when
// made: as Backbone does, or because a memory was learned with another one.
#include "contcore/extractor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <utility>

#include "backbone/fetch.h"
#include "contcore/error.h"

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
std::string lasting_name(const std::string& backbone) {
  if (backbone == "builtin" || backbone == "resnet50") return backbone;
  if (backbone == cached_backbone("resnet50")) return "resnet50";
  std::error_code ignored;
  return std::filesystem::weakly_canonical(backbone, ignored).string();
}

}  // namespace

struct Extractor::State {
  State(Backbone network, const Geometry& how, const PatchEmbedding& patches)
      : backbone(std::move(network)), geometry(how), embedding(patches) {}

  Backbone::Runner take(std::size_t threads) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      const auto found = std::find_if(idle.begin(), idle.end(),
                                      [&](const Idle& one) { return one.threads == threads; });
      if (found != idle.end()) {
        Backbone::Runner runner = std::move(found->runner);
        idle.erase(found);
        return runner;
      }
    }
    return backbone.runner();
  }

  void put_back(std::size_t threads, Backbone::Runner runner) {
    const std::lock_guard<std::mutex> lock(mutex);
    idle.push_back({threads, std::move(runner)});
  }

  struct Idle {
    std::size_t threads;
    Backbone::Runner runner;
  };
  Backbone backbone;
  Geometry geometry;
  PatchEmbedding embedding;
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
  state_ = std::make_unique<State>(Backbone(resolve_backbone(named), options.layers),
                                   options.geometry, embedding);
  state_->source = {{"backbone", lasting_name(named)},
                    {"backbone.sha256", backbone().hash()},
                    {"layers", comma_list(backbone().layers())},
                    {"resize", options.geometry.resize_text()},
                    {"crop", options.geometry.crop_text()},
                    {"neighbourhood", fmt::format("{}", embedding.neighbourhood)}};
}

Extractor Extractor::of_source(const Source& source, std::size_t dimension, const std::string& name,
                               const std::string& backbone_file) {
  const auto said = [&](const std::string& key) -> const std::string& {
    const auto found = source.find(key);
    if (found != source.end()) return found->second;
    throw Error(Error::Kind::kInput,
                fmt::format("{}: the memory does not say its {}; it was not learned from images",
                            name, key));
  };
  const std::string file =
      resolve_backbone(backbone_file.empty() ? said("backbone") : backbone_file);
  if (file != "builtin" && !std::filesystem::exists(file)) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: its backbone {} is not there; name the file with --backbone", name, file));
  }
  Backbone backbone(file, of_comma_list(said("layers")));
  if (backbone.hash() != said("backbone.sha256")) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: was learned with another backbone ({}, sha256 {:.12}…) than {} "
                    "(sha256 {:.12}…); name the right one with --backbone",
                    name, said("backbone"), said("backbone.sha256"), file, backbone.hash()));
  }
  PatchEmbedding embedding;
  embedding.dimension = dimension;
  if (said("neighbourhood") != fmt::format("{}", embedding.neighbourhood)) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: was learned with neighbourhoods of {}, which this version does not "
                    "make",
                    name, said("neighbourhood")));
  }
  auto state = std::make_unique<State>(std::move(backbone),
                                       Geometry::parse(said("resize"), said("crop")), embedding);
  state->source = source;
  return Extractor(std::move(state));
}

const Source& Extractor::source() const { return state_->source; }
const Backbone& Extractor::backbone() const { return state_->backbone; }
const Geometry& Extractor::geometry() const { return state_->geometry; }
const PatchEmbedding& Extractor::embedding() const { return state_->embedding; }

void Extractor::release() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->idle.clear();
}

Patches Extractor::extract(const Image& image, Compute& compute) const {
  Patches patches;
  patches.input = prepare(image, state_->geometry);
  patches.image_width = image.width;
  patches.image_height = image.height;
  Backbone::Runner runner = state_->take(compute.threads().count());
  const std::vector<FeatureMap> maps =
      runner.run(patches.input.chw, patches.input.height, patches.input.width, compute);
  patches.grid_width = maps[0].width;
  patches.grid_height = maps[0].height;
  patches.vectors = Vectors(patches.grid_width * patches.grid_height, state_->embedding.dimension);
  embed(maps, state_->embedding, patches.vectors.data(), compute);
  state_->put_back(compute.threads().count(), std::move(runner));
  patches.input.chw = {};
  if (!all_finite({patches.vectors.data(), patches.vectors.rows() * patches.vectors.cols()})) {
    throw Error(Error::Kind::kInput,
                "the backbone gives values that are not finite for this image; another backbone or "
                "preprocessing is needed");
  }
  return patches;
}

Patches Patches::copy() const {
  Patches same;
  same.vectors = Vectors(vectors.rows(), vectors.cols(), vectors.scalar());
  same.vectors.set_rows(0, vectors.view());
  same.grid_width = grid_width;
  same.grid_height = grid_height;
  same.input = input;
  same.image_width = image_width;
  same.image_height = image_height;
  return same;
}

std::string backbone_text(const Source& source) {
  const std::string& crop = source.at("crop");
  return fmt::format("{} ({}), images resized to {}{}", source.at("backbone"), source.at("layers"),
                     source.at("resize"), crop == "none" ? "" : ", cropped to " + crop);
}

}  // namespace contcore
