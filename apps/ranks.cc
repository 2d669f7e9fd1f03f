#include "ranks.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "contcore/error.h"
#include "device/packing.h"

namespace contcore::app {
namespace {

Ranks* all_ranks = nullptr;

// The arguments without those that each machine may have its own of.
std::string common_arguments(int argc, char** argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    bool own = false;
    for (const std::string_view option : {"--threads", "--memory-limit", "--device"}) {
      if (word == option) ++i;
      own = own || word == option ||
            (word.starts_with(option) && word.substr(option.size()).starts_with("="));
    }
    if (!own) text += std::string(word) + '\n';
  }
  return text;
}

bool is_done_together(std::string_view word) {
  constexpr std::array kTogether = {"learn", "sample", "merge", "evaluate", "help"};
  return word.starts_with("-") ||
         std::find(kTogether.begin(), kTogether.end(), word) != kTogether.end();
}

}  // namespace

void set_ranks(Ranks* together) { all_ranks = together; }

Ranks* ranks() { return all_ranks != nullptr && all_ranks->size() > 1 ? all_ranks : nullptr; }

bool is_first() { return ranks() == nullptr || ranks()->rank() == 0; }

std::string file_hash(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return "";
  const std::vector<std::uint8_t> bytes = read_whole(path, "a file", std::size_t{1} << 40);
  const auto part = std::as_bytes(std::span(bytes));
  return sha256(std::span(&part, 1));
}

nlohmann::json ranks_json() {
  if (ranks() == nullptr) return nullptr;
  const RankTraffic& traffic = ranks()->traffic();
  return {{"count", ranks()->size()},
          {"exchanges", traffic.exchanges},
          {"sent", traffic.sent},
          {"received", traffic.received}};
}

std::string said_by_first(const std::string& text) {
  if (ranks() == nullptr) return text;
  Packer packer;
  if (is_first()) packer.put_text(text);
  return Unpacker(ranks()->all_gather(packer.bytes())[0]).get_text();
}

std::string said_by_all(const std::string& text) {
  const std::vector<char> all = all_of<char>(ranks(), {text.begin(), text.end()});
  return {all.begin(), all.end()};
}

void check_same(const std::string& text, const std::string& what) {
  if (ranks() == nullptr) return;
  Packer packer;
  packer.put_text(text);
  const std::vector<Ranks::Bytes> all = ranks()->all_gather(packer.bytes());
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw RanksError(Error::Kind::kInput, fmt::format("rank {} has {}", r, what));
  }
}

void check_ranks(int argc, char** argv) {
  if (ranks() == nullptr) return;
  check_same(file_hash("/proc/self/exe"),
             "another build of contcore than rank 0; install the same one on all machines");
  check_same(common_arguments(argc, argv),
             "other arguments than rank 0; only --threads, --memory-limit and --device may differ");
  if (argc < 2 || is_done_together(argv[1])) return;
  throw RanksError(Error::Kind::kUsage,
                   fmt::format("contcore {} is done by one process; leave out mpirun", argv[1]));
}

Place place_of_rank() {
  if (ranks() == nullptr) return {};
  struct Seat {
    std::array<char, 256> host{};
    cpu_set_t cores{};
  } mine;
  const bool known = ::sched_getaffinity(0, sizeof(mine.cores), &mine.cores) == 0;
  ::gethostname(mine.host.data(), mine.host.size() - 1);
  Place place;
  std::vector<double> sharing(CPU_SETSIZE, 0);  // ranks that may use each core
  const std::vector<Seat> seats = all_of<Seat>(ranks(), {mine});
  for (std::size_t r = 0; r < seats.size(); ++r) {
    if (seats[r].host != mine.host) continue;
    if (r < ranks()->rank()) ++place.number;
    for (std::size_t c = 0; c < sharing.size(); ++c) {
      sharing[c] += CPU_ISSET(c, &seats[r].cores) ? 1 : 0;
    }
  }
  double cores = 0;
  for (std::size_t c = 0; c < sharing.size(); ++c) {
    if (CPU_ISSET(c, &mine.cores)) cores += 1 / sharing[c];
  }
  if (!known) return place;  // more cores than the set has room for: all of them
  place.threads = std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(cores)));
  return place;
}

}  // namespace contcore::app
