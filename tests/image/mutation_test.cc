// Image files with some of their bytes changed: read or refused in words, without a word on the
// terminal, in little time and memory. CONTCORE_TEST_MUTATIONS=10000 tries that many of each
// format.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"
#include "contcore/image.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

std::uint32_t crc_of(const Bytes& bytes, std::size_t from, std::size_t to) {
  std::uint32_t c = 0xffffffffu;
  for (std::size_t i = from; i < to; ++i) {
    c ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0xedb88320u ^ (c >> 1) : c >> 1;
  }
  return ~c;
}

// Checksums that are right: behind wrong ones a PNG's reader looks at nothing.
void mend_png(Bytes& bytes) {
  const auto big32 = [&](std::size_t at) {
    return std::size_t{bytes[at]} << 24 | std::size_t{bytes[at + 1]} << 16 |
           std::size_t{bytes[at + 2]} << 8 | bytes[at + 3];
  };
  for (std::size_t at = 8; at + 12 <= bytes.size() && big32(at) <= bytes.size() - at - 12;) {
    const std::size_t end = at + 8 + big32(at);
    const std::uint32_t crc = crc_of(bytes, at + 4, end);
    for (std::size_t i = 0; i < 4; ++i) {
      bytes[end + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
    }
    at = end + 4;
  }
}

class Mutator {
 public:
  Bytes changed(Bytes bytes) {
    // Every other time in the first bytes, where the sizes are.
    const std::size_t span = below(2) == 0 ? bytes.size() : below(100) + 1;
    for (std::size_t left = 1 + below(5); left > 0; --left) change(bytes, span);
    if (below(4) != 0) mend_png(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.below(n)); }

  void change(Bytes& bytes, std::size_t span) {
    if (bytes.empty()) return;
    const std::size_t at = below(std::min(span, bytes.size()));
    const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = std::min(1 + below(16), bytes.size() - at);
    const auto end = here + static_cast<std::ptrdiff_t>(length);
    switch (below(10)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.erase(here, end);
        break;
      case 2: {
        const Bytes again(here, end);
        bytes.insert(here, again.begin(), again.end());
        break;
      }
      case 3:
        std::fill(here, here + static_cast<std::ptrdiff_t>(std::min<std::size_t>(length, 4)),
                  below(2) == 0 ? 0xff : 0);
        break;
      case 4:
      case 5:
        *here = static_cast<std::uint8_t>(*here ^ 1u << below(8));
        break;
      default:
        *here = static_cast<std::uint8_t>(below(256));
    }
  }

  Random random_{7};
};

double seconds_of_this_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

long most_resident_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// The seeds of the fuzz target whose names begin so.
std::vector<Bytes> seeds_of(const std::string& format) {
  std::vector<Bytes> seeds;
  for (const auto& entry : fs::directory_iterator(CONTCORE_IMAGE_SEEDS)) {
    if (!entry.path().filename().string().starts_with(format)) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::sort(seeds.begin(), seeds.end());
  return seeds;
}

class MutatedImages : public testing::TestWithParam<const char*> {};

TEST_P(MutatedImages, AreReadOrRefused) {
  const char* asked = std::getenv("CONTCORE_TEST_MUTATIONS");
  const std::size_t count = asked != nullptr ? std::stoul(asked) : 2000;
  const std::vector<Bytes> seeds = seeds_of(GetParam());
  ASSERT_FALSE(seeds.empty());
  const ImageLimits limits{std::size_t{1} << 20, std::size_t{1} << 24};
  const long before = most_resident_kib();
  std::size_t read = 0;
  double longest = 0;
  Mutator mutator;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes bytes = mutator.changed(seeds[i % seeds.size()]);
    const double start = seconds_of_this_thread();
    try {
      const Image image = decode_image(bytes, "x", limits);
      EXPECT_EQ(image.rgb.size(), image.width * image.height * 3);
      EXPECT_LE(image.width * image.height, limits.pixels);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput) << error.what();
    }
    longest = std::max(longest, seconds_of_this_thread() - start);
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_GT(read, 0u);
  EXPECT_LT(read, count);
  EXPECT_LT(longest, 3);
  EXPECT_LT(most_resident_kib() - before, 1 << 20) << "KiB";
  RecordProperty("read", std::to_string(read));
  RecordProperty("longest", std::to_string(longest));
}

INSTANTIATE_TEST_SUITE_P(Formats, MutatedImages,
                         testing::Values("png", "jpeg", "tiff", "webp", "bmp", "pgm", "ppm"),
                         [](const auto& format) { return std::string(format.param); });

}  // namespace
}  // namespace contcore
