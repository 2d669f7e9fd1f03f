#include "contcore/mpi.h"
#include "ranks.h"

namespace contcore::app {

std::unique_ptr<Ranks> start_ranks() {
  return started_by_mpi() ? std::make_unique<MpiRanks>() : nullptr;
}
void abort_ranks(int exit_code) { MpiRanks::abort(exit_code); }

}  // namespace contcore::app
