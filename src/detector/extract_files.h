// Image files to patch vectors, several at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/progress.h"

namespace contcore {

/// What an image gave: its patches, or why it has none.
struct Extracted {
  std::optional<Patches> patches;
  std::string error;
};

/// Images that may wait for a slower one before them.
inline constexpr std::size_t kMostImagesAhead = 32;

/// Calls use(i, extracted) for files [first, first + n) in order; they are extracted in parallel.
/// An image that cannot be read is for `use` to deal with. Throws Error (kCancelled).
void extract_files(const Extractor& extractor, const std::vector<std::string>& files,
                   std::size_t first, std::size_t n, Compute& compute, const Progress& progress,
                   const std::function<void(std::size_t, Extracted&)>& use);

}  // namespace contcore
