// The memory's file: what is saved comes back, and what is not whole does not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/safetensors.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "memory/naive_memory.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using naive::bits;
using naive::Dice;
using naive::expect_error;
using naive::Family;
using naive::how_to;
using naive::Set;

constexpr std::size_t kD = 3;

/// What a memory shows, in words.
std::string shown(const Memory& memory) {
  std::ostringstream out;
  out << std::hexfloat << memory.dimension() << ' ' << memory.capacity() << ' ' << memory.size()
      << ' ' << memory.consolidation().q << ' ' << memory.certificate() << '\n';
  for (const TaskRecord& task : memory.tasks()) {
    out << task.name << ' ' << task.images << ' ' << task.patches << ' ' << task.picked << ' '
        << task.epsilon << ' ' << task.epsilon_hat << ' ' << task.learned << '\n';
  }
  const Vectors vectors = memory.vectors();
  for (std::size_t i = 0; i < vectors.rows() * vectors.cols(); ++i) {
    out << bits(vectors.data()[i]) << ' ';
  }
  for (const std::int32_t origin : memory.origins()) out << origin << ' ';
  for (const float radius : memory.radii()) out << radius << ' ';
  for (const auto& [key, value] : memory.source) out << key << '=' << value << '\n';
  std::size_t t = 0;
  for (const TaskState& state : memory.states()) {
    out << state.vectors << ' ' << state.calibrated << ' ' << state.first_score << ' '
        << state.score;
    for (const double rate : {0.01, 0.05, 0.3}) {
      if (const auto limit = memory.threshold(t, rate)) {
        out << ' ' << limit->score << ' ' << limit->false_alarms << ' ' << limit->images;
      }
    }
    ++t;
    out << '\n';
  }
  const Set queries = naive::make(Family::kGaussian, 10, memory.dimension(), 1, 2);
  if (memory.size() > 0) {
    for (const float far : memory.distances(queries.view(), naive::crew(0))) out << far << ' ';
  }
  const std::optional<std::size_t> task = memory.recognise(queries.view());
  if (task) out << "task " << *task;
  return out.str();
}

Memory example(double q = 0.75, std::size_t m = 8) {
  Memory memory(kD, m, Consolidate::paper(q));
  memory.source = {{"backbone", "resnet50 \"x\"\n"}, {"layers", "2,3"}, {"", "empty"}};
  for (std::size_t t = 0; t < 2; ++t) {
    const std::string task = t == 0 ? "bottle" : "Kabel \"grün\" \\ 漢";
    const Set features = naive::make(Family::kClusters, 20, kD, t, t);
    memory.learn(features.view(), how_to(task, 0.3), naive::crew(0));
    for (std::size_t i = 0; i < 3; ++i) {
      const Set image = naive::make(Family::kClusters, 4, kD, t, 10 + i);
      naive::calibrate(memory, image, task);
    }
    const std::uint64_t learned[] = {(t + 1) << 33, (t + 2) << 34, ~std::uint64_t{0} >> 1};
    memory.calibrate(task, {}, {}, Memory::Keep::kLatest, learned);
    auto suspects = std::make_shared<Suspects>();
    suspects->patches = Vectors(2, kD);
    suspects->distances = suspects->values = {2, 1};
    const ImageScores strange{3, {2, 3}, 77, suspects};
    memory.calibrate(task, std::span(&strange, 1), {}, Memory::Keep::kLatest);
    for (std::uint64_t i = 1; i <= 10; ++i) {
      const Set defect = naive::make(Family::kGaussian, 1, kD, 1, 50 + i);
      memory.learn_defect(task, defect.view(), i, naive::crew(0));
    }
  }
  return memory;
}

class MemoryFile : public naive::MemoryTest {
 protected:
  /// Opening it must fail as it should, naming the file.
  void expect_refused(const std::string& file, const std::string& what) const {
    try {
      Memory::open(file);
      ADD_FAILURE() << what << ": was opened";
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == Error::Kind::kDamaged || error.kind() == Error::Kind::kInput)
          << what << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": " << error.what();
    }
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
};

// ---------------------------------------------------------------- there and back

