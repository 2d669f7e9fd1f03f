// In: files and folders that a person gave to be learned. Out: the images in them, without those
// that a data set keeps apart from the good ones, and what was left out. Fails as find_images().
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "contcore/detector.h"
#include "contcore/review.h"
#include "detector/find_images.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 3;       // files, in a remark
constexpr std::size_t kMostKindsNamed = 8;  // of defects
constexpr std::size_t kDeepest = 6;         // folders between a file and its data set

// What a data set with a split (MVTec's layout) says of an image by where it lies.
enum class Part { kNone, kTrainGood, kTestGood, kDefect, kMask };

struct Placed {
  Part part = Part::kNone;
  fs::path set;      // the folder that has train, test and ground_truth
  std::string kind;  // of the defect
};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path whole(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path normal = (error ? fs::path(path) : absolute).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();  // without a slash at the end
}

// Finds the data set that a file lies in, remembering folders it has looked at.
class Splits {
 public:
  Placed place(const fs::path& file) {
    fs::path folder = file.parent_path();
    for (std::size_t i = 0; i < kDeepest && folder.has_relative_path();
         ++i, folder = folder.parent_path()) {
      if (is_split(folder)) return placed(folder, file.lexically_relative(folder));
    }
    return {};
  }

 private:
  bool is_split(const fs::path& folder) {
    const auto [known, is_new] = known_.try_emplace(folder.string(), false);
    if (is_new) {
      known->second = is_folder(folder / "train" / "good") &&
                      (is_folder(folder / "test") || is_folder(folder / "ground_truth"));
    }
    return known->second;
  }

  static Placed placed(const fs::path& set, const fs::path& within) {
    auto name = within.begin();
    const std::string first = name->string();
    const std::string second = ++name == within.end() ? "" : name->string();
    if (first == "train" && second == "good") return {Part::kTrainGood, set, ""};
    if (first == "test" && second == "good") return {Part::kTestGood, set, ""};
    if (first == "test") return {Part::kDefect, set, second};
    if (first == "ground_truth") return {Part::kMask, set, second};
    return {};
  }

  std::map<std::string, bool> known_;
};

// Whether a folder was given that holds more than one class of the data set: what of it is meant is
// ours to choose then.
bool is_above_classes(const fs::path& given, const fs::path& set) {
  const fs::path from_set = given.lexically_relative(set);
  const auto depth = std::distance(from_set.begin(), from_set.end());
  return from_set == "." || from_set.begin()->string() == ".." || depth < 2;
}

struct LeftOut {
  std::size_t taken = 0;
  std::size_t test_good = 0;
  std::size_t defects = 0;
  std::size_t masks = 0;
  std::set<std::string> kinds;

  bool any() const { return test_good + defects + masks > 0; }
};

std::string left_out_text(const std::string& given, const LeftOut& left, bool from_train) {
  std::vector<std::string> parts;
  const auto add = [&](std::size_t count, const char* what) {
    if (count > 0) parts.push_back(fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"));
  };
  add(left.test_good, "good test image");
  add(left.defects, "defective one");
  add(left.masks, "mask");
  const std::vector<std::string> kinds(left.kinds.begin(), left.kinds.end());
  return fmt::format("{} is a data set with a split: {} image{} of {} {} taken, left out are {}{}",
                     given, left.taken, left.taken == 1 ? "" : "s",
                     from_train ? "train/good" : "test/good", left.taken == 1 ? "is" : "are",
                     joined(parts, parts.size()),
                     kinds.empty() ? "" : fmt::format(" ({})", joined(kinds, kMostKindsNamed)));
}

// The files of one data set in what was given: takes the good ones, if there are any.
void take_good(const std::string& given, const std::vector<std::string>& files,
               const std::vector<Placed>& places, FoundImages& found) {
  const auto has = [&](Part part) {
    return std::any_of(places.begin(), places.end(),
                       [&](const Placed& place) { return place.part == part; });
  };
  const bool from_train = has(Part::kTrainGood);
  const Part good = from_train ? Part::kTrainGood : Part::kTestGood;
  if (!has(good)) {
    found.files.insert(found.files.end(), files.begin(), files.end());
    return;
  }
  LeftOut left;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Part part = places[i].part;
    if (part == good) {
      ++left.taken;
      found.files.push_back(files[i]);
      continue;
    }
    if (part == Part::kTestGood) ++left.test_good;
    if (part == Part::kMask) ++left.masks;
    if (part != Part::kDefect) continue;
    ++left.defects;
    left.kinds.insert(places[i].kind);
  }
  if (left.any()) found.remarks.push_back({"split", left_out_text(given, left, from_train), {}});
}

