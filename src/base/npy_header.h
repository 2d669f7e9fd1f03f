// The header of an .npy file that is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace contcore {

/// Version 1, padded to a multiple of `alignment` bytes. `descr` is NumPy's name of the numbers,
/// such as "<f4".
std::string npy_header(std::string_view descr, const std::vector<std::uint64_t>& shape,
                       std::size_t alignment = 64);

}  // namespace contcore
