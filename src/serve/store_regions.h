// Regions as a short text in the store.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "contcore/image.h"

namespace contcore {

/// A JSON list of [x, y, width, height, area, score]; empty for none.
std::string regions_text(const std::vector<Region>& regions);

/// The same again. Of what is no such text, none: a stranger's file is not worth a refusal here.
std::vector<Region> regions_from(std::string_view text);

}  // namespace contcore
