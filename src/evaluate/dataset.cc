#include "contcore/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_set>

#include "contcore/error.h"
#include "evaluate/clipped.h"
#include "evaluate/dataset_layouts.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

struct Layout {
  std::string_view name;
  void (*read)(const fs::path& root, Dataset& dataset);
};
constexpr std::array<Layout, 3> kLayouts = {
    {{"mvtec", read_mvtec}, {"visa", read_visa}, {"real-iad", read_real_iad}}};

constexpr char kExpected[] =
    "expected PRODUCT/train/good with images (mvtec), split_csv/1cls.csv (visa) or "
    "realiad_jsons/PRODUCT.json (real-iad)";

// Who gives the folder above the data set is told so.
std::string hint(const fs::path& root) {
  for (const fs::path& inside : folders_in(root)) {
    try {
      if (looks_like_visa(inside) || looks_like_real_iad(inside) || looks_like_mvtec(inside)) {
        return fmt::format("; {} looks like one", inside.string());
      }
    } catch (const Error&) {  // cannot be searched: no hint then
    }
  }
  return "";
}

// The folder of images of Real-IAD holds nothing that tells it, so it comes last.
std::string_view recognise(const fs::path& root) {
  if (looks_like_visa(root)) return "visa";
  if (looks_like_real_iad(root)) return "real-iad";
  if (looks_like_mvtec(root)) return "mvtec";
  if (looks_like_real_iad_images(root)) return "real-iad";
  throw Error(Error::Kind::kInput,
              fmt::format("{}: no data set here: {}{}", root.string(), kExpected, hint(root)));
}

const Layout& layout_named(std::string_view name) {
  const auto* found = std::find_if(kLayouts.begin(), kLayouts.end(),
                                   [&](const Layout& layout) { return layout.name == name; });
  if (found != kLayouts.end()) return *found;
  throw Error(
      Error::Kind::kUsage,
      fmt::format("unknown layout '{}' of a data set; known are auto, mvtec, visa and real-iad",
                  clipped(name)));
}

// An image that is listed twice weighs twice, or is tested after it was learned.
void note_repeats(const Product& product, std::vector<std::string>& notes) {
  std::unordered_set<std::string_view> seen;
  std::size_t repeats = 0;
  std::string first;
  const auto look = [&](const std::string& file) {
    if (!seen.insert(file).second && repeats++ == 0) first = file;
  };
  for (const std::string& file : product.train) look(file);
  for (const TestImage& image : product.test) look(image.file);
  if (repeats > 0) {
    notes.push_back(fmt::format("{}: {} images are listed more than once, the first of them {}",
                                product.name, repeats, first));
  }
}

void note_masks(const Product& product, std::size_t defects, std::vector<std::string>& notes) {
  const auto lacks = [](const TestImage& image) { return image.defect && image.mask.empty(); };
  const auto first = std::find_if(product.test.begin(), product.test.end(), lacks);
  if (first == product.test.end()) return;
  const auto missing = std::count_if(first, product.test.end(), lacks);
  notes.push_back(
      fmt::format("{}: {} of {} defective test images have no mask, the first of them {}; there "
                  "will be no pixel measures for this product",
                  product.name, missing, defects, first->file));
}

void finish(const std::string& root, Product& product, std::vector<std::string>& notes) {
  const auto refuse = [&](const char* what) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: product {} has no {}", root, product.name, what));
  };
  if (product.train.empty()) refuse("good images to train with (such as those in train/good)");
  if (product.test.empty()) refuse("images to test with (such as those in test/good, test/KIND)");
  product.folder = root;
  std::sort(product.train.begin(), product.train.end());
  std::sort(product.test.begin(), product.test.end(), [](const TestImage& a, const TestImage& b) {
    return std::tie(a.kind, a.file) < std::tie(b.kind, b.file);
  });
  const auto defects = static_cast<std::size_t>(std::count_if(
      product.test.begin(), product.test.end(), [](auto& image) { return image.defect; }));
  product.masks =
      defects > 0 && std::all_of(product.test.begin(), product.test.end(),
                                 [](auto& image) { return !image.defect || !image.mask.empty(); });
  if (defects == 0 || defects == product.test.size()) {
    notes.push_back(fmt::format("{}: no {} test images, so good and defective cannot be compared",
                                product.name, defects == 0 ? "defective" : "good"));
  }
  note_masks(product, defects, notes);
  note_repeats(product, notes);
}

// Sorted, and without what does not count.
std::vector<fs::path> entries(const fs::path& folder, bool (*counts)(const fs::path&)) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const fs::path& path = at->path();
    if (!path.filename().string().starts_with(".") && counts(path)) found.push_back(path);
  }
  if (error) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: cannot be searched: {}", folder.string(), error.message()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

fs::path whole_path(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = fs::absolute(folder, error);
  const fs::path whole = (error ? folder : absolute).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();  // without a slash at the end
}

std::vector<fs::path> folders_in(const fs::path& folder) { return entries(folder, is_folder); }

std::vector<fs::path> files_in(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> found = entries(folder, is_file);
  std::erase_if(found, [&](const fs::path& path) { return path.extension() != ending; });
  return found;
}

std::string ListedFiles::add(const std::string& name, const std::string& place) {
  const fs::path path(name);
  const bool leads_out =
      path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
  if (name.empty() || name.find('\0') != name.npos || leads_out) {
    throw Error(Error::Kind::kInput, fmt::format("{}: {}: '{}' is not the name of a file inside {}",
                                                 list_, place, clipped(name), folder_.string()));
  }
  std::string file = (folder_ / path).string();
  ++count_;
  if (!is_file(file) && missing_++ == 0) first_missing_ = file;
  return file;
}

void ListedFiles::check() const {
  if (missing_ == 0) return;
  throw Error(Error::Kind::kInput,
              fmt::format("{}: {} of the {} files it names are not there, the first of them {}; "
                          "unpack the data set again, or give its folder",
                          list_, missing_, count_, first_missing_));
}

Dataset open_dataset(const std::string& root, const std::string& layout) {
  if (layout != "auto") layout_named(layout);  // nonsense is said before anything is looked at
  if (root.find('\0') != root.npos || !is_folder(root)) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: there is no such folder; give a data set's", root.c_str()));
  }
  const Layout& chosen = layout_named(layout == "auto" ? recognise(root) : layout);
  Dataset dataset;
  const fs::path whole = whole_path(root);
  dataset.name = (whole.has_filename() ? whole.filename() : whole).string();
  dataset.layout = chosen.name;
  chosen.read(root, dataset);
  if (dataset.products.empty()) {
    throw Error(Error::Kind::kInput, fmt::format("{}: no products here: {}", root, kExpected));
  }
  std::sort(dataset.products.begin(), dataset.products.end(),
            [](const Product& a, const Product& b) { return a.name < b.name; });
  for (Product& product : dataset.products) finish(root, product, dataset.notes);
  return dataset;
}

}  // namespace contcore
