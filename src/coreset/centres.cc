#include "coreset/centres.h"

#include <algorithm>
#include <limits>

namespace contcore {

void Centres::put(std::size_t c, const VectorView& vectors, std::size_t i, const float* sketch) {
  const std::size_t levels = sketch_->levels();
  const std::size_t bytes = vectors.cols * (vectors.scalar == Scalar::kFloat32 ? 4 : 2);
  const void* at = static_cast<const char*>(vectors.data) + i * bytes;
  if (c == entries_.size()) {
    entries_.emplace_back();
    facts_.resize(levels);
    for (auto& facts : facts_) facts.emplace_back();
    if (levels > 0 && c % kChunk == 0) {
      tiles_.emplace_back(kChunkTiles, kernels::tile_floats(sketch_->width(0)));
      sketches_.emplace_back(kChunk, sketch_->row_floats());
    }
  }
  entries_[c] = VectorView(at, 1, vectors.cols, vectors.scalar);
  if (levels == 0) return;
  std::copy(sketch, sketch + sketch_->row_floats(), sketches_[c / kChunk].row(c % kChunk));
  for (std::size_t level = 0; level < levels; ++level) {
    facts_[level][c] = {sketch_->r(sketch, level), sketch_->half_norm(level, sketch)};
  }
  const std::size_t width = sketch_->width(0);
  float* lane = tiles_[c / kChunk].row(c % kChunk / kernels::kTile) + c % kernels::kTile;
  for (std::size_t j = 0; j < width; ++j) lane[j * kernels::kTile] = sketch[j];
  lane[width * kernels::kTile] = facts_[0][c].r;
  lane[(width + 1) * kernels::kTile] = facts_[0][c].half_norm;
}

void Centres::hide(std::size_t c) {
  if (sketch_->levels() == 0) return;
  const std::size_t width = sketch_->width(0);
  float* lane = tiles_[c / kChunk].row(c % kChunk / kernels::kTile) + c % kernels::kTile;
  for (std::size_t j = 0; j <= width; ++j) lane[j * kernels::kTile] = 0;
  lane[(width + 1) * kernels::kTile] = -std::numeric_limits<float>::infinity();
}

std::size_t Centres::bytes_each(std::size_t first_width, std::size_t levels,
                                std::size_t row_floats) {
  // the lists grow by doubling: twice what they hold
  return 2 * (sizeof(VectorView) + levels * sizeof(Facts)) +
         (first_width + 2 + row_floats) * sizeof(float);
}

}  // namespace contcore