TEST_F(MemoryFile, ComesBackAsItWas) {
  for (std::size_t seed = 0; seed < naive::cases(25) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 9500000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.between(1, 20);
    const std::size_t m = dice.between(1, 25);
    Memory memory(d, m, Consolidate::paper(dice.pick({0.0, 0.1, 0.5, 0.75, 1.0 / 3, 1.0})));
    memory.source = {{"backbone", "abc"}};
    const std::vector<naive::Step> steps = naive::story(dice, family, d, 6, 20);
    for (std::size_t s = 0; s < 4; ++s) {
      memory.learn(steps[s].features.view(), steps[s].how, naive::crew(0));
      naive::calibrate(memory, steps[s].features, steps[s].how.task);
    }
    Memory again = reopened(memory);
    ASSERT_EQ(shown(again), shown(memory)) << "seed " << seed;
    ASSERT_EQ(bytes_of(again) == bytes_of(memory), true) << "seed " << seed;
    ASSERT_EQ(shown(again.shrink(m / 2 + 1, naive::crew(0))),
              shown(memory.shrink(m / 2 + 1, naive::crew(0))));
    ASSERT_EQ(shown(Memory::merge(again, memory, m, naive::crew(0))),
              shown(Memory::merge(memory, again, m, naive::crew(0))));
    memory.learn_online(steps[4].features.view(), steps[4].how, naive::crew(0));
    again.learn_online(steps[4].features.view(), steps[4].how, naive::crew(0));
    memory.learn(steps[5].features.view(), steps[5].how, naive::crew(0));
    again.learn(steps[5].features.view(), steps[5].how, naive::crew(0));
    ASSERT_EQ(shown(again), shown(memory)) << "seed " << seed << ", later";
    ASSERT_EQ(bytes_of(again) == bytes_of(memory), true) << "seed " << seed << ", later";
  }
}

TEST_F(MemoryFile, TextComesBackAsItWas) {
  const Memory memory = example();
  EXPECT_EQ(shown(reopened(memory)), shown(memory));
  // Names that are no UTF-8 (from a folder's name, say) must not turn into others.
  Memory odd(kD, 8);
  const Set features = naive::make(Family::kGaussian, 5, kD, 1, 1);
  expect_error(Error::Kind::kInput,
               [&] { odd.learn(features.view(), how_to("gr\xfcn", 1), naive::crew(0)); });
}

TEST_F(MemoryFile, AnEmptyMemoryComesBack) {
  Memory empty(kD, 8, Consolidate::paper(0.5));
  empty.source["backbone"] = "abc";
  Memory again = reopened(empty);
  EXPECT_EQ(shown(again), shown(empty));
  const Set features = naive::make(Family::kGaussian, 20, kD, 1, 1);
  again.learn_online(features.view(), how_to("a", 0.5), naive::crew(0));
  empty.learn_online(features.view(), how_to("a", 0.5), naive::crew(0));
  EXPECT_EQ(shown(again), shown(empty));
}

TEST_F(MemoryFile, TheSameContentIsTheSameBytes) {
  const std::string once = bytes_of(example());
  EXPECT_EQ(bytes_of(example()) == once, true);
  EXPECT_EQ(once.size() % 4, 0u);
  EXPECT_NE(bytes_of(example(0.5)) == once, true);
}

// ---------------------------------------------------------------- damage

TEST_F(MemoryFile, NoBitMayChange) {
  const std::string file = path("flipped");
  example().save(file);
  const std::string good = read_bytes(file);
  std::uint64_t length = 0;
  std::memcpy(&length, good.data(), 8);
  const std::size_t header = 8 + static_cast<std::size_t>(length);
  ASSERT_LT(header, good.size());
  const int fd = ::open(file.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  const auto put = [&](std::size_t at, char byte) {
    ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
  };
  Dice dice(1);
  for (std::size_t at = 0; at < good.size() && !HasFailure(); ++at) {
    // All bits of the header; of the rest, and under a sanitizer, one for each byte.
    const bool all = at < 8 || (at < header && !naive::slow());
    for (std::size_t bit = all ? 0 : dice.below(8); bit < 8; bit = all ? bit + 1 : 8) {
      put(at, static_cast<char>(good[at] ^ (1 << bit)));
      expect_refused(file, "bit " + std::to_string(bit) + " of byte " + std::to_string(at));
    }
    put(at, good[at]);
  }
  ::close(fd);
  EXPECT_EQ(read_bytes(file) == good, true);
  EXPECT_EQ(shown(Memory::open(file)), shown(example()));
}

TEST_F(MemoryFile, NoByteMayBeMissingOrMore) {
  const std::string file = path("cut");
  example().save(file);
  const std::string good = read_bytes(file);
  for (std::size_t size = good.size(); size-- > 0 && !HasFailure();) {
    fs::resize_file(file, size);
    expect_refused(file, "cut to " + std::to_string(size));
  }
  for (const std::string& more : {std::string(1, '\0'), std::string("    "), good}) {
    write_bytes(file, good + more);
    expect_refused(file, "longer");
    write_bytes(file, more + good);
    if (more != good) expect_refused(file, "later");
  }
}

TEST_F(MemoryFile, OtherFilesAreNotMemories) {
  const std::string file = path("other");
  const auto refused = [&](const std::string& bytes) {
    write_bytes(file, bytes);
    expect_error(Error::Kind::kInput, [&] { Memory::open(file); });
  };
  refused("");
  refused("x");
  refused("hello, this is some text and no memory at all\n");
  refused(std::string("\x93NUMPY\x01\x00v\x00", 10) + "{'descr': '<f4', 'shape': (1, 2), }\n");
  refused(std::string(100000, '\0'));
  refused(std::string(100000, '\xff'));
  refused("{\"a\": 1, \"b\": [1, 2, 3]}");
  write_safetensors(file, {{"format", "something else"}}, {});
  expect_error(Error::Kind::kInput, [&] { Memory::open(file); });
  write_safetensors(file, {}, {});
  expect_error(Error::Kind::kInput, [&] { Memory::open(file); });
  expect_error(Error::Kind::kInput, [&] { Memory::open(path("missing")); });
  expect_error(Error::Kind::kInput, [&] { Memory::open(folder_.string()); });
  expect_error(Error::Kind::kInput, [&] { Memory::open("/dev/null"); });
  expect_error(Error::Kind::kInput, [&] { Memory::open(""); });
}

// ---------------------------------------------------------------- wrong, with the right checksum

struct Array {
  std::string dtype;
  std::vector<std::size_t> shape;
  std::vector<std::byte> bytes;

  template <class T>
  T& at(std::size_t i) {
    return reinterpret_cast<T*>(bytes.data())[i];
  }
};

/// A file's content, to be changed and written with a checksum that is right.
struct Content {
  std::map<std::string, std::string> text;
  std::map<std::string, Array> arrays;

  explicit Content(const std::string& file) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    const nlohmann::json header = nlohmann::json::parse(file.substr(8, length));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        text = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      Array array{entry["dtype"], entry["shape"], {}};
      const std::size_t begin = entry["data_offsets"][0];
      const std::size_t end = entry["data_offsets"][1];
      const auto* data = reinterpret_cast<const std::byte*>(file.data() + 8 + length);
      array.bytes.assign(data + begin, data + end);
      arrays[name] = std::move(array);
    }
    text.erase("sha256");
  }

  void write(const std::string& path) const {
    std::vector<TensorView> tensors;
    for (const auto& [name, array] : arrays) {
      TensorView& view = tensors.emplace_back(name, array.shape, std::span<const float>());
      view.dtype = array.dtype;
      view.bytes = array.bytes;
    }
    write_safetensors(path, text, tensors);
  }
};

