#include "coreset/tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace contcore {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Orders points so that each run of kTile lies close together: halves them, at a multiple of kTile,
// along the coordinate in which they spread most, and again.
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
    order = Bisection(leading).run();
  }
  slots_.reserve(vectors.rows);
  for (const std::uint32_t i : order) {
    slots_.push_back({vectors.part(i, 1), sketch_at(i), 0, static_cast<std::int64_t>(i)});
  }
  for (std::size_t t = 0; t < tiles(); ++t) add_tile();
  for (std::size_t place = 0; place < slots_.size(); ++place) write(place);
  for (std::size_t t = 0; t < tiles(); ++t) make_ball(t);
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
  const std::size_t t = place / kernels::kTile;
  if (std::has_single_bit(held_[t])) {
    make_ball(t);
  } else {
    widen_ball(t, place);
  }
  return static_cast<std::uint32_t>(place);
}

void Tiles::clear(std::uint32_t place) {
  slots_[place].id = kFree;
  held_[place / kernels::kTile] &= ~(std::uint64_t{1} << (place % kernels::kTile));
  free_.push_back(place);
}

void Tiles::add_tile() {
  held_.push_back(0);
  const std::size_t t = held_.size() - 1;
  if (sketch_->levels() == 0) return;
  for (std::size_t level = 0; level < std::min<std::size_t>(2, sketch_->levels()); ++level) {
    levels_[level].emplace_back(1, kernels::tile_floats(sketch_->width(level)));
  }
  radius_.push_back(0);
  if (t % kernels::kTile == 0) {
    balls_.emplace_back(1, kernels::tile_floats(ball_width()));
    Vectors more(t + kernels::kTile, sketch_->width(0) + 16);
    std::copy(centres_.data(), centres_.data() + centres_.rows() * centres_.cols(), more.data());
    centres_ = std::move(more);
  }
}

void Tiles::write(std::size_t place) {
  const std::size_t t = place / kernels::kTile;
  const std::size_t lane = place % kernels::kTile;
  Slot& slot = slots_[place];
  held_[t] |= std::uint64_t{1} << lane;
  for (std::size_t level = 0; level < std::min<std::size_t>(2, sketch_->levels()); ++level) {
    const std::size_t width = sketch_->width(level);
    float* column = levels_[level][t].data() + lane;
    for (std::size_t j = 0; j < width; ++j) column[j * kernels::kTile] = slot.sketch[j];
    column[width * kernels::kTile] = sketch_->r(slot.sketch, level);
    column[(width + 1) * kernels::kTile] = sketch_->half_norm(level, slot.sketch);
  }
  if (sketch_->levels() > 0) {
    slot.half_norm = sketch_->half_norm(sketch_->levels() - 1, slot.sketch);
  }
}

void Tiles::make_ball(std::size_t t) {
  if (sketch_->levels() == 0) return;
  const std::size_t width = sketch_->width(0);
  std::vector<double> sum(width + 1, 0.0);
  for (std::uint64_t bits = held_[t]; bits != 0; bits &= bits - 1) {
    const float* row =
        sketch_of(t * kernels::kTile + static_cast<std::size_t>(std::countr_zero(bits)));
    for (std::size_t j = 0; j < width; ++j) sum[j] += static_cast<double>(row[j]);
    sum[width] += static_cast<double>(sketch_->r(row, 0));
  }
  float* c = centres_.row(t);
  double squared = 0;
  for (std::size_t j = 0; j <= width; ++j) {
    c[j] = static_cast<float>(sum[j] / std::popcount(held_[t]));
    squared += static_cast<double>(c[j]) * static_cast<double>(c[j]);
  }
  c[width + 1] = static_cast<float>(0.5 * squared);
  radius_[t] = 0;
  for (std::uint64_t bits = held_[t]; bits != 0; bits &= bits - 1) {
    widen_ball(t, t * kernels::kTile + static_cast<std::size_t>(std::countr_zero(bits)));
  }
}

void Tiles::widen_ball(std::size_t t, std::size_t place) {
  if (sketch_->levels() == 0) return;
  const std::size_t width = sketch_->width(0);
  const float* row = sketch_of(place);
  const float* c = centres_.row(t);
  double squared = 0;
  for (std::size_t j = 0; j <= width; ++j) {
    const double value = static_cast<double>(j < width ? row[j] : sketch_->r(row, 0));
    squared += (value - static_cast<double>(c[j])) * (value - static_cast<double>(c[j]));
  }
  const double radius = std::sqrt(squared) * kSlack + static_cast<double>(sketch_->e(row, 0));
  if (radius > radius_[t] || radius == 0) {
    radius_[t] = std::max(radius_[t], radius);
    write_ball(t);
  }
}

// ‖φ(a) − φ(b)‖ ≥ ‖φ(a) − c‖ − ρ for every member b, so the tile is out of reach when
//   ‖φ(a) − c‖² > (R + ρ)²  ⇔  φ(a)·c + R ρ + ½(ρ² − ‖c‖²) < ½(‖φ(a)‖² − R²).
// Rounding is covered on both sides: γ(½‖φ(a)‖² + ½R² + ‖c‖² + ρ²) bounds that of the sum.
void Tiles::write_ball(std::size_t t) {
  const std::size_t width = sketch_->width(0);
  const float* c = centres_.row(t);
  const float rho = round_up(radius_[t]);
  double squared = 0;
  for (std::size_t j = 0; j <= width; ++j) {
    squared += static_cast<double>(c[j]) * static_cast<double>(c[j]);
  }
  const double rho2 = static_cast<double>(rho) * static_cast<double>(rho);
  const double rounding = sketch_->dot_error(0) * 1.1 * (squared + rho2);
  float* column = balls_[t / kernels::kTile].data() + t % kernels::kTile;
  for (std::size_t j = 0; j < width; ++j) column[j * kernels::kTile] = c[j];
  column[width * kernels::kTile] = rho;
  column[(width + 1) * kernels::kTile] = c[width];
  column[(width + 2) * kernels::kTile] =
      round_up((0.5 * (rho2 - squared) + rounding) + 1e-12 * (rho2 + squared) + 1e-37);
}

float Tiles::ball_gate(const float* sketch, float reach) const {
  if (reach == kInfinity) return -kInfinity;
  const double n = static_cast<double>(sketch_->norm(sketch));
  const double r2 = static_cast<double>(reach) * static_cast<double>(reach);
  const double rounding = sketch_->dot_error(0) * 1.1 * 0.5 * (n + r2);
  return round_down(0.5 * n * (1 - 8 * kUnit) - 0.5 * r2 * kSlack - rounding - 1e-37);
}

}  // namespace contcore
