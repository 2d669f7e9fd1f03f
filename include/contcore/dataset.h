// Data sets of products: where the good images to learn and the images to test with are.
#pragma once

#include <string>
#include <vector>

namespace contcore {

struct TestImage {
  std::string file;
  std::string kind;  ///< "good", or the defect's name
  bool defect = false;
  std::string mask;  ///< empty: good, or none is there
};

/// One class: a product.
struct Product {
  std::string name;
  std::vector<std::string> train;  ///< good images, sorted
  std::vector<TestImage> test;     ///< sorted by kind ("good" in its alphabetical place) and name
  /// Whether there are defective test images and each has a mask: pixel measures are only defined
  /// then.
  bool masks = false;
  std::string folder;  ///< of the data set: what reports name files by starts there
};

struct Dataset {
  std::string name;                ///< of the folder
  std::string layout;              ///< "mvtec", "visa" or "real-iad"
  std::vector<Product> products;   ///< in alphabetical order, by bytes
  std::vector<std::string> notes;  ///< what a person should know: masks that are missing, …
};

/// Reads the layout of a data set; no image is opened. Layouts:
///   mvtec     PRODUCT/train/good/*, PRODUCT/test/KIND/*, PRODUCT/ground_truth/KIND/NAME_mask.png
///             (or NAME.png); also a single PRODUCT folder itself
///   visa      split_csv/1cls.csv (object,split,label,image,mask)
///   real-iad  realiad_jsons/PRODUCT.json, in the folder or beside it, and images in realiad_1024,
///             realiad_512, realiad_256 or the folder itself, whichever comes first
///   auto      whichever is there
/// Throws Error (kInput) naming the folder, what is wrong and what was expected: no product, a
/// product without good images to train with or without test images, a file that the data set's
/// own list names but that is not there or not inside the folder, a list that is not one. An
/// unknown layout is Error (kUsage).
Dataset open_dataset(const std::string& root, const std::string& layout = "auto");

}  // namespace contcore
