#include "base/sha256.h"

#include <openssl/evp.h>

#include <memory>

#include "contcore/error.h"

namespace contcore {

std::string sha256(std::span<const std::span<const std::byte>> parts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  bool good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const auto& part : parts) {
    good = good && EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
  }
  if (!good || EVP_DigestFinal_ex(context.get(), digest, &length) != 1) {
    throw Error(Error::Kind::kInternal, "SHA-256 is not available in the OpenSSL library");
  }
  constexpr char kHexadecimal[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += kHexadecimal[digest[i] >> 4];
    text += kHexadecimal[digest[i] & 15];
  }
  return text;
}

}  // namespace contcore
