#include "evaluate/gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "detector/heat_scale.h"
#include "evaluate/masks.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kOfEach = 4;

struct Candidate {
  TestScore score;
  Verdict verdict;
  double margin;  // > 0: called a defect; the larger, the clearer
  bool right;
};

// A file's name from the data set's folder on: where that is, is nobody's business.
std::string name_inside(const std::string& folder, const std::string& file) {
  return fs::path(file).lexically_relative(folder).string();
}

}  // namespace

float best_level(const std::vector<TestScore>& scores, const Product& product) {
  std::vector<TestScore> sorted = scores;
  std::sort(sorted.begin(), sorted.end(),
            [](const TestScore& a, const TestScore& b) { return a.score > b.score; });
  const auto defects =
      static_cast<double>(std::count_if(sorted.begin(), sorted.end(), [&](const TestScore& s) {
        return product.test[s.image].defect;
      }));
  double best = -1;
  float level = sorted.empty() ? 0 : sorted[0].score;
  double hits = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (product.test[sorted[i].image].defect) ++hits;
    const bool last = i + 1 == sorted.size();
    if (!last && sorted[i + 1].score == sorted[i].score) continue;
    const double f1 = 2 * hits / (static_cast<double>(i + 1) + defects);
    if (defects > 0 && f1 > best) {
      best = f1;
      const float below = last ? std::min(0.0F, 2 * sorted[i].score) : sorted[i + 1].score;
      level = (sorted[i].score + below) / 2;
    }
  }
  return level;
}

std::vector<Verdict> choose_verdicts(const std::vector<TestScore>& scores,
                                     const std::vector<Product>& products,
                                     std::vector<TestScore>* chosen) {
  std::vector<float> levels(products.size());
  std::vector<double> spans(products.size());  // from the lowest to the highest; 0: none below 0
  for (std::size_t p = 0; p < products.size(); ++p) {
    std::vector<TestScore> own;
    std::copy_if(scores.begin(), scores.end(), std::back_inserter(own),
                 [&](const TestScore& s) { return s.product == p; });
    levels[p] = best_level(own, products[p]);
    const auto [low, high] = std::minmax_element(
        own.begin(), own.end(),
        [](const TestScore& a, const TestScore& b) { return a.score < b.score; });
    if (low == own.end() || !(low->score < 0)) continue;
    spans[p] = static_cast<double>(high->score) - static_cast<double>(low->score);
  }
  std::vector<Candidate> all;
  for (const TestScore& s : scores) {
    const TestImage& image = products[s.product].test[s.image];
    const float level = levels[s.product];
    const double span = spans[s.product];
    if (span == 0 && !(s.score > 0 && level > 0)) continue;
    Verdict verdict;
    verdict.product = products[s.product].name;
    verdict.file = name_inside(products[s.product].folder, image.file);
    verdict.kind = image.kind;
    verdict.defect = image.defect;
    verdict.score = s.score;
    verdict.level = level;
    const auto score = static_cast<double>(s.score);
    const double margin = span > 0 ? (score - static_cast<double>(level)) / span
                                   : std::log(score / static_cast<double>(level));
    all.push_back({s, std::move(verdict), margin, (s.score > level) == image.defect});
  }
  // Stable, so that equals stay in the order of the files.
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return std::abs(a.margin) > std::abs(b.margin);
  });
  std::vector<Verdict> verdicts;
  const auto take = [&](Verdict::Why why, std::size_t most, auto begin, auto end, auto wanted) {
    for (auto at = begin; at != end && most > 0; ++at) {
      if (!wanted(*at) || at->verdict.product.empty()) continue;
      verdicts.push_back(at->verdict);
      verdicts.back().why = why;
      chosen->push_back(at->score);
      at->verdict.product.clear();  // taken
      --most;
    }
  };
  take(Verdict::kBest, kOfEach / 2, all.begin(), all.end(),
       [](const Candidate& c) { return c.right && c.verdict.defect; });
  take(Verdict::kBest, kOfEach / 2, all.begin(), all.end(),
       [](const Candidate& c) { return c.right && !c.verdict.defect; });
  take(Verdict::kWorst, kOfEach, all.begin(), all.end(),
       [](const Candidate& c) { return !c.right; });
  take(Verdict::kBorderline, kOfEach, all.rbegin(), all.rend(),
       [](const Candidate&) { return true; });
  return verdicts;
}

void draw_verdict(const Extractor& extractor, const TestImage& image, const Map& map,
                  const ImagePlace& place, Score score, Verdict& verdict) {
  verdict.image = extractor.view_of(read_image(image.file));
  if (!image.mask.empty()) {
    const Mask mask = read_mask(image.mask, place);
    verdict.mask = {mask.width, mask.height, std::vector<std::uint8_t>(mask.values.size() * 3)};
    for (std::size_t i = 0; i < mask.values.size() * 3; ++i) {
      verdict.mask.rgb[i] = mask.values[i / 3] != 0 ? 255 : 0;
    }
  }
  if (map.values.empty()) return;
  const float peak = *std::max_element(map.values.begin(), map.values.end());
  Overlay overlay;
  std::optional<float> threshold = verdict.level;
  if (verdict.level <= 0 || peak <= 0) threshold.reset();  // no part of the map's peak
  overlay.level = outline_level(score, verdict.score, threshold, peak);
  const HeatRange range = heat_range(map, overlay.level);
  overlay.low = range.low;
  overlay.high = range.high;
  overlay.rejected = verdict.score > verdict.level;
  overlay.caption = fmt::format("{}  {:.2f} / {:.2f}", overlay.rejected ? "DEFECT" : "good",
                                verdict.score, verdict.level);
  verdict.heat = draw_overlay(verdict.image, map, overlay);
}

}  // namespace contcore
