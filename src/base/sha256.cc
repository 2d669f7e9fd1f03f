#include "base/sha256.h"

#include <nettle/sha2.h>

#include <array>
#include <cstdint>

namespace contcore {

std::string sha256(std::span<const std::span<const std::byte>> parts) {
  sha256_ctx context;
  sha256_init(&context);
  for (const auto& part : parts) {
    sha256_update(&context, part.size(), reinterpret_cast<const std::uint8_t*>(part.data()));
  }
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&context, digest.size(), digest.data());
  constexpr char kHexadecimal[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += kHexadecimal[byte >> 4];
    text += kHexadecimal[byte & 15];
  }
  return text;
}

}  // namespace contcore
