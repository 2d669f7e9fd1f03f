#include "detector/eight_bit.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backbone/hash.h"
#include "backbone/net.h"
#include "backbone/onnx.h"
#include "backbone/onnx_writer.h"
#include "contcore/error.h"
#include "contcore/extractor.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using testing::Ints;
using testing::Net;
using testing::TemporaryFile;

// Takes images of 32 × 32 alone, so that calibrating it takes no time.
Graph small_net(bool dead = false) {
  Net net;
  net.graph().input_shape = {1, 3, 32, 32};
  std::string x = net.add("Relu", {net.same_conv("image", 3, 16, 3)});
  x = net.add("Relu", {net.same_conv(x, 16, 32, 3)});
  if (dead) x = net.add("Sub", {x, net.number(1e6f)});
  net.add("Relu", {x}, {}, "layer2");
  net.add("Relu",
          {net.conv("layer2", 32, 64, 3, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}})},
          {}, "layer3");
  net.graph().outputs = {"layer2", "layer3"};
  return net.graph();
}

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// With a cache of its own, in which the form and the scale of the small network are already.
class EightBit : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = (fs::temp_directory_path() / "contcore-8bit-XXXXXX").string();
    prepared_ = mkdtemp(name.data());
    const char* was = getenv("XDG_CACHE_HOME");
    if (was != nullptr) old_ = was;
    use_cache((prepared_ / "cache").string());
    EightBit{}.made();
  }
  static void TearDownTestSuite() {
    if (old_) {
      use_cache(*old_);
    } else {
      unsetenv("XDG_CACHE_HOME");
    }
    fs::remove_all(prepared_);
  }

  EightBit() : file_(small_net()) {}
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore-8bit-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::copy(prepared_, folder_, fs::copy_options::recursive);
    use_cache((folder_ / "cache").string());
  }
  void TearDown() override { fs::remove_all(folder_); }
  void TestBody() override {}

  static void use_cache(const std::string& folder) { setenv("XDG_CACHE_HOME", folder.c_str(), 1); }
  Extractor made() { return Extractor(options()); }

  EightBitForm form(const std::string& backbone) {
    return eight_bit_form(backbone, compute_,
                          [this](const std::string& what) { notices_.push_back(what); });
  }

  ExtractorOptions options() {
    ExtractorOptions options;
    options.backbone = file_.path();
    options.geometry = Geometry::parse("32", "none");
    options.dimension = 64;
    options.precision = Precision::k8Bit;
    options.notice = [this](const std::string& what) { notices_.push_back(what); };
    return options;
  }

  static inline fs::path prepared_;
  static inline std::optional<std::string> old_;
  TemporaryFile file_;
  fs::path folder_;
  std::vector<std::string> notices_;
  Compute compute_{2};
};

std::string complaint_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(EightBit, IsMadeOnceAndKept) {
  fs::remove_all(folder_ / "cache");
  EXPECT_TRUE(kept_eight_bit_form(file_.path()).bytes.empty());
  const EightBitForm first = form(file_.path());
  const std::string hash = hash_of(read_model_file(file_.path()));
  EXPECT_EQ(first.file, (folder_ / "cache/contcore" / ("8bit-" + hash + ".onnx")).string());
  EXPECT_EQ(text_of(first.file), first.bytes);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_EQ(form(file_.path()).bytes, first.bytes);
  EXPECT_EQ(notices_.size(), 1u);

  // An 8-bit file is its own form.
  const EightBitForm again = form(first.file);
  EXPECT_TRUE(again.itself);
  EXPECT_EQ(again.bytes, first.bytes);
}

TEST_F(EightBit, IsTheSameForAnyThreads) {
  const std::string model = read_model_file(file_.path());
  Compute one(1), three(3);
  EXPECT_EQ(quantize_network("net", model, generated_images(), one).bytes,
            quantize_network("net", model, generated_images(), three).bytes);
}

TEST_F(EightBit, IsMadeAnewWhereTheKeptFileIsWrong) {
  const EightBitForm first = form(file_.path());
  const CalibrationImages image{1, generated_images().image};
  const std::string foreign =
      quantize_network("net", testing::to_proto(small_net(true)).SerializeAsString(), image,
                       compute_)
          .bytes;
  std::string turned = first.bytes;  // a bit of the weights
  turned[turned.size() / 2] = static_cast<char>(turned[turned.size() / 2] ^ 1);
  for (const std::string& wrong :
       {first.bytes.substr(0, first.bytes.size() / 2), foreign, turned}) {
    std::ofstream(first.file, std::ios::binary) << wrong;
    EXPECT_EQ(form(file_.path()).bytes, first.bytes);
    EXPECT_EQ(text_of(first.file), first.bytes);
  }
}

