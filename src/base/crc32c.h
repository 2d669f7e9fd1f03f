// CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and others.
#pragma once

#include <cstdint>
#include <span>

namespace contcore {

/// Of `bytes`, going on from `before`, the CRC of what stands in front of them (0: nothing).
std::uint32_t crc32c(std::uint32_t before, std::span<const std::uint8_t> bytes);

}  // namespace contcore