// A name that no new task may have stays what it is where it is known.
TEST_F(MemoryFile, OddNamesOfOldFilesStay) {
  const std::string odd = " bottle\t\x01\u200b";
  Content old(bytes_of(example()));
  std::string& tasks = old.text["tasks"];
  tasks.replace(tasks.find("bottle"), 6, " bottle\\t\\u0001\\u200b");
  const std::string file = path("odd");
  old.write(file);
  Memory memory = Memory::open(file);
  ASSERT_EQ(memory.tasks()[0].name, odd);
  EXPECT_EQ(shown(reopened(memory)), shown(memory));
  const Set features = naive::make(Family::kGaussian, 5, kD, 1, 1);
  memory.learn(features.view(), how_to(odd, 1), naive::crew(0));
  memory.learn_online(features.view(), how_to(odd, 1), naive::crew(0));
  EXPECT_EQ(memory.tasks().size(), 2u);
  memory.learn(features.view(), how_to("caf\u00e9", 1), naive::crew(0));
  for (const std::string name : {"", " ", " bottle", "a\u200b", "a\x1b[2J", "cafe\u0301"}) {
    expect_error(Error::Kind::kInput,
                 [&] { memory.learn(features.view(), how_to(name, 1), naive::crew(0)); });
    expect_error(Error::Kind::kInput,
                 [&] { memory.learn_online(features.view(), how_to(name, 1), naive::crew(0)); });
  }
  EXPECT_EQ(memory.tasks().size(), 3u);
}

