#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "image/kernels.h"

namespace contcore {
namespace {

constexpr std::size_t kSpare = 1;  // values that the kernels touch behind a row

// Pixels of the source for one of the target. By way of the inverse: some whole factors, such as
// 49, then come out a little off and count as fractions.
double scale_of(std::size_t from, std::size_t to) {
  return 1.0 / (static_cast<double>(to) / static_cast<double>(from));
}

bool is_whole(double scale) {
  return std::abs(scale - std::nearbyint(scale)) < std::numeric_limits<double>::epsilon();
}

// The rows of an image; the last in a copy, with room behind it.
class PixelRows {
 public:
  explicit PixelRows(const Image& image)
      : image_(image),
        last_(image.rgb.end() - static_cast<std::ptrdiff_t>(3 * image.width), image.rgb.end()) {
    last_.resize(last_.size() + kSpare);
  }

  const std::uint8_t* operator[](std::size_t y) const {
    return y + 1 == image_.height ? last_.data() : image_.rgb.data() + 3 * image_.width * y;
  }

 private:
  const Image& image_;
  std::vector<std::uint8_t> last_;
};

// To be filled row by row: a vector of that size would be filled with zeros first.
Image empty_image(std::size_t width, std::size_t height) {
  Image image{width, height, {}};
  image.rgb.reserve(3 * width * height);
  return image;
}

// ---- Whole factors
// ---------------------------------------------------------------------------------

Image halve(const Image& image) {
  const std::size_t bytes = 3 * image.width;
  Image out = empty_image(image.width / 2, image.height / 2);
  std::vector<std::uint8_t> means(bytes);
  std::vector<std::uint8_t> row(bytes / 2);
  for (std::size_t y = 0; y < out.height; ++y) {
    const std::uint8_t* const above = image.rgb.data() + 2 * y * bytes;
    image_kernels::halve(above, above + bytes, out.width, means.data(), row.data());
    out.rgb.insert(out.rgb.end(), row.begin(), row.end());
  }
  return out;
}

Image average_blocks(const Image& image, std::size_t width, std::size_t height) {
  const std::size_t across = image.width / width;
  const std::size_t down = image.height / height;
  const std::size_t bytes = 3 * image.width;
  const float scale = 1.0f / static_cast<float>(across * down);
  Image out = empty_image(width, height);
  std::vector<std::uint16_t> columns(bytes + kSpare);
  std::vector<std::uint32_t> part(3 * width + kSpare);
  std::vector<std::uint32_t> blocks(3 * width);
  std::vector<std::uint8_t> row(3 * width);
  for (std::size_t y = 0; y < height; ++y) {
    std::fill(blocks.begin(), blocks.end(), 0);
    for (std::size_t at = 0; at < down; at += image_kernels::kMostRows) {
      const std::size_t rows = std::min(image_kernels::kMostRows, down - at);
      image_kernels::add_rows(image.rgb.data() + (y * down + at) * bytes, bytes, rows, bytes,
                              columns.data());
      image_kernels::add_pixels(columns.data(), across, width, part.data());
      for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] += part[i];
    }
    image_kernels::scale_sums(blocks.data(), scale, blocks.size(), row.data());
    out.rgb.insert(out.rgb.end(), row.begin(), row.end());
  }
  return out;
}

// ---- Fractions
// -------------------------------------------------------------------------------------

// What each pixel of the target is made of along one side: `terms` pixels of the source from
// `first` on. Where fewer are needed the others weigh 0, which changes no sum.
struct AreaWeights {
  std::size_t terms = 0;
  std::vector<std::uint32_t> first;
  std::vector<float> weights;
};

AreaWeights area_weights(std::size_t from, std::size_t to) {
  constexpr double kSliver = 1e-3;  // of a pixel: less is left out
  const double scale = scale_of(from, to);
  const auto size = static_cast<double>(from);
  AreaWeights out;
  std::vector<std::vector<float>> parts(to);
  for (std::size_t i = 0; i < to; ++i) {
    const double begin = static_cast<double>(i) * scale;
    const double end = begin + scale;
    const double cell = std::min(scale, size - begin);
    const double last = std::min(std::floor(end), size - 1);
    const double whole = std::min(std::ceil(begin), last);
    const bool left = whole - begin > kSliver;
    if (left) parts[i].push_back(static_cast<float>((whole - begin) / cell));
    parts[i].insert(parts[i].end(), static_cast<std::size_t>(last - whole),
                    static_cast<float>(1.0 / cell));
    if (end - last > kSliver) {
      parts[i].push_back(static_cast<float>(std::min(std::min(end - last, 1.0), cell) / cell));
    }
    out.first.push_back(static_cast<std::uint32_t>(whole) - (left ? 1 : 0));
    out.terms = std::max(out.terms, parts[i].size());
  }
  out.weights.resize(to * out.terms);
  for (std::size_t i = 0; i < to; ++i) {
    const std::size_t first = std::min<std::size_t>(out.first[i], from - out.terms);
    std::copy(
        parts[i].begin(), parts[i].end(),
        out.weights.begin() + static_cast<std::ptrdiff_t>(i * out.terms + out.first[i] - first));
    out.first[i] = static_cast<std::uint32_t>(first);
  }
  return out;
}

Image average_areas(const Image& image, std::size_t width, std::size_t height) {
  const AreaWeights across = area_weights(image.width, width);
  const AreaWeights down = area_weights(image.height, height);
  const PixelRows rows(image);
  Image out = empty_image(width, height);
  std::vector<std::uint8_t> row(3 * width);
  // Row y of the source, weighed, is in place y % terms for as long as it is needed.
  const std::size_t stride = 3 * width + kSpare;
  std::vector<float> weighed(down.terms * stride);
  std::vector<const float*> terms(down.terms);
  std::size_t next = 0;
  for (std::size_t y = 0; y < height; ++y) {
    const std::size_t first = down.first[y];
    for (next = std::max(next, first); next < first + down.terms; ++next) {
      image_kernels::weigh_pixels(rows[next], across.first.data(), across.weights.data(),
                                  across.terms, width, weighed.data() + next % down.terms * stride);
    }
    for (std::size_t t = 0; t < down.terms; ++t) {
      terms[t] = weighed.data() + (first + t) % down.terms * stride;
    }
    image_kernels::weigh_rows(terms.data(), down.weights.data() + y * down.terms, down.terms,
                              row.size(), row.data());
    out.rgb.insert(out.rgb.end(), row.begin(), row.end());
  }
  return out;
}

// ---- Between two pixels
// ----------------------------------------------------------------------------

struct Between {
  std::ptrdiff_t low;  // may lie before the first
  float part;          // of the pixel behind `low`
};

// `sharp`: as much of the nearer pixel as its area has in the target's.
std::vector<Between> betweens(std::size_t from, std::size_t to, bool sharp) {
  const double scale = scale_of(from, to);
  const double inverse = static_cast<double>(to) / static_cast<double>(from);
  std::vector<Between> out;
  out.reserve(to);
  for (std::size_t i = 0; i < to; ++i) {
    const auto place = static_cast<double>(i);
    if (sharp) {
      const double low = std::floor(place * scale);
      const auto part = static_cast<float>(place + 1 - (low + 1) * inverse);
      out.push_back({static_cast<std::ptrdiff_t>(low), part <= 0 ? 0.0f : part - std::floor(part)});
    } else {
      const auto at = static_cast<float>((place + 0.5) * scale - 0.5);
      const float low = std::floor(at);
      out.push_back({static_cast<std::ptrdiff_t>(low), at - low});
    }
  }
  return out;
}

std::size_t clamped(std::ptrdiff_t i, std::size_t size) {
  return static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(i, 0, std::ptrdiff_t(size) - 1));
}

