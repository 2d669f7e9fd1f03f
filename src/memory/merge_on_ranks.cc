#include "memory/merge_on_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/file.h"
#include "contcore/error.h"
#include "coreset/points.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 40;  // of a memory

// A folder that is gone with this object.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* named = std::getenv("TMPDIR");
    path_ = std::string(named != nullptr && *named != '\0' ? named : "/var/tmp") +
            "/contcore-merge-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw Error(Error::Kind::kInput,
                  fmt::format("{}: no place for a memory on its way to another rank ({}); set "
                              "TMPDIR to a folder that can be written",
                              path_, std::strerror(errno)));
    }
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string file() const { return path_ + "/memory.ccm"; }

 private:
  std::string path_;
};

// A memory as its file has it.
Ranks::Bytes packed(const Memory& memory) {
  const ScratchFolder folder;
  memory.save(folder.file());
  return read_whole(folder.file(), "a memory", kMostBytes);
}

Memory unpacked(const Ranks::Bytes& bytes) {
  const ScratchFolder folder;
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
  write_whole(folder.file(), {&part, 1});
  return Memory::open(folder.file());
}

}  // namespace

Memory merge_on_ranks(std::vector<Memory> mine, std::size_t capacity, Ranks& ranks,
                      Compute& compute) {
  std::optional<Memory> merged;
  const auto add = [&](Memory next) {
    merged = merged ? Memory::merge(*merged, next, capacity, compute) : std::move(next);
  };
  Ranks::Bytes bytes;
  do_on_all(&ranks, [&] {
    for (Memory& memory : mine) add(std::move(memory));
    if (merged) bytes = packed(*merged);
  });
  const std::size_t rank = ranks.rank();
  for (std::size_t step = 1; step < ranks.size(); step *= 2) {
    // Every other one of those that are left hands over what it has, perhaps nothing.
    const bool takes = rank % (2 * step) == 0 && rank + step < ranks.size();
    if (rank % (2 * step) == step) {
      ranks.send(rank - step, bytes);
      bytes = {};
      merged.reset();
    }
    const Ranks::Bytes theirs = takes ? ranks.receive(rank + step) : Ranks::Bytes();
    do_on_all(&ranks, [&] {
      if (theirs.empty()) return;
      add(unpacked(theirs));
      bytes = packed(*merged);
    });
  }
  do_on_all(&ranks, [&] {
    if (rank == 0 && !merged) throw Error(Error::Kind::kUsage, "there are no memories to merge");
  });
  bytes = ranks.all_gather(rank == 0 ? bytes : Ranks::Bytes())[0];
  do_on_all(&ranks, [&] {
    if (rank != 0) merged = unpacked(bytes);
  });
  return std::move(*merged);
}

}  // namespace contcore