// The file of an earlier version: images were held out, with patches to be scored again.
TEST_F(MemoryFile, OfAnEarlierVersionIsReadAndGoesOn) {
  Memory learned(kD, 200);
  const Set features = naive::make(Family::kGaussian, 400, kD, 1, 1);
  learned.learn(features.view(), how_to("a", 0.5), naive::crew(0));
  Content old(bytes_of(learned));
  for (const char* name : {"vectors", "first", "level", "end", "scores", "mean_of"}) {
    old.arrays.erase(std::string("calibration.") + name);
  }
  old.text["format"] = "contcore memory 1";
  std::string& tasks = old.text["tasks"];
  tasks.insert(tasks.find("\"images\""), "\"held\":2,");
  const Set held = naive::make(Family::kGaussian, 6, kD, 1, 2);  // two images of three patches
  const std::vector<float> distances = learned.distances(held.view(), naive::crew(0));
  const float score[] = {*std::max_element(distances.begin(), distances.begin() + 3),
                         *std::max_element(distances.begin() + 3, distances.end())};
  const auto add = [&](const std::string& name, const std::string& dtype,
                       std::vector<std::size_t> shape, const void* values) {
    Array& array = old.arrays["calibration." + name];
    array.dtype = dtype;
    array.shape = std::move(shape);
    std::size_t bytes = 4;
    for (const std::size_t n : array.shape) bytes *= n;
    const auto* from = static_cast<const std::byte*>(values);
    array.bytes.assign(from, from + bytes);
  };
  const std::int32_t image[] = {0, 0, 0, 1, 1, 1};
  const std::int32_t none[] = {0, 0};
  add("means", "F32", {2, kD}, held.view().row(1, nullptr));
  add("task", "I32", {2}, none);
  add("first", "F32", {2}, score);
  add("score", "F32", {2}, score);
  add("patches", "F32", {6, kD}, held.view().row(0, nullptr));
  add("image", "I32", {6}, image);
  const std::string file = path("old");
  old.write(file);

  Memory memory = Memory::open(file);
  EXPECT_EQ(memory.states()[0].calibrated, 2u);
  EXPECT_EQ(memory.threshold(0, 0.05)->score, std::max(score[0], score[1]));
  EXPECT_EQ(memory.recognise(held.view()), 0u);
  // Saved anew it says the same, of this version.
  const Memory again = reopened(memory);
  EXPECT_EQ(again.calibration_scores(0), memory.calibration_scores(0));
  EXPECT_EQ(Content(bytes_of(memory)).text["format"], "contcore memory 2");
  // With half of its vectors the patches score what they do then.
  for (const Memory* opened : {static_cast<const Memory*>(&memory), &again}) {
    const Memory half = opened->shrink(100, naive::crew(0));
    const auto now = half.distances(held.view(), naive::crew(0));
    EXPECT_EQ(half.threshold(0, 0.05)->score, *std::max_element(now.begin(), now.end()));
  }
  // And it learns on.
  memory.learn(features.view(), how_to("b", 0.5), naive::crew(0));
  naive::calibrate(memory, held, "a");
  EXPECT_EQ(memory.states()[0].vectors, 100u);
  EXPECT_EQ(memory.calibration_scores(0).size(), 3u);
  EXPECT_EQ(shown(reopened(memory)), shown(memory));

  Content damaged(bytes_of(learned));
  damaged.text["format"] = "contcore memory 1";
  damaged.write(file);
  expect_refused(file, "no patches");
  for (const char* name : {"calibration.first", "calibration.score"}) {
    Content endless = old;
    endless.arrays[name].at<float>(1) = std::numeric_limits<float>::infinity();
    endless.write(file);
    expect_refused(file, name);
  }
  old.arrays["calibration.image"].at<std::int32_t>(0) = 99;
  old.write(file);
  expect_refused(file, "image 99");
}

// Known defects, and the suspects of good images that calibrate them.
TEST_F(MemoryFile, KnownDefectsThatDoNotAgreeAreRefused) {
  Memory memory(kD, 50);
  const Set features = naive::make(Family::kGaussian, 100, kD, 1, 1);
  for (const char* task : {"a", "b"}) {
    memory.learn(features.view(), how_to(task, 0.2), naive::crew(0));
    for (std::uint64_t i = 1; i <= 2; ++i) {
      auto suspects = std::make_shared<Suspects>();
      suspects->patches = Vectors(2, kD);
      suspects->distances = suspects->values = {2, 1};
      const ImageScores scores{20, {2, 3}, i, suspects};
      memory.calibrate(task, std::span(&scores, 1), {}, Memory::Keep::kLatest);
      const Set defect = naive::make(Family::kGaussian, 3, kD, 1, 10 + i);
      memory.learn_defect(task, defect.view(), i, naive::crew(0));
    }
  }
  const Content good(bytes_of(memory));
  const std::string file = path("hostile");
  good.write(file);
  ASSERT_EQ(Memory::open(file).known_defects(1).patches, 6u);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto number = [](Content& c, const char* name, std::size_t i) -> std::int32_t& {
    return c.arrays[name].at<std::int32_t>(i);
  };
  const auto shorter = [](Content& c, const char* name, std::size_t row) {
    Array& array = c.arrays[name];
    array.bytes.resize(array.bytes.size() - row);
    --array.shape[0];
  };
  const std::vector<std::pair<std::string, std::function<void(Content&)>>> wrongs = {
      {"NaN suspect", [&](Content& c) { c.arrays["suspects.patches"].at<float>(1) = nan; }},
      {"NaN distance", [&](Content& c) { c.arrays["suspects.distance"].at<float>(1) = nan; }},
      {"negative value", [&](Content& c) { c.arrays["suspects.value"].at<float>(1) = -1; }},
      {"suspect of nobody", [&](Content& c) { number(c, "suspects.image", 7) = 4; }},
      {"suspects unsorted",
       [&](Content& c) {
         number(c, "suspects.image", 0) = 1;
         number(c, "suspects.image", 1) = 0;
       }},
      {"too many suspects",
       [&](Content& c) {
         for (std::size_t i = 0; i < 8; ++i) number(c, "suspects.image", i) = 0;
       }},
      {"a distance too few", [&](Content& c) { shorter(c, "suspects.distance", 4); }},
      {"a value too few", [&](Content& c) { shorter(c, "suspects.value", 4); }},
      {"NaN defect", [&](Content& c) { c.arrays["defects.patches"].at<float>(1) = nan; }},
      {"defect of no task", [&](Content& c) { number(c, "defects.patch_of", 11) = 2; }},
      {"defects unsorted", [&](Content& c) { number(c, "defects.patch_of", 0) = 1; }},
      {"a defect too few", [&](Content& c) { shorter(c, "defects.patches", 4 * kD); }},
      {"image of no task", [&](Content& c) { number(c, "defects.image_of", 0) = -1; }},
      {"an image twice", [&](Content& c) { number(c, "defects.image", 0) = 2; }},
      {"half an image", [&](Content& c) { shorter(c, "defects.image", 4); }},
      {"bytes among floats",
       [&](Content& c) {
         c.arrays["defects.patches"].dtype = "U8";
         c.arrays["defects.patches"].shape[1] *= 4;
       }},
      {"no suspects at all", [&](Content& c) { c.arrays.erase("suspects.patches"); }},
  };
  for (const auto& [what, change] : wrongs) {
    Content changed = good;
    change(changed);
    changed.write(file);
    expect_refused(file, what);
  }
  // An earlier version's file has none of them, and is read.
  Content earlier = good;
  std::erase_if(earlier.arrays, [](const auto& array) {
    return array.first.starts_with("suspects.") || array.first.starts_with("defects.");
  });
  earlier.write(file);
  EXPECT_EQ(Memory::open(file).known_defects(0).images, 0u);
  EXPECT_EQ(Memory::open(file).calibration_scores(0), memory.calibration_scores(0));
}

