// Image files to patch vectors, several at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/error.h"
#include "contcore/extractor.h"
#include "contcore/progress.h"
#include "detector/image_look.h"

namespace contcore {

/// What an image gave: its patches, or why it has none.
struct Extracted {
  std::optional<Patches> patches;
  std::vector<std::uint8_t> bytes;  ///< of the file
  std::string error;
  ImageLook look;
};

/// Does the work; what it says against an image's file begins with the file's name.
template <typename Work>
auto about_file(const std::string& file, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    throw Error(error.kind(), file + ": " + error.what());
  }
}

/// Images that may wait for a slower one before them.
inline constexpr std::size_t kMostImagesAhead = 32;

/// Calls use(i, extracted) for files [first, first + n) in order; they are extracted in parallel.
/// An image that cannot be read is for `use` to deal with. Throws Error (kCancelled).
void extract_files(const Extractor& extractor, const std::vector<std::string>& files,
                   std::size_t first, std::size_t n, Compute& compute, const Progress& progress,
                   const std::function<void(std::size_t, Extracted&)>& use);

}  // namespace contcore
