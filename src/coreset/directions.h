// The directions that a sketch projects on: nearly the leading principal ones of a sample.
#pragma once

#include <cstddef>
#include <vector>

#include "contcore/compute.h"
#include "contcore/vectors.h"

namespace contcore {

struct Directions {
  std::vector<float> centre;
  Vectors basis;   ///< dimensions × at least `width`: nearly orthonormal columns, or zeros
  Vectors sample;  ///< the rows it was fitted to, less the centre, the longest of length 1
  double sample_length = 0;  ///< the longest one's true length; 0: all are equal
};

/// Fits to a sample of the vectors and of `more`, those of most variance first. A width of 0 finds
/// the centre alone; no vectors, a centre of zeros and no basis.
Directions fit_directions(VectorView vectors, VectorView more, std::size_t width, Compute& compute);

/// Leading principal directions of the sample's rows, by one step of subspace iteration from a
/// random start, as columns: sample.cols() × width, a multiple of 32.
Vectors principal_directions(const Vectors& sample, std::size_t width, Compute& compute);

/// a·b; the result's columns are padded with zeros to a multiple of kernels::kPanel.
Vectors multiply(const Vectors& a, const Vectors& b, Compute& compute);
Vectors transpose(const Vectors& a, Compute& compute);

/// d × w, row after row, to panels of kPanel columns, each d × kPanel; missing columns are zero.
Vectors pack_panels(const float* matrix, std::size_t d, std::size_t w, std::size_t stride);

}  // namespace contcore