TEST_F(MemoryFile, WhatDoesNotAgreeIsRefused) {
  const Content good(bytes_of(example()));
  const std::string file = path("hostile");
  good.write(file);
  ASSERT_EQ(shown(Memory::open(file)), shown(example()));
  const std::size_t n = example().size();

  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<std::pair<std::string, std::function<void(Content&)>>> wrongs = {
      {"NaN vector", [&](Content& c) { c.arrays["vectors"].at<float>(4) = nan; }},
      {"infinite vector", [&](Content& c) { c.arrays["vectors"].at<float>(0) = infinity; }},
      {"NaN mean", [&](Content& c) { c.arrays["calibration.means"].at<float>(1) = nan; }},
      {"NaN radius", [&](Content& c) { c.arrays["radius"].at<float>(1) = nan; }},
      {"NaN slack", [&](Content& c) { c.arrays["slack"].at<float>(1) = nan; }},
      {"negative slack", [&](Content& c) { c.arrays["slack"].at<float>(1) = -1; }},
      {"NaN score", [&](Content& c) { c.arrays["calibration.scores"].at<float>(1) = nan; }},
      {"infinite score",
       [&](Content& c) { c.arrays["calibration.scores"].at<float>(1) = infinity; }},
      {"negative score", [&](Content& c) { c.arrays["calibration.scores"].at<float>(1) = -1; }},
      {"NaN first score", [&](Content& c) { c.arrays["calibration.first"].at<float>(1) = nan; }},
      {"NaN strangeness", [&](Content& c) { c.arrays["calibration.strange"].at<float>(1) = nan; }},
      {"infinite strangeness",
       [&](Content& c) { c.arrays["calibration.strange"].at<float>(0) = infinity; }},
      {"negative strangeness",
       [&](Content& c) { c.arrays["calibration.strange"].at<float>(0) = -1; }},
      {"no vectors", [&](Content& c) { c.arrays["calibration.vectors"].at<std::int32_t>(1) = 0; }},
      {"level -1", [&](Content& c) { c.arrays["calibration.level"].at<std::int32_t>(1) = -1; }},
      {"level 32", [&](Content& c) { c.arrays["calibration.level"].at<std::int32_t>(1) = 32; }},
      {"a hash too few",
       [&](Content& c) {
         Array& hash = c.arrays["calibration.hash"];
         hash.bytes.resize(hash.bytes.size() - 4);
         --hash.shape[0];
       }},
      {"hashes that do not rise",
       [&](Content& c) {
         Array& hash = c.arrays["learned.hash"];
         hash.at<std::int32_t>(1) = hash.at<std::int32_t>(0);
       }},
      {"a hash above its limit",
       [&](Content& c) {
         Array& limit = c.arrays["learned.limit"];
         limit.at<std::int32_t>(0) = c.arrays["learned.hash"].at<std::int32_t>(0);
       }},
      {"hashes of nobody", [&](Content& c) { c.arrays["learned.end"].at<std::int32_t>(1) = 2; }},
      {"hashes behind the last",
       [&](Content& c) { c.arrays["learned.end"].at<std::int32_t>(1) = 1 << 30; }},
      {"an end before its beginning",
       [&](Content& c) { c.arrays["learned.end"].at<std::int32_t>(0) = -1; }},
      {"a limit too few",
       [&](Content& c) {
         Array& limit = c.arrays["learned.limit"];
         limit.bytes.resize(limit.bytes.size() - 4);
         --limit.shape[0];
       }},
      {"an image without scores",
       [&](Content& c) {
         Array& end = c.arrays["calibration.end"];
         end.at<std::int32_t>(1) = end.at<std::int32_t>(0);
       }},
      {"scores behind the last",
       [&](Content& c) { c.arrays["calibration.end"].at<std::int32_t>(5) = 99; }},
      {"scores of nobody",
       [&](Content& c) {
         Array& scores = c.arrays["calibration.scores"];
         scores.bytes.resize(scores.bytes.size() + 4);
         ++scores.shape[0];
       }},
      {"a score that falls with fewer vectors",
       [&](Content& c) {
         Array& end = c.arrays["calibration.end"];  // one image has two scores, the next none
         c.arrays["calibration.scores"].at<float>(0) = 1e9F;
         end.at<std::int32_t>(0) = 2;
         Array& level = c.arrays["calibration.level"];
         level.at<std::int32_t>(0) = 0;
       }},
      {"mean of task 2",
       [&](Content& c) { c.arrays["calibration.mean_of"].at<std::int32_t>(0) = 2; }},
      {"origin 2", [&](Content& c) { c.arrays["origin"].at<std::int32_t>(2) = 2; }},
      {"origin -1", [&](Content& c) { c.arrays["origin"].at<std::int32_t>(2) = -1; }},
      {"task 2", [&](Content& c) { c.arrays["calibration.task"].at<std::int32_t>(0) = 2; }},
      {"task -5", [&](Content& c) { c.arrays["calibration.task"].at<std::int32_t>(0) = -5; }},
      {"capacity below", [&](Content& c) { c.text["capacity"] = std::to_string(n - 1); }},
      {"no tasks", [](Content& c) { c.text["tasks"] = "[]"; }},
      {"q 2", [](Content& c) { c.text["q"] = "2"; }},
      {"q nan", [](Content& c) { c.text["q"] = "nan"; }},
      {"negative covering",
       [](Content& c) {
         std::string& tasks = c.text["tasks"];
         const std::size_t at = tasks.find("\"covering\":") + 11;
         tasks.insert(at, "-1");
       }},
      {"another version", [](Content& c) { c.text["format"] += "0"; }},
      {"a dimension without end",
       [](Content& c) {
         for (auto& [name, array] : c.arrays) {
           array.bytes.clear();
           array.shape[0] = 0;
           if (array.shape.size() == 2) array.shape[1] = std::size_t{1} << 60;
         }
       }},
      {"no dimensions",
       [&](Content& c) {
         c.arrays["vectors"].shape = {n, 0};
         c.arrays["vectors"].bytes.clear();
       }},
      {"more columns",
       [&](Content& c) {
         c.arrays["vectors"].shape = {kD, n};
       }},
      {"other columns",
       [](Content& c) {
         Array& means = c.arrays["calibration.means"];
         means.shape = {means.shape[1], means.shape[0]};
       }},
  };
  for (const char* bad : {"", "x", "-1", "0", "1.5", "nan", "inf", "1e999",
                          "12345678901234567890123", "8 ", " 8", "8x"}) {
    wrongs.emplace_back(std::string("capacity '") + bad + "'",
                        [bad](Content& c) { c.text["capacity"] = bad; });
  }
  for (const char* bad : {"", "x", "[", "5", "\"x\"", "{}", "null", "[1]", "[{}]", "[null]",
                          "[[[[[[[[", "[{\"name\": 5}]", "[{\"name\": \"a\"}]"}) {
    wrongs.emplace_back(std::string("tasks ") + bad, [bad](Content& c) { c.text["tasks"] = bad; });
  }
  // Numbers in the list of tasks that no memory has; the first would be undefined to convert.
  for (const char* bad : {"\"images\":1e300,", "\"images\":-1,", "\"patches\":0.5,",
                          "\"picked\":null,", "\"epsilon\":-1,", "\"epsilon_hat\":1e300,"}) {
    wrongs.emplace_back(std::string("tasks with ") + bad, [bad](Content& c) {
      std::string& tasks = c.text["tasks"];
      const std::string key = std::string(bad).substr(0, std::string(bad).find(':') + 1);
      const std::size_t at = tasks.find(key);
      tasks.replace(at, tasks.find(',', at) + 1 - at, bad);
    });
  }
  for (const auto& [key, value] : good.text) {
    if (key.starts_with("source.")) continue;
    if (key == "consolidate") continue;  // earlier versions did not say it
    wrongs.emplace_back("no " + key, [k = key](Content& c) { c.text.erase(k); });
  }
  for (const auto& [name, array] : good.arrays) {
    if (name != "calibration.strange") {  // earlier versions did not have it
      wrongs.emplace_back("no " + name, [k = name](Content& c) { c.arrays.erase(k); });
    }
    wrongs.emplace_back("another type of " + name, [k = name](Content& c) {
      c.arrays[k].dtype = c.arrays[k].dtype == "F32" ? "I32" : "F32";
    });
    wrongs.emplace_back("F16 " + name, [k = name](Content& c) { c.arrays[k].dtype = "F16"; });
    wrongs.emplace_back("one dimension more of " + name,
                        [k = name](Content& c) { c.arrays[k].shape.push_back(1); });
    wrongs.emplace_back("no dimension of " + name, [k = name](Content& c) {
      c.arrays[k].shape.clear();
      c.arrays[k].bytes.resize(4);
    });
    wrongs.emplace_back("one row less of " + name, [k = name](Content& c) {
      Array& a = c.arrays[k];
      a.bytes.resize(a.bytes.size() / a.shape[0] * (a.shape[0] - 1));
      --a.shape[0];
    });
  }
  for (const auto& [what, change] : wrongs) {
    Content content = good;
    change(content);
    content.write(file);
    expect_refused(file, what);
  }
}

