#include <cstdlib>

#include "contcore/error.h"
#include "contcore/mpi.h"
#include "ranks.h"

namespace contcore::app {

std::unique_ptr<Ranks> start_ranks() {
  if (started_by_mpi()) return std::make_unique<MpiRanks>();
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks != nullptr && std::atoi(tasks) > 1) {
    throw Error(Error::Kind::kUsage,
                "Slurm started several processes that do not know of each other; give srun "
                "--mpi=pmix, or another of those that srun --mpi=list names");
  }
  return nullptr;
}
void abort_ranks(int exit_code) { MpiRanks::abort(exit_code); }

}  // namespace contcore::app
