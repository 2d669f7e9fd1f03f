#include "device/packing.h"

namespace contcore {

void Packer::put_bytes(const void* data, std::size_t n) {
  if (n == 0) return;
  const auto* first = static_cast<const std::uint8_t*>(data);
  bytes_.insert(bytes_.end(), first, first + n);
}

}  // namespace contcore