/// Whatever is opened must be usable: nothing may crash, nothing may be out of range.
void use(Memory& memory) {
  ASSERT_LE(memory.size(), memory.capacity());
  ASSERT_GE(memory.consolidation().q, 0);
  ASSERT_LE(memory.consolidation().q, 1);
  for (const std::int32_t origin : memory.origins()) {
    ASSERT_GE(origin, 0);
    ASSERT_LT(static_cast<std::size_t>(origin), memory.tasks().size());
  }
  if (memory.dimension() > 100) return;
  shown(memory);
  const Set features = naive::make(Family::kGaussian, 6, memory.dimension(), 1, 3);
  memory.learn_online(features.view(), how_to("a", 0.5), naive::crew(0));
  memory.learn(features.view(), how_to("b", 0.5), naive::crew(0));
  naive::calibrate(memory, features, "a");
  memory.shrink(3, naive::crew(0));
  shown(memory);
}

TEST_F(MemoryFile, WhatIsOpenedCanBeUsed) {
  const std::string file = path("odd");
  const std::vector<Content> goods = {Content(bytes_of(example(0.75))),
                                      Content(bytes_of(example(0))),
                                      Content(bytes_of(Memory(kD, 5)))};
  for (std::size_t seed = 0; seed < naive::cases(400) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 9600000);
    Content content = dice.pick(goods);
    for (std::size_t change = dice.between(1, 2); change-- > 0;) {
      auto entry = content.arrays.begin();
      std::advance(entry, dice.below(content.arrays.size()));
      Array& array = entry->second;
      switch (dice.below(6)) {
        case 0: {
          auto text = content.text.begin();
          std::advance(text, dice.below(content.text.size()));
          text->second = dice.pick<const char*>(
              {"", "0", "1", "7", "1e3", "4000000000", "0.5", "yes", "null", "[]", "\xff\xfe"});
          break;
        }
        case 1: {  // one digit or sign of a text
          auto text = content.text.begin();
          std::advance(text, dice.below(content.text.size()));
          if (text->second.empty()) break;
          text->second[dice.below(text->second.size())] = "0123456789-.e{}[]\":, "[dice.below(21)];
          break;
        }
        case 2:
          if (!array.bytes.empty()) {
            array.at<std::uint32_t>(dice.below(array.bytes.size() / 4)) =
                static_cast<std::uint32_t>(dice.pick<std::uint64_t>(
                    {0, 1, 2, 0x80000000u, 0x7F800000u, 0x7FC00000u, 0x7F7FFFFFu, dice.bits()}));
          }
          break;
        case 3:  // other rows
          if (array.shape.size() <= 2 && !array.bytes.empty() && array.shape[0] > 0 &&
              array.shape[0] < 1000) {
            const std::size_t row = array.bytes.size() / array.shape[0];
            array.shape[0] = dice.below(5);
            array.bytes.resize(array.shape[0] * row);
          }
          break;
        case 4:  // a shape that fits nothing, or only nothing
          array.shape = {dice.pick<std::size_t>({0, 1, ~std::size_t{0}, std::size_t{1} << 62}),
                         dice.pick<std::size_t>({0, 1, 4, ~std::size_t{0}, std::size_t{1} << 62})};
          if (dice.one_in(2)) array.bytes.clear();
          break;
        default:
          content.arrays["extra"] = array;
          break;
      }
    }
    content.write(file);
    try {
      Memory memory = Memory::open(file);
      use(memory);
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == Error::Kind::kDamaged || error.kind() == Error::Kind::kInput)
          << "seed " << seed << ": " << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
  }
}

