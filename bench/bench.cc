// The core beside its peers, in one run: contcore_bench [options] [FEATURES.npy [STRANGE.npy]]
//
// FEATURES are patch features of a product, STRANGE those of another; without them, vectors like
// real ones are made. Times are the best of several; what matters are the ratios.
#include <faiss/IndexFlat.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/compute.h"
#include "contcore/error.h"
#include "contcore/greedy.h"
#include "contcore/memory.h"
#include "contcore/nearest.h"
#include "contcore/npy.h"
#include "coreset/kernels.h"
#include "coreset/row_batch.h"
#include "coreset/sketch.h"
#include "coreset/synthetic.h"

namespace {

using namespace contcore;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_of(int times, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) best = std::min(best, seconds_of(work));
  return best;
}

// The plain loop, as well as it can be written: one pass over the points for each pick, with
// distance, minimum and arg-max fused, four points at a time in registers, all threads.
std::vector<std::int64_t> naive_greedy(VectorView points, std::size_t count, Compute& compute) {
  const std::size_t d = points.cols;
  const std::size_t parts = compute.threads().count();
  std::vector<float> nearest(points.rows, std::numeric_limits<float>::infinity());
  struct alignas(64) Best {
    float value;
    std::size_t index;
  };
  std::vector<Best> best(parts);
  const auto pass = [&](const VectorView& centre) {
    compute.threads().run(parts, [&](std::size_t part, std::size_t) {
      const std::size_t end = points.rows * (part + 1) / parts;
      Best mine{-2, 0};
      RowBatch from;
      RowBatch rows;
      from.reset(d, 1);
      from.add(centre, 0);
      for (std::size_t i = points.rows * part / parts; i < end; i += 4) {
        const std::size_t n = std::min<std::size_t>(4, end - i);
        float out[4];
        rows.reset(d, 4);
        for (std::size_t j = 0; j < n; ++j) rows.add(points, i + j);
        from.measure(rows, out);
        for (std::size_t j = 0; j < n; ++j) {
          const float value = nearest[i + j] = std::min(nearest[i + j], out[j]);
          if (value > mine.value) mine = {value, i + j};
        }
      }
      best[part] = mine;
    });
    return std::max_element(best.begin(), best.end(),
                            [](const Best& a, const Best& b) { return a.value < b.value; })
        ->index;
  };
  GreedyOptions first;  // the farthest from the mean, by any means: one pick of many
  first.count = 1;
  std::vector<std::int64_t> picks = greedy_sample(points, {}, first, compute).picks;
  while (picks.size() < count) {
    const auto last = static_cast<std::size_t>(picks.back());
    nearest[last] = -1;
    picks.push_back(static_cast<std::int64_t>(pass(points.part(last, 1))));
  }
  return picks;
}

constexpr std::size_t kPatches = 784;       // of an image
constexpr std::size_t kBytePatches = 2304;  // of one at 384 × 384

struct Bench {
  Compute compute;
  nlohmann::json results = nlohmann::json::array();
  bool quick = false;

  void row(const std::string& what, const std::string& peer, double peer_seconds, double seconds,
           const std::string& note) {
    fmt::print("{:<44} {:<18} {:>9.3f} s {:>9.4f} s {:>8.1f} x  {}\n", what, peer, peer_seconds,
               seconds, peer_seconds / seconds, note);
    std::fflush(stdout);
    results.push_back({{"what", what},
                       {"peer", peer},
                       {"peer_seconds", peer_seconds},
                       {"seconds", seconds},
                       {"ratio", peer_seconds / seconds},
                       {"note", note}});
  }

  void sample(const std::string& what, VectorView points, std::size_t count) {
    GreedyOptions options;
    options.count = count;
    GreedyResult ours;
    const double seconds = best_of(9, [&] { ours = greedy_sample(points, {}, options, compute); });
    std::vector<std::int64_t> theirs;
    const std::size_t naive_count = quick ? std::min<std::size_t>(count, 60) : count;
    double naive = seconds_of([&] { theirs = naive_greedy(points, naive_count, compute); });
    naive *= static_cast<double>(count) / static_cast<double>(naive_count);
    const bool same = std::equal(theirs.begin(), theirs.end(), ours.picks.begin());
    row(what, quick ? "plain loop (part)" : "plain loop", naive, seconds,
        same ? "same picks" : "PICKS DIFFER");
  }

