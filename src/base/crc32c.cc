#include "base/crc32c.h"

#include <array>
#include <cstddef>

namespace contcore {
namespace {

// Row k, entry b: what byte b does to the remainder k bytes later, so that eight bytes are taken at
// a time. No instruction of one processor is needed for a gigabyte a second.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t rest = b;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0x82F63B78u : 0u);
    tables[0][b] = rest;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t shorter = tables[k - 1][b];
      tables[k][b] = (shorter >> 8) ^ tables[0][shorter & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t load(const std::uint8_t* p) {
  return std::uint32_t{p[0]} | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 |
         std::uint32_t{p[3]} << 24;
}

}  // namespace

std::uint32_t crc32c(std::uint32_t before, std::span<const std::uint8_t> bytes) {
  std::uint32_t rest = ~before;
  const std::uint8_t* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    const std::uint32_t low = rest ^ load(p);
    const std::uint32_t high = load(p + 4);
    rest = kTables[7][low & 255] ^ kTables[6][low >> 8 & 255] ^ kTables[5][low >> 16 & 255] ^
           kTables[4][low >> 24] ^ kTables[3][high & 255] ^ kTables[2][high >> 8 & 255] ^
           kTables[1][high >> 16 & 255] ^ kTables[0][high >> 24];
  }
  for (; left > 0; --left, ++p) rest = (rest >> 8) ^ kTables[0][(rest ^ *p) & 255];
  return ~rest;
}

}  // namespace contcore