// ---------------------------------------------------------------- saving that fails

/// No file may grow beyond this for as long as it lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(MemoryFile, ADiskThatIsFullLeavesTheOldFile) {
  const std::string file = path("memory");
  const Memory memory = example();
  memory.save(file);
  const std::string good = read_bytes(file);
  const Memory other = example(0.5);
  const std::size_t needed = bytes_of(other).size();
  fs::remove(path("bytes_of"));
  for (const rlim_t room : {rlim_t{0}, rlim_t{1}, rlim_t{8}, rlim_t{500}, rlim_t{needed - 1}}) {
    std::optional<Error> error;
    {
      const FileLimit limit(room);
      try {
        other.save(file);
      } catch (const Error& e) {
        error = e;
      }
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Error::Kind::kInput) << error->what();
    EXPECT_NE(std::string(error->what()).find(file), std::string::npos) << error->what();
    EXPECT_EQ(read_bytes(file) == good, true);
    EXPECT_EQ(files(), 1u) << "something was left behind";
  }
  other.save(file);
  EXPECT_EQ(shown(Memory::open(file)), shown(other));
}

TEST_F(MemoryFile, CannotBeSavedJustAnywhere) {
  const Memory memory = example();
  expect_error(Error::Kind::kInput, [&] { memory.save(path("no/such/folder")); });
  expect_error(Error::Kind::kInput, [&] { memory.save(folder_.string()); });
  expect_error(Error::Kind::kInput, [&] { memory.save("/dev/full"); });
  expect_error(Error::Kind::kInput, [&] { memory.save(""); });
  EXPECT_EQ(files(), 0u);
}

