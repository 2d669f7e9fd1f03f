#include "coreset/centres.h"

#include <algorithm>

namespace contcore {

void Centres::add(const VectorView& vectors, std::size_t i, const float* sketch) {
  const std::size_t c = entries_.size();
  const std::size_t levels = sketch_->levels();
  entries_.push_back(vectors.part(i, 1));
  if (levels == 0) return;
  if (c % kChunk == 0) {
    tiles_.emplace_back(kChunkTiles, kernels::tile_floats(sketch_->width(0)));
    sketches_.emplace_back(kChunk, sketch_->row_floats());
  }
  std::copy(sketch, sketch + sketch_->row_floats(), sketches_.back().row(c % kChunk));
  terms_.resize(levels);
  for (std::size_t level = 0; level < levels; ++level) {
    terms_[level].push_back({sketch_->r(sketch, level), sketch_->half_norm(level, sketch)});
  }
  const std::size_t width = sketch_->width(0);
  float* lane = tiles_.back().row(c % kChunk / kernels::kTile) + c % kernels::kTile;
  for (std::size_t j = 0; j < width; ++j) lane[j * kernels::kTile] = sketch[j];
  lane[width * kernels::kTile] = terms_[0][c].r;
  lane[(width + 1) * kernels::kTile] = terms_[0][c].half_norm;
}

std::size_t Centres::bytes_each(std::size_t first_width, std::size_t levels,
                                std::size_t row_floats) {
  // the lists grow by doubling: twice what they hold
  return 2 * (sizeof(VectorView) + levels * sizeof(LevelTerms)) +
         (first_width + 2 + row_floats) * sizeof(float);
}

}  // namespace contcore
