// Images to patch vectors: decode, prepare, run the backbone, embed.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "contcore/backbone.h"
#include "contcore/compute.h"
#include "contcore/embedding.h"
#include "contcore/image.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

/// The patch vectors of one image, and where they lie.
struct Patches {
  Vectors vectors;  // grid_height × grid_width rows
  std::size_t grid_width = 0;
  std::size_t grid_height = 0;
  NetworkInput input;  // without its pixels
  std::size_t image_width = 0;
  std::size_t image_height = 0;
};

/// Several threads may extract at once: each takes a runner, and puts it back.
class Extractor {
 public:
  Extractor(Backbone backbone, const Geometry& geometry, const PatchEmbedding& embedding);

  /// One image, spread over `threads`. Throws Error (kInput) if the network's answer is not finite.
  Patches extract(const Image& image, Compute& compute) const;

  const Backbone& backbone() const { return backbone_; }
  const Geometry& geometry() const { return geometry_; }
  const PatchEmbedding& embedding() const { return embedding_; }

  /// Gives back the working memory of all runners.
  void rest() const;

 private:
  struct Idle {
    std::size_t threads;
    Backbone::Runner runner;
  };
  Backbone::Runner take(std::size_t threads) const;
  void put_back(std::size_t threads, Backbone::Runner runner) const;

  Backbone backbone_;
  Geometry geometry_;
  PatchEmbedding embedding_;
  mutable std::mutex mutex_;
  mutable std::vector<Idle> idle_;
};

/// What an image gave: its patches, or why it has none.
struct Extracted {
  std::optional<Patches> patches;
  std::string error;
};

/// Images that may wait for a slower one before them.
inline constexpr std::size_t kMostImagesAhead = 32;

/// Calls use(i, extracted) for files [first, first + n) in order; they are extracted in parallel.
/// An image that cannot be read is for `use` to deal with. Throws Error (kCancelled).
void for_images(const Extractor& extractor, const std::vector<std::string>& files,
                std::size_t first, std::size_t n, Compute& compute, const Progress& progress,
                const std::function<void(std::size_t, Extracted&)>& use);

}  // namespace contcore