TEST_F(EightBit, GoesOnWithoutACache) {
  const std::string bytes = form(file_.path()).bytes;
  std::ofstream(folder_ / "plain") << "a file where a folder is needed";
  use_cache((folder_ / "plain/below").string());
  notices_.clear();
  EXPECT_EQ(form(file_.path()).bytes, bytes);
  ASSERT_EQ(notices_.size(), 2u);
  for (const char* part : {"contcore: cannot be made: Not a directory", "set XDG_CACHE_HOME"}) {
    EXPECT_TRUE(says(notices_[1], part)) << notices_[1];
  }
  EXPECT_EQ(made().precision(), Precision::k8Bit);
}

TEST_F(EightBit, StopsWhenAsked) {
  EXPECT_EQ(complaint_of([&] {
              quantize_network("net", read_model_file(file_.path()), generated_images(), compute_,
                               [](double) { return false; });
            }),
            "stopped");
}

TEST_F(EightBit, ExtractorGivesBytesNearTheFloats) {
  const Extractor bytes = made();
  ExtractorOptions in_float = options();
  in_float.precision = Precision::kFloat;
  const Extractor floats(in_float);
  EXPECT_EQ(floats.source().count("precision"), 0u);
  const Image image = make_product("wood", 3, "", 5).image;
  const Patches b = bytes.extract(image, compute_);
  const Patches f = floats.extract(image, compute_);
  ASSERT_EQ(b.vectors.scalar(), Scalar::kUint8);
  ASSERT_EQ(b.vectors.rows(), f.vectors.rows());
  const auto scale = static_cast<double>(bytes.byte_scale()->scale);
  EXPECT_EQ(bytes.byte_scale()->zero, 0);  // behind a Relu
  double difference = 0, length = 0;
  for (std::size_t i = 0; i < b.vectors.rows() * 64; ++i) {
    const auto x = static_cast<double>(f.vectors.data()[i]);
    difference += std::pow(x - scale * b.vectors.byte_data()[i], 2);
    length += x * x;
  }
  EXPECT_LT(std::sqrt(difference / length), 0.1);
  Compute one(1);
  const Patches alone = bytes.extract(image, one);
  EXPECT_TRUE(std::equal(alone.vectors.byte_data(),
                         alone.vectors.byte_data() + b.vectors.rows() * 64, b.vectors.byte_data()));
}

TEST_F(EightBit, ExtractorBearsStrangeImages) {
  const Extractor extractor = made();
  Image image{32, 32, std::vector<std::uint8_t>(3 * 32 * 32, 255)};
  EXPECT_EQ(extractor.extract(image, compute_).vectors.rows(), 32u * 32u);
  for (std::uint8_t& value : image.rgb) value = 0;
  EXPECT_EQ(extractor.extract(image, compute_).vectors.rows(), 32u * 32u);
  Random random(1);
  for (std::uint8_t& value : image.rgb) value = static_cast<std::uint8_t>(random.next());
  EXPECT_EQ(extractor.extract(image, compute_).vectors.rows(), 32u * 32u);
}

TEST_F(EightBit, ExtractorIsFoundAgain) {
  const Extractor first = made();
  const auto& source = first.source();
  EXPECT_EQ(source.at("precision"), "8bit");
  EXPECT_EQ(source.at("backbone"), file_.path());
  EXPECT_EQ(source.at("backbone.sha256"), hash_of(form(file_.path()).bytes));
  EXPECT_EQ(source.at("zero"), "0");
  EXPECT_EQ(std::stof(source.at("scale")), first.byte_scale()->scale);
  for (const std::string& named : {std::string(), file_.path(), form(file_.path()).file}) {
    const Extractor found = Extractor::of_source(source, 64, "memory", named);
    EXPECT_EQ(found.byte_scale(), first.byte_scale());
    EXPECT_EQ(found.backbone().hash(), first.backbone().hash());
  }
  const TemporaryFile other(small_net(true));
  EXPECT_TRUE(says(complaint_of([&] { Extractor::of_source(source, 64, "memory", other.path()); }),
                   "another backbone"));
}

