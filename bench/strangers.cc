// contcore_strangers PRODUCT...: what is called good that is not. Each PRODUCT is a folder in
// MVTec's layout (train/good, test/KIND). Three kinds of memories are made: of each product alone,
// of all, and of all but one (merged from those of one). Each is shown what it does not know, and
// frames without a part: white, black, noise, blur, the part painted out, wrong light, other
// colours. Prints how often each was called good, defect and unknown. Exits with 3 for what cannot
// be read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "detector/learning.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFramesOf = 4;  // images of each product that frames are made of

// ---- frames ------------------------------------------------------------------------------------

// Each value by itself.
Image mapped(Image image, const std::function<double(double)>& to) {
  for (std::uint8_t& value : image.rgb) {
    value = static_cast<std::uint8_t>(std::clamp(to(value) + 0.5, 0.0, 255.0));
  }
  return image;
}

Image lit(const Image& image, double red, double green, double blue) {
  const double by[] = {red, green, blue};
  std::size_t at = 0;
  return mapped(image, [&](double value) { return value * by[at++ % 3]; });
}

Image gray_of(Image image) {
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
    const int sum = 299 * image.rgb[i] + 587 * image.rgb[i + 1] + 114 * image.rgb[i + 2];
    std::fill_n(image.rgb.begin() + static_cast<std::ptrdiff_t>(i), 3,
                static_cast<std::uint8_t>(sum / 1000));
  }
  return image;
}

Image blurred(const Image& image, double sigma) {
  const auto reach = static_cast<std::ptrdiff_t>(std::ceil(3 * sigma));
  std::vector<double> kernel;
  double sum = 0;
  for (std::ptrdiff_t i = -reach; i <= reach; ++i) {
    kernel.push_back(std::exp(-0.5 * static_cast<double>(i * i) / (sigma * sigma)));
    sum += kernel.back();
  }
  const auto width = static_cast<std::ptrdiff_t>(image.width);
  const auto height = static_cast<std::ptrdiff_t>(image.height);
  std::vector<double> from(image.rgb.begin(), image.rgb.end());
  std::vector<double> to(from.size());
  for (const bool across : {true, false}) {
    for (std::ptrdiff_t at = 0; at < width * height * 3; ++at) {
      const std::ptrdiff_t x = at / 3 % width, y = at / 3 / width, c = at % 3;
      double value = 0;
      for (std::ptrdiff_t i = -reach; i <= reach; ++i) {
        const std::ptrdiff_t u = across ? std::clamp<std::ptrdiff_t>(x + i, 0, width - 1) : x;
        const std::ptrdiff_t v = across ? y : std::clamp<std::ptrdiff_t>(y + i, 0, height - 1);
        value += kernel[static_cast<std::size_t>(i + reach)] *
                 from[static_cast<std::size_t>(3 * (v * width + u) + c)];
      }
      to[static_cast<std::size_t>(at)] = value / sum;
    }
    std::swap(from, to);
  }
  std::size_t at = 0;
  return mapped(image, [&](double) { return from[at++]; });
}

// The median colour of the image's border.
std::vector<std::uint8_t> ground_of(const Image& image) {
  std::vector<std::uint8_t> colour;
  for (std::size_t c = 0; c < 3; ++c) {
    std::vector<std::uint8_t> values;
    for (std::size_t i = 0; i < image.width * image.height; ++i) {
      const std::size_t x = i % image.width, y = i / image.width;
      if (std::min({x, y, image.width - 1 - x, image.height - 1 - y}) < 4) {
        values.push_back(image.rgb[3 * i + c]);
      }
    }
    std::nth_element(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    colour.push_back(values[values.size() / 2]);
  }
  return colour;
}

// The ground's colour over all that differs from it, and some pixels around.
Image painted_out(const Image& image) {
  const std::vector<std::uint8_t> ground = ground_of(image);
  const std::size_t reach = image.width / 40;
  Image out = image;
  for (std::size_t y = 0; y < image.height; ++y) {
    for (std::size_t x = 0; x < image.width; ++x) {
      int most = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        most = std::max(most, std::abs(image.rgb[3 * (y * image.width + x) + c] - ground[c]));
      }
      if (most <= 20) continue;
      for (std::size_t v = y - std::min(y, reach); v <= std::min(image.height - 1, y + reach);
           ++v) {
        for (std::size_t u = x - std::min(x, reach); u <= std::min(image.width - 1, x + reach);
             ++u) {
          std::copy(ground.begin(), ground.end(),
                    out.rgb.begin() + static_cast<std::ptrdiff_t>(3 * (v * image.width + u)));
        }
      }
    }
  }
  return out;
}

Image noise_like(Image image) {
  Random random(image.rgb.size());
  for (std::uint8_t& value : image.rgb) value = static_cast<std::uint8_t>(random.below(256));
  return image;
}

using Frame = std::pair<const char*, std::function<Image(const Image&)>>;

