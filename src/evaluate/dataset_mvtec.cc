#include <fmt/format.h>

#include <algorithm>

#include "detector/find_images.h"
#include "evaluate/dataset_layouts.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

bool has_good_images(const fs::path& folder) { return is_folder(folder / "train" / "good"); }

// Beside the ground truth as beside the images: 003.png has 003_mask.png, or a 003.png of its own.
std::string mask_of(const fs::path& image, const fs::path& images, const fs::path& masks) {
  const fs::path folder = masks / image.lexically_relative(images).parent_path();
  for (const char* ending : {"_mask.png", ".png"}) {
    fs::path mask = folder / image.stem();
    mask += ending;
    if (is_file(mask)) return mask.string();
  }
  return "";
}

void read_kind(const fs::path& product, const fs::path& folder, Product& out,
               std::vector<std::string>& notes) {
  const std::string kind = folder.filename().string();
  const std::vector<std::string> files = images_in_folder(folder.string());
  if (files.empty()) notes.push_back(fmt::format("{}: no images in this folder", folder.string()));
  for (const std::string& file : files) {
    TestImage image{file, kind, kind != "good", ""};
    if (image.defect) image.mask = mask_of(file, folder, product / "ground_truth" / kind);
    out.test.push_back(std::move(image));
  }
}

Product read_product(const fs::path& folder, std::vector<std::string>& notes) {
  Product product;
  product.name = folder.filename().string();
  if (has_good_images(folder)) {
    product.train = images_in_folder((folder / "train" / "good").string());
  }
  if (!is_folder(folder / "test")) return product;
  for (const fs::path& kind : folders_in(folder / "test")) {
    read_kind(folder, kind, product, notes);
  }
  return product;
}

}  // namespace

bool looks_like_mvtec(const fs::path& root) {
  if (has_good_images(root)) return true;
  const std::vector<fs::path> folders = folders_in(root);
  return std::any_of(folders.begin(), folders.end(), has_good_images);
}

void read_mvtec(const fs::path& root, Dataset& dataset) {
  if (has_good_images(root)) {
    dataset.products.push_back(read_product(root, dataset.notes));
    dataset.products.front().name = dataset.name;
    return;
  }
  for (const fs::path& folder : folders_in(root)) {
    if (is_folder(folder / "train")) {
      dataset.products.push_back(read_product(folder, dataset.notes));
    } else {
      dataset.notes.push_back(
          fmt::format("{}: left out, as it has no folder train", folder.string()));
    }
  }
}

}  // namespace contcore