// Of one path that was given.
void take_path(const std::string& given, const std::vector<std::string>& files, Splits& splits,
               FoundImages& found) {
  std::map<fs::path, std::pair<std::vector<std::string>, std::vector<Placed>>> sets;
  const fs::path path = whole(given);
  for (const std::string& file : files) {
    Placed place = splits.place(whole(file));
    if (place.part == Part::kNone || !is_above_classes(path, place.set)) {
      found.files.push_back(file);
      continue;
    }
    auto& [its_files, places] = sets[place.set];
    its_files.push_back(file);
    places.push_back(std::move(place));
  }
  for (const auto& [set, its] : sets) {
    take_good(sets.size() == 1 ? given : set.string(), its.first, its.second, found);
  }
  if (sets.size() > 1) {
    std::vector<std::string> names;
    for (const auto& [set, its] : sets) names.push_back(set.filename().string());
    found.remarks.push_back(
        {"split",
         fmt::format("{} holds {} data sets ({}): learn each as a task of its own", given,
                     sets.size(), joined(names, kMostKindsNamed)),
         {}});
  }
}

void leave_same_files(FoundImages& found) {
  std::set<fs::path> taken;
  std::erase_if(found.files, [&](const std::string& file) {
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    return !error && !taken.insert(real).second;
  });
}

// NAME_mask.png beside NAME.png.
void leave_masks(FoundImages& found) {
  constexpr std::string_view kEnding = "_mask";
  std::set<std::string> stems;
  const auto stem = [](const std::string& file) {
    return fs::path(file).replace_extension().string();
  };
  for (const std::string& file : found.files) stems.insert(stem(file));
  std::vector<std::string> masks;
  std::erase_if(found.files, [&](const std::string& file) {
    const std::string name = stem(file);
    const bool is_mask =
        name.ends_with(kEnding) && stems.contains(name.substr(0, name.size() - kEnding.size()));
    if (is_mask) masks.push_back(file);
    return is_mask;
  });
  if (masks.empty()) return;
  found.remarks.push_back({"masks",
                           fmt::format("{} {} by the name, and left out: {}", masks.size(),
                                       masks.size() == 1 ? "file is a mask" : "files are masks",
                                       joined(masks, kMostNamed)),
                           {}});
}

// Those that are left though their place says that they are not good: they were asked for.
void remark_on_places(Splits& splits, FoundImages& found) {
  std::vector<std::size_t> defects;
  std::vector<std::size_t> masks;
  for (std::size_t i = 0; i < found.files.size(); ++i) {
    const Part part = splits.place(whole(found.files[i])).part;
    if (part == Part::kDefect) defects.push_back(i);
    if (part == Part::kMask) masks.push_back(i);
  }
  const auto add = [&](const char* kind, const char* what, std::vector<std::size_t>& images) {
    if (images.empty()) return;
    found.remarks.push_back(
        {kind,
         fmt::format("{} of {} images {} in a data set's folder of {}: {}", images.size(),
                     found.files.size(), images.size() == 1 ? "lies" : "lie", what,
                     found.files[images.front()]),
         std::move(images)});
  };
  add("defects", "defects", defects);
  add("masks", "masks", masks);
}

}  // namespace

FoundImages find_good_images(const std::vector<std::string>& paths) {
  FoundImages found;
  std::vector<std::string> unread;
  Splits splits;
  for (const std::string& path : paths) {
    take_path(path, find_images({path}, &unread), splits, found);
  }
  leave_same_files(found);
  leave_masks(found);
  remark_on_places(splits, found);
  if (!unread.empty()) {
    found.remarks.push_back({"unread", remark_on_unread(std::move(unread)), {}});
  }
  return found;
}

}  // namespace contcore
