// Why an image was judged as it was, in words.
#pragma once

#include <string>

#include "contcore/verdict.h"

namespace contcore {

/// Such as "defect: 3 regions, largest 41 × 22 px at (120, 88)": the verdict, a colon, and why.
std::string reason_of(const Inspection& seen, const Memory& memory);

}  // namespace contcore
