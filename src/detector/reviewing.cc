#include "detector/reviewing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "contcore/score.h"
#include "contcore/verdict.h"
#include "detector/judging.h"
#include "detector/strangers.h"
#include "device/packing.h"

namespace contcore {
namespace {

constexpr std::size_t kStrangest = 10;
// Images that are held against the whole memory, evenly chosen: it is about most of them.
constexpr std::size_t kHeldAgainst = 16;
// Thresholds of real products lie within a factor of two of each other.
constexpr float kFarThreshold = 2.0F;
constexpr std::size_t kFewestThresholds = 2;
constexpr std::size_t kMostThresholds = 50;  // the latest
// The threshold over the middle score; of good images it is 1.2 to 1.4.
constexpr float kWideSpread = 1.6F;

std::string counted_images(std::size_t count) {
  return fmt::format("{} image{}", count, count == 1 ? "" : "s");
}

// ---- What the set itself tells
// -------------------------------------------------------------------

void remark_on_looks(std::span<const ImageLook> looks, Review& review) {
  std::vector<std::size_t> blank;
  std::vector<std::size_t> gray;
  std::vector<std::size_t> coloured;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    if (looks[i].blank) {
      blank.push_back(i);
    } else {
      (looks[i].gray ? gray : coloured).push_back(i);
    }
  }
  if (!blank.empty()) {
    review.remarks.push_back(
        {"masks",
         fmt::format("{} of {} {} of one gray or of two: a mask of a defect, or an empty frame?",
                     blank.size(), counted_images(looks.size()), blank.size() == 1 ? "is" : "are"),
         std::move(blank)});
  }
  if (gray.empty() || coloured.empty()) return;
  const bool few_gray = gray.size() <= coloured.size();
  const std::size_t few = std::min(gray.size(), coloured.size());
  review.remarks.push_back(
      {"colour",
       fmt::format(
           "{} {} {}, the other {} {}: what is learned in colour is not recognised in gray, "
           "nor the reverse",
           counted_images(few), few == 1 ? "is" : "are", few_gray ? "gray" : "in colour",
           std::max(gray.size(), coloured.size()), few_gray ? "in colour" : "gray"),
       few_gray ? std::move(gray) : std::move(coloured)});
}

void remark_on_twins(const std::vector<std::uint64_t>& hashes, Review& review) {
  std::unordered_map<std::uint64_t, std::size_t> first;
  std::vector<std::size_t> again;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (!first.try_emplace(hashes[i], i).second) again.push_back(i);
  }
  if (again.empty()) return;
  const std::size_t count = again.size();
  review.remarks.push_back({"twice",
                            fmt::format("{} of {} {} in the set already, under another name", count,
                                        counted_images(hashes.size()), count == 1 ? "is" : "are"),
                            std::move(again)});
}

// ---- What was learned before
// ---------------------------------------------------------------------

void remark_on_learned(const Memory& memory, const std::vector<std::uint64_t>& hashes,
                       const std::string& task, Review& review) {
  for (std::size_t t = 0; t < memory.tasks().size(); ++t) {
    const std::string& name = memory.tasks()[t].name;
    std::vector<std::size_t> learned;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (memory.was_learned(t, hashes[i])) learned.push_back(i);
    }
    if (learned.empty()) continue;
    const std::size_t count = learned.size();
    // It is certain of these whether they were learned.
    const std::size_t told = count + static_cast<std::size_t>(std::count_if(
                                         hashes.begin(), hashes.end(), [&](std::uint64_t hash) {
                                           return memory.is_new(name, hash);
                                         }));
    const std::string all = count == 1 ? "the image" : fmt::format("all {}", counted_images(count));
    const std::string which =
        count == hashes.size() ? all
        : count == told        ? fmt::format("{} of which it is known (of {})", all, hashes.size())
                               : fmt::format("{} of {}", count, counted_images(hashes.size()));
    review.remarks.push_back({"learned",
                              fmt::format("{} {} learned before{}", which,
                                          hashes.size() == 1 || count == 1 ? "was" : "were",
                                          name == task ? "" : fmt::format(", as '{}'", name)),
                              std::move(learned)});
  }
}