std::vector<Frame> frames() {
  const auto all = [](double value) {
    return [value](const Image& image) { return mapped(image, [&](double) { return value; }); };
  };
  const auto blur = [](double part) {
    return [part](const Image& image) {
      return blurred(image, static_cast<double>(image.width) * part);
    };
  };
  const auto light = [](double r, double g, double b) {
    return [r, g, b](const Image& image) { return lit(image, r, g, b); };
  };
  return {{"white", all(255)},
          {"black", all(0)},
          {"gray", all(128)},
          {"noise", noise_like},
          {"blur, sigma 1/20 of the width", blur(1.0 / 20)},
          {"blur, sigma 1/10", blur(1.0 / 10)},
          {"part painted out", painted_out},
          {"a quarter of the light", light(0.25, 0.25, 0.25)},
          {"a tenth of the light", light(0.1, 0.1, 0.1)},
          {"four times the light", light(4, 4, 4)},
          {"reddish", light(1.3, 0.9, 0.6)},
          {"bluish", light(0.6, 0.9, 1.3)},
          {"without colour", gray_of}};
}

// ---- memories ----------------------------------------------------------------------------------

struct Product {
  std::string name;
  fs::path folder;
};

void learn_product(Memory& memory, const Product& product, const TrainingSet& set,
                   Compute& compute) {
  LearnHow how;
  how.task = product.name;
  how.p = kBatchRatio;
  learn_task(memory, set, how, compute);
}

struct Memories {
  std::vector<Memory> alone;
  std::vector<Memory> without;
  std::optional<Memory> all;
};

Memories memories_of(const std::vector<Product>& products, const Extractor& extractor,
                     Compute& compute) {
  Memories made;
  made.all.emplace(new_memory({}, extractor));
  for (const Product& product : products) {
    TrainingSetBuilder set(made.all->dimension(), std::size_t{8} << 30);
    for (const std::string& file : find_images({(product.folder / "train" / "good").string()})) {
      set.add(extractor.extract(read_image(file), compute));
    }
    fmt::print(stderr, "{}: {} images\n", product.name, set.images());
    made.alone.push_back(new_memory({}, extractor));
    learn_product(made.alone.back(), product, set.view(), compute);
    learn_product(*made.all, product, set.view(), compute);
  }
  if (products.size() < 2) return made;
  for (std::size_t left = 0; left < products.size(); ++left) {
    std::optional<Memory> merged;
    for (std::size_t i = 0; i < products.size(); ++i) {
      if (i == left) continue;
      merged = merged ? Memory::merge(*merged, made.alone[i], made.all->capacity(), compute)
                      : made.alone[i].copy();
    }
    made.without.push_back(std::move(*merged));
  }
  return made;
}

// ---- counts ------------------------------------------------------------------------------------

class Counts {
 public:
  void add(const std::string& what, const Inspection& seen) {
    ++counts_[what][verdict(seen)];
    if (std::find(order_.begin(), order_.end(), what) == order_.end()) order_.push_back(what);
  }
  void print() {
    for (const std::string& what : order_) {
      std::map<std::string, std::size_t>& count = counts_[what];
      fmt::print("{:<72} {:>5} good {:>5} defect {:>5} unknown\n", what, count["good"],
                 count["defect"], count["unknown"]);
    }
  }

 private:
  std::map<std::string, std::map<std::string, std::size_t>> counts_;
  std::vector<std::string> order_;
};

void show(const std::vector<Product>& products, const Memories& memories,
          const Extractor& extractor, Compute& compute) {
  Counts counts;
  InspectOptions plain;
  plain.map = false;
  for (std::size_t p = 0; p < products.size(); ++p) {
    const std::string& name = products[p].name;
    const auto look = [&](const Image& image, const std::string& what, bool foreign) {
      const Patches patches = extractor.extract(image, compute);
      const auto by = [&](const Memory& memory, const std::string& which) {
        counts.add(fmt::format("{}, memory of {}", what, which),
                   inspect(memory, patches, plain, compute));
      };
      by(memories.alone[p], name);
      by(*memories.all, "all");
      if (!foreign) return;
      if (!memories.without.empty()) by(memories.without[p], "all others");
      for (std::size_t q = 0; q < products.size(); ++q) {
        if (q != p) by(memories.alone[q], products[q].name);
      }
    };
    for (const std::string& file : find_images({(products[p].folder / "test").string()})) {
      const std::string kind = fs::path(file).parent_path().filename().string();
      look(read_image(file), fmt::format("{} {}", name, kind == "good" ? "good" : "defective"),
           true);
    }
    const auto good = find_images({(products[p].folder / "test" / "good").string()});
    for (const auto& [kind, make] : frames()) {
      for (std::size_t i = 0; i < kFramesOf; ++i) {
        look(make(read_image(good[i * good.size() / kFramesOf])), fmt::format("{} {}", name, kind),
             false);
      }
    }
    fmt::print(stderr, "{}: seen\n", name);
  }
  counts.print();
}

}  // namespace
}  // namespace contcore

int main(int argc, char** argv) {
  using namespace contcore;
  if (argc < 2) {
    fmt::print(stderr, "usage: contcore_strangers PRODUCT...\n");
    return 2;
  }
  try {
    std::vector<Product> products;
    for (int i = 1; i < argc; ++i) {
      const fs::path folder = fs::path(argv[i]) / "";
      products.push_back({folder.parent_path().filename().string(), folder});
    }
    Compute compute;
    const Extractor extractor{ExtractorOptions{}};
    show(products, memories_of(products, extractor, compute), extractor, compute);
  } catch (const std::exception& error) {
    fmt::print(stderr, "contcore_strangers: {}\n", error.what());
    return 3;
  }
  return 0;
}
