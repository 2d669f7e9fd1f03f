// What proves who a message is of, and that it is whole.
#pragma once

#include <string>
#include <string_view>

namespace contcore {

/// HMAC-SHA256 (RFC 2104), hexadecimal.
std::string hmac_sha256(std::string_view key, std::string_view message);

}  // namespace contcore
