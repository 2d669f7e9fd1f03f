// In: what this rank has to say. Out: what all of them say. Where MPI fails it ends all processes
// by itself.
//
// One exchange is an all-gather of the lengths, then of the bytes: these in pieces, since MPI
// counts with an int. What one rank sends to another goes in the same way.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "contcore/error.h"
#include "contcore/mpi.h"

namespace contcore {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // bytes

// The next bytes of each rank's, from `done` of them on.
struct Piece {
  std::vector<int> counts;
  std::vector<int> places;
  std::vector<std::uint8_t> bytes;

  Piece(const std::vector<std::uint64_t>& lengths, std::uint64_t done, std::uint64_t most) {
    for (const std::uint64_t length : lengths) {
      places.push_back(static_cast<int>(bytes_before_));
      const std::uint64_t here = std::min(most, length - std::min(length, done));
      counts.push_back(static_cast<int>(here));
      bytes_before_ += here;
    }
    bytes.resize(bytes_before_);
  }

 private:
  std::uint64_t bytes_before_ = 0;
};

}  // namespace

bool started_by_mpi() {
  // Open MPI and whatever speaks PMIx; MPICH, Intel MPI and others by PMI.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

MpiRanks::MpiRanks() {
  int level = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS ||
      level < MPI_THREAD_FUNNELED) {
    throw Error(Error::Kind::kInput,
                "MPI cannot be used by a program with threads here; install Open MPI of Debian");
  }
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  rank_ = static_cast<std::size_t>(rank);
  size_ = static_cast<std::size_t>(size);
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  MPI_Comm_size(machine, &size);
  MPI_Comm_free(&machine);
  on_this_machine_ = static_cast<std::size_t>(size);
}

MpiRanks::~MpiRanks() { MPI_Finalize(); }

void MpiRanks::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();
}

std::vector<Ranks::Bytes> MpiRanks::exchange(std::span<const std::uint8_t> mine) {
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(size_);
  MPI_Allgather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  std::vector<Bytes> said(size_);
  for (std::size_t r = 0; r < size_; ++r) said[r].reserve(lengths[r]);
  const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const std::uint64_t most = std::max<std::uint64_t>(1, kMostAtOnce / size_);
  for (std::uint64_t done = 0; done < longest; done += most) {
    Piece piece(lengths, done, most);
    const std::uint64_t from = std::min(done, length);
    MPI_Allgatherv(mine.data() + from, piece.counts[rank_], MPI_BYTE, piece.bytes.data(),
                   piece.counts.data(), piece.places.data(), MPI_BYTE, MPI_COMM_WORLD);
    for (std::size_t r = 0; r < size_; ++r) {
      const auto first = piece.bytes.begin() + piece.places[r];
      said[r].insert(said[r].end(), first, first + piece.counts[r]);
    }
  }
  return said;
}

void MpiRanks::hand_over(std::size_t to, std::span<const std::uint8_t> bytes) {
  const std::uint64_t length = bytes.size();
  const int rank = static_cast<int>(to);
  MPI_Send(&length, 1, MPI_UINT64_T, rank, 0, MPI_COMM_WORLD);
  for (std::size_t done = 0; done < bytes.size(); done += kMostAtOnce) {
    const std::size_t part = std::min(kMostAtOnce, bytes.size() - done);
    MPI_Send(bytes.data() + done, static_cast<int>(part), MPI_BYTE, rank, 0, MPI_COMM_WORLD);
  }
}

Ranks::Bytes MpiRanks::take_over(std::size_t from) {
  std::uint64_t length = 0;
  const int rank = static_cast<int>(from);
  MPI_Recv(&length, 1, MPI_UINT64_T, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  Bytes bytes(length);
  for (std::size_t done = 0; done < bytes.size(); done += kMostAtOnce) {
    const std::size_t part = std::min(kMostAtOnce, bytes.size() - done);
    MPI_Recv(bytes.data() + done, static_cast<int>(part), MPI_BYTE, rank, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  }
  return bytes;
}

}  // namespace contcore
