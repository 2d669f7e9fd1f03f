// Where a window lies over a map, on the device.
#pragma once

#include <cuda_runtime.h>

#include "backbone/gpu_kernels.h"

namespace contcore::gpu_kernels {

// a / b and what is left. Whole numbers of 32 bits are divided much faster.
struct Division {
  std::int64_t whole, rest;
  __device__ Division(std::int64_t a, std::int64_t b) {
    if (((a | b) >> 32) == 0) {
      whole = static_cast<unsigned>(a) / static_cast<unsigned>(b);
    } else {
      whole = a / b;
    }
    rest = a - whole * b;
  }
};

// The image of a place of the result, and where in it the window begins: perhaps outside.
struct Corner {
  __device__ Corner(const Window& w, int place) {
    const auto p = static_cast<unsigned>(place);
    const unsigned line = p / static_cast<unsigned>(w.out_width);
    const unsigned column = p - line * static_cast<unsigned>(w.out_width);
    const unsigned number = line / static_cast<unsigned>(w.out_height);
    image = static_cast<int>(number);
    x = static_cast<int>(column) * w.stride_x - w.pad_x;
    y = static_cast<int>(line - number * static_cast<unsigned>(w.out_height)) * w.stride_y -
        w.pad_y;
  }
  int image, y, x;
};

// Whether windows are the places of the map themselves.
__device__ inline bool is_flat(const Window& w) {
  return w.taps() == 1 && w.out_width == w.width && w.out_height == w.height && w.pad_x == 0 &&
         w.pad_y == 0;
}

// Where in the map the numbers of a window begin.
__device__ inline std::int64_t first_number(const Window& w, int place) {
  if (is_flat(w)) return static_cast<std::int64_t>(place) * w.channels;
  const Corner corner(w, place);
  return ((static_cast<std::int64_t>(corner.image) * w.height + corner.y) * w.width + corner.x) *
         w.channels;
}

// A bit for each tap: whether it is over the map.
__device__ inline unsigned taps_inside(const Window& w, int place) {
  if (is_flat(w)) return 1;
  const Corner corner(w, place);
  unsigned bits = 0;
  int tap = 0;
  for (int ky = 0; ky < w.kernel_height; ++ky) {
    const int y = corner.y + ky * w.dilation_y;
    for (int kx = 0; kx < w.kernel_width; ++kx, ++tap) {
      const int x = corner.x + kx * w.dilation_x;
      const bool inside = y >= 0 && y < w.height && x >= 0 && x < w.width;
      bits |= inside ? 1u << tap : 0u;
    }
  }
  return bits;
}

}  // namespace contcore::gpu_kernels