void remark_on_shown(const Memory& memory, const std::vector<std::uint64_t>& hashes,
                     Review& review) {
  for (std::size_t t = 0; t < memory.tasks().size(); ++t) {
    std::vector<std::size_t> shown;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (memory.was_shown_as_defect(t, hashes[i])) shown.push_back(i);
    }
    if (shown.empty()) continue;
    const std::size_t count = shown.size();
    review.remarks.push_back(
        {"defects",
         fmt::format("{} of {} {} of '{}' before", count, counted_images(hashes.size()),
                     count == 1 ? "was shown as a defect" : "were shown as defects",
                     memory.tasks()[t].name),
         std::move(shown)});
  }
}

// ---- Among their own
// -----------------------------------------------------------------------------

struct ScoredImage {
  std::size_t image;
  float score;
  UsualScores usual;
  double strange() const { return strangeness(usual, score); }
};

void add_scored(const std::vector<std::size_t>& images, const std::vector<float>& scores,
                const std::optional<UsualScores>& usual, std::vector<ScoredImage>& all) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    all.push_back({images[i], scores[i], usual.value_or(UsualScores{})});
  }
}

// Images that the folds left out since they score enough: of equal ones one, and none that was
// learned.
std::vector<std::size_t> left_by_folds(const Memory& memory, const FoldScores& folds,
                                       const std::string& task) {
  std::unordered_map<std::uint64_t, bool> taken;
  for (const std::size_t i : folds.images) taken.emplace(folds.hashes[i], true);
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < folds.hashes.size(); ++i) {
    if (!memory.is_new(task, folds.hashes[i])) continue;
    if (taken.try_emplace(folds.hashes[i], true).second) rest.push_back(i);
  }
  return rest;
}

// Those beyond the folds are scored by fewer others, so they are compared with each other, unless
// they are few: then the others were hardly more.
std::vector<ScoredImage> score_all(const Memory& memory, const TrainingSet& set,
                                   const FoldScores& folds, const LearnHow& how, Compute& compute) {
  std::vector<float> scores;
  for (const ImageScores& image : folds.scores) scores.push_back(image.scores.front());
  std::vector<ScoredImage> all;
  const UsualScores usual = usual_scores(scores);
  add_scored(folds.images, scores, usual, all);
  if (folds.images.size() < 2) return all;
  const std::vector<std::size_t> rest = left_by_folds(memory, folds, how.task);
  const std::vector<float> more = scores_by_others(memory, set, folds, rest, how, compute);
  add_scored(rest, more, more.size() < 2 * kFewestToCompare ? usual : usual_scores(more), all);
  return all;
}

void remark_on_strangers(std::vector<ScoredImage> all, Review& review) {
  review.scored = all.size();
  if (all.size() < kFewestToCompare) return;
  std::stable_sort(all.begin(), all.end(), [](const ScoredImage& a, const ScoredImage& b) {
    return a.strange() > b.strange();
  });
  const double limit = all.front().strange() > kStrange ? kPerhapsStrange : kStrange;
  std::vector<std::size_t> strangers;
  for (const ScoredImage& image : all) {
    if (review.strangest.size() < kStrangest) {
      review.strangest.push_back(
          {image.image, image.score, static_cast<float>(std::exp(image.usual.middle))});
    }
    if (image.strange() > limit) strangers.push_back(image.image);
  }
  if (strangers.empty()) return;
  const std::size_t count = strangers.size();
  review.remarks.push_back(
      {"strangers",
       fmt::format("{} of {} {} unlike the others (a score of {:.4g} and more, where most have "
                   "about {:.4g}): defects, or another product?",
                   count, counted_images(all.size()), count == 1 ? "is" : "are",
                   all[count - 1].score, std::exp(all[count - 1].usual.middle)),
       std::move(strangers)});
}

