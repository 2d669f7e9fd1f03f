// Images to patch vectors: prepare, run the backbone, embed.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "contcore/backbone.h"
#include "contcore/compute.h"
#include "contcore/embedding.h"
#include "contcore/image.h"
#include "contcore/score.h"
#include "contcore/vectors.h"

namespace contcore {

struct ExtractorOptions {
  std::string backbone;  ///< an ONNX file, "resnet50" or "builtin"; empty: resnet50 if it
                         ///< was fetched, "builtin" otherwise
  std::vector<std::string> layers;  ///< empty: layer2 and layer3
  Geometry geometry;
  std::size_t dimension = 1024;  ///< of a patch vector
};

/// The patch vectors of one image, and where they lie.
struct Patches {
  Vectors vectors;  ///< grid_height × grid_width rows
  std::size_t grid_width = 0;
  std::size_t grid_height = 0;
  NetworkInput input;  ///< without its pixels
  std::size_t image_width = 0;
  std::size_t image_height = 0;

  Patches copy() const;
  PatchGrid grid() const { return {grid_width, grid_height, input.width, input.height}; }
};

/// Several threads may extract at once: each takes a runner of the network, and puts it back.
class Extractor {
 public:
  /// Throws Error as Backbone does.
  explicit Extractor(const ExtractorOptions& options);

  /// What its features are made by, as text: a memory keeps it as its source.
  const std::map<std::string, std::string>& source() const;

  /// The extractor that a memory's features (its source and dimension) were made by; the backbone
  /// is the one it names, or the file `backbone` if given. `name` is the memory's, for errors.
  /// Throws Error (kInput) if the source is not of images, or the backbone is not there or another
  /// one.
  static Extractor of_source(const std::map<std::string, std::string>& source,
                             std::size_t dimension, const std::string& name,
                             const std::string& backbone = "");
  ~Extractor();
  Extractor(Extractor&&) noexcept;
  Extractor& operator=(Extractor&&) noexcept;

  /// One image, spread over all threads. Throws Error (kInput) if the network's answer is not
  /// finite.
  Patches extract(const Image& image, Compute& compute) const;

  const Backbone& backbone() const;
  const Geometry& geometry() const;
  const PatchEmbedding& embedding() const;

  /// Gives back the working memory of all runners.
  void release() const;

 private:
  struct State;
  explicit Extractor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// What a source says of the backbone, for people: its name, layers and the size of its input.
std::string backbone_text(const std::map<std::string, std::string>& source);

}  // namespace contcore
