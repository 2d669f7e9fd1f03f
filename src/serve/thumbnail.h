// An inspected image, small.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace contcore {

/// A JPEG whose longer side has at most so many pixels, of an image in any format that is read.
/// Throws Refusal (422) for what is no image.
std::string thumbnail(std::string_view image, std::size_t side);

}  // namespace contcore
