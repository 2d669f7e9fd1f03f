#include "coreset/centres.h"

#include <cstring>

namespace contcore {

std::int32_t put_in_tile(const std::uint8_t* sketch, std::size_t width, std::size_t lane,
                         std::uint8_t* tile) {
  std::int32_t sum = 0;
  for (std::size_t j = 0; j < width; j += 4) {
    std::uint8_t steps[4];
    for (std::size_t i = 0; i < 4; ++i) {
      steps[i] = sketch[j + i] ^ 0x80;  // k + 128 to k
      sum += sketch[j + i] - 128;
    }
    std::memcpy(tile + j * kernels::kTile + 4 * lane, steps, 4);
  }
  return sum;
}

void Centres::add(const VectorView& vectors, std::size_t i, const std::uint8_t* sketch) {
  const std::size_t c = entries_.size();
  entries_.push_back({vectors.part(i, 1), sketch, sketch_->half_norm(sketch)});
  const std::size_t width = sketch_->width();
  if (width == 0) return;
  if (c % kChunk == 0) {
    tiles_.emplace_back(kChunkTiles, kernels::step_tile_bytes(width), Scalar::kUint8);
  }
  const std::size_t lane = c % kernels::kTile;
  std::uint8_t* tile = tiles_.back().byte_row(c % kChunk / kernels::kTile);
  const std::int32_t h = entries_.back().half_norm - 128 * put_in_tile(sketch, width, lane, tile);
  std::memcpy(tile + width * kernels::kTile + 4 * lane, &h, sizeof(h));
}

std::size_t Centres::bytes_each(std::size_t width) {
  // the list grows by doubling: twice what it holds
  return 2 * sizeof(Entry) + width + sizeof(std::int32_t);
}

}  // namespace contcore
