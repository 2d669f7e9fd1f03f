#include "contcore/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/peak_memory.h"
#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/metrics.h"
#include "detector/extract_images.h"
#include "detector/in_order.h"
#include "device/one_each.h"
#include "evaluate/contender.h"
#include "evaluate/evaluation.h"
#include "evaluate/gallery.h"
#include "evaluate/masks.h"
#include "evaluate/result_cache.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Shares of the time, roughly: images to features, features to memory, features to measures.
constexpr double kExtractCost = 1.0;
constexpr double kLearnCost = 0.8;
constexpr double kTestCost = 0.5;

// A run's progress in units of images.
class Meter {
 public:
  Meter(const Progress& progress, double total) : progress_(progress), total_(total) {}
  /// Progress of a piece that costs `cost` of the whole.
  Progress piece(double cost) {
    const double begin = done_;
    done_ = std::min(total_, done_ + cost);  // what the cache let go is extracted again
    return part_of(progress_, begin / total_, done_ / total_);
  }

 private:
  Progress progress_;
  double total_;
  double done_ = 0;
};

// What one test image gave.
struct Seen {
  Answer answer;
  Mask mask;
};

// Scores all test images of a class. Pixels count when every defect has a mask.
Measures measure_class(Contender& method, const Product& product, std::size_t index,
                       const std::shared_ptr<const ImageFeatures>& shared, Compute& compute,
                       const Progress& progress, std::vector<TestScore>* scores) {
  const ImageFeatures& features = *shared;
  std::vector<float> good;
  std::vector<float> defect;
  PixelScores pixels;
  bool maps = product.masks;
  const std::size_t n = product.test.size();
  OneEach alone(compute);
  for (std::size_t begin = 0; begin < n;) {
    const std::size_t end = begin + std::min(n - begin, method.most_images());
    method.ask(index, shared, begin, end);
    run_in_order<Seen>(
        compute, end - begin, kMostImagesAhead,
        [&](std::size_t item, std::size_t worker) {
          const std::size_t i = begin + item;
          if (worker == 0) report(progress, static_cast<double>(i) / static_cast<double>(n));
          Seen seen{method.answer(index, features, i, product.masks, alone[worker]), {}};
          const TestImage& image = product.test[i];
          if (image.defect && !seen.answer.map.values.empty()) {
            seen.mask = read_mask(image.mask, features.images[i]);
          }
          return seen;
        },
        [&](std::size_t item, Seen& seen) {
          const std::size_t i = begin + item;
          const bool bad = product.test[i].defect;
          (bad ? defect : good).push_back(seen.answer.score);
          scores->push_back({index, i, seen.answer.score});
          if (seen.answer.map.values.empty()) {
            maps = false;
          } else if (bad) {
            pixels.add(seen.answer.map, seen.mask);
          } else {
            pixels.add(seen.answer.map);
          }
        });
    begin = end;
  }
  Measures measures;
  const Ranking images = rank(good, defect, compute);
  measures[kImageAuroc] = images.auroc;
  measures[kImageAp] = images.ap;
  measures[kImageF1] = images.f1_max;
  if (maps) {
    const PixelScores::Measures measured = pixels.measure(compute);
    measures[kPixelAuroc] = measured.pixels.auroc;
    measures[kPixelAp] = measured.pixels.ap;
    measures[kPixelF1] = measured.pixels.f1_max;
    measures[kAupro] = measured.aupro;
  }
  report(progress, 1);
  return measures;
}

