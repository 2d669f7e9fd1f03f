// contcore sample: picks a subset of the vectors in a file.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/rows.h"
#include "base/sha256.h"
#include "commands.h"
#include "common.h"
#include "contcore/compute.h"
#include "contcore/error.h"
#include "contcore/greedy.h"
#include "contcore/nearest.h"
#include "contcore/npy.h"
#include "contcore/samplers.h"
#include "coreset/points.h"
#include "progress_line.h"
#include "ranks.h"

namespace contcore::app {
namespace {

struct SampleCommand {
  std::string points;
  std::optional<std::size_t> count;
  std::optional<double> ratio;
  std::string base;
  std::string method = "greedy";
  std::string start;
  std::uint64_t seed = 0;
  std::string memory_limit;
  std::string out;
  std::string radii;
  CommonOptions common;
};

constexpr const char* kFooter =
    "Example: a tenth of the vectors, so that no vector is far from a pick\n"
    "  contcore sample features.npy --ratio 0.1 --out picks.npy\n"
    "Example: 500 new vectors, the farthest from those kept before\n"
    "  contcore sample new.npy --base kept.npy --count 500 --out picks.npy --radii radii.npy\n";

[[noreturn]] void misuse(const std::string& what) { throw Error(Error::Kind::kUsage, what); }

void check_usage(const SampleCommand& command) {
  if (command.count.has_value() == command.ratio.has_value()) {
    misuse(command.count ? "--count and --ratio exclude each other; give one of them"
                         : "how many to pick? Give --count N or --ratio p");
  }
  const bool greedy = command.method == "greedy";
  if (ranks() != nullptr && !greedy) misuse("--method is done by one process; leave out mpirun");
  const bool patchcore = command.method == "patchcore";
  if (!command.base.empty() && !greedy) misuse("--base goes with --method greedy only");
  if (!command.start.empty() && !greedy) misuse("--start goes with --method greedy only");
  if (!command.radii.empty() && !greedy && !patchcore) {
    misuse("--radii goes with --method greedy or patchcore only");
  }
  if (!command.memory_limit.empty() && !greedy && !patchcore) {
    note(fmt::format("--memory-limit has no effect on --method {}", command.method));
  }
}

std::size_t picks_wanted(const SampleCommand& command, std::size_t rows) {
  if (command.ratio) {
    const double ratio = *command.ratio;
    if (!(ratio > 0 && ratio <= 1)) {
      throw Error(Error::Kind::kInput,
                  fmt::format("--ratio {} is not a part; it must be above 0 and at most 1", ratio));
    }
    const auto part = static_cast<std::size_t>(std::floor(ratio * static_cast<double>(rows)));
    return std::clamp<std::size_t>(part, 1, rows);
  }
  const std::size_t count = *command.count;
  if (count == 0) {
    throw Error(Error::Kind::kInput, "--count 0 picks nothing; ask for at least 1");
  }
  if (count > rows) {
    note(fmt::format("{} has only {}; taking all of them instead of {}", command.points,
                     counted(rows, "vector"), count));
  }
  return std::min(count, rows);
}

void set_start(const std::string& text, const std::string& points, std::size_t rows,
               GreedyOptions& options) {
  using Start = GreedyOptions::Start;
  if (text.empty() || text == "mean") {
    options.start = Start::kMean;
  } else if (text == "random") {
    options.start = Start::kRandom;
  } else {
    options.start = Start::kIndex;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, options.start_index);
    if (error != std::errc() || rest != end) {
      misuse(fmt::format("--start {} is neither mean, random nor the index of a vector", text));
    }
    if (options.start_index >= rows) {
      throw Error(Error::Kind::kInput, fmt::format("--start {}: {} has {}, the last is {}", text,
                                                   points, counted(rows, "vector"), rows - 1));
    }
  }
}

GreedyOptions greedy_options(const SampleCommand& command, std::size_t count, std::size_t rows) {
  GreedyOptions options;
  options.count = count;
  options.seed = command.seed;
  options.points_name = command.points;
  options.base_name = command.base;
  if (!command.memory_limit.empty()) options.memory_limit = parse_size(command.memory_limit);
  set_start(command.start, command.points, rows, options);
  return options;
}

std::vector<std::int64_t> reservoir_sample(std::size_t rows, std::size_t count,
                                           std::uint64_t seed) {
  Reservoir reservoir(count, seed);
  for (std::size_t i = 0; i < rows; ++i) reservoir.offer();
  return reservoir.held();
}

// Each rank looks at its part of the file alone.
Points part_of_rank(VectorView points) {
  const Ranks::Part mine = ranks()->part_of(points.rows);
  return Points(points.part(mine.first, mine.count()), *ranks());
}

GreedyResult pick(const SampleCommand& command, VectorView points, VectorView base,
                  GreedyOptions options, Compute& compute) {
  ProgressLine progress("picking");
  options.progress = progress.callback();
  if (command.method == "greedy") {
    return ranks() == nullptr ? greedy_sample(points, base, options, compute)
                              : pick_points(part_of_rank(points), base, options, compute).greedy;
  }
  // Not all of the others look at every value, and none knows the file's name.
  check_finite(points, command.points);
  if (command.method == "patchcore") return patchcore_sample(points, options, compute);
  GreedyResult result;
  if (command.method == "random") {
    result.picks = random_sample(points.rows, options.count, options.seed);
  } else if (command.method == "reservoir") {
    result.picks = reservoir_sample(points.rows, options.count, options.seed);
  } else {
    result.picks = herding_sample(points, options.count, compute, options.progress);
  }
  return result;
}

// The search is called directly, not through cover(), to show its progress and to stop on Ctrl-C.
float covering_radius(const SampleCommand& command, VectorView points,
                      const std::vector<std::int64_t>& picks, Compute& compute) {
  ProgressLine progress("measuring the covering radius");
  const Vectors picked = gather(points, picks);
  const NearestIndex index(picked.view(), compute, command.points);
  const NearestResult nearest =
      index.search(points, 1, compute, command.points, progress.callback());
  return *std::max_element(nearest.distances.begin(), nearest.distances.end());
}

struct Summary {
  std::size_t rows = 0;
  std::size_t dimension = 0;
  std::size_t base_rows = 0;
  std::size_t threads = 0;
  std::string device;
  double seconds = 0;
};

std::uint64_t pairs_of(const GreedyResult& result) {
  std::uint64_t pairs = 0;
  for (const auto& stage : result.stages) pairs += stage.settled;
  return pairs;
}

std::string as_json(const SampleCommand& command, const Summary& summary,
                    const GreedyResult& result) {
  nlohmann::json object;
  object["method"] = command.method;
  object["rows"] = summary.rows;
  object["dimension"] = summary.dimension;
  object["base_rows"] = summary.base_rows;
  object["count"] = result.picks.size();
  object["covering_radius"] = static_cast<double>(result.covering_radius);
  object["seconds"] = summary.seconds;
  object["threads"] = summary.threads;
  object["device"] = summary.device;
  if (ranks() != nullptr) object["ranks"] = ranks_json();
  object["stages"] = nlohmann::json::array();
  for (const auto& stage : result.stages) {
    object["stages"].push_back({{"stage", stage.name}, {"settled", stage.settled}});
  }
  return json_line(object);
}

std::string as_text(const SampleCommand& command, const Summary& summary,
                    const GreedyResult& result) {
  std::string text = fmt::format("picked {} of {} of {} dimensions in {:.3g} s ({})\n",
                                 result.picks.size(), counted(summary.rows, "vector"),
                                 summary.dimension, summary.seconds, command.method);
  text += fmt::format("covering radius {:.6g}\n", result.covering_radius);
  const std::uint64_t pairs = pairs_of(result);
  if (pairs == 0) return text;
  text += fmt::format("{} of a vector and a pick, settled by\n", counted(pairs, "pair"));
  for (const auto& stage : result.stages) {
    text += fmt::format("  {:<12} {:6.2f} %\n", stage.name,
                        100 * static_cast<double>(stage.settled) / static_cast<double>(pairs));
  }
  return text;
}

// What tells the vectors of a file from others, as far as some of them do.
std::string fingerprint(VectorView vectors) {
  constexpr std::size_t kLookedAt = 1000;
  const std::size_t n = std::min(vectors.rows, kLookedAt);
  std::vector<std::size_t> rows;
  for (std::size_t k = 0; k < n; ++k) rows.push_back(k * vectors.rows / n);
  const Vectors some = gather(vectors, rows);
  const auto part = std::as_bytes(
      std::span(static_cast<const std::uint8_t*>(some.view().data), some.view().bytes()));
  return fmt::format("{} {} {} {}", vectors.rows, vectors.cols, static_cast<int>(vectors.scalar),
                     sha256(std::span(&part, 1)));
}

void run(const SampleCommand& command) {
  std::vector<std::string> inputs = {command.points};
  if (!command.base.empty()) inputs.push_back(command.base);
  Outputs outputs(inputs);
  NpyVectors points;
  NpyVectors base;
  Summary summary;
  std::size_t wanted = 0;
  GreedyOptions options;
  do_on_all(ranks(), [&] {
    check_usage(command);
    if (is_first()) {
      outputs.plan("--out", command.out);
      outputs.plan("--radii", command.radii);
    }
    points = NpyVectors(command.points);
    if (!command.base.empty()) base = NpyVectors(command.base);
    summary.rows = points.view().rows;
    summary.dimension = points.view().cols;
    summary.base_rows = base.view().rows;
    wanted = picks_wanted(command, summary.rows);
    options = greedy_options(command, wanted, summary.rows);
  });
  if (ranks() != nullptr) {
    check_same(fingerprint(points.view()) + fingerprint(base.view()),
               fmt::format("other vectors in {} or its base than rank 0; put both where all "
                           "machines see them under the same name",
                           command.points));
  }

  Compute compute = command.common.compute();
  summary.threads = compute.threads().count();
  summary.device = compute.device().text();
  const Stopwatch watch;
  GreedyResult result = pick(command, points.view(), base.view(), options, compute);
  summary.seconds = watch.seconds();
  stop_if_asked();
  // PatchCore's own radius is one of its projection.
  if (command.method != "greedy") {
    result.covering_radius = covering_radius(command, points.view(), result.picks, compute);
  }

  if (!is_first()) return;
  outputs.write(command.out, [&](const std::string& path) { write_npy(path, result.picks); });
  outputs.write(command.radii, [&](const std::string& path) { write_npy(path, result.radii); });
  outputs.finish(command.common.json ? as_json(command, summary, result)
                                     : as_text(command, summary, result));
  if (result.picks.size() < wanted) {
    note(fmt::format("{} has no more distinct vectors: {} picked instead of {}", command.points,
                     result.picks.size(), wanted));
  }
}

}  // namespace

