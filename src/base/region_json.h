// A region of interest within JSON that somebody else has sent.
#pragma once

#include <nlohmann/json.hpp>

#include "contcore/region_of_interest.h"

namespace contcore {

/// As parse_region(). What was sent is never written out again on the way: deeply nested it would
/// be too much for the stack.
RegionOfInterest region_in(const nlohmann::json& json);

}  // namespace contcore
