// learn_folders FOLDER BACKBONE.onnx DEVICE [MEMORY.ccm]: learns every folder of FOLDER as a
// product, one after the other, in one process, saving after each as a service would; how long, and
// what of it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/detector.h"
#include "contcore/error.h"

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void learn_all(const std::string& root, const std::string& backbone, const std::string& device,
               const std::string& file) {
  std::vector<std::string> products;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (entry.is_directory()) products.push_back(entry.path().string());
  }
  std::sort(products.begin(), products.end());
  const Clock::time_point start = Clock::now();
  contcore::Compute compute(0, contcore::Device::parse(device));
  contcore::DetectorOptions made;
  made.backbone = backbone;
  contcore::Detector detector(made);
  const double opened = since(start);
  double extracting = 0, sampling = 0, saving = 0;
  std::size_t images = 0;
  for (const std::string& product : products) {
    contcore::LearnOptions options;
    options.task = std::filesystem::path(product).filename().string();
    const contcore::LearnReport report =
        detector.learn(contcore::find_images({product}), options, compute);
    images += report.learned;
    extracting += report.extract_seconds;
    sampling += report.sample_seconds;
    if (file.empty()) continue;
    const Clock::time_point saved = Clock::now();
    detector.save(file);
    saving += since(saved);
  }
  fmt::print(
      "{}: {} images of {} products: {:.1f} s; opened {:.1f}, extract {:.1f}, sample {:.1f}, save "
      "{:.1f}\n",
      compute.device().text(), images, products.size(), since(start), opened, extracting, sampling,
      saving);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "learn_folders FOLDER BACKBONE.onnx DEVICE [MEMORY.ccm]\n");
    return 2;
  }
  try {
    learn_all(argv[1], argv[2], argv[3], argc > 4 ? argv[4] : "");
  } catch (const contcore::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