TEST_F(EightBit, SourcesThatCannotBeAreRefused) {
  const auto source = made().source();
  for (const char* scale : {"0", "-1", "nan", "inf", "1e-50", "1e50", "", "0.1x", "0x1p-3"}) {
    auto wrong = source;
    wrong["scale"] = scale;
    EXPECT_TRUE(says(complaint_of([&] { Extractor::of_source(wrong, 64, "memory"); }), "scale"))
        << scale;
  }
  for (const char* zero : {"7", "-1", "256", "", "128.0"}) {
    auto wrong = source;
    wrong["zero"] = zero;
    EXPECT_TRUE(says(complaint_of([&] { Extractor::of_source(wrong, 64, "memory"); }), "zero"))
        << zero;
  }
  auto wrong = source;
  wrong.erase("scale");
  EXPECT_TRUE(says(complaint_of([&] { Extractor::of_source(wrong, 64, "memory"); }), "scale"));
  wrong = source;
  wrong["precision"] = "4bit";
  EXPECT_TRUE(says(complaint_of([&] { Extractor::of_source(wrong, 64, "memory"); }), "4bit"));
  wrong.erase("precision");  // then it is of floats, and of another file
  EXPECT_TRUE(
      says(complaint_of([&] { Extractor::of_source(wrong, 64, "memory"); }), "another backbone"));
}

TEST_F(EightBit, TheScaleIsKeptAndCheckedWhenRead) {
  const Extractor first = made();
  std::string kept;
  for (const auto& entry : fs::directory_iterator(folder_ / "cache/contcore")) {
    if (entry.path().extension() == ".txt") kept = entry.path().string();
  }
  ASSERT_FALSE(kept.empty());
  const std::string text = text_of(kept);
  EXPECT_TRUE(says(text, "dimension 64")) << text;
  for (const std::string& wrong : {text + "more", text.substr(0, text.size() - 20)}) {
    std::ofstream(kept) << wrong;
    EXPECT_EQ(made().byte_scale(), first.byte_scale());
    EXPECT_EQ(text_of(kept), text);
  }
}

TEST_F(EightBit, FeaturesThatAreAllZeroAreRefused) {
  const TemporaryFile dead(small_net(true));
  ExtractorOptions wrong = options();
  wrong.backbone = dead.path();
  wrong.layers = {"layer2"};
  EXPECT_TRUE(says(complaint_of([&] { Extractor{wrong}; }), "all zero"));
}

TEST(Precision, HasWords) {
  EXPECT_EQ(parse_precision("8bit"), Precision::k8Bit);
  EXPECT_EQ(parse_precision(precision_word(Precision::kFloat)), Precision::kFloat);
  EXPECT_TRUE(says(complaint_of([] { parse_precision("int8"); }), "8bit"));
}

TEST_F(EightBit, WorksWithoutACache) {
  const char* home = getenv("HOME");
  const std::string old = home != nullptr ? home : "";
  unsetenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  std::string hash;
  EXPECT_EQ(complaint_of([&] { hash = made().source().at("backbone.sha256"); }),
            "nothing was thrown");
  ExtractorOptions in_float = options();
  in_float.precision = Precision::kFloat;
  EXPECT_EQ(complaint_of([&] { Extractor{in_float}; }), "nothing was thrown");
  if (home != nullptr) setenv("HOME", old.c_str(), 1);
  use_cache((folder_ / "cache").string());
  EXPECT_EQ(hash, made().source().at("backbone.sha256"));
  ASSERT_FALSE(notices_.empty());
  EXPECT_TRUE(says(notices_.at(1), "neither XDG_CACHE_HOME nor HOME")) << notices_.at(1);
}

TEST_F(EightBit, IsNotAnnouncedWhereItCannotBe) {
  Net net;  // as a transformer begins
  net.graph().outputs = {net.conv("image", 3, 8, 4, {{"strides", Ints{4, 4}}})};
  const TemporaryFile patches(net.graph());
  const std::string complaint = complaint_of([&] { form(patches.path()); });
  EXPECT_TRUE(says(complaint, patches.path())) << complaint;
  EXPECT_TRUE(says(complaint, "--precision float")) << complaint;
  EXPECT_TRUE(notices_.empty());
}

TEST_F(EightBit, RefusesAScoreThatNobodyKnows) {
  auto source = made().source();
  source["score"] = "mean";
  const std::string complaint =
      complaint_of([&] { Extractor::of_source(source, 64, "line.ccm", file_.path()); });
  EXPECT_TRUE(says(complaint, "line.ccm") && says(complaint, "'mean'")) << complaint;
}

TEST_F(EightBit, RoundingIsPartOfTheError) {
  const Extractor extractor = made();
  const Backbone& network = extractor.backbone();
  const CalibrationImages images = generated_images();
  const auto error = [&](const std::optional<ByteScale>& bytes) {
    return feature_error(network, network, extractor.embedding(), images, 2, bytes).relative;
  };
  EXPECT_EQ(error({}), 0);
  EXPECT_GT(error(extractor.byte_scale()), 0);
  EXPECT_LT(error(extractor.byte_scale()), 0.1);
}

}  // namespace
}  // namespace contcore
