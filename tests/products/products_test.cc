#include "products/products.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

std::uint64_t hash_of(const Image& image) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::uint8_t byte : image.rgb) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

void expect_error(Error::Kind kind, const std::string& words, const auto& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}

// Whether a marked pixel lies within `reach` of (x, y).
bool marked_near(const ProductImage& made, int x, int y, int reach) {
  const int width = static_cast<int>(made.image.width),
            height = static_cast<int>(made.image.height);
  for (int j = std::max(y - reach, 0); j <= std::min(y + reach, height - 1); ++j) {
    for (int i = std::max(x - reach, 0); i <= std::min(x + reach, width - 1); ++i) {
      if (made.mask[static_cast<std::size_t>(j * width + i)] != 0) return true;
    }
  }
  return false;
}

// How far the colours of a pixel differ, the most of the three.
int difference_at(const Image& a, const Image& b, std::size_t pixel) {
  int most = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    most = std::max(most, std::abs(int{a.rgb[3 * pixel + c]} - int{b.rgb[3 * pixel + c]}));
  }
  return most;
}

// Every pixel that changed is marked or close to one that is, and what is marked can be seen.
void expect_mask_fits(const Image& good, const ProductImage& bad, const std::string& kind) {
  EXPECT_TRUE(bad.defective);
  EXPECT_EQ(bad.kind, kind);
  ASSERT_EQ(bad.mask.size(), 256u * 256);
  std::size_t marked = 0, stray = 0, seen = 0;
  for (std::size_t i = 0; i < bad.mask.size(); ++i) {
    ASSERT_TRUE(bad.mask[i] == 0 || bad.mask[i] == 255);
    if (bad.mask[i] != 0) ++marked;
    const int difference = difference_at(good, bad.image, i);
    if (difference > 8 && bad.mask[i] != 0) ++seen;
    if (difference <= 2 || bad.mask[i] != 0) continue;
    if (!marked_near(bad, static_cast<int>(i % 256), static_cast<int>(i / 256), 5)) ++stray;
  }
  EXPECT_GE(marked, 12u);
  EXPECT_LT(marked, 256u * 256 / 8);
  EXPECT_GE(seen, 6u);
  EXPECT_EQ(stray, 0u);
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "contcore-products-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::set<std::string> files_under(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), folder).string());
  }
  return files;
}

TEST(Products, HaveNamesAndDefects) {
  const std::vector<std::string> names = product_names();
  EXPECT_GE(names.size(), 6u);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    const std::vector<std::string> kinds = product_defects(name);
    EXPECT_GE(kinds.size(), 3u) << name;
    EXPECT_EQ(std::set<std::string>(kinds.begin(), kinds.end()).size(), kinds.size()) << name;
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "good"), 0) << name;
  }
}

TEST(Products, GoodOnesHaveNoMaskAndAreRepeatable) {
  std::set<std::uint64_t> hashes;
  for (const std::string& name : product_names()) {
    const ProductImage made = make_product(name, 3, "", 7);
    EXPECT_EQ(made.image.width, 256u);
    EXPECT_EQ(made.image.height, 256u);
    ASSERT_EQ(made.image.rgb.size(), 256u * 256 * 3);
    EXPECT_FALSE(made.defective);
    EXPECT_TRUE(made.mask.empty());
    EXPECT_EQ(made.kind, "good");
    EXPECT_EQ(make_product(name, 3, "", 7).image.rgb, made.image.rgb) << name;
    hashes.insert(hash_of(made.image));
    hashes.insert(hash_of(make_product(name, 4, "", 7).image));
    hashes.insert(hash_of(make_product(name, 3, "", 8).image));
  }
  EXPECT_EQ(hashes.size(), 3 * product_names().size());
}

// The pixels are promised to be the same on every machine, so they are the same as where these
// numbers come from. Whoever changes how a product looks changes its number.
TEST(Products, LookTheSameEverywhere) {
  const std::map<std::string, std::uint64_t> expected = {
      {"brushed_plate", 0xe927ce88ea077969u}, {"woven_cloth", 0xc31218634d97f90bu},
      {"ceramic_tile", 0x56c49db905584be7u},  {"wood", 0xc46d35db0540b620u},
      {"gear", 0x5ca4b031c5306c06u},          {"bottle_cap", 0xe0889fabf5245675u},
      {"circuit", 0xf23b053e7d8e26a1u},
  };
  for (const std::string& name : product_names()) {
    const ProductImage made = make_product(name, 1, product_defects(name).front(), 5);
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(hash_of(made.image), expected.at(name)) << name;
  }
}

