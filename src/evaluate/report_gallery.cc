// Pictures of verdicts, inside the page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/base64.h"
#include "evaluate/report.h"
#include "evaluate/text.h"
#include "image/jpeg.h"
#include "image/pixels.h"
#include "image/resize.h"

namespace contcore {
namespace {

// As large as it is ever shown.
Image thumbnail(const Image& image) {
  constexpr std::size_t kLongest = 448;
  check_image(image);
  const std::size_t longest = std::max(image.width, image.height);
  if (longest <= kLongest) return image;
  const auto side = [&](std::size_t n) {
    return std::max<std::size_t>(1, (2 * n * kLongest + longest) / (2 * longest));
  };
  return resize_image(image, side(image.width), side(image.height));
}

std::string picture(const Image& image, const std::string& caption, const std::string& about,
                    bool photograph, const char* missing = "none") {
  if (image.rgb.empty()) {
    return fmt::format("<figure><div class=\"blank\">{}</div><figcaption>{}</figcaption></figure>",
                       missing, caption);
  }
  const Image small = thumbnail(image);
  return fmt::format(
      "<figure><img alt=\"{}: {}\" width=\"{}\" height=\"{}\" loading=\"lazy\" "
      "src=\"data:image/{};base64,{}\"><figcaption>{}</figcaption></figure>",
      caption, escape_html(about), small.width, small.height, photograph ? "jpeg" : "png",
      base64(photograph ? encode_jpeg(small) : encode_png(small)), caption);
}

std::string verdict_card(const Verdict& verdict) {
  const bool called = verdict.score > verdict.level;
  const bool right = called == verdict.defect;
  const std::string about = verdict.product + ", " + verdict.kind;
  std::string out = "<div class=\"card\">";
  if (!verdict.image.rgb.empty() || !verdict.heat.rgb.empty()) {
    out += "<div class=\"views\">" + picture(verdict.image, "image", about, true) +
           picture(verdict.mask, "defect", about, false, verdict.defect ? "no mask" : "none") +
           picture(verdict.heat, "heat", about, true) + "</div>";
  }
  const std::string level =
      std::isfinite(verdict.level) ? fmt::format("{:.4g}", verdict.level) : "-";
  out += fmt::format(
      "<p><strong>{}</strong>, {}: called {} <span class=\"{}\">{}</span><br>score {:.4g}, level "
      "{}<br><small>{}</small></p></div>\n",
      escape_html(verdict.product), escape_html(verdict.kind), called ? "a defect" : "good",
      right ? "right" : "wrong", right ? "✓ right" : "✗ wrong", verdict.score, level,
      escape_html(verdict.file));
  return out;
}

}  // namespace

std::string gallery_html(const std::vector<Verdict>& gallery) {
  std::string out;
  for (const auto& [why, title] : {std::pair(Verdict::kBest, "Best"),
                                   {Verdict::kWorst, "Worst"},
                                   {Verdict::kBorderline, "Borderline"}}) {
    std::string cards;
    for (const Verdict& verdict : gallery) {
      if (verdict.why == why) cards += verdict_card(verdict);
    }
    if (!cards.empty())
      out += fmt::format("<h3>{}</h3>\n<div class=\"cards\">{}</div>\n", title, cards);
  }
  return out;
}

}  // namespace contcore
