#include "evaluate/judge.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/peak_memory.h"
#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/metrics.h"
#include "coreset/points.h"
#include "detector/extract_images.h"
#include "detector/in_order.h"
#include "device/one_each.h"
#include "device/packing.h"
#include "evaluate/gallery.h"
#include "evaluate/masks.h"
#include "evaluate/result_packing.h"
#include "evaluate/sharing.h"

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

// A class after a task.
struct ClassMeasured {
  std::uint64_t product = 0;
  Measures measures;
  double seconds = 0;
  std::uint64_t input_height = 0;  // of the first test image; 0: there is none
  std::uint64_t input_width = 0;
  std::vector<TestScore> scores;

  void put(Packer& packer) const {
    packer.put(product);
    put_measures(packer, measures);
    packer.put(seconds);
    packer.put(input_height);
    packer.put(input_width);
    packer.put_all(scores);
  }
  static ClassMeasured get(Unpacker& from) {
    ClassMeasured one;
    one.product = from.get<std::uint64_t>();
    one.measures = get_measures(from);
    one.seconds = from.get<double>();
    one.input_height = from.get<std::uint64_t>();
    one.input_width = from.get<std::uint64_t>();
    one.scores = from.get_all<TestScore>();
    return one;
  }
};

// What all ranks have measured, in the order of the classes.
std::vector<ClassMeasured> measured_by_all(std::vector<ClassMeasured> mine, Ranks* ranks) {
  if (ranks == nullptr) return mine;
  Packer packer;
  for (const ClassMeasured& one : mine) one.put(packer);
  std::vector<ClassMeasured> all;
  for (const Ranks::Bytes& said : ranks->all_gather(packer.bytes())) {
    for (Unpacker from(said); !from.empty();) all.push_back(ClassMeasured::get(from));
  }
  std::sort(all.begin(), all.end(),
            [](const ClassMeasured& a, const ClassMeasured& b) { return a.product < b.product; });
  return all;
}

// The run of either kind of method.
class Judge {
 public:
  Judge(Evaluation::State& parts, Contender& method, Compute& compute, Ranks* ranks,
        const Progress& progress)
      : parts_(parts),
        method_(method),
        compute_(compute),
        ranks_(ranks),
        owner_(share_classes(parts, ranks != nullptr ? ranks->size() : 1)) {
    do_on_all(ranks, [&] { meter_ = std::make_unique<Meter>(progress, work()); });
  }

  RunResult run(const Setting& setting) {
    result_.setting = setting;
    result_.setting.backbone = parts_.backbone;
    result_.setting.order = parts_.options.order;
    const PeakMemory peak;
    for (std::size_t s = 0; s < parts_.schedule.size(); ++s) {
      std::vector<ClassMeasured> mine;
      do_on_all(ranks_, [&] {
        learn(s);
        mine = measure(s);
      });
      take(measured_by_all(std::move(mine), ranks_));
    }
    describe();
    draw_gallery();
    result_.peak_bytes = peak.bytes();
    agree_on_costs();
    return std::move(result_);
  }

 private:
  bool is_own(std::size_t product) const {
    return ranks_ == nullptr || owner_[product] == ranks_->rank();
  }

  // How much this rank has to do.
  double work() const {
    double total = 0;
    for (std::size_t t = 0; t < parts_.schedule.size(); ++t) {
      for (const std::size_t c : parts_.schedule[t]) {
        const Product& product = parts_.products[c];
        const auto train = static_cast<double>(product.train.size());
        if (!parts_.cache.has(parts_.extractor, product.train)) total += kExtractCost * train;
        total += kLearnCost * train;
        if (!is_own(c)) continue;
        const auto test = static_cast<double>(product.test.size());
        if (!parts_.cache.has(parts_.extractor, test_files(product))) total += kExtractCost * test;
        total += kTestCost * test * static_cast<double>(parts_.schedule.size() - t);
      }
    }
    return total;
  }

  Progress extracting(const std::vector<std::string>& files) {
    if (parts_.cache.has(parts_.extractor, files)) return {};
    return meter_->piece(kExtractCost * static_cast<double>(files.size()));
  }

  void learn(std::size_t s) {
    result_.tasks.emplace_back();
    double images = 0;
    for (const std::size_t c : parts_.schedule[s]) {
      result_.tasks.back().push_back(parts_.products[c].name);
      images += static_cast<double>(parts_.products[c].train.size());
    }
    const Evaluation::State::Task task = parts_.task(
        s, compute_, [&](const std::vector<std::string>& files) { return extracting(files); },
        method_.learns_joined());
    for (const auto& features : task.classes) result_.train_seconds += features->seconds;
    const Clock::time_point start = Clock::now();
    method_.learn(task, compute_, meter_->piece(kLearnCost * images));
    result_.train_seconds += seconds_since(start);
    method_.prepare(compute_);
  }