  // The same patches as bytes: beside the plain loop on them, and that on the floats they were.
  void sample_bytes(VectorView floats, VectorView bytes, std::size_t count) {
    GreedyOptions options;
    options.count = count;
    GreedyResult ours;
    const double seconds = best_of(15, [&] { ours = greedy_sample(bytes, {}, options, compute); });
    const std::size_t some = quick ? std::min<std::size_t>(count, 60) : count;
    const double all = static_cast<double>(count) / static_cast<double>(some);
    const std::string what =
        fmt::format("greedy, 1 % of {}, {} bytes each", bytes.rows, bytes.cols);
    std::vector<std::int64_t> theirs;
    const double naive = seconds_of([&] { theirs = naive_greedy(bytes, some, compute); });
    const bool same = std::equal(theirs.begin(), theirs.end(), ours.picks.begin());
    row(what, "plain loop, bytes", naive * all, seconds, same ? "same picks" : "PICKS DIFFER");
    const double wide = seconds_of([&] { naive_greedy(floats, some, compute); });
    row(what, "plain loop, floats", wide * all, seconds, "the same patches");
  }

  void search(const std::string& what, VectorView memory, VectorView queries) {
    const NearestIndex index(memory, compute);
    NearestResult ours;
    const double seconds = best_of(25, [&] { ours = index.search(queries, 1, compute); });
    faiss::IndexFlatL2 flat(static_cast<faiss::Index::idx_t>(memory.cols));
    flat.add(static_cast<faiss::Index::idx_t>(memory.rows), static_cast<const float*>(memory.data));
    std::vector<float> distances(queries.rows);
    std::vector<faiss::Index::idx_t> ids(queries.rows);
    const double theirs = best_of(7, [&] {
      flat.search(static_cast<faiss::Index::idx_t>(queries.rows),
                  static_cast<const float*>(queries.data), 1, distances.data(), ids.data());
    });
    std::size_t same = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) same += ids[i] == ours.ids[i] ? 1u : 0u;
    row(what, "faiss IndexFlatL2", theirs, seconds,
        fmt::format("{} of {} the same, {:.1f} full distances a query", same, queries.rows,
                    static_cast<double>(ours.exact) / static_cast<double>(queries.rows)));
  }

  // In bytes, beside faiss on the same numbers as floats and beside all distances in bytes.
  void search_bytes(const std::string& what, VectorView memory, VectorView queries) {
    const NearestIndex index(memory, compute);
    NearestResult ours;
    const double seconds = best_of(25, [&] { ours = index.search(queries, 1, compute); });
    std::vector<std::int64_t> theirs(queries.rows);
    const auto compare = [&](const std::string& peer, double peer_seconds) {
      std::size_t same = 0;
      for (std::size_t i = 0; i < theirs.size(); ++i) same += theirs[i] == ours.ids[i] ? 1u : 0u;
      row(what, peer, peer_seconds, seconds,
          fmt::format("{} of {} the same, {:.1f} full distances a query", same, queries.rows,
                      static_cast<double>(ours.exact) / static_cast<double>(queries.rows)));
    };
    const Vectors wide_memory = widened(memory);
    const Vectors wide_queries = widened(queries);
    faiss::IndexFlatL2 flat(static_cast<faiss::Index::idx_t>(memory.cols));
    flat.add(static_cast<faiss::Index::idx_t>(memory.rows), wide_memory.data());
    std::vector<float> distances(queries.rows);
    const double floats = best_of(7, [&] {
      flat.search(static_cast<faiss::Index::idx_t>(queries.rows), wide_queries.data(), 1,
                  distances.data(), theirs.data());
    });
    compare("faiss IndexFlatL2", floats);
    compare("brute force, bytes", best_of(7, [&] { brute_force(memory, queries, theirs); }));
    const double built = best_of(5, [&] { const NearestIndex again(memory, compute); });
    fmt::print("{:<44} {:>31.4f} s\n", "  laid out in", built);
  }

  static Vectors widened(VectorView bytes) {
    Vectors out(bytes.rows, bytes.cols);
    for (std::size_t i = 0; i < bytes.rows; ++i) bytes.row(i, out.row(i));
    return out;
  }

  void brute_force(VectorView memory, VectorView queries, std::vector<std::int64_t>& ids) {
    constexpr std::size_t kGroup = 32;
    constexpr std::size_t kVectors = 64;
    compute.threads().run((queries.rows + kGroup - 1) / kGroup, [&](std::size_t g, std::size_t) {
      const std::size_t n = std::min(kGroup, queries.rows - g * kGroup);
      const std::uint8_t* asked[kGroup];
      for (std::size_t i = 0; i < n; ++i) asked[i] = queries.byte_row(g * kGroup + i);
      float best[kGroup];
      std::fill_n(best, kGroup, std::numeric_limits<float>::infinity());
      for (std::size_t at = 0; at < memory.rows; at += kVectors) {
        const std::size_t m = std::min(kVectors, memory.rows - at);
        const std::uint8_t* rows[kVectors];
        float out[kGroup * kVectors];
        for (std::size_t j = 0; j < m; ++j) rows[j] = memory.byte_row(at + j);
        kernels::squared_distances(asked, n, rows, m, memory.cols, out);
        for (std::size_t i = 0; i < n; ++i) {
          for (std::size_t j = 0; j < m; ++j) {
            if (out[i * m + j] >= best[i]) continue;
            best[i] = out[i * m + j];
            ids[g * kGroup + i] = static_cast<std::int64_t>(at + j);
          }
        }
      }
    });
  }

  // A memory full of one product learns another, image by image: the first half of the images,
  // while it is new, and the second. Beside it, learning the image as if it were a batch. Medians.
  void update(VectorView product, VectorView other, std::size_t m) {
    Memory memory(product.cols, m);
    LearnHow how;
    how.task = "product";
    how.p = 1.05 * static_cast<double>(m) / static_cast<double>(product.rows);
    memory.learn(product, how, compute);
    how.task = "other";
    how.p = 0.1;
    const std::size_t half = other.rows / kPatches / 2;
    for (std::size_t first = 0; first <= half; first += half) {
      std::vector<double> online;
      std::vector<double> batch;
      bool same = true;
      for (std::size_t i = 0; i < half; ++i) {
        const VectorView image = other.part((first + i) * kPatches, kPatches);
        const bool beside = i % (half / 5) == half / 10;
        Memory twin = beside ? memory.copy() : Memory(product.cols, m);
        online.push_back(seconds_of([&] { memory.learn_online(image, how, compute); }));
        if (!beside) continue;
        batch.push_back(seconds_of([&] { twin.learn(image, how, compute); }));
        same &= twin.radii() == memory.radii() && twin.origins() == memory.origins();
      }
      row(fmt::format("online update, {} product, m = {}", first == 0 ? "new" : "known", m),
          "learn", median(batch), median(online), same ? "same memory" : "MEMORY DIFFERS");
    }
  }

  static double median(std::vector<double> values) {
    std::nth_element(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  }
};