// ---- Against the memory
// --------------------------------------------------------------------------

// Evenly chosen among those that were not learned before.
std::vector<std::size_t> to_hold_against(const Memory& memory, const FoldScores& folds,
                                         const std::string& task) {
  std::vector<std::size_t> fresh;
  for (std::size_t i = 0; i < folds.hashes.size(); ++i) {
    if (memory.is_new(task, folds.hashes[i])) fresh.push_back(i);
  }
  std::vector<std::size_t> chosen;
  const std::size_t count = std::min(fresh.size(), kHeldAgainst);
  for (std::size_t k = 0; k < count; ++k) chosen.push_back(fresh[k * fresh.size() / count]);
  return chosen;
}

void remark_on_products(const Memory& memory, const TrainingSet& set, const FoldScores& folds,
                        const std::string& task, double false_alarms, Compute& compute,
                        Review& review) {
  if (memory.size() == 0) return;
  const std::vector<std::size_t> chosen = to_hold_against(memory, folds, task);
  if (chosen.empty()) return;
  const auto own = memory.find_task(task);
  const auto own_threshold = own ? memory.threshold(*own, false_alarms) : std::nullopt;
  const float own_limit =
      own_threshold ? own_threshold->score : std::numeric_limits<float>::infinity();
  const Score kind = score_of(memory.source);
  InspectOptions options;
  options.false_alarms = false_alarms;
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Held {
    std::size_t image;
    bool unlike;
    std::size_t good_as;
  };
  std::vector<Held> held;
  const auto hold = [&](std::size_t i) {
    const PatchGrid& grid = set.grid(i);
    std::vector<float> distances = memory.distances(set.image(i), compute);
    Held image{i, image_score(distances, grid, kind) > own_limit, kNone};
    const Inspection seen = judge_patches(memory, set.image(i), grid, distances, options, compute);
    const bool another = seen.task && !(own && *seen.task == *own);
    if (another && seen.threshold && !seen.rejected) image.good_as = *seen.task;
    held.push_back(image);
  };
  do_on_all(set.ranks(), [&] {
    for (const std::size_t i : chosen) {
      if (set.is_here(i)) hold(i);
    }
  });
  std::vector<std::vector<std::size_t>> good_as(memory.tasks().size());
  std::vector<std::size_t> unlike;
  for (const Held& image : all_of(set.ranks(), std::move(held))) {
    if (image.unlike) unlike.push_back(image.image);
    if (image.good_as != kNone) good_as[image.good_as].push_back(image.image);
  }
  for (std::size_t t = 0; t < good_as.size(); ++t) {
    if (2 * good_as[t].size() <= chosen.size()) continue;
    review.remarks.push_back(
        {"product",
         fmt::format("{} of {} looked at {} good '{}', which is known already: learn them as '{}'?",
                     good_as[t].size(), counted_images(chosen.size()),
                     good_as[t].size() == 1 ? "is a" : "are", memory.tasks()[t].name, task),
         std::move(good_as[t])});
    return;
  }
  if (2 * unlike.size() <= chosen.size()) return;
  review.remarks.push_back(
      {"unlike",
       fmt::format("{} of {} looked at {} unlike what '{}' has learned (they score above its "
                   "threshold of {:.4g}): another product, or another light?",
                   unlike.size(), counted_images(chosen.size()), unlike.size() == 1 ? "is" : "are",
                   task, own_limit),
       std::move(unlike)});
}

// ---- The threshold to come
// -----------------------------------------------------------------------

