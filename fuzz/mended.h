// Safetensors whose checksum is made right: the fuzzer would never hit upon it.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "fuzz.h"

namespace contcore::fuzz {

inline std::vector<std::uint8_t> mended(Bytes input) {
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  constexpr std::string_view kMark = "\"sha256\":\"";
  const auto found = std::search(bytes.begin(), bytes.end(), kMark.begin(), kMark.end());
  if (bytes.end() - found < static_cast<std::ptrdiff_t>(kMark.size() + 64)) return bytes;
  const auto digits = found + static_cast<std::ptrdiff_t>(kMark.size());
  std::fill_n(digits, 64, std::uint8_t{'0'});
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(bytes))};
  const std::string sum = sha256(parts);
  std::copy(sum.begin(), sum.end(), digits);
  return bytes;
}

}  // namespace contcore::fuzz
