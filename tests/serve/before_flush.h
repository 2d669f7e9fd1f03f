// What a test wants to happen before a file is flushed to disk.
#pragma once

#include <functional>
#include <string>

namespace contcore {

/// Called with the file's name by whichever thread flushes it; none: nothing happens. To be set
/// while nobody flushes.
extern std::function<void(const std::string&)> before_flush;

}  // namespace contcore