// Along a row nothing lies outside: the border pixel is taken alone. (Between rows it is mixed with
// itself, which rounds in another way.)
std::vector<Between> within(std::vector<Between> places, std::size_t size) {
  for (Between& place : places) {
    const std::size_t low = clamped(place.low, size);
    if (place.low < 0 || low + 1 == size) place.part = 0;
    place.low = static_cast<std::ptrdiff_t>(low);
  }
  return places;
}

// fill(y, room) makes the source's row y in the target's width, mix(above, below, part) the
// target's next row.
template <typename T, typename Fill, typename Mix>
void interpolate_rows(const std::vector<Between>& places, std::size_t size, std::size_t stride,
                      const Fill& fill, const Mix& mix) {
  std::vector<T> room(2 * stride);
  std::ptrdiff_t held[2] = {-1, -1};  // the rows in there, row y in place y % 2
  const auto row = [&](std::ptrdiff_t i) {
    const std::size_t y = clamped(i, size);
    T* const at = room.data() + y % 2 * stride;
    if (held[y % 2] != static_cast<std::ptrdiff_t>(y)) fill(y, at);
    held[y % 2] = static_cast<std::ptrdiff_t>(y);
    return at;
  };
  for (const auto& [low, part] : places) {
    const T* const above = row(low);
    mix(above, row(low + 1), part);
  }
}

