// Files that a process began to write and never finished, and files that one still reads.
//
// A cache may lie on a file system that several machines see. A name being written is of one
// process of one machine, and made with O_EXCL, so that no two write the same file. Who writes it
// holds a lock (flock), as does who reads a finished one. Where the locks of other machines are not
// seen (NFS with local locks), the names tell whose a file is.
#pragma once

#include <cstddef>
#include <string>

namespace contcore {

/// As the file system's other users may know it too.
std::string machine_name();

/// BASE.part-PID-NUMBER.MACHINE.
std::string half_written_name(const std::string& base, std::size_t number);

/// Whether a file's name is that of features being written: KEY.part-…. Whoever writes one holds a
/// lock on it (flock), which goes with the process, however that ends.
bool is_half_written(const std::string& name);

/// Removes what was left behind in a folder: half-written features that nobody holds a lock on,
/// those of other machines after a day, and what write_whole() began more than a day ago.
void remove_leftovers(const std::string& folder);

/// Whether somebody holds a lock on the file.
bool is_in_use(const std::string& path);

}  // namespace contcore
