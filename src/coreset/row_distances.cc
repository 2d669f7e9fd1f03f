#include "coreset/row_distances.h"

#include <vector>

#include "contcore/distance.h"
#include "coreset/kernels.h"

namespace contcore {
namespace {

std::vector<const std::uint8_t*> byte_rows(VectorView set, std::span<const std::uint32_t> rows) {
  std::vector<const std::uint8_t*> out;
  out.reserve(rows.size());
  for (const std::uint32_t i : rows) out.push_back(set.byte_row(i));
  return out;
}

std::vector<const float*> float_rows(VectorView set, std::span<const std::uint32_t> rows,
                                     std::vector<float>& scratch) {
  if (set.scalar != Scalar::kFloat32) scratch.resize(rows.size() * set.cols);
  std::vector<const float*> out;
  out.reserve(rows.size());
  for (const std::uint32_t i : rows) {
    out.push_back(set.row(i, scratch.empty() ? nullptr : scratch.data() + out.size() * set.cols));
  }
  return out;
}

}  // namespace

void squared_distances(VectorView a, std::span<const std::uint32_t> from, VectorView b,
                       std::span<const std::uint32_t> to, float* out) {
  if (a.scalar == Scalar::kUint8) {
    kernels::squared_distances(byte_rows(a, from).data(), from.size(), byte_rows(b, to).data(),
                               to.size(), a.cols, out);
    return;
  }
  std::vector<float> left;
  std::vector<float> right;
  const std::vector<const float*> rows = float_rows(a, from, left);
  kernels::squared_distances(rows.data(), from.size(), float_rows(b, to, right).data(), to.size(),
                             a.cols, out);
}

float squared_distance(VectorView a, std::size_t i, VectorView b, std::size_t j) {
  const auto left = static_cast<std::uint32_t>(i);
  const auto right = static_cast<std::uint32_t>(j);
  float out = 0;
  squared_distances(a, {&left, 1}, b, {&right, 1}, &out);
  return out;
}

}  // namespace contcore
