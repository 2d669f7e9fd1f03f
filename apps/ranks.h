// The processes that a command is done by together: those that mpirun started.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "contcore/ranks.h"

namespace contcore::app {

/// What MPI's launcher started this process with; nullptr where it did not, or in a build without
/// MPI. In start_ranks_mpi.cc or start_ranks_without_mpi.cc.
std::unique_ptr<Ranks> start_ranks();
/// Ends the processes of all ranks.
[[noreturn]] void abort_ranks(int exit_code);

/// The ranks that this process is one of, for as long as `together` lives; may be nullptr.
void set_ranks(Ranks* together);

/// Those, where there are several; nullptr: this process does it alone.
Ranks* ranks();
/// Whether this process is the one that reads and writes files, prints and asks: rank 0, or alone.
bool is_first();

/// Throws RanksError unless all ranks run the same program with the same arguments, but for those
/// that may differ from machine to machine (--threads, --memory-limit, --device), and the command
/// is one that several can do together.
void check_ranks(int argc, char** argv);

/// What the first rank says, told to all. Of all ranks.
std::string said_by_first(const std::string& text);

/// What all ranks say, one after the other. Of all ranks.
std::string said_by_all(const std::string& text);

/// SHA-256 of a file; nothing of one that is not there. Throws Error (kInput).
std::string file_hash(const std::string& path);

/// How many there are and what this one said and heard, for --json; null where it is alone.
nlohmann::json ranks_json();

/// Throws RanksError unless all ranks have the same text; `what` is it that they have, and what is
/// to be done about it.
void check_same(const std::string& text, const std::string& what);

/// What a rank has of its machine, unless it is told otherwise.
struct Place {
  std::size_t threads = 0;  ///< cores that it may run on, shared with the other ranks that may
  std::size_t number = 0;   ///< among the ranks of the machine
};
/// Of all ranks.
Place place_of_rank();

}  // namespace contcore::app