Vectors noise(std::size_t rows, std::size_t d) {
  Vectors out(rows, d);
  Random random(7);
  for (std::size_t i = 0; i < rows * d; ++i) out.data()[i] = random.gaussian();
  return out;
}

// As a memory of bytes has them: half as many numbers, means of two each, with one scale for all.
// The 99.99th percentile becomes 255, and zero, or the 0.01st below it, 0.
Vectors to_bytes(const Vectors& from) {
  const std::size_t d = from.cols() / 2;
  std::vector<float> means(from.rows() * d);
  for (std::size_t i = 0; i < means.size(); ++i) {
    const float* two = from.row(i / d) + 2 * (i % d);
    means[i] = (two[0] + two[1]) / 2;
  }
  std::vector<float> values = means;
  const auto part = [&](double p) {
    const auto at = static_cast<std::ptrdiff_t>(p * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), values.begin() + at, values.end());
    return values[static_cast<std::size_t>(at)];
  };
  const float low = std::min(0.0f, part(0.0001));
  const float scale = 255 / (part(0.9999) - low);
  Vectors out(from.rows(), d, Scalar::kUint8);
  for (std::size_t i = 0; i < means.size(); ++i) {
    const float value = std::clamp((means[i] - low) * scale, 0.0f, 255.0f);
    out.byte_data()[i] = static_cast<std::uint8_t>(value + 0.5f);
  }
  return out;
}

Vectors rows_of(VectorView from, const std::vector<std::int64_t>& picks) {
  Vectors out(picks.size(), from.cols);
  std::vector<float> scratch(from.cols);
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const float* row = from.row(static_cast<std::size_t>(picks[i]), scratch.data());
    std::copy(row, row + from.cols, out.row(i));
  }
  return out;
}

// With one scale: its 99.99th percentile becomes 255.
float byte_scale(const Vectors& from) {
  std::vector<float> values(from.data(), from.data() + from.rows() * from.cols());
  const auto at = static_cast<std::ptrdiff_t>(values.size() / 10000 * 9999);
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return 255 / std::max(values[static_cast<std::size_t>(at)], 1e-30f);
}

