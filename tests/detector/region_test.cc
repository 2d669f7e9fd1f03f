// Regions of interest: what lies outside changes nothing, to the last bit.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "image/region_mask.h"
#include "memory/calibration.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

SharedRegion of_polygons(std::size_t side, std::vector<RegionOfInterest::Polygon> polygons) {
  auto region = std::make_shared<RegionOfInterest>();
  region->width = region->height = side;
  region->polygons = std::move(polygons);
  check_region(*region);
  return region;
}

// Of the 256 × 256 of the made-up products.
SharedRegion middle() {
  return of_polygons(256, {{{61.5, 40}, {201, 52.25}, {190, 210}, {128, 236}, {50, 190}}});
}

SharedRegion two_parts() {
  return of_polygons(256,
                     {{{10, 10}, {120, 20}, {100, 200}}, {{150, 150}, {250, 150}, {200, 250}}});
}

// Other pixels outside; the same for the same seed.
Image elsewhere(Image image, const SharedRegion& region, std::uint64_t seed) {
  const RegionRows rows = region_rows(*region, image.width, image.height);
  Random random(seed);
  for (std::size_t y = 0; y < image.height; ++y) {
    std::size_t next = 0;
    for (std::size_t x = 0; x < image.width; ++x) {
      while (next < rows[y].size() && x >= rows[y][next].end) ++next;
      if (next < rows[y].size() && x >= rows[y][next].begin) continue;
      for (std::size_t c = 0; c < 3; ++c) {
        image.rgb[3 * (y * image.width + x) + c] = static_cast<std::uint8_t>(random.below(256));
      }
    }
  }
  return image;
}

// A defect that all regions here have inside.
Image with_blot(Image image, std::size_t left = 60, std::size_t top = 60) {
  for (std::size_t y = top; y < top + 40; ++y) {
    for (std::size_t x = left; x < left + 40; ++x) {
      std::uint8_t* rgb = &image.rgb[3 * (y * image.width + x)];
      rgb[0] = rgb[1] = (x / 10 + y / 10) % 2 == 0 ? 0 : 255;
      rgb[2] = 255;
    }
  }
  return image;
}

class RegionTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_region_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  DetectorOptions settings() const {
    DetectorOptions options;
    options.backbone = "builtin";
    options.geometry =
        tiled_ ? Geometry::parse({"", "", "96", "32"}, Geometry{}) : Geometry::parse("96", "none");
    options.dimension = 64;
    options.capacity = 300;
    options.score = score_;
    options.precision = precision_;
    return options;
  }

  Detector open(const std::string& name) {
    return Detector::open_to_learn(path(name), [this] { return settings(); });
  }

  // Good pieces of a product as files; with `seed`, each with something of its own outside.
  std::vector<std::string> pieces(const std::string& product, const SharedRegion& region,
                                  std::uint64_t seed, std::size_t count = 12) {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < count; ++i) {
      files.push_back(path(product + std::to_string(seed) + "_" + std::to_string(i) + ".png"));
      Image image = make_product(product, i, "", 1).image;
      if (seed != 0) image = elsewhere(std::move(image), region, 1000 * seed + i);
      write_image(files.back(), image);
    }
    return files;
  }

  static LearnOptions task(const std::string& name, const SharedRegion& region = {}) {
    LearnOptions options;
    options.task = name;
    options.region = region;
    return options;
  }

  // All bytes of the file but for the times in it, and its checksum.
  std::string bytes(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    std::string whole{std::istreambuf_iterator<char>(in), {}};
    std::size_t header = 0;
    std::memcpy(&header, whole.data(), 8);
    std::string text = whole.substr(8, header);
    text = std::regex_replace(text, std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ"), "T");
    text = std::regex_replace(text, std::regex("\"sha256\":\"[0-9a-f]{64}\""), "S");
    return text + whole.substr(8 + header);
  }

  void expect_error(Error::Kind kind, const std::string& word, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown; " << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }

  // Learned (also online), shown defects, and inspected: all the same whatever is outside.
  void expect_lessons_are_taken_back();
  void expect_nothing_outside_counts(const SharedRegion& region) {
    std::vector<std::string> files;
    for (const std::uint64_t seed : {1U, 2U}) {
      const std::string name = "line" + std::to_string(seed) + ".ccm";
      Detector detector = open(name);
      detector.learn(pieces("gear", region, seed), task("gear", region), compute_);
      for (std::size_t i = 20; i < 23; ++i) {
        const Image next = make_product("gear", i, "", 1).image;
        detector.learn_online(elsewhere(next, region, 100 * seed + i), task("gear"), compute_);
      }
      const DefectMark mark{DefectBox{60, 60, 40, 40}, nullptr, std::nullopt};
      const Image bad = with_blot(make_product("gear", 30, "", 1).image);
      detector.learn_defect(elsewhere(bad, region, seed), mark, "gear", compute_);
      detector.save(path(name));
      files.push_back(name);
    }
    EXPECT_EQ(bytes(files[0]), bytes(files[1]));
    const Detector detector = Detector::open(path(files[0]));
    const Detector other = Detector::open(path(files[1]));
    const RegionRows rows = region_rows(*region, 256, 256);
    float good = 0;
    for (const bool is_bad : {false, true}) {
      Image image = make_product("gear", 40, "", 1).image;
      if (is_bad) image = with_blot(std::move(image));
      const Inspection first = detector.inspect(elsewhere(image, region, 7), {}, compute_);
      Compute alone(1);
      const Inspection second = other.inspect(elsewhere(image, region, 8), {}, alone);
      EXPECT_EQ(first.score, second.score);
      EXPECT_EQ(first.map.values, second.map.values);
      EXPECT_EQ(first.regions, second.regions);
      EXPECT_EQ(first.reason, second.reason);
      ASSERT_TRUE(first.task);
      EXPECT_GT(first.score, is_bad ? good : 0);
      good = first.score;
      Map cleared = first.map;
      clear_outside(cleared, rows);
      EXPECT_EQ(cleared.values, first.map.values);  // nothing is shown there
      EXPECT_GT(*std::max_element(first.map.values.begin(), first.map.values.end()), 0);
    }
  }

  bool tiled_ = false;
  Score score_ = Score::kMap;
  Precision precision_ = Precision::k8Bit;
  fs::path folder_;
  Compute compute_{2};
};

TEST_F(RegionTest, NothingOutsideCountsToTheLastBit) { expect_nothing_outside_counts(middle()); }

TEST_F(RegionTest, NorInTiles) {
  tiled_ = true;
  expect_nothing_outside_counts(two_parts());
}

TEST_F(RegionTest, NorByTheScoreOfPatchesInFloat) {
  score_ = Score::kPatch;
  precision_ = Precision::kFloat;
  expect_nothing_outside_counts(two_parts());
}

// Every pixel inside is judged: the patches are those whose place has one.
TEST_F(RegionTest, PatchesAreThoseThatTheRegionTouches) {
  const Extractor extractor(settings());
  const Image image = make_product("wood", 1, "", 1).image;
  for (const SharedRegion& region : {middle(), two_parts()}) {
    const Patches seen = extractor.extract(image, compute_, region);
    ASSERT_TRUE(seen.inside);
    const RegionRows rows = region_rows(*region, 256, 256);
    const Patches painted = extractor.extract(painted_outside(image, rows), compute_);
    std::vector<std::uint32_t> places;
    for (std::size_t r = 0; r < seen.grid_height; ++r) {
      for (std::size_t c = 0; c < seen.grid_width; ++c) {
        bool touched = false;
        for (std::size_t y = 0; y < 256; ++y) {
          const bool beside = 12 * (y + 1) <= 256 * r || 12 * y >= 256 * (r + 1);
          if (beside) continue;
          for (const PixelRun& run : rows[y]) {
            touched = touched || (12 * run.end > 256 * c && 12 * run.begin < 256 * (c + 1));
          }
        }
        if (touched) places.push_back(static_cast<std::uint32_t>(r * seen.grid_width + c));
      }
    }
    ASSERT_EQ(seen.grid_width, 12U);
    EXPECT_EQ(seen.inside->places, places);
    ASSERT_EQ(seen.vectors.rows(), places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(std::memcmp(seen.vectors.byte_data() + i * 64,
                            painted.vectors.byte_data() + places[i] * 64, 64),
                0);
    }
  }
}

// An image is judged by the product it is, whichever part of it that looks at.
TEST_F(RegionTest, ManyRegionsInOneMemory) {
  Detector detector = open("line.ccm");
  const SharedRegion gear = middle(), wood = two_parts();
  detector.learn(pieces("gear", gear, 1), task("gear", gear), compute_);
  detector.learn(pieces("wood", wood, 1), task("wood", wood), compute_);
  detector.learn(pieces("bottle_cap", {}, 0), task("bottle_cap"), compute_);
  const auto name_of = [&](const Inspection& seen) {
    return seen.task ? detector.memory().tasks()[*seen.task].name : "none";
  };
  for (std::size_t i = 50; i < 54; ++i) {
    const Image a = elsewhere(make_product("gear", i, "", 1).image, gear, i);
    EXPECT_EQ(name_of(detector.inspect(a, {}, compute_)), "gear");
    const Image b = elsewhere(make_product("wood", i, "", 1).image, wood, i);
    const Inspection seen = detector.inspect(b, {}, compute_);
    EXPECT_EQ(name_of(seen), "wood");
    InspectOptions pinned;
    pinned.task = "wood";
    EXPECT_EQ(detector.inspect(b, pinned, compute_).score, seen.score);
    const Image c = make_product("bottle_cap", i, "", 1).image;
    EXPECT_EQ(name_of(detector.inspect(c, {}, compute_)), "bottle_cap");
  }
  // Of another shape than the regions are: judged by those without.
  Image flat = make_product("bottle_cap", 60, "", 1).image;
  flat.height = 128;
  flat.rgb.resize(3 * flat.width * flat.height);
  EXPECT_EQ(name_of(detector.inspect(flat, {}, compute_)), "bottle_cap");
  InspectOptions pinned;
  pinned.task = "gear";
  expect_error(Error::Kind::kInput, "of the same shape",
               [&] { detector.inspect(flat, pinned, compute_); });
  // Patches that were seen otherwise are not judged.
  const Patches whole = detector.extractor().extract(flat, compute_);
  expect_error(Error::Kind::kUsage, "not seen through",
               [&] { inspect(detector.memory(), whole, pinned, compute_); });
}

// What one product's region shows, the other's images show as well, nearly: the nearer of the two
// is not the one whose images are the more alike.
TEST_F(RegionTest, AProductIsToldByHowAlikeItsOwnImagesAre) {
  const auto region_of = [](double left) {
    return of_polygons(256, {{{left, 20}, {left + 100, 20}, {left + 100, 236}, {left, 236}}});
  };
  const SharedRegion left = region_of(10), right = region_of(146);
  const auto likeness_in = [](std::vector<Resemblance> seen) {
    return [seen = std::move(seen), i = std::size_t{0}](const Patches&) mutable {
      return std::optional(seen[i++]);
    };
  };
  Detector detector = open("line.ccm");
  const Image image = make_product("gear", 1, "", 1).image;
  const auto chosen = [&](std::vector<Resemblance> seen) {
    return best_view(detector.extractor(), image, {left, right}, likeness_in(std::move(seen)),
                     compute_)
        .grid()
        .region();
  };
  EXPECT_EQ(chosen({{2, 4}, {1, 1}}), left);  // half of what is usual there
  EXPECT_EQ(chosen({{2, 1}, {3, 4}}), right);
  EXPECT_EQ(chosen({{2, 0}, {1, 1}}), right);  // not known of one: by the distance
  EXPECT_EQ(chosen({{1, 0}, {2, 8}}), left);
  EXPECT_EQ(chosen({{1, 1}, {1, 1}}), left);  // of several alike the first

  // And by a memory: an image of the mean product's own is about as far as is usual.
  detector.learn(pieces("gear", left, 1), task("gear", left), compute_);
  const Patches own = detector.extractor().extract(
      elsewhere(make_product("gear", 50, "", 1).image, left, 50), compute_, left);
  const auto found = resemblance(detector.memory(), own);
  ASSERT_TRUE(found);
  EXPECT_GT(found->usual, 0);
  EXPECT_LT(found->distance, 2 * found->usual);
  EXPECT_FALSE(
      resemblance(detector.memory(), detector.extractor().extract(image, compute_, right)));
}

// A program can give what no file could: it is refused before anything is learned.
TEST_F(RegionTest, RefusesWhatCouldNotBeReadAgain) {
  Detector detector = open("line.ccm");
  const auto with = [](double x, std::size_t points) {
    auto region = std::make_shared<RegionOfInterest>(*middle());
    region->polygons[0].resize(points, {x, 100});
    return region;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const SharedRegion& region :
       {SharedRegion(with(nan, 6)), SharedRegion(with(1e8, 6)), SharedRegion(with(5, 1001)),
        SharedRegion(with(5, 2)), std::make_shared<const RegionOfInterest>()}) {
    EXPECT_THROW(detector.learn(pieces("gear", {}, 0), task("gear", region), compute_), Error);
    const Image image = make_product("gear", 1, "", 1).image;
    EXPECT_THROW(detector.learn_online(image, task("gear", region), compute_), Error);
    EXPECT_THROW(detector.extractor().extract(image, compute_, region), Error);
    Memory memory = detector.memory().fresh();
    LearnHow how;
    how.task = "gear";
    how.region = region;
    const Vectors features(8, memory.dimension());
    EXPECT_THROW(memory.learn(features.view(), how, compute_), Error);
  }
  EXPECT_EQ(detector.memory().size(), 0u);
}

TEST_F(RegionTest, OneTaskHasOneRegion) {
  Detector detector = open("line.ccm");
  detector.learn(pieces("gear", {}, 0), task("gear"), compute_);
  detector.learn(pieces("wood", {}, 0), task("wood", middle()), compute_);
  const auto more = pieces("wood", {}, 0, 3);
  detector.learn(more, task("wood"), compute_);
  detector.learn(more, task("wood", middle()), compute_);  // equal, if not the same
  expect_error(Error::Kind::kInput, "forget the task",
               [&] { detector.learn(more, task("wood", two_parts()), compute_); });
  expect_error(Error::Kind::kInput, "without a region",
               [&] { detector.learn(more, task("gear", middle()), compute_); });
  const Image image = make_product("wood", 9, "", 1).image;
  expect_error(Error::Kind::kInput, "another region",
               [&] { detector.learn_online(image, task("wood", two_parts()), compute_); });
  detector.save(path("line.ccm"));
  Memory memory = Memory::open(path("line.ccm"));
  ASSERT_TRUE(memory.tasks()[1].region);
  EXPECT_EQ(*memory.tasks()[1].region, *middle());
  EXPECT_FALSE(memory.tasks()[0].region);
  memory.rename_task("wood", "oak");
  EXPECT_EQ(*memory.region_of("oak"), *middle());
  EXPECT_EQ(*memory.shrink(50, compute_).region_of("oak"), *middle());
  EXPECT_EQ(*memory.without_task("gear").region_of("oak"), *middle());
  EXPECT_FALSE(memory.without_task("oak").region_of("gear"));
  EXPECT_EQ(*memory.copy().region_of("oak"), *middle());
}

TEST_F(RegionTest, MergesTasksWithTheSameRegionAlone) {
  const auto made = [&](const std::string& name, const std::string& of,
                        const SharedRegion& region) {
    Detector detector = open(name);
    detector.learn(pieces("wood", {}, 0), task(of, region), compute_);
    detector.save(path(name));
    return Memory::open(path(name));
  };
  const Memory a = made("a.ccm", "wood", middle()), b = made("b.ccm", "wood", middle());
  const Memory c = made("c.ccm", "wood", two_parts()), d = made("d.ccm", "oak", nullptr);
  EXPECT_EQ(*Memory::merge(a, b, 300, compute_).region_of("wood"), *middle());
  const Memory apart = Memory::merge(d, a, 300, compute_);
  EXPECT_EQ(*apart.region_of("wood"), *middle());
  EXPECT_FALSE(apart.region_of("oak"));
  expect_error(Error::Kind::kInput, "another region", [&] { Memory::merge(a, c, 300, compute_); });
}

// What is left of a task whose first lesson is taken back is seen as it was.
TEST_F(RegionTest, LessonsAreTakenBackThroughTheRegion) { expect_lessons_are_taken_back(); }

TEST_F(RegionTest, AndInTiles) {
  tiled_ = true;
  expect_lessons_are_taken_back();
}

void RegionTest::expect_lessons_are_taken_back() {
  const auto teach = [&](const std::string& name, bool all) {
    {
      Detector detector = open(name);
      if (all) detector.learn(pieces("wood", {}, 0, 4), task("wood", middle()), compute_);
      LearnOptions later = task("wood", middle());
      detector.learn(pieces("wood", middle(), 3, 6), later, compute_);
      detector.save(path(name));
    }
    Detector detector = open(name);
    detector.learn(pieces("wood", middle(), 4, 3), task("wood"), compute_);
    detector.rename_task("wood", "oak");
    LearnOptions online = task("oak");
    online.online = true;
    detector.learn(pieces("wood", middle(), 5, 2), online, compute_);
    detector.save(path(name));
  };
  teach("all.ccm", true);
  teach("rest.ccm", false);
  Detector detector = open("all.ccm");
  detector.forget({{detector.lessons()[0].id}, {}, true}, compute_);
  detector.save(path("all.ccm"));
  EXPECT_EQ(bytes("all.ccm"), bytes("rest.ccm"));
}

TEST_F(RegionTest, RefusesWhatTheNetworkDoesNotSee) {
  ExtractorOptions options = settings();
  options.geometry = Geometry::parse("128", "64");
  const Extractor extractor(options);
  const Image image = make_product("wood", 1, "", 1).image;
  const SharedRegion corner = of_polygons(256, {{{0, 0}, {30, 0}, {0, 30}}});
  expect_error(Error::Kind::kInput, "what the network sees",
               [&] { extractor.extract(image, compute_, corner); });
  Image wide = image;
  wide.height = 128;
  wide.rgb.resize(3 * wide.width * wide.height);
  expect_error(Error::Kind::kInput, "same shape",
               [&] { extractor.extract(wide, compute_, middle()); });
  // Smaller than a patch, but there.
  const SharedRegion dot = of_polygons(256, {{{127, 127}, {129, 127}, {129, 129}, {127, 129}}});
  EXPECT_GE(extractor.extract(image, compute_, dot).vectors.rows(), 1U);
}

// A task of a region that has a single patch goes through all that others do.
TEST_F(RegionTest, LearnsFromOnePatch) {
  const SharedRegion dot = of_polygons(256, {{{130, 130}, {132, 130}, {132, 132}, {130, 132}}});
  Detector detector = open("line.ccm");
  const LearnReport report = detector.learn(pieces("wood", {}, 0), task("dot", dot), compute_);
  EXPECT_EQ(report.patches, report.learned);
  const Inspection seen = detector.inspect(make_product("wood", 70, "", 1).image, {}, compute_);
  EXPECT_GE(seen.score, 0);
}

// A defect inside is found as well at the region's edge as without a region; one outside is not.
TEST(RegionOfAVerdict, EndsWhereNothingIsLookedAt) {
  const RegionRows inside = {{}, {{2, 5}, {8, 9}}, {{3, 4}}, {}};
  const auto expect = [&](Region all, Region part) { EXPECT_EQ(clipped(all, inside), part); };
  expect({0, 0, 10, 4, 40, 7}, {2, 1, 7, 2, 5, 7});
  expect({0, 0, 10, 4, 3, 7}, {2, 1, 7, 2, 3, 7});
  expect({4, 1, 2, 2, 4, 7}, {4, 1, 1, 1, 1, 7});
  expect({8, 0, 2, 9, 18, 7}, {8, 1, 1, 1, 1, 7});
  EXPECT_EQ(clipped({5, 0, 3, 4, 12, 7}, inside).area, 0U);
  EXPECT_EQ(clipped({0, 9, 9, 9, 81, 7}, inside).area, 0U);
}

// In strips that are lower than a patch, wherever they lie in the grid.
TEST_F(RegionTest, VerdictsPointAtSomethingInside) {
  InspectOptions options;
  options.task = "gear";
  options.false_alarms = 0.9;  // what is found is not the question
  for (const auto& [top, bottom] :
       {std::pair<std::size_t, std::size_t>{100, 106}, {103, 110}, {105, 107}, {107, 112}}) {
    const auto y = static_cast<double>(top), end = static_cast<double>(bottom);
    const SharedRegion region = of_polygons(256, {{{20, y}, {230, y}, {230, end}, {20, end}}});
    Detector detector = open("line" + std::to_string(top) + ".ccm");
    detector.learn(pieces("gear", region, top, 24), task("gear", region), compute_);
    std::size_t shown = 0;
    for (std::size_t left = 30; left < 150; left += 20) {
      const Image bad = with_blot(make_product("gear", 50, "", 1).image, left, 80);
      const Inspection seen = detector.inspect(bad, options, compute_);
      const bool is_far = seen.score > seen.threshold->score;
      const float peak = *std::max_element(seen.map.values.begin(), seen.map.values.end());
      EXPECT_EQ(is_far, peak > seen.level) << top << " " << left;
      EXPECT_EQ(is_far, !seen.regions.empty()) << top << " " << left;
      for (const Region& one : seen.regions) {
        EXPECT_GE(one.y, top);
        EXPECT_LE(one.y + one.height, bottom);
        EXPECT_GE(one.x, 20U);
        EXPECT_LE(one.x + one.width, 230U);
        EXPECT_GT(one.area, 0U);
        EXPECT_LE(one.area, one.width * one.height);
        ++shown;
      }
    }
    EXPECT_GT(shown, 3U) << top;
  }
}

TEST_F(RegionTest, TheMapGoesOnBeyondTheEdge) {
  auto half = std::make_shared<GridRegion>();
  const PatchGrid whole{12, 12, 96, 96};
  std::vector<float> distances(144, 1.0F), inside;
  distances[6 * 12 + 3] = 9;  // beside the edge between columns 3 and 4
  for (std::uint32_t place = 0; place < 144; ++place) {
    if (place % 12 > 3) continue;
    half->places.push_back(place);
    inside.push_back(distances[place]);
  }
  PatchGrid grid = whole;
  grid.inside = half;
  const Map all = anomaly_map(distances, whole), seen = anomaly_map(inside, grid);
  for (std::size_t y = 0; y < 96; ++y) {
    for (std::size_t x = 0; x < 96; ++x) {
      if (x >= 32) {
        EXPECT_EQ(seen.values[y * 96 + x], 0);
      } else {
        EXPECT_GE(seen.values[y * 96 + x], all.values[y * 96 + x]);
        if (x < 8) {
          EXPECT_EQ(seen.values[y * 96 + x], all.values[y * 96 + x]);
        }
      }
    }
  }
  EXPECT_EQ(image_score(inside, grid, Score::kMap),
            *std::max_element(seen.values.begin(), seen.values.end()));
  EXPECT_EQ(image_score(inside, grid, Score::kPatch), 9);
  EXPECT_THROW(image_score(distances, grid, Score::kMap), Error);
  std::vector<float> zeroed = distances;
  for (std::size_t i = 0; i < 144; ++i) zeroed[i] *= i % 12 > 3 ? 0.0F : 1.0F;
  EXPECT_EQ(on_grid(inside, grid), zeroed);
}

TEST_F(RegionTest, IsReadFromAMaskOrFromText) {
  const SharedRegion drawn = middle();
  std::ofstream(path("region.json")) << "\n " << region_text(*drawn);
  EXPECT_EQ(*read_region(path("region.json")), *drawn);
  Image mask{256, 256, std::vector<std::uint8_t>(std::size_t{256} * 256 * 3, 1)};
  for (std::size_t i = 0; i < mask.rgb.size(); ++i) {
    if (i / 3 % 256 < 100) mask.rgb[i] = 0;
  }
  write_image(path("mask.png"), mask);
  const SharedRegion read = read_region(path("mask.png"));
  EXPECT_EQ(region_rows(*read, 256, 256)[7], (std::vector<PixelRun>{{100, 256}}));
  std::fill(mask.rgb.begin(), mask.rgb.end(), std::uint8_t{0});
  write_image(path("black.png"), mask);
  expect_error(Error::Kind::kInput, "black.png: no pixel", [&] { read_region(path("black.png")); });
  std::fill(mask.rgb.begin(), mask.rgb.end(), std::uint8_t{255});
  write_image(path("white.png"), mask);
  expect_error(Error::Kind::kInput, "whole image", [&] { read_region(path("white.png")); });
  std::ofstream(path("bad.json")) << "{\"width\": 3";
  expect_error(Error::Kind::kInput, "bad.json: a region is",
               [&] { read_region(path("bad.json")); });
  const std::uint8_t deep[] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I',
                               'H',  'D', 'R', 0,   0,  0,  4,  0,  0, 0, 4, 16};
  std::ofstream(path("deep.png")).write(reinterpret_cast<const char*>(deep), sizeof deep);
  expect_error(Error::Kind::kInput, "deep.png: a mask has 8 bits",
               [&] { read_region(path("deep.png")); });
  expect_error(Error::Kind::kInput, "none.png", [&] { read_region(path("none.png")); });
}

}  // namespace
}  // namespace contcore