void add_sample(CLI::App& app) {
  auto command = std::make_shared<SampleCommand>();
  CLI::App* sub = app.add_subcommand("sample", "Pick a subset that covers all vectors");
  sub->add_option("points", command->points,
                  "Vectors to pick from (.npy: float32, float16 or uint8)")
      ->required()
      ->type_name("Z.npy");
  sub->add_option("--count", command->count, "How many to pick")
      ->check(whole_number())
      ->type_name("N");
  sub->add_option("--ratio", command->ratio, "Which part to pick, above 0 and at most 1")
      ->type_name("p");
  sub->add_option("--base", command->base,
                  "Vectors that are covered already, uint8 if the points are (greedy)")
      ->type_name("B.npy");
  sub->add_option("--method", command->method,
                  "greedy (default), random, reservoir, herding or patchcore")
      ->check(CLI::IsMember({"greedy", "random", "reservoir", "herding", "patchcore"}))
      ->type_name("METHOD");
  sub->add_option("--start", command->start,
                  "First pick without a base: the one farthest from the mean, a random one or an "
                  "index (greedy)")
      ->type_name("mean|random|INDEX");
  sub->add_option("--seed", command->seed, "Seed of everything random (default: 0)")
      ->check(whole_number())
      ->type_name("S");
  sub->add_option("--memory-limit", command->memory_limit,
                  "Memory to stay within beside the input, such as 512M or 2G; the picks stay the "
                  "same (default, or 0: no limit)")
      ->type_name("SIZE");
  sub->add_option("--out", command->out, "Write the picked rows here: int64, in pick order")
      ->type_name("PICKS.npy");
  sub->add_option("--radii", command->radii,
                  "Write each pick's distance to those before here: float32")
      ->type_name("R.npy");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
