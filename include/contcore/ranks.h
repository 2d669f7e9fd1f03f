// Several processes that work on one thing together: ranks, as MPI calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contcore/error.h"

namespace contcore {

/// An error that all ranks throw: each of them is where the others are.
class RanksError : public Error {
 public:
  using Error::Error;
};

/// What this rank has said to the others and heard from them.
struct RankTraffic {
  std::uint64_t exchanges = 0;
  std::uint64_t sent = 0;      ///< bytes it had to say: to all others, mostly
  std::uint64_t received = 0;  ///< bytes that the others said
};

/// The ranks from the view of one of them. What is said here to be of all ranks must be called by
/// all of them, in the same order: whoever does not come is waited for. Not to be used by two
/// threads at once.
class Ranks {
 public:
  using Bytes = std::vector<std::uint8_t>;

  virtual ~Ranks() = default;

  /// This rank's number, from 0.
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;
  /// How many of them share this one's machine and memory, itself included.
  virtual std::size_t on_this_machine() const = 0;

  /// The part of so many things that is this rank's when they are shared out evenly and in order.
  struct Part {
    std::size_t first = 0;
    std::size_t end = 0;
    std::size_t count() const { return end - first; }
  };
  Part part_of(std::size_t things) const {
    return {things * rank() / size(), things * (rank() + 1) / size()};
  }

  /// Of all ranks: what each has to say, in order of rank, is told to all.
  std::vector<Bytes> all_gather(std::span<const std::uint8_t> mine) {
    std::vector<Bytes> said = exchange(mine);
    ++traffic_.exchanges;
    traffic_.sent += mine.size();
    for (const Bytes& bytes : said) traffic_.received += bytes.size();
    traffic_.received -= mine.size();
    return said;
  }

  /// From one rank to another, which must ask for it; of these two alone.
  void send(std::size_t to, std::span<const std::uint8_t> bytes) {
    hand_over(to, bytes);
    traffic_.sent += bytes.size();
  }
  Bytes receive(std::size_t from) {
    Bytes bytes = take_over(from);
    traffic_.received += bytes.size();
    return bytes;
  }

  const RankTraffic& traffic() const { return traffic_; }

 protected:
  virtual std::vector<Bytes> exchange(std::span<const std::uint8_t> mine) = 0;
  virtual void hand_over(std::size_t to, std::span<const std::uint8_t> bytes) = 0;
  virtual Bytes take_over(std::size_t from) = 0;

 private:
  RankTraffic traffic_;
};

}  // namespace contcore
