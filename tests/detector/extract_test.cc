#include "contcore/extract.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "contcore/error.h"
#include "contcore/npy.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

class ExtractTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("contcore_extract_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    for (std::size_t i = 0; i < 5; ++i) {
      files_.push_back(path("gear" + std::to_string(i) + ".png"));
      write_image(files_.back(), make_product("gear", i, "", 1).image);
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static Extractor small(Precision precision, const std::string& resize = "96",
                         const std::string& crop = "none") {
    ExtractorOptions options;
    options.backbone = "builtin";
    options.geometry = Geometry::parse(resize, crop);
    options.precision = precision;
    options.dimension = 48;
    return Extractor(options);
  }

  // What is in the folder beside the images.
  std::size_t others() const {
    return static_cast<std::size_t>(
               std::distance(fs::directory_iterator(folder_), fs::directory_iterator())) -
           files_.size();
  }

  fs::path folder_;
  std::vector<std::string> files_;
  Compute compute_{2};
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every row is what Extractor::extract gives, and where the report says.
TEST_F(ExtractTest, GivesWhatTheExtractorGives) {
  for (const Precision precision : {Precision::k8Bit, Precision::kFloat}) {
    const Extractor extractor = small(precision, "short:112", "96");
    const ExtractReport report =
        extract_to_npy(extractor, files_, path("z.npy"), false, compute_, {});
    const NpyVectors read(path("z.npy"));
    EXPECT_EQ(read.view().rows, report.rows);
    EXPECT_EQ(read.view().cols, 48u);
    EXPECT_EQ(read.view().scalar,
              precision == Precision::k8Bit ? Scalar::kUint8 : Scalar::kFloat32);
    ASSERT_EQ(report.images.size(), files_.size());
    EXPECT_TRUE(report.skipped.empty());
    std::size_t first = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const ExtractedImage& image = report.images[i];
      Compute one(1);
      const Patches patches = extractor.extract(read_image(files_[i]), one);
      EXPECT_EQ(image.file, files_[i]);
      EXPECT_EQ(image.first, first);
      ASSERT_EQ(image.rows, patches.vectors.rows());
      EXPECT_EQ(image.rows, image.grid_width * image.grid_height);
      EXPECT_EQ(image.left, patches.input.left);
      EXPECT_EQ(image.bottom, patches.input.bottom);
      EXPECT_EQ(image.image_width, patches.image_width);
      const VectorView rows = read.view().part(first, image.rows);
      EXPECT_EQ(std::memcmp(rows.data, patches.vectors.view().data, rows.bytes()), 0) << i;
      first += image.rows;
    }
    EXPECT_EQ(first, report.rows);
    EXPECT_EQ(others(), 1u);
  }
}

TEST_F(ExtractTest, LeavesOutWhatCannotBeRead) {
  const Extractor extractor = small(Precision::k8Bit);
  std::ofstream(files_[2]) << "no image";
  const ExtractReport report =
      extract_to_npy(extractor, files_, path("z.npy"), false, compute_, {});
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].file, files_[2]);
  EXPECT_TRUE(report.skipped[0].reason.starts_with(files_[2])) << report.skipped[0].reason;
  ASSERT_EQ(report.images.size(), 4u);
  EXPECT_EQ(report.images[2].file, files_[3]);
  EXPECT_EQ(report.images[2].first, report.images[0].rows + report.images[1].rows);
  EXPECT_EQ(NpyVectors(path("z.npy")).view().rows, report.rows);

  const std::string before = content(path("z.npy"));
  const auto fails = [&](const std::vector<std::string>& files, bool strict,
                         const Progress& progress, Error::Kind kind) {
    try {
      extract_to_npy(extractor, files, path("z.npy"), strict, compute_, progress);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
    }
    EXPECT_EQ(content(path("z.npy")), before);
    EXPECT_EQ(others(), 1u);
  };
  fails(files_, true, {}, Error::Kind::kInput);
  fails({files_[2]}, false, {}, Error::Kind::kInput);
  fails({}, false, {}, Error::Kind::kInput);
  fails(
      files_, false, [](double) { return false; }, Error::Kind::kCancelled);
}

// Full at any write: what was there before stays, and nothing is left beside it.
TEST_F(ExtractTest, AFullDiskLeavesNothing) {
  class Full : public FileSystem {
   public:
    explicit Full(int left) : left_(left) {}
    ssize_t write(int fd, const void* data, std::size_t bytes, off_t at) override {
      if (left_-- > 0) return FileSystem::write(fd, data, bytes, at);
      errno = ENOSPC;
      return -1;
    }

   private:
    int left_;
  };
  const Extractor extractor = small(Precision::k8Bit);
  for (int writes = 0; writes < 6; ++writes) {  // five images and the header
    Full disk(writes);
    const UseFileSystem use(disk);
    try {
      extract_to_npy(extractor, files_, path("z.npy"), false, compute_, {});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      EXPECT_NE(std::string(error.what()).find("the disk is full"), std::string::npos);
    }
    EXPECT_EQ(others(), 0u) << writes;
  }
}

}  // namespace
}  // namespace contcore