  std::vector<ClassMeasured> measure(std::size_t s) {
    std::vector<ClassMeasured> all;
    for (std::size_t c = 0; c <= parts_.schedule[s].back(); ++c) {
      if (is_own(c)) all.push_back(measure_one(c));
    }
    return all;
  }

  ClassMeasured measure_one(std::size_t c) {
    const Product& product = parts_.products[c];
    const std::shared_ptr<const ImageFeatures> features =
        parts_.test(c, compute_, extracting(test_files(product)));
    ClassMeasured one;
    one.product = c;
    const Clock::time_point start = Clock::now();
    one.measures = measure_class(
        method_, product, c, features, compute_,
        meter_->piece(kTestCost * static_cast<double>(product.test.size())), &one.scores);
    one.seconds = seconds_since(start) + features->seconds;
    if (!features->images.empty()) {
      one.input_height = features->images[0].input.height;
      one.input_width = features->images[0].input.width;
    }
    return one;
  }

  void take(const std::vector<ClassMeasured>& all) {
    result_.steps.emplace_back();
    scores_.clear();
    for (const ClassMeasured& one : all) {
      result_.steps.back().push_back(one.measures);
      scores_.insert(scores_.end(), one.scores.begin(), one.scores.end());
      test_seconds_ += one.seconds;
      if (tested_ == 0 && one.input_height > 0) {
        input_height_ = one.input_height;
        input_width_ = one.input_width;
      }
      tested_ += static_cast<double>(parts_.products[one.product].test.size());
    }
  }

  void describe() {
    result_.vectors = method_.vectors();
    result_.numbers = method_.numbers();
    const Extractor& extractor = parts_.extractor;
    const std::size_t tile = extractor.geometry().tile;
    const BackboneInfo info = tile != 0 ? extractor.backbone().info(tile, tile)
                                        : extractor.backbone().info(input_height_, input_width_);
    result_.parameters = info.parameters;
    const std::size_t tiles = extractor.tiles_of(input_width_, input_height_);
    result_.gflops = info.gflops * static_cast<double>(tiles);
    result_.test_seconds = tested_ > 0 ? test_seconds_ / tested_ : 0;
  }

  // Each picture by the rank that has the features of its class.
  void draw_gallery() {
    std::vector<TestScore> chosen;
    result_.gallery = choose_verdicts(scores_, parts_.products, &chosen);
    do_on_all(ranks_, [&] {
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (is_own(chosen[i].product)) draw(chosen[i], result_.gallery[i]);
      }
    });
    if (ranks_ == nullptr) return;
    Packer packer;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (is_own(chosen[i].product)) put_pictures(packer, result_.gallery[i]);
    }
    const std::vector<Ranks::Bytes> said = ranks_->all_gather(packer.bytes());
    std::vector<Unpacker> from(said.begin(), said.end());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      get_pictures(from[owner_[chosen[i].product]], result_.gallery[i]);
    }
  }

  void draw(const TestScore& score, Verdict& verdict) {
    const auto features = parts_.test(score.product, compute_, {});
    method_.ask(score.product, features, score.image, score.image + 1);
    const Answer answer = method_.answer(score.product, *features, score.image, true, compute_);
    draw_verdict(parts_.extractor, parts_.products[score.product].test[score.image], answer.map,
                 features->images[score.image], method_.score(), verdict);
  }

  // The ranks take their time side by side, and each has a memory of its own.
  void agree_on_costs() {
    struct Costs {
      double train_seconds;
      std::uint64_t peak_bytes;
    };
    for (const Costs& costs :
         all_of<Costs>(ranks_, {{result_.train_seconds, result_.peak_bytes}})) {
      result_.train_seconds = std::max(result_.train_seconds, costs.train_seconds);
      result_.peak_bytes = std::max<std::size_t>(result_.peak_bytes, costs.peak_bytes);
    }
  }

  Evaluation::State& parts_;
  Contender& method_;
  Compute& compute_;
  Ranks* ranks_;
  std::vector<std::size_t> owner_;  // the rank that measures each class
  std::unique_ptr<Meter> meter_;
  RunResult result_;
  std::vector<TestScore> scores_;  // after the latest task
  double tested_ = 0;
  double test_seconds_ = 0;
  std::size_t input_height_ = 0;  // of the first test image
  std::size_t input_width_ = 0;
};

}  // namespace

RunResult judge_method(Evaluation::State& parts, Contender& method, const Setting& setting,
                       Compute& compute, Ranks* ranks, const Progress& progress) {
  return Judge(parts, method, compute, ranks, progress).run(setting);
}

}  // namespace contcore