// The conformal quantile, as Memory::threshold has it.
float quantile_of(std::vector<float> scores, double false_alarms) {
  std::sort(scores.begin(), scores.end());
  const auto n = static_cast<double>(scores.size());
  const double rank = std::clamp(std::ceil((n + 1) * (1 - false_alarms) - 1e-9), 1.0, n);
  return scores[static_cast<std::size_t>(rank) - 1];
}

void remark_on_few(const Memory& memory, const FoldScores& folds, const std::string& task,
                   double false_alarms, Review& review) {
  const auto own = memory.find_task(task);
  if (own) {
    const SetThreshold& set = memory.tasks()[*own].set;
    if (set.score) return;  // whatever the images say
    false_alarms = set.false_alarms.value_or(false_alarms);
  }
  if (!(false_alarms > 0)) return;
  const auto needed = static_cast<std::size_t>(std::ceil(1 / false_alarms - 1e-9)) - 1;
  const std::size_t has = (own ? memory.states()[*own].calibrated : 0) + folds.scores.size();
  if (has >= needed) return;
  review.remarks.push_back(
      {"few",
       fmt::format("{} to calibrate with: for {:.4g} % of false alarms it takes {}{}",
                   counted_images(has), 100 * false_alarms, needed,
                   has == 0 ? ", and without any there is no verdict"
                            : fmt::format(", with these it is {:.2g} %",
                                          100 / static_cast<double>(has + 1))),
       {}});
}

void remark_on_threshold(const Memory& memory, const FoldScores& folds, const std::string& task,
                         double false_alarms, Review& review) {
  if (folds.scores.size() < kFewestToCompare) return;
  std::vector<float> scores;
  for (const ImageScores& image : folds.scores) scores.push_back(image.scores.front());
  const float threshold = quantile_of(scores, false_alarms);
  const float middle = quantile_of(scores, 0.5);
  if (threshold > kWideSpread * middle) {
    review.remarks.push_back(
        {"spread",
         fmt::format("the threshold would be {:.4g}, {:.2g} times what the image in the middle "
                     "scores: with fewer strange images small defects would be found",
                     threshold, threshold / middle),
         {}});
  }
  float least = 0;
  float most = 0;
  std::size_t others = 0;
  const std::size_t tasks = memory.tasks().size();
  for (std::size_t t = tasks - std::min(tasks, kMostThresholds); t < tasks; ++t) {
    const auto other = memory.threshold(t, false_alarms);
    if (memory.tasks()[t].name == task || !other || other->by_hand) continue;
    least = others == 0 ? other->score : std::min(least, other->score);
    most = std::max(most, other->score);
    ++others;
  }
  if (others < kFewestThresholds) return;
  if (threshold <= kFarThreshold * most && threshold >= least / kFarThreshold) return;
  review.remarks.push_back(
      {"threshold",
       fmt::format("the threshold would be {:.4g}; those of the {} other tasks are from {:.4g} to "
                   "{:.4g}",
                   threshold, others, least, most),
       {}});
}

}  // namespace

Review review_images(const Memory& memory, const TrainingSet& set, std::span<const ImageLook> looks,
                     const FoldScores& folds, const LearnHow& how, double false_alarms,
                     Compute& compute) {
  Review review;
  review.images = set.count;
  remark_on_learned(memory, folds.hashes, how.task, review);
  remark_on_shown(memory, folds.hashes, review);
  remark_on_twins(folds.hashes, review);
  remark_on_looks(looks, review);
  remark_on_products(memory, set, folds, how.task, false_alarms, compute, review);
  remark_on_strangers(score_all(memory, set, folds, how, compute), review);
  remark_on_few(memory, folds, how.task, false_alarms, review);
  remark_on_threshold(memory, folds, how.task, false_alarms, review);
  return review;
}

void renumber(Review& review, std::span<const std::size_t> files) {
  for (Remark& remark : review.remarks) {
    for (std::size_t& image : remark.images) image = files[image];
  }
  for (StrangeImage& image : review.strangest) image.image = files[image.image];
}

}  // namespace contcore
