// SHA-256, hexadecimal.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace contcore {

/// Of the parts, one after the other.
std::string sha256(std::span<const std::span<const std::byte>> parts);

}  // namespace contcore
