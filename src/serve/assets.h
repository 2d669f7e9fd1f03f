// The files of the page, and the API's description, as they are in web/.
#pragma once

#include <optional>
#include <string_view>

namespace contcore {

struct Asset {
  std::string_view bytes;
  std::string_view type;
};

/// By its name, such as "app.js".
std::optional<Asset> asset(std::string_view name);

}  // namespace contcore