// The run itself, of either kind of method.
RunResult judge_method(Evaluation::State& parts, Contender& method, const Setting& setting,
                       Compute& compute, const Progress& progress) {
  RunResult result;
  result.setting = setting;
  result.setting.backbone = parts.backbone;
  result.setting.order = parts.options.order;

  // How much there is to do.
  double total = 0;
  for (std::size_t t = 0; t < parts.schedule.size(); ++t) {
    for (const std::size_t c : parts.schedule[t]) {
      const Product& product = parts.products[c];
      const auto train = static_cast<double>(product.train.size());
      const auto test = static_cast<double>(product.test.size());
      if (!parts.cache.has(parts.extractor, product.train)) total += kExtractCost * train;
      if (!parts.cache.has(parts.extractor, test_files(product))) total += kExtractCost * test;
      total +=
          kLearnCost * train + kTestCost * test * static_cast<double>(parts.schedule.size() - t);
    }
  }
  Meter meter(progress, total);
  const Extracting extracting = [&](const std::vector<std::string>& files) {
    return parts.cache.has(parts.extractor, files)
               ? Progress{}
               : meter.piece(kExtractCost * static_cast<double>(files.size()));
  };

  const PeakMemory peak;
  double tested = 0;
  NetworkInput input;  // of the first test image
  double test_seconds = 0;
  std::vector<TestScore> scores;
  for (std::size_t s = 0; s < parts.schedule.size(); ++s) {
    result.tasks.emplace_back();
    double images = 0;
    for (const std::size_t c : parts.schedule[s]) {
      result.tasks.back().push_back(parts.products[c].name);
      images += static_cast<double>(parts.products[c].train.size());
    }
    const Evaluation::State::Task task = parts.task(s, compute, extracting, method.learns_joined());
    for (const auto& features : task.classes) result.train_seconds += features->seconds;
    Clock::time_point start = Clock::now();
    method.learn(task, compute, meter.piece(kLearnCost * images));
    result.train_seconds += seconds_since(start);
    method.prepare(compute);
    scores.clear();
    result.steps.emplace_back();
    for (std::size_t c = 0; c <= parts.schedule[s].back(); ++c) {
      const std::shared_ptr<const ImageFeatures> features =
          parts.test(c, compute, extracting(test_files(parts.products[c])));
      const auto count = static_cast<double>(parts.products[c].test.size());
      start = Clock::now();
      result.steps.back().push_back(measure_class(method, parts.products[c], c, features, compute,
                                                  meter.piece(kTestCost * count), &scores));
      test_seconds += seconds_since(start) + features->seconds;
      if (tested == 0 && count > 0) input = features->images[0].input;
      tested += count;
    }
  }
  result.vectors = method.vectors();
  result.numbers = method.numbers();
  const BackboneInfo info = parts.extractor.backbone().info(input.height, input.width);
  result.parameters = info.parameters;
  result.gflops = info.gflops;
  result.test_seconds = tested > 0 ? test_seconds / tested : 0;

  std::vector<TestScore> chosen;
  result.gallery = choose_verdicts(scores, parts.products, &chosen);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto features = parts.test(chosen[i].product, compute, {});
    const ImagePlace& place = features->images[chosen[i].image];
    method.ask(chosen[i].product, features, chosen[i].image, chosen[i].image + 1);
    const Answer answer =
        method.answer(chosen[i].product, *features, chosen[i].image, true, compute);
    draw_verdict(parts.extractor, parts.products[chosen[i].product].test[chosen[i].image],
                 answer.map, place, method.score(), result.gallery[i]);
  }
  result.peak_bytes = peak.bytes();
  return result;
}

}  // namespace

Evaluation::Evaluation(const EvaluationOptions& options)
    : state_(std::make_unique<State>(options)) {}
Evaluation::~Evaluation() = default;
Evaluation::Evaluation(Evaluation&&) noexcept = default;

const Schedule& Evaluation::schedule() const { return state_->schedule; }
const std::vector<Product>& Evaluation::products() const { return state_->products; }

RunResult Evaluation::run(const Setting& setting, Compute& compute, const Progress& progress,
                          bool* from_cache) {
  State& parts = *state_;
  const std::unique_ptr<Contender> method = make_inside(parts, setting);
  const ResultCache results(parts.options.cache.empty() ? "" : parts.options.cache + "/results");
  const std::string key = parts.result_key(setting);
  if (from_cache != nullptr) *from_cache = false;
  if (!parts.options.fresh) {
    if (std::optional<RunResult> found = results.find(key)) {
      found->setting.backbone = parts.backbone;
      found->setting.order = parts.options.order;
      if (from_cache != nullptr) *from_cache = true;
      return std::move(*found);
    }
  }
  RunResult result = judge_method(parts, *method, setting, compute, progress);
  results.keep(key, result);
  report(progress, 1);
  return result;
}

// Not by way of the cache of results, which cannot know whether the method has changed.
RunResult Evaluation::run(OutsideMethod& method, const Setting& setting, Compute& compute,
                          const Progress& progress) {
  Setting own = setting;
  own.method = method.name();
  const std::unique_ptr<Contender> contender = make_outside(*state_, own, method);
  RunResult result = judge_method(*state_, *contender, own, compute, progress);
  report(progress, 1);
  return result;
}

}  // namespace contcore