Vectors as_bytes(VectorView from, float scale) {
  Vectors out(from.rows, from.cols, Scalar::kUint8);
  for (std::size_t i = 0; i < from.rows * from.cols; ++i) {
    const float value = scale * static_cast<const float*>(from.data)[i] + 0.5f;
    out.byte_data()[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
  }
  return out;
}

Vectors copy_of(VectorView from) {
  std::vector<std::int64_t> all(from.rows);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  return rows_of(from, all);
}

Vectors joined(const Vectors& a, const Vectors& b) {
  Vectors out(a.rows() + b.rows(), a.cols());
  std::copy(a.data(), a.data() + a.rows() * a.cols(), out.data());
  std::copy(b.data(), b.data() + b.rows() * b.cols(), out.row(a.rows()));
  return out;
}

// A memory as it is in use: greedy picks of the product and, from the second on, of the others.
Vectors make_memory(VectorView product, std::size_t size, Bench& bench) {
  GreedyOptions options;
  options.count = size;
  return rows_of(product, greedy_sample(product, {}, options, bench.compute).picks);
}

int run(int argc, char** argv) {
  std::string json = "bench/results.json";
  std::vector<std::string> files;
  Bench bench;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      bench.quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else if (argv[i][0] == '-') {
      fmt::print(stderr,
                 "usage: contcore_bench [--quick] [--json FILE] [FEATURES.npy [STRANGE.npy]]\n");
      return 2;
    } else {
      files.emplace_back(argv[i]);
    }
  }
  omp_set_num_threads(static_cast<int>(bench.compute.threads().count()));

  // In memory, as they would be after extraction: nobody's time includes reading a file.
  Vectors features;
  Vectors strange;
  if (files.empty()) {
    features = SyntheticFeatures(1024, 1).make(163856, bench.compute);
  } else {
    features = copy_of(NpyVectors(files[0]).view());
  }
  if (files.size() > 1) {
    strange = copy_of(NpyVectors(files[1]).view());
  } else {
    strange = SyntheticFeatures(features.cols(), 2).make(7840, bench.compute);
  }
  fmt::print("{} features of {} numbers ({}), {} threads, SIMD {}\n\n", features.rows(),
             features.cols(), files.empty() ? "generated" : files[0],
             bench.compute.threads().count(), kernels::targets().front());
  fmt::print("{:<44} {:<18} {:>11} {:>11} {:>10}\n", "", "peer", "peer", "contcore", "ratio");

  const std::size_t rows = features.rows();
  bench.sample(fmt::format("greedy, 1 % of {}", rows), features.view(), rows / 100);
  {
    const Vectors bytes = to_bytes(features);
    bench.sample_bytes(features.view(), bytes.view(), rows / 100);
  }
  {
    const Vectors isotropic = noise(50000, 1024);
    bench.sample("greedy, 1 % of 50000, isotropic noise", isotropic.view(), 500);
  }
  const std::size_t m = std::min<std::size_t>(20000, rows / 4);
  const Vectors memory = make_memory(features.view(), m, bench);
  {
    GreedyOptions options;
    options.count = m * 3 / 40;
    const GreedyResult fresh = greedy_sample(strange.view(), memory.view(), options, bench.compute);
    const Vectors both = joined(memory, rows_of(strange.view(), fresh.picks));
    bench.sample(fmt::format("consolidation, {} down to {}", both.rows(), m), both.view(), m);
  }
  bench.search(fmt::format("nearest, {} known patches in {}", kPatches, m), memory.view(),
               {features.row((rows - kPatches) / 2), kPatches, features.cols()});
  bench.search(fmt::format("nearest, {} strange patches in {}", kPatches, m), memory.view(),
               {strange.row((strange.rows() - kPatches) / 2), kPatches, strange.cols()});
  const std::size_t few = std::min<std::size_t>(16384, m);
  const float scale = byte_scale(memory);
  const Vectors bytes = as_bytes(memory.view().part(0, few), scale);
  const auto some = [&](const Vectors& from) {
    const std::size_t n = std::min(kBytePatches, from.rows());
    return as_bytes(from.view().part((from.rows() - n) / 2, n), scale);
  };
  bench.search_bytes(fmt::format("bytes: {} known patches in {}", kBytePatches, few), bytes.view(),
                     some(features).view());
  bench.search_bytes(fmt::format("bytes: {} strange patches in {}", kBytePatches, few),
                     bytes.view(), some(strange).view());
  if (strange.rows() >= 10 * kPatches) bench.update(features.view(), strange.view(), m);

  std::ofstream out(json);
  out << nlohmann::json{{"features", files.empty() ? "generated" : files[0]},
                        {"rows", rows},
                        {"dimension", features.cols()},
                        {"threads", bench.compute.threads().count()},
                        {"simd", kernels::targets().front()},
                        {"results", bench.results}}
             .dump(2)
      << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "contcore_bench: {}\n", error.what());
    return 1;
  }
}
