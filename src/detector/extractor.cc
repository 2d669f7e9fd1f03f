#include "detector/extractor.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "contcore/error.h"
#include "detector/in_order.h"

namespace contcore {
namespace {

// Infinities and NaNs have all bits of the exponent set.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  bool bad = false;
  for (const float value : values) {
    bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent;
  }
  return !bad;
}

Extracted extract_file(const Extractor& extractor, const std::string& file) {
  Compute one(1);
  Extracted image;
  try {
    image.patches = extractor.extract(read_image(file), one);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    image.error = error.what();
  }
  return image;
}

}  // namespace

Extractor::Extractor(Backbone backbone, const Geometry& geometry, const PatchEmbedding& embedding)
    : backbone_(std::move(backbone)), geometry_(geometry), embedding_(embedding) {}

Backbone::Runner Extractor::take(std::size_t threads) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(idle_.begin(), idle_.end(),
                                    [&](const Idle& idle) { return idle.threads == threads; });
    if (found != idle_.end()) {
      Backbone::Runner runner = std::move(found->runner);
      idle_.erase(found);
      return runner;
    }
  }
  return backbone_.runner(threads);
}

void Extractor::put_back(std::size_t threads, Backbone::Runner runner) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back({threads, std::move(runner)});
}

void Extractor::rest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.clear();
}

Patches Extractor::extract(const Image& image, Compute& compute) const {
  Patches patches;
  patches.input = prepare(image, geometry_);
  patches.image_width = image.width;
  patches.image_height = image.height;
  Backbone::Runner runner = take(compute.threads().count());
  const std::vector<FeatureMap> maps =
      runner.run(patches.input.chw, patches.input.height, patches.input.width);
  patches.grid_width = maps[0].width;
  patches.grid_height = maps[0].height;
  patches.vectors = Vectors(patches.grid_width * patches.grid_height, embedding_.dimension);
  embed(maps, embedding_, patches.vectors.data(), compute);
  put_back(compute.threads().count(), std::move(runner));
  patches.input.chw = {};
  if (!all_finite({patches.vectors.data(), patches.vectors.rows() * patches.vectors.cols()})) {
    throw Error(Error::Kind::kInput,
                "the backbone gives values that are not finite for this image; another backbone or "
                "preprocessing is needed");
  }
  return patches;
}

void for_images(const Extractor& extractor, const std::vector<std::string>& files,
                std::size_t first, std::size_t n, Compute& compute, const Progress& progress,
                const std::function<void(std::size_t, Extracted&)>& use) {
  std::atomic<std::size_t> done = first;
  run_in_order<Extracted>(
      compute, n, kMostImagesAhead,
      [&](std::size_t i, std::size_t worker) {
        // Worker 0 is the calling thread, the only one to report from.
        if (worker == 0 && progress &&
            !progress(static_cast<double>(done) / static_cast<double>(files.size()))) {
          throw Error(Error::Kind::kCancelled, "stopped");
        }
        return extract_file(extractor, files[first + i]);
      },
      [&](std::size_t i, Extracted& image) {
        use(first + i, image);
        ++done;
      });
}

}  // namespace contcore