// In a fixture two pieces look more alike than as they come; nothing else about them changes.
TEST(Products, LieStillInAFixture) {
  const auto difference = [](Placing placing) {
    std::uint64_t sum = 0;
    for (const std::size_t i : {0u, 2u, 4u}) {
      const Image a = make_product("gear", i, "", 1, placing).image;
      const Image b = make_product("gear", i + 1, "", 1, placing).image;
      for (std::size_t p = 0; p < a.rgb.size() / 3; ++p) {
        sum += static_cast<std::uint64_t>(difference_at(a, b, p));
      }
    }
    return sum;
  };
  EXPECT_LT(difference(Placing::kFixture), difference(Placing::kFree) * 9 / 10);
  EXPECT_EQ(make_product("wood", 3, "", 1).image.rgb,
            make_product("wood", 3, "", 1, Placing::kFree).image.rgb);
}

TEST(Products, NeitherBlackNorBlown) {
  for (const std::string& name : product_names()) {
    const Image image = make_product(name, 0, "", 1).image;
    const auto extreme = std::count_if(image.rgb.begin(), image.rgb.end(),
                                       [](std::uint8_t v) { return v < 4 || v > 251; });
    EXPECT_LT(extreme, static_cast<std::ptrdiff_t>(image.rgb.size() / 20)) << name;
  }
}

// A defect changes what its mask says and nothing else: same piece, same light, same noise.
TEST(Products, DefectsAreWhereTheMaskSays) {
  for (const std::string& name : product_names()) {
    for (const std::size_t index : {0u, 1u}) {
      const Image good = make_product(name, index, "", 3).image;
      for (const std::string& kind : product_defects(name)) {
        SCOPED_TRACE(name + " " + kind + " " + std::to_string(index));
        expect_mask_fits(good, make_product(name, index, kind, 3), kind);
      }
    }
  }
}

// A crop of the middle 224 pixels must not lose the defect.
TEST(Products, DefectsLieInTheMiddle) {
  for (const std::string& name : product_names()) {
    for (const std::string& kind : product_defects(name)) {
      const ProductImage bad = make_product(name, 11, kind, 9);
      std::size_t inside = 0;
      for (std::size_t y = 16; y < 240; ++y) {
        for (std::size_t x = 16; x < 240; ++x) inside += bad.mask[y * 256 + x] == 255;
      }
      EXPECT_GE(inside, 12u) << name << " " << kind;
    }
  }
}

TEST(Products, UnknownNamesAreErrors) {
  expect_error(Error::Kind::kUsage, "woven_cloth", [] { make_product("cheese", 0, "", 1); });
  expect_error(Error::Kind::kUsage, "woven_cloth", [] { product_defects("cheese"); });
  expect_error(Error::Kind::kUsage, "crack", [] { make_product("ceramic_tile", 0, "mould", 1); });
}

TEST(WriteProducts, MakesTheLayout) {
  const Folder folder;
  double last = 0;
  write_products(folder.path().string(), {"ceramic_tile"}, {2, 1, 5}, 4, [&](double done) {
    EXPECT_GT(done, last);
    last = done;
    return true;
  });
  EXPECT_EQ(last, 1);
  const std::set<std::string> expected = {"ceramic_tile/train/good/000.png",
                                          "ceramic_tile/train/good/001.png",
                                          "ceramic_tile/test/good/000.png",
                                          "ceramic_tile/test/chip/000.png",
                                          "ceramic_tile/test/chip/001.png",
                                          "ceramic_tile/test/crack/000.png",
                                          "ceramic_tile/test/glue/000.png",
                                          "ceramic_tile/test/scratch/000.png",
                                          "ceramic_tile/ground_truth/chip/000_mask.png",
                                          "ceramic_tile/ground_truth/chip/001_mask.png",
                                          "ceramic_tile/ground_truth/crack/000_mask.png",
                                          "ceramic_tile/ground_truth/glue/000_mask.png",
                                          "ceramic_tile/ground_truth/scratch/000_mask.png"};
  EXPECT_EQ(files_under(folder.path()), expected);
  std::set<std::uint64_t> pictures;
  for (const std::string& file : expected) {
    const Image image = read_image((folder.path() / file).string());
    EXPECT_EQ(image.width, 256u) << file;
    if (file.find("ground_truth") == file.npos) pictures.insert(hash_of(image));
  }
  EXPECT_EQ(pictures.size(), 8u) << "a piece appears twice";
}

TEST(WriteProducts, StopsWhenAsked) {
  const Folder folder;
  std::size_t calls = 0;
  expect_error(Error::Kind::kCancelled, "stopped", [&] {
    write_products(folder.path().string(), {"wood"}, {5, 5, 5}, 4,
                   [&](double) { return ++calls < 3; });
  });
  EXPECT_EQ(files_under(folder.path()).size(), 3u);
}

TEST(WriteProducts, SaysWhatCannotBeWritten) {
  const Folder folder;
  const fs::path file = folder.path() / "file";
  write_image((folder.path() / "x.png").string(), make_product("wood", 0, "", 1).image);
  fs::rename(folder.path() / "x.png", file);
  expect_error(Error::Kind::kInput, "file", [&] {
    write_products(file.string(), {"wood"}, {1, 1, 1}, 4);
  });
}

}  // namespace
}  // namespace contcore
