// Files that a process began to write and never finished.
#pragma once

#include <string>

namespace contcore {

/// Whether a file's name is that of features being written: KEY.part-…. Whoever writes one holds a
/// lock on it (flock), which goes with the process, however that ends.
bool is_half_written(const std::string& name);

/// Removes what was left behind in a folder: half-written features that nobody holds a lock on, and
/// what write_whole() began more than a day ago.
void remove_leftovers(const std::string& folder);

}  // namespace contcore
