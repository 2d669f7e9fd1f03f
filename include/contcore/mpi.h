// Ranks of MPI: processes of one program, on one machine or many. In a build with MPI only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contcore/ranks.h"

namespace contcore {

/// Whether MPI's launcher (mpirun, srun) started this process.
bool started_by_mpi();

/// All processes that were started together. Begins MPI, and ends it; once in a process, on its
/// main thread, which must be the one that talks to the others.
class MpiRanks : public Ranks {
 public:
  /// Throws Error (kInput) where MPI cannot be had.
  MpiRanks();
  ~MpiRanks() override;
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::size_t on_this_machine() const override { return on_this_machine_; }

  /// Ends the processes of all ranks, wherever they are.
  [[noreturn]] static void abort(int exit_code);

 protected:
  std::vector<Bytes> exchange(std::span<const std::uint8_t> mine) override;
  void hand_over(std::size_t to, std::span<const std::uint8_t> bytes) override;
  Bytes take_over(std::size_t from) override;

 private:
  std::size_t rank_ = 0;
  std::size_t size_ = 1;
  std::size_t on_this_machine_ = 1;
};

}  // namespace contcore
