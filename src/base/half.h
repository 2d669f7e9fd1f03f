// IEEE 754 binary16 to float32, exact for every value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace contcore {

void widen_half(const std::uint16_t* half, std::size_t count, float* out);

}  // namespace contcore