// Whatever is saved is opened again; what could not be is not saved, and the last good file stays.
TEST_F(MemoryFile, ManyTasksWithLongNamesAreOpenedAgain) {
  Content many(bytes_of(example()));
  nlohmann::json tasks = nlohmann::json::parse(many.text["tasks"]);
  // Each quotation mark takes four bytes in text within text.
  for (std::size_t i = tasks.size(); i < 9999; ++i) {
    tasks.push_back(tasks[0]);
    tasks.back()["name"] = std::to_string(i) + std::string(194, '"');
  }
  many.text["tasks"] = tasks.dump();
  const std::string file = path("many");
  many.write(file);
  Memory memory = Memory::open(file);
  const Set features = naive::make(Family::kGaussian, 5, kD, 1, 1);
  memory.learn(features.view(), how_to("the last", 1), naive::crew(0));
  memory.save(file);
  EXPECT_GT(fs::file_size(file), 8u << 20);
  EXPECT_EQ(Memory::open(file).tasks().size(), 10000u);
  for (const bool online : {false, true}) {
    expect_error(Error::Kind::kInput, [&] {
      online ? memory.learn_online(features.view(), how_to("one more", 1), naive::crew(0))
             : memory.learn(features.view(), how_to("one more", 1), naive::crew(0));
    });
  }
  memory.learn(features.view(), how_to("the last", 1), naive::crew(0));
  EXPECT_EQ(memory.tasks().size(), 10000u);
  Memory other(kD, 8, memory.consolidation());
  other.source = memory.source;
  other.learn(features.view(), how_to("one more", 1), naive::crew(0));
  expect_error(Error::Kind::kInput, [&] { Memory::merge(memory, other, 8, naive::crew(0)); });
  memory.source["note"] = std::string(std::size_t{65} << 20, 'x');
  expect_error(Error::Kind::kInput, [&] { memory.save(file); });
  EXPECT_EQ(Memory::open(file).tasks().size(), 10000u);
}

TEST_F(MemoryFile, ThresholdsSetByHandAreKept) {
  const std::string file = path("set");
  Memory memory = example();
  const std::string name = memory.tasks()[0].name;
  memory.save(file);
  const auto plain = std::filesystem::file_size(file);
  memory.set_threshold(name, {{}, 0.25});
  memory.save(file);
  EXPECT_EQ(Memory::open(file).tasks()[0].set.false_alarms, 0.25);
  memory.set_threshold(name, {1.5F, {}});
  memory.save(file);
  EXPECT_EQ(Memory::open(file).threshold(0, 0.05)->score, 1.5F);
  EXPECT_TRUE(Memory::open(file).threshold(0, 0.05)->by_hand);
  memory.set_threshold(name, {});
  memory.save(file);
  EXPECT_EQ(std::filesystem::file_size(file), plain);
  for (const SetThreshold& wrong :
       {SetThreshold{-1.0F, {}}, SetThreshold{0.0F, {}},
        SetThreshold{std::numeric_limits<float>::infinity(), {}}, SetThreshold{{}, 0.0},
        SetThreshold{{}, 1.0}, SetThreshold{1.0F, 0.5}}) {
    expect_error(Error::Kind::kUsage, [&] { memory.set_threshold(name, wrong); });
  }
  expect_error(Error::Kind::kUsage, [&] { memory.set_threshold("nobody", {1.0F, {}}); });
}

}  // namespace
}  // namespace contcore
