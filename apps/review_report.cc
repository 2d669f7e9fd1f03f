// In: a review. Out: remarks on stderr, a contact sheet. A sheet that cannot be written where none
// was asked for is said, and is no reason to stop.
#include "review_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/utf8.h"
#include "common.h"
#include "contcore/error.h"
#include "contcore/image.h"

namespace contcore::app {
namespace {

constexpr std::size_t kMostNamed = 5;   // files, with a remark
constexpr std::size_t kMostShown = 20;  // pictures on a sheet

// The name with the folder it is in: names alone are often numbers.
std::string short_name(const std::string& file) {
  const std::filesystem::path path(file);
  const std::string folder = path.parent_path().filename().string();
  return folder.empty() ? path.filename().string() : folder + "/" + path.filename().string();
}

std::string names_of(const Remark& remark, const std::vector<std::string>& files) {
  if (remark.images.empty() || remark.images.size() == files.size()) return "";
  std::string text;
  for (std::size_t i = 0; i < std::min(remark.images.size(), kMostNamed); ++i) {
    text += (i == 0 ? " (" : ", ") + short_name(files[remark.images[i]]);
  }
  const std::size_t more = remark.images.size() - std::min(remark.images.size(), kMostNamed);
  return text + (more > 0 ? fmt::format(", {} more)", more) : ")");
}

// The strangest, then others that something is said of.
std::vector<std::size_t> to_show(const Review& review) {
  std::vector<std::size_t> shown;
  const auto add = [&](std::size_t image) {
    if (shown.size() == kMostShown) return;
    if (std::find(shown.begin(), shown.end(), image) == shown.end()) shown.push_back(image);
  };
  for (const StrangeImage& image : review.strangest) add(image.image);
  for (const Remark& remark : review.remarks) {
    if (remark.kind != "masks" && remark.kind != "colour") continue;
    for (const std::size_t image : remark.images) add(image);
  }
  return shown;
}

SheetPicture picture_of(std::size_t image, const Review& review,
                        const std::vector<std::string>& files) {
  SheetPicture picture;
  picture.caption = {short_name(files[image]), ""};
  try {
    picture.image = read_image(files[image]);
  } catch (const Error&) {
    picture.image = {1, 1, {0, 0, 0}};  // gone meanwhile
  }
  for (const StrangeImage& strange : review.strangest) {
    if (strange.image != image) continue;
    picture.caption[1] = fmt::format("{:.4g}, usual {:.4g}", strange.score, strange.usual);
  }
  picture.marked =
      std::any_of(review.remarks.begin(), review.remarks.end(), [&](const Remark& remark) {
        const auto& about = remark.images;
        return about.size() < files.size() &&
               std::find(about.begin(), about.end(), image) != about.end();
      });
  return picture;
}

bool write_sheet(const Review& review, const ReviewPlace& place, const std::string& path) {
  std::vector<SheetPicture> pictures;
  for (const std::size_t image : to_show(review)) {
    pictures.push_back(picture_of(image, review, place.files));
  }
  if (pictures.empty()) return false;
  write_image(path, contact_sheet(fmt::format("{}: the strangest of {} (framed: see the remarks)",
                                              place.task, counted(review.images, "image")),
                                  pictures));
  return true;
}

}  // namespace

void note_remarks(const std::vector<Remark>& remarks, const std::vector<std::string>& files) {
  for (const Remark& remark : remarks) {
    note(printable_name("review: " + remark.text + names_of(remark, files)));
  }
}

void refuse_if_any(const std::vector<Remark>& remarks) {
  if (remarks.empty()) return;
  throw Error(Error::Kind::kInput,
              fmt::format("nothing is learned: the review has {}, and --strict was given",
                          counted(remarks.size(), "remark")));
}

void report_review(const Review& review, const ReviewPlace& place) {
  note_remarks(review.remarks, place.files);
  if (!place.sheet.empty()) {
    if (!write_sheet(review, place, place.sheet)) note("review: too few images to compare them");
    return;
  }
  if (review.remarks.empty() || place.otherwise.empty()) return;
  try {
    if (write_sheet(review, place, place.otherwise)) {
      note(fmt::format("review: the strangest images are in {}", printable_name(place.otherwise)));
    }
  } catch (const Error& error) {
    note(fmt::format("review: no picture of the strangest images: {}", error.what()));
  }
}

nlohmann::json review_json(const Review& review, const std::vector<std::string>& files) {
  nlohmann::json remarks = nlohmann::json::array();
  for (const Remark& remark : review.remarks) {
    nlohmann::json about = nlohmann::json::array();
    for (const std::size_t image : remark.images) about.push_back(files[image]);
    remarks.push_back({{"kind", remark.kind}, {"text", remark.text}, {"images", about}});
  }
  nlohmann::json strangest = nlohmann::json::array();
  for (const StrangeImage& image : review.strangest) {
    strangest.push_back(
        {{"image", files[image.image]}, {"score", image.score}, {"usual", image.usual}});
  }
  return {{"images", review.images},
          {"scored", review.scored},
          {"remarks", std::move(remarks)},
          {"strangest", std::move(strangest)}};
}

}  // namespace contcore::app
