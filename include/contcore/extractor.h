// Images to patch vectors: prepare, run the backbone, embed.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contcore/backbone.h"
#include "contcore/compute.h"
#include "contcore/embedding.h"
#include "contcore/image.h"
#include "contcore/progress.h"
#include "contcore/region_of_interest.h"
#include "contcore/score.h"
#include "contcore/vectors.h"

namespace contcore {

/// What a network computes in, and what its patch vectors are made of.
enum class Precision {
  kFloat,  ///< float32
  k8Bit,   ///< the network in 8-bit integers, patch vectors of bytes
};

/// "float" or "8bit"; throws Error (kUsage) for another word. And back.
Precision parse_precision(const std::string& word);
std::string precision_word(Precision precision);

struct ExtractorOptions {
  std::string backbone;  ///< an ONNX file, "resnet50" or "builtin"; empty: resnet50 if it
                         ///< was fetched, "builtin" otherwise
  std::vector<std::string> layers;  ///< empty: layer2 and layer3
  Geometry geometry{Geometry::Resize::kSquare, 384, 0};
  std::size_t dimension = 512;  ///< of a patch vector
  /// In 8 bits the backbone is its 8-bit form, which is made when it is first needed and kept in
  /// the cache, like the scale of the bytes. A file in 8 bits is used as it is.
  Precision precision = Precision::k8Bit;
  Notice notice = {};  ///< told when that takes its time, and when it cannot be kept
};

/// The patch vectors of one image, and where they lie.
struct Patches {
  Vectors vectors;  ///< grid_height × grid_width rows, of bytes in 8 bits; or of those inside alone
  std::size_t grid_width = 0;
  std::size_t grid_height = 0;
  NetworkInput input;  ///< without its pixels
  std::size_t image_width = 0;
  std::size_t image_height = 0;
  std::shared_ptr<const GridRegion> inside;  ///< none: it was not seen through a region

  Patches copy() const;
  PatchGrid grid() const {
    return {grid_width, grid_height, input.width, input.height, input.tile, inside};
  }
};

/// Several threads may extract at once: each takes a runner of the network, and puts it back.
class Extractor {
 public:
  /// Throws Error as Backbone does.
  explicit Extractor(const ExtractorOptions& options);

  /// What its features are made by, as text: a memory keeps it as its source.
  const std::map<std::string, std::string>& source() const;

  /// The extractor that a memory's features (its source and dimension) were made by; the backbone
  /// is the one it names, or the file `backbone` if given (in 8 bits: that file, or the float one
  /// it was made of). `name` is the memory's, for errors. Throws Error (kInput) if the source is
  /// not of images, or the backbone is not there or another one.
  static Extractor of_source(const std::map<std::string, std::string>& source,
                             std::size_t dimension, const std::string& name,
                             const std::string& backbone = "", const Notice& notice = {});
  ~Extractor();
  Extractor(Extractor&&) noexcept;
  Extractor& operator=(Extractor&&) noexcept;

  /// One image, spread over all threads; with tiles, one for each thread at a time. Throws Error
  /// (kInput) if the network's answer is not finite, or an image has more patches in tiles than 2
  /// GiB have room for.
  /// Through a region: what lies outside is painted over before the network sees it, and the
  /// patches are those of the places that the region touches. Throws Error (kInput) for an image of
  /// another shape, and where there are none.
  Patches extract(const Image& image, Compute& compute, const SharedRegion& region = {}) const;

  const Backbone& backbone() const;
  const Geometry& geometry() const;
  /// What it sees of an image of that size, without its pixels.
  NetworkInput input_of(std::size_t width, std::size_t height) const;
  /// In how many tiles an input of that size is seen; 1 without tiles.
  std::size_t tiles_of(std::size_t width, std::size_t height) const;
  /// The picture that the grid lies over: as the backbone sees it, of tiles as if they were one.
  Image view_of(const Image& image) const;
  const PatchEmbedding& embedding() const;
  Precision precision() const;
  /// How its numbers become bytes; nothing in float.
  const std::optional<ByteScale>& byte_scale() const;

  /// Gives back the working memory of all runners.
  void release() const;

 private:
  struct State;
  explicit Extractor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// ", in tiles of 384 that overlap by 128"; nothing where a source says nothing of tiles.
std::string tiles_text(const std::map<std::string, std::string>& source);
/// What a source says of the backbone, for people: its name, layers and the size of its input.
std::string backbone_text(const std::map<std::string, std::string>& source);

}  // namespace contcore