// In parts of 2048, as whole numbers.
constexpr float kOne = 2048;
std::int16_t parts_of(float weight) {
  return static_cast<std::int16_t>(std::nearbyint(weight * kOne));
}

Image interpolate(const Image& image, std::size_t width, std::size_t height, bool sharp) {
  std::vector<std::uint32_t> left, right;
  std::vector<std::int32_t> weights;
  for (const auto& [low, part] : within(betweens(image.width, width, sharp), image.width)) {
    left.push_back(static_cast<std::uint32_t>(low));
    right.push_back(static_cast<std::uint32_t>(clamped(low + 1, image.width)));
    weights.push_back(parts_of(1.0f - part));
    weights.push_back(parts_of(part));
  }
  const PixelRows rows(image);
  Image out = empty_image(width, height);
  std::vector<std::uint8_t> row(3 * width);
  interpolate_rows<std::int16_t>(
      betweens(image.height, height, sharp), image.height, 3 * width + kSpare,
      [&](std::size_t y, std::int16_t* to) {
        image_kernels::blend_pixels(rows[y], left.data(), right.data(), weights.data(), width, to);
      },
      [&](const std::int16_t* above, const std::int16_t* below, float part) {
        image_kernels::blend_rows(above, below, parts_of(1.0f - part), parts_of(part), row.size(),
                                  row.data());
        out.rgb.insert(out.rgb.end(), row.begin(), row.end());
      });
  return out;
}

}  // namespace

Image resize_image(const Image& image, std::size_t width, std::size_t height) {
  if (width == image.width && height == image.height) return image;
  const bool shrinks = width < image.width || height < image.height;
  if (!shrinks) return interpolate(image, width, height, false);
  const bool grows = width > image.width || height > image.height;
  if (grows) return interpolate(image, width, height, true);
  if (image.width == 2 * width && image.height == 2 * height) return halve(image);
  const bool whole =
      is_whole(scale_of(image.width, width)) && is_whole(scale_of(image.height, height));
  return whole ? average_blocks(image, width, height) : average_areas(image, width, height);
}

Map resize_map(const Map& map, std::size_t width, std::size_t height) {
  if (width == map.width && height == map.height) return map;
  std::vector<std::uint32_t> left;
  std::vector<float> left_weight, right_weight;
  for (const auto& [low, part] : within(betweens(map.width, width, false), map.width)) {
    left.push_back(static_cast<std::uint32_t>(low));
    left_weight.push_back(1.0f - part);
    right_weight.push_back(part);
  }
  // From here on the last value is taken alone.
  const auto inner = static_cast<std::size_t>(
      std::lower_bound(left.begin(), left.end(), map.width - 1) - left.begin());
  Map out{width, height, {}};
  out.values.reserve(width * height);
  std::vector<float> row(width);
  interpolate_rows<float>(
      betweens(map.height, height, false), map.height, width,
      [&](std::size_t y, float* to) {
        const float* const from = map.values.data() + y * map.width;
        for (std::size_t x = 0; x < inner; ++x) {
          const float* const at = from + left[x];
          to[x] = at[0] * left_weight[x] + at[1] * right_weight[x];
        }
        std::fill(to + inner, to + width, from[map.width - 1]);
      },
      [&](const float* above, const float* below, float part) {
        image_kernels::blend_rows(above, below, 1.0f - part, part, width, row.data());
        out.values.insert(out.values.end(), row.begin(), row.end());
      });
  return out;
}

}  // namespace contcore
