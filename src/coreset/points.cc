#include "coreset/points.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <optional>
#include <vector>

#include "base/rows.h"
#include "contcore/error.h"
#include "coreset/greedy_ranks.h"
#include "device/packing.h"

namespace contcore {

Points::Points(VectorView part, Ranks& with) : here(part), ranks(&with) {
  struct Part {
    std::uint64_t rows;
    std::uint64_t cols;
    Scalar scalar;
  };
  Packer mine;
  mine.put(Part{part.rows, part.cols, part.scalar});
  std::optional<Part> kind;  // of the first that are any
  const std::vector<Ranks::Bytes> all = with.all_gather(mine.bytes());
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto theirs = Unpacker(all[r]).get<Part>();
    if (r < with.rank()) first += static_cast<std::size_t>(theirs.rows);
    rows += static_cast<std::size_t>(theirs.rows);
    if (theirs.rows == 0) continue;
    if (!kind) kind = theirs;
    if (theirs.cols != kind->cols || theirs.scalar != kind->scalar) {
      throw RanksError(
          Error::Kind::kInput,
          fmt::format("rank {} has vectors of another kind or dimension than the ranks "
                      "before it",
                      r));
    }
  }
  if (here.rows == 0 && kind)
    here = {nullptr, 0, static_cast<std::size_t>(kind->cols), kind->scalar};
}

PickedPoints pick_points(const Points& points, VectorView base, const GreedyOptions& options,
                         Compute& compute) {
  if (points.ranks != nullptr) return greedy_sample_on_ranks(points, base, options, compute, {});
  PickedPoints picked;
  picked.greedy = greedy_sample(points.here, base, options, compute);
  picked.vectors = gather(points.here, picked.greedy.picks);
  return picked;
}

void do_on_all(Ranks* ranks, const std::function<void()>& work) {
  if (ranks == nullptr) return work();
  Packer mine;
  try {
    work();
  } catch (const Error& error) {
    mine.put(error.kind());
    mine.put_text(error.what());
  } catch (const std::bad_alloc&) {
    mine.put(Error::Kind::kInput);
    mine.put_text("not enough memory");
  } catch (const std::exception& error) {
    mine.put(Error::Kind::kInternal);
    mine.put_text(error.what());
  }
  for (const Ranks::Bytes& said : ranks->all_gather(mine.bytes())) {
    if (said.empty()) continue;
    Unpacker from(said);
    const auto kind = from.get<Error::Kind>();
    throw RanksError(kind, from.get_text());
  }
}

}  // namespace contcore
