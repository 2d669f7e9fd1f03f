#include "coreset/tiles.h"

#include <algorithm>
#include <numeric>

namespace contcore {
namespace {

// Halves points, at a multiple of kTile, along the coordinate in which they spread most, and again.
class Bisection {
 public:
  explicit Bisection(const Vectors& points) : points_(points), order_(points.rows()) {
    std::iota(order_.begin(), order_.end(), 0u);
  }

  std::vector<std::uint32_t> run() {
    split(0, order_.size());
    return std::move(order_);
  }

 private:
  void split(std::size_t from, std::size_t to) {
    if (to - from <= kernels::kTile) return;
    const std::size_t j = widest(from, to);
    const std::size_t tiles = (to - from + kernels::kTile - 1) / kernels::kTile;
    const std::size_t middle = from + tiles / 2 * kernels::kTile;
    const auto begin = order_.begin();
    std::nth_element(
        begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(middle),
        begin + static_cast<std::ptrdiff_t>(to), [&](std::uint32_t a, std::uint32_t b) {
          const float ya = points_.row(a)[j];
          const float yb = points_.row(b)[j];
          return ya < yb || (ya == yb && a < b);
        });
    split(from, middle);
    split(middle, to);
  }

  std::size_t widest(std::size_t from, std::size_t to) const {
    const std::size_t d = points_.cols();
    std::vector<double> sum(d, 0.0);
    std::vector<double> squares(d, 0.0);
    for (std::size_t i = from; i < to; ++i) {
      const float* row = points_.row(order_[i]);
      for (std::size_t j = 0; j < d; ++j) {
        const double x = static_cast<double>(row[j]);
        sum[j] += x;
        squares[j] += x * x;
      }
    }
    std::size_t best = 0;
    double most = -1;
    for (std::size_t j = 0; j < d; ++j) {
      const double spread = squares[j] - sum[j] * sum[j] / static_cast<double>(to - from);
      if (spread > most) {
        most = spread;
        best = j;
      }
    }
    return best;
  }

  const Vectors& points_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

std::vector<std::uint32_t> order_in_tiles(const Vectors& points) { return Bisection(points).run(); }

void Tiles::build(const VectorView& vectors, std::vector<Vectors> sketches,
                  std::size_t sketch_chunk) {
  storage_ = std::move(sketches);
  const auto sketch_at = [&](std::size_t i) {
    return storage_[i / sketch_chunk].row(i % sketch_chunk);
  };
  std::vector<std::uint32_t> order(vectors.rows);
  std::iota(order.begin(), order.end(), 0u);
  if (sketch_->levels() > 0) {
    constexpr std::size_t kCoordinates = 16;
    Vectors leading(vectors.rows, kCoordinates);
    for (std::size_t i = 0; i < vectors.rows; ++i) {
      std::copy(sketch_at(i), sketch_at(i) + kCoordinates, leading.row(i));
    }
    order = order_in_tiles(leading);
  }
  slots_.reserve(vectors.rows);
  for (const std::uint32_t i : order) {
    slots_.push_back({vectors.part(i, 1), sketch_at(i), 0, static_cast<std::int64_t>(i)});
  }
  for (std::size_t t = 0; t < tiles(); ++t) add_tile();
  for (std::size_t place = 0; place < slots_.size(); ++place) write(place);
}

std::uint32_t Tiles::put(const VectorView& vectors, std::size_t i, const float* sketch,
                         std::int64_t id) {
  std::size_t place = slots_.size();
  const bool fresh = free_.empty();
  if (fresh) {
    storage_.emplace_back(1, sketch_->row_floats());
    slots_.push_back({{}, storage_.back().data(), 0, kFree});
    if (place % kernels::kTile == 0) add_tile();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[place];
  slot.vector = vectors.part(i, 1);
  slot.id = id;
  std::copy(sketch, sketch + sketch_->row_floats(), slot.sketch);
  write(place);
  return static_cast<std::uint32_t>(place);
}

void Tiles::clear(std::uint32_t place) {
  slots_[place].id = kFree;
  held_[place / kernels::kTile] &= ~(std::uint64_t{1} << (place % kernels::kTile));
  if (sketch_->levels() > 0) bytes_[place / kernels::kTile].clear(place % kernels::kTile);
  free_.push_back(place);
}

void Tiles::add_tile() {
  held_.push_back(0);
  if (sketch_->levels() > 0) bytes_.emplace_back(sketch_->width(0));
}

void Tiles::write(std::size_t place) {
  const std::size_t t = place / kernels::kTile;
  const std::size_t lane = place % kernels::kTile;
  Slot& slot = slots_[place];
  held_[t] |= std::uint64_t{1} << lane;
  if (sketch_->levels() == 0) return;
  ByteSketch bytes;
  to_bytes(*sketch_, slot.sketch, 127, &bytes);
  bytes_[t].put(lane, bytes);
  error_ = std::max(error_, bytes_[t].error());
  slot.half_norm = sketch_->half_norm(sketch_->levels() - 1, slot.sketch);
}

}  // namespace contcore
