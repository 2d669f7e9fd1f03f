// The bytes of a journal (journal.h), for those that write and those that read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/crc32c.h"
#include "memory/journal.h"

namespace contcore::journal_format {

inline constexpr std::string_view kMagic = "CCJRNL1\n";
inline constexpr std::size_t kParentAt = 8;
inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kRecordHeaderBytes = 24;
inline constexpr std::size_t kCoveredAt = 8;  // sequence and first, in a record's header

struct RecordHeader {
  std::uint32_t length = 0;
  std::uint32_t checksum = 0;
  std::uint64_t sequence = 0;
  std::uint64_t first = 0;
};

template <typename Number>
Number load(const std::uint8_t* at) {
  Number number = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;) {
    number = static_cast<Number>(number << 8 | at[i]);
  }
  return number;
}

template <typename Number>
void store(std::uint8_t* at, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    at[i] = static_cast<std::uint8_t>(number >> (8 * i));
  }
}

/// `at` has kRecordHeaderBytes.
inline RecordHeader load_header(const std::uint8_t* at) {
  return {load<std::uint32_t>(at), load<std::uint32_t>(at + 4), load<std::uint64_t>(at + 8),
          load<std::uint64_t>(at + 16)};
}

inline void store_header(std::uint8_t* at, const RecordHeader& header) {
  store(at, header.length);
  store(at + 4, header.checksum);
  store(at + 8, header.sequence);
  store(at + 16, header.first);
}

/// Of a record whose header stands at `header` and whose payload is `payload`; `parent` is the CRC
/// of the parent.
inline std::uint32_t checksum(std::uint32_t parent, const std::uint8_t* header,
                              std::span<const std::uint8_t> payload) {
  const std::uint32_t numbers =
      crc32c(parent, {header + kCoveredAt, kRecordHeaderBytes - kCoveredAt});
  return crc32c(crc32c(numbers, {header, 4}), payload);
}

}  // namespace contcore::journal_format
