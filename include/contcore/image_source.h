// Images that a program holds itself, and images that were left out.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "contcore/image.h"

namespace contcore {

/// Images that are not files: `load(i)` gives image i, from several threads at once; `name(i)` is
/// what messages and reports call it. An Error (kInput) that `load` throws is said of that image
/// alone, as of a file that cannot be read; whatever else it throws ends it all and goes on.
struct ImageSource {
  std::size_t count = 0;
  std::function<Image(std::size_t)> load;
  std::function<std::string(std::size_t)> name;
};

/// An image that could not be used.
struct SkippedImage {
  std::string file;
  std::string reason;  ///< begins with its name
};

}  // namespace contcore
