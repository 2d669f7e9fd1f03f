// contcore nearest: exact nearest neighbours of queries in a memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "commands.h"
#include "common.h"
#include "contcore/compute.h"
#include "contcore/error.h"
#include "contcore/nearest.h"
#include "contcore/npy.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

struct NearestCommand {
  std::string memory;
  std::string queries;
  std::size_t k = 1;
  std::string out;
  std::string indices;
  CommonOptions common;
};

constexpr const char* kFooter =
    "Distances are Euclidean. Example: the distance of each query to the nearest pick\n"
    "  contcore nearest picks_vectors.npy queries.npy --out distances.npy --indices nearest.npy\n";

void check_kinds(const NearestCommand& command, Scalar memory, Scalar queries) {
  const auto bytes = [](Scalar kind) { return kind == Scalar::kUint8; };
  const auto word = [&](Scalar kind) { return bytes(kind) ? "bytes (uint8)" : "floats"; };
  if (bytes(memory) == bytes(queries)) return;
  throw Error(
      Error::Kind::kInput,
      fmt::format("{} has vectors of {}, but {} has vectors of {}; both must be of one kind",
                  command.queries, word(queries), command.memory, word(memory)));
}

void check_k(std::size_t k, std::size_t memory_rows, std::size_t query_rows) {
  if (k == 0) throw Error(Error::Kind::kInput, "--k 0 finds nothing; ask for at least 1");
  constexpr std::size_t kBytesEach = sizeof(float) + sizeof(std::int64_t);
  if (k > std::numeric_limits<std::size_t>::max() / kBytesEach / query_rows) {
    throw Error(Error::Kind::kInput,
                fmt::format("--k {} is too large; there {} only {}", k,
                            memory_rows == 1 ? "is" : "are", counted(memory_rows, "vector")));
  }
  if (k > memory_rows) {
    note(
        fmt::format("there {} only {} to find; the rest of the {} is filled with -1 at an "
                    "infinite distance",
                    memory_rows == 1 ? "is" : "are", counted(memory_rows, "vector"), k));
  }
}

struct Summary {
  std::size_t queries = 0;
  std::size_t memory = 0;
  std::size_t dimension = 0;
  std::size_t threads = 0;
  std::string device;
  double seconds = 0;
  double largest = 0;
  double mean = 0;
};

std::string as_json(const Summary& summary, const NearestResult& result) {
  nlohmann::json object;
  object["count"] = summary.queries;
  object["memory"] = summary.memory;
  object["dimension"] = summary.dimension;
  object["k"] = result.k;
  object["seconds"] = summary.seconds;
  object["threads"] = summary.threads;
  object["device"] = summary.device;
  object["max_distance"] = summary.largest;
  object["mean_distance"] = summary.mean;
  object["exact"] = result.exact;
  object["pairs"] = static_cast<std::uint64_t>(summary.queries) * summary.memory;
  return json_line(object);
}

std::string as_text(const Summary& summary, const NearestResult& result) {
  const double pairs = static_cast<double>(summary.queries) * static_cast<double>(summary.memory);
  std::string text = fmt::format(
      "{} in {} of {} dimensions: {} nearest in {:.3g} s\n", counted(summary.queries, "query"),
      counted(summary.memory, "vector"), summary.dimension, result.k, summary.seconds);
  text +=
      fmt::format("distance         mean {:.6g}, largest {:.6g}\n", summary.mean, summary.largest);
  text += fmt::format("full distances   {} ({:.2f} % of the pairs)\n", result.exact,
                      100 * static_cast<double>(result.exact) / pairs);
  return text;
}

void write_results(const NearestCommand& command, const NearestResult& result, Outputs& outputs) {
  const std::size_t k = result.k;
  outputs.write(command.out, [&](const std::string& path) {
    k == 1 ? write_npy(path, result.distances) : write_npy(path, result.distances, k);
  });
  outputs.write(command.indices, [&](const std::string& path) {
    k == 1 ? write_npy(path, result.ids) : write_npy(path, result.ids, k);
  });
}

void run(const NearestCommand& command) {
  Outputs outputs({command.memory, command.queries});
  outputs.plan("--out", command.out);
  outputs.plan("--indices", command.indices);
  const NpyVectors memory(command.memory);
  const NpyVectors queries(command.queries);
  if (memory.view().cols != queries.view().cols) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{} has {} dimensions, but {} has {}; both must come from the same "
                    "features",
                    command.queries, queries.view().cols, command.memory, memory.view().cols));
  }
  check_kinds(command, memory.view().scalar, queries.view().scalar);
  check_k(command.k, memory.view().rows, queries.view().rows);

  Compute compute = command.common.compute();
  const Stopwatch watch;
  NearestResult result;
  {
    ProgressLine progress("searching");
    const NearestIndex index(memory.view(), compute, command.memory);
    stop_if_asked();
    result = index.search(queries.view(), command.k, compute, command.queries, progress.callback());
  }
  Summary summary;
  summary.seconds = watch.seconds();
  summary.queries = queries.view().rows;
  summary.memory = memory.view().rows;
  summary.dimension = memory.view().cols;
  summary.threads = compute.threads().count();
  summary.device = compute.device().text();
  const auto& distances = result.distances;
  summary.largest = static_cast<double>(*std::max_element(distances.begin(), distances.end()));
  summary.mean = std::accumulate(distances.begin(), distances.end(), 0.0) /
                 static_cast<double>(distances.size());

  write_results(command, result, outputs);
  outputs.finish(command.common.json ? as_json(summary, result) : as_text(summary, result));
}

}  // namespace

void add_nearest(CLI::App& app) {
  auto command = std::make_shared<NearestCommand>();
  CLI::App* sub = app.add_subcommand("nearest", "Find the nearest vectors of each query, exactly");
  sub->add_option("memory", command->memory,
                  "Vectors to search in (.npy, float32, float16 or uint8)")
      ->required()
      ->type_name("MEMORY.npy");
  sub->add_option("queries", command->queries,
                  "Vectors to search for (.npy, both of floats or both of uint8)")
      ->required()
      ->type_name("QUERIES.npy");
  sub->add_option("--k", command->k, "How many neighbours of each query (default: 1)")
      ->check(whole_number())
      ->type_name("K");
  sub->add_option("--out", command->out,
                  "Write the distances here: float32, (queries,) or (queries, k)")
      ->type_name("D.npy");
  sub->add_option("--indices", command->indices, "Write the neighbours' rows here: int64")
      ->type_name("I.npy");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
