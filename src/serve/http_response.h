// What a response looks like on the wire.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "serve/http.h"

namespace contcore {

/// The header lines to be written, all but Content-Length and Date. Sets the response right: a
/// status that is none becomes 500, a problem gets its request_id.
std::vector<std::pair<std::string, std::string>> finish(HttpResponse& response,
                                                        const std::string& id, bool close);

/// A whole answer after which the connection is closed.
std::string as_bytes(HttpResponse response, const std::string& id);

}  // namespace contcore
