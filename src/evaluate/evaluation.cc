#include "evaluate/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "backbone/fetch.h"
#include "base/peak_memory.h"
#include "base/sha256.h"
#include "contcore/error.h"

namespace contcore {
namespace {

struct Ordered {
  std::vector<Product> products;
  Schedule schedule;
};

bool wanted(const std::vector<std::string>& classes, const std::string& name) {
  return classes.empty() || std::find(classes.begin(), classes.end(), name) != classes.end();
}

// The classes in the order of the schedule, whose tasks then count through them.
Ordered in_order(const EvaluationOptions& options) {
  std::vector<Product> all;
  std::vector<std::string> names;
  std::vector<std::string> sets;
  std::vector<std::size_t> sizes;
  std::set<std::string> seen;
  for (const Dataset& dataset : options.datasets) {
    sets.push_back(dataset.name);
    sizes.push_back(0);
    for (const Product& product : dataset.products) {
      if (!wanted(options.classes, product.name)) continue;
      all.push_back(product);
      if (!seen.insert(product.name).second) all.back().name = dataset.name + "/" + product.name;
      names.push_back(all.back().name);
      ++sizes.back();
    }
  }
  for (const std::string& name : options.classes) {
    if (seen.count(name) == 0) {
      throw Error(Error::Kind::kUsage, fmt::format("there is no class '{}' in the data set", name));
    }
  }
  if (all.empty()) throw Error(Error::Kind::kInput, "the data set has no classes");
  const std::string text =
      options.schedule.empty() ? fmt::format("1x{}", all.size()) : options.schedule;
  const bool whole_sets = text.find('>') != std::string::npos;
  if (whole_sets && !options.order.empty() && options.order != "alphabetical") {
    throw Error(Error::Kind::kUsage,
                fmt::format("schedule {} has an order of its own; leave --order out", text));
  }
  const Schedule positions = parse_schedule(text, sets, sizes);
  const std::vector<std::size_t> order =
      class_order(options.order.empty() ? "alphabetical" : options.order, names);
  Ordered ordered;
  for (const std::vector<std::size_t>& task : positions) {
    ordered.schedule.emplace_back();
    for (const std::size_t position : task) {
      ordered.schedule.back().push_back(ordered.products.size());
      ordered.products.push_back(all[order[position]]);
    }
  }
  return ordered;
}

Extractor make_extractor(const EvaluationOptions& options, const std::string& backbone) {
  ExtractorOptions how;
  how.backbone = backbone;
  how.layers = options.layers;
  how.geometry = options.geometry;
  how.dimension = options.dimension;
  how.precision = options.precision;
  how.notice = options.notice;
  return Extractor(how);
}

}  // namespace

std::vector<std::string> test_files(const Product& product) {
  std::vector<std::string> files;
  files.reserve(product.test.size());
  for (const TestImage& image : product.test) files.push_back(image.file);
  return files;
}

Evaluation::State::State(const EvaluationOptions& given)
    : options(given),
      backbone(given.backbone.empty() ? default_backbone() : given.backbone),
      extractor(make_extractor(given, backbone)),
      cache(given.cache.empty() ? "" : given.cache + "/features", given.cache_limit) {
  Ordered ordered = in_order(given);
  products = std::move(ordered.products);
  schedule = std::move(ordered.schedule);
  orders.resize(schedule.size());
}

std::shared_ptr<const ImageFeatures> Evaluation::State::train(std::size_t product, Compute& compute,
                                                              const Progress& progress) const {
  return cache.get(extractor, products[product].train, compute, progress);
}

std::shared_ptr<const ImageFeatures> Evaluation::State::test(std::size_t product, Compute& compute,
                                                             const Progress& progress) const {
  return cache.get(extractor, test_files(products[product]), compute, progress);
}

Evaluation::State::Task Evaluation::State::task(std::size_t t, Compute& compute,
                                                const Extracting& extracting, bool joined) {
  Task task;
  TaskFeatures& features = task.features;
  features.index = t;
  features.order = &orders[t];
  std::size_t rows = 0;
  for (const std::size_t product : schedule[t]) {
    const Progress progress = extracting ? extracting(products[product].train) : Progress{};
    task.classes.push_back(train(product, compute, progress));
    for (const ImagePlace& place : task.classes.back()->images) {
      features.image_ends.push_back(rows + place.end);
    }
    rows += task.classes.back()->vectors.view().rows;
    features.class_ends.push_back(rows);
  }
  if (!joined) return task;
  if (task.classes.size() == 1) {
    features.all = task.classes[0]->vectors.view();
    return task;
  }
  const std::size_t dimension = extractor.embedding().dimension;
  task.together = std::make_unique<FeatureStore>(dimension, machine_memory() / 4);
  for (const auto& one : task.classes) {
    const VectorView view = one->vectors.view();
    task.together->append(view);
  }
  features.all = task.together->view();
  return task;
}

std::unique_ptr<Method> Evaluation::State::method(const Setting& setting) const {
  if (setting.m == 0) throw Error(Error::Kind::kUsage, "m must be at least 1");
  if (!(setting.p > 0 && setting.p <= 1)) {
    throw Error(Error::Kind::kUsage, fmt::format("p is {}, but must be in (0, 1]", setting.p));
  }
  if (!(setting.q >= 0 && setting.q <= 1)) {
    throw Error(Error::Kind::kUsage, fmt::format("q is {}, but must be in [0, 1]", setting.q));
  }
  MethodOptions how;
  how.dimension = extractor.embedding().dimension;
  how.scalar = extractor.precision() == Precision::k8Bit ? Scalar::kUint8 : Scalar::kFloat32;
  how.m = setting.m;
  how.p = setting.p;
  how.q = setting.q;
  how.seed = setting.seed;
  how.tasks = schedule.size();
  return make_method(setting.method, how);
}

std::string Evaluation::State::result_key(const Setting& setting) const {
  std::string key = fmt::format("{} {} {} {} {}\n", setting.method, setting.m, setting.p, setting.q,
                                setting.seed);
  if (options.score != Score::kPatch) key += fmt::format("score {}\n", score_name(options.score));
  for (const std::vector<std::size_t>& task : schedule) {
    key += "task\n";
    for (const std::size_t c : task) {
      const Product& product = products[c];
      key += product.name + " " + FeatureCache::key(extractor, product.train) + " " +
             FeatureCache::key(extractor, test_files(product)) + "\n";
      for (const TestImage& image : product.test) {
        key += fmt::format("{} {} {}\n", image.kind, image.defect,
                           image.mask.empty() ? "" : FeatureCache::state_of(image.mask));
      }
    }
  }
  const std::span<const std::byte> part = std::as_bytes(std::span(key));
  return sha256({&part, 1});
}

}  // namespace contcore
