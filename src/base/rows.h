// Small pieces that several layers share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/error.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

/// Some rows of a set, in the order named: bytes as bytes, others as float32.
template <typename Indices>
Vectors gather(VectorView from, const Indices& rows) {
  Vectors out(rows.size(), from.cols,
              from.scalar == Scalar::kUint8 ? Scalar::kUint8 : Scalar::kFloat32);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out.set_rows(i, from.part(static_cast<std::size_t>(rows[i]), 1));
  }
  return out;
}

/// The values at some indices, in the order named.
template <typename Value, typename Index>
std::vector<Value> choose(const std::vector<Value>& from, const std::vector<Index>& at) {
  std::vector<Value> out;
  out.reserve(at.size());
  for (const Index i : at) out.push_back(from[static_cast<std::size_t>(i)]);
  return out;
}

/// Says how far the work is; throws Error (kCancelled) if it is to stop.
inline void report(const Progress& progress, double done) {
  if (progress && !progress(done)) throw Error(Error::Kind::kCancelled, "stopped");
}

/// For it: so many of so many.
inline double part_done(std::size_t done, std::size_t all) {
  return static_cast<double>(done) / static_cast<double>(all);
}

/// Progress of one part of a longer work, from `begin` to `end` of it.
inline Progress part_of(const Progress& whole, double begin, double end) {
  if (!whole) return {};
  return [whole, begin, end](double done) { return whole(begin + done * (end - begin)); };
}

}  // namespace contcore
