#include "serve/hmac.h"

#include <fmt/format.h>
#include <nettle/hmac.h>

#include <array>

namespace contcore {

std::string hmac_sha256(std::string_view key, std::string_view message) {
  hmac_sha256_ctx context;
  ::hmac_sha256_set_key(&context, key.size(), reinterpret_cast<const std::uint8_t*>(key.data()));
  ::hmac_sha256_update(&context, message.size(),
                       reinterpret_cast<const std::uint8_t*>(message.data()));
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  ::hmac_sha256_digest(&context, digest.size(), digest.data());
  std::string text;
  for (const std::uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace contcore
