// A method from outside in a run: what it is handed, and what its answers are checked for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/rows.h"
#include "contcore/error.h"
#include "evaluate/contender.h"

namespace contcore {
namespace {

constexpr std::size_t kMostAsked = 32;

// Images `begin` to `end` of a class; all of its files are given.
MethodImages images_of(const std::string& product, std::size_t task,
                       const std::vector<std::string>& files,
                       const std::shared_ptr<const ImageFeatures>& shared, std::size_t begin,
                       std::size_t end) {
  const ImageFeatures& features = *shared;
  MethodImages images;
  images.owner = shared;
  images.product = product;
  images.task = task;
  const std::size_t first = begin == 0 ? 0 : features.images[begin - 1].end;
  for (std::size_t i = begin; i < end; ++i) {
    const ImagePlace& place = features.images[i];
    const NetworkInput& input = place.input;
    images.files.push_back(files[i]);
    images.grids.push_back(place.grid());
    images.seen.push_back(
        {input.left, input.top, input.right, input.bottom, place.image_width, place.image_height});
    images.ends.push_back(place.end - first);
  }
  images.patches = features.vectors.view().part(first, images.ends.back());
  return images;
}

// Whatever is called with, what goes on lies between 0 and 1 and never falls.
Progress rising(const Progress& progress) {
  return [progress, most = 0.0](double done) mutable {
    if (done > most) most = std::min(done, 1.0);
    return !progress || progress(most);
  };
}

bool has_size(const Map& map, std::size_t width, std::size_t height) {
  return map.width == width && map.height == height;
}

bool is_none(const Map& map) { return map.width == 0 && map.height == 0 && map.values.empty(); }

// Two methods of one name would be averaged in a report.
void check_setting(const Setting& setting) {
  const auto& known = methods();
  const bool taken = std::any_of(known.begin(), known.end(), [&](const MethodInfo& info) {
    return info.name == setting.method;
  });
  if (setting.method.empty() || taken) {
    throw Error(Error::Kind::kUsage,
                fmt::format("a method of your own cannot be called '{}'{}; give it another name",
                            setting.method, taken ? ", which is one of contcore's" : ""));
  }
  for (const double part : {setting.p, setting.q}) {
    if (part >= 0 && part <= 1) continue;
    throw Error(Error::Kind::kUsage,
                fmt::format("method {}: p and q are parts, from 0 to 1, not {}; leave out what the "
                            "method does not have",
                            setting.method, part));
  }
}

class Outside : public Contender {
 public:
  Outside(const Evaluation::State& parts, std::string name, OutsideMethod& method)
      : parts_(parts), method_(method), name_(std::move(name)) {
    for (std::size_t t = 0; t < parts.schedule.size(); ++t) {
      task_of_.insert(task_of_.end(), parts.schedule[t].size(), t);
    }
  }

  bool learns_joined() const override { return false; }

  void learn(const Evaluation::State::Task& task, Compute& /*compute*/,
             const Progress& progress) override {
    const std::size_t t = task.features.index;
    std::vector<MethodImages> classes;
    for (std::size_t i = 0; i < task.classes.size(); ++i) {
      const Product& product = parts_.products[parts_.schedule[t][i]];
      classes.push_back(images_of(product.name, t, product.train, task.classes[i], 0,
                                  task.classes[i]->images.size()));
    }
    method_.learn(t, classes, rising(progress));
    report(progress, 1);
  }
  void prepare(Compute& /*compute*/) override {}

  std::size_t most_images() const override { return kMostAsked; }

  void ask(std::size_t product, const std::shared_ptr<const ImageFeatures>& features,
           std::size_t begin, std::size_t end) override {
    const Product& own = parts_.products[product];
    const MethodImages images =
        images_of(own.name, task_of_[product], test_files(own), features, begin, end);
    answers_ = method_.score(images);
    first_ = begin;
    if (answers_.size() != images.files.size()) {
      const std::size_t at = std::min(answers_.size(), images.files.size() - 1);
      refuse(images, at,
             fmt::format("{} answers came for {} images; score() must return one for each image, "
                         "in their order",
                         answers_.size(), images.files.size()));
    }
    for (std::size_t i = 0; i < answers_.size(); ++i) check(images, i);
  }

  Answer answer(std::size_t /*product*/, const ImageFeatures& features, std::size_t image,
                bool with_map, Compute& /*compute*/) const override {
    const MethodScore& given = answers_[image - first_];
    Answer answer;
    answer.score = given.score;
    if (!with_map || is_none(given.map)) return answer;
    const PatchGrid grid = features.images[image].grid();
    answer.map = has_size(given.map, grid.columns, grid.rows) ? anomaly_map(given.map.values, grid)
                                                              : given.map;
    return answer;
  }

  Score score() const override { return Score::kPatch; }  // its maps may be in units of their own
  std::size_t vectors() const override { return method_.vectors(); }
  std::uint64_t numbers() const override { return method_.numbers(); }

 private:
  [[noreturn]] void refuse(const MethodImages& images, std::size_t i,
                           const std::string& why) const {
    throw Error(Error::Kind::kUsage, fmt::format("method {}, class {}, image {}: {}", name_,
                                                 images.product, images.files[i], why));
  }

  void check(const MethodImages& images, std::size_t i) const {
    const MethodScore& given = answers_[i];
    if (std::isnan(given.score)) {
      refuse(images, i, "it has no score, or a NaN for one; give every image a number");
    }
    if (!std::isfinite(given.score)) {
      refuse(images, i, "its score is infinite; give every image a finite number");
    }
    const Map& map = given.map;
    if (is_none(map)) return;
    const PatchGrid& grid = images.grids[i];
    if (!has_size(map, grid.columns, grid.rows) && !has_size(map, grid.width, grid.height)) {
      refuse(images, i,
             fmt::format("its map is {} x {}; give one of {} x {}, a value for each patch, or of "
                         "{} x {}, a value for each pixel the backbone saw, or none",
                         map.width, map.height, grid.columns, grid.rows, grid.width, grid.height));
    }
    if (map.values.size() != map.width * map.height) {
      refuse(images, i,
             fmt::format("its map of {} x {} has {} values; give {}", map.width, map.height,
                         map.values.size(), map.width * map.height));
    }
    const auto bad = std::find_if_not(map.values.begin(), map.values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad == map.values.end()) return;
    const auto at = static_cast<std::size_t>(bad - map.values.begin());
    refuse(images, i,
           fmt::format("its map is {} at column {}, row {}; give every place a finite number",
                       std::isnan(*bad) ? "NaN" : "infinite", at % map.width, at / map.width));
  }

  const Evaluation::State& parts_;
  OutsideMethod& method_;
  std::string name_;
  std::vector<std::size_t> task_of_;  // of each class
  std::vector<MethodScore> answers_;  // to what was asked last
  std::size_t first_ = 0;             // the image of the first of them
};

}  // namespace

std::unique_ptr<Contender> make_outside(const Evaluation::State& parts, const Setting& setting,
                                        OutsideMethod& method) {
  check_setting(setting);
  return std::make_unique<Outside>(parts, setting.method, method);
}

}  // namespace contcore
