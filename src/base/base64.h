// Bytes as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace contcore {

std::string base64(std::span<const std::uint8_t> bytes);

}  // namespace contcore
