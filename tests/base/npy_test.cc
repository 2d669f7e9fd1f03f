#include "contcore/npy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

class NpyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_npy_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string write_bytes(const std::string& bytes) const {
    fs::remove(path("x.npy"));  // far faster than to truncate it
    std::ofstream(path("x.npy"), std::ios::binary) << bytes;
    return path("x.npy");
  }

  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  // The message the file is refused with; it must name the file.
  std::string refusal_of(const std::string& file) const {
    try {
      NpyVectors vectors(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
      return error.what();
    }
    ADD_FAILURE() << file << " was taken";
    return "";
  }

  std::string refusal_of_bytes(const std::string& bytes) const {
    return refusal_of(write_bytes(bytes));
  }

  fs::path folder_;
};

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A file with the dict as it is given; data start at a multiple of 64 plus `shift`.
std::string npy(const std::string& dict, const std::string& data, int version = 1,
                std::size_t shift = 0) {
  const std::size_t start = version == 1 ? 10 : 12;
  std::string header = dict;
  while ((start + header.size() + 1) % 64 != shift) header += ' ';
  header += '\n';
  std::string bytes("\x93NUMPY");
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (std::size_t i = 0; i < start - 8; ++i) {
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  return bytes + header + data;
}

std::string dict_for(const std::string& descr, const std::string& shape,
                     const std::string& order = "False") {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr, order, shape);
}

std::string zeros(std::size_t bytes) { return std::string(bytes, '\0'); }

std::string good_file() {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  return npy(dict_for("<f4", "(2, 3)"),
             {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_SAYS(message, part)                                     \
  do {                                                                 \
    const std::string said = (message);                                \
    EXPECT_TRUE(contains(said, part)) << said << "\nlacks " << (part); \
  } while (false)

// Reads every value, so that a view beyond the file would be noticed.
double touch(const NpyVectors& vectors) {
  const VectorView& view = vectors.view();
  std::vector<float> scratch(view.cols);
  double sum = 0;
  for (std::size_t i = 0; i < view.rows; ++i) {
    const float* row = view.row(i, scratch.data());
    for (std::size_t j = 0; j < view.cols; ++j) sum += static_cast<double>(row[j]);
  }
  return sum;
}

// ---- Reading -----------------------------------------------------------------------------------

TEST_F(NpyTest, ReadsWhatItWrote) {
  const std::vector<float> values = {0.5f, -1, 3e30f, 4, 1e-40f, 6};
  write_npy(path("a.npy"), values, 3);
  const NpyVectors vectors(path("a.npy"));
  ASSERT_EQ(vectors.view().rows, 2u);
  ASSERT_EQ(vectors.view().cols, 3u);
  EXPECT_EQ(vectors.view().scalar, Scalar::kFloat32);
  EXPECT_EQ(std::memcmp(vectors.view().data, values.data(), 24), 0);
}

TEST_F(NpyTest, ReadsFloat16) {
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x3555, 0x7bff};  // 1, −2, ⅓, 65504
  const std::string data(reinterpret_cast<const char*>(halves.data()), 8);
  const NpyVectors vectors(write_bytes(npy(dict_for("<f2", "(2, 2)"), data)));
  ASSERT_EQ(vectors.view().scalar, Scalar::kFloat16);
  float scratch[2];
  EXPECT_EQ(vectors.view().row(0, scratch)[0], 1.0f);
  EXPECT_EQ(vectors.view().row(0, scratch)[1], -2.0f);
  EXPECT_NEAR(vectors.view().row(1, scratch)[0], 1.0f / 3, 1e-4f);
  EXPECT_EQ(vectors.view().row(1, scratch)[1], 65504.0f);
}

TEST_F(NpyTest, ReadsAndWritesBytes) {
  const std::vector<std::uint8_t> values = {0, 1, 127, 128, 254, 255};
  const std::string path = write_bytes("");
  write_npy(path, values, 3);
  const NpyVectors vectors(path);
  ASSERT_EQ(vectors.view().scalar, Scalar::kUint8);
  ASSERT_EQ(vectors.view().rows, 2u);
  ASSERT_EQ(vectors.view().cols, 3u);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), vectors.view().byte_row(0)));
  float scratch[3];
  EXPECT_EQ(vectors.view().row(1, scratch)[2], 255.0f);
}

TEST_F(NpyTest, ReadsAllVersionsAndSpellings) {
  for (const int version : {1, 2, 3}) {
    const NpyVectors v(write_bytes(npy(dict_for("<f4", "(2, 3)"), zeros(24), version)));
    EXPECT_EQ(v.view().rows, 2u);
  }
  for (const std::string dict :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'shape': (2,3), 'fortran_order':False,'descr': \"<f4\"}",
        " { \"shape\" :\t( 2 , 3 , ) , 'descr' : '<f4' , 'fortran_order' : False , } "}) {
    const NpyVectors v(write_bytes(npy(dict, zeros(24))));
    EXPECT_EQ(v.view().cols, 3u) << dict;
  }
}

TEST_F(NpyTest, MovesItsMapping) {
  NpyVectors a(write_bytes(good_file()));
  NpyVectors b(std::move(a));
  EXPECT_EQ(touch(b), 21);
  NpyVectors c;
  c = std::move(b);
  EXPECT_EQ(touch(c), 21);
  write_npy(path("other.npy"), std::vector<float>{7, 8}, 2);
  c = NpyVectors(path("other.npy"));
  EXPECT_EQ(touch(c), 15);
}

TEST_F(NpyTest, RefusesWhatIsNoFile) {
  EXPECT_SAYS(refusal_of(path("missing.npy")), "No such file");
  EXPECT_SAYS(refusal_of(folder_.string()), "folder");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_SAYS(refusal_of(path("pipe")), "regular file");
  EXPECT_SAYS(refusal_of("/dev/null"), "regular file");
  EXPECT_SAYS(refusal_of_bytes(""), "empty");
}

TEST_F(NpyTest, RefusesAFileWithoutPermission) {
  const std::string file = write_bytes(good_file());
  ASSERT_EQ(::chmod(file.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  const uid_t user = ::geteuid();
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(user == 0 ? kNobody : user), 0);  // root may read anything
  const std::string refusal = refusal_of(file);
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_SAYS(refusal, "Permission denied");
}

TEST_F(NpyTest, RefusesWhatIsNoNpy) {
  EXPECT_SAYS(refusal_of_bytes("hello, world"), "not an .npy");
  EXPECT_SAYS(refusal_of_bytes("\x93NUM"), "not an .npy");
  EXPECT_SAYS(refusal_of_bytes("PK\x03\x04"), "numpy.save");
  std::string bytes = good_file();
  bytes[6] = 4;
  EXPECT_SAYS(refusal_of_bytes(bytes), "version 4.0");
  bytes[6] = 0;
  EXPECT_SAYS(refusal_of_bytes(bytes), "version 0.0");
}

TEST_F(NpyTest, RefusesATruncatedHeader) {
  const std::string bytes = good_file();
  for (const std::size_t size : {6u, 7u, 8u, 9u, 10u, 50u, 127u}) {
    EXPECT_SAYS(refusal_of_bytes(bytes.substr(0, size)), "cut short");
  }
  std::string wide = npy(dict_for("<f4", "(2, 3)"), zeros(24), 2);
  EXPECT_SAYS(refusal_of_bytes(wide.substr(0, 11)), "cut short");
  for (const std::size_t i : {8u, 9u, 10u, 11u}) wide[i] = '\xff';
  EXPECT_SAYS(refusal_of_bytes(wide), "cut short");
}

TEST_F(NpyTest, RefusesAHeaderBeyondReason) {
  const std::string dict = dict_for("<f4", "(2, 3)") + std::string(2u << 20, ' ');
  EXPECT_SAYS(refusal_of_bytes(npy(dict, zeros(24), 2)), "header claims");
}

TEST_F(NpyTest, RefusesDamagedDicts) {
  for (const std::string dict :
       {"",
        "{",
        "{}",
        "[]",
        "{'descr': '<f4'}",
        "{'descr: '<f4'}",
        "{descr: '<f4'}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (, 2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4',, 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<\\x664', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616, 3)}"}) {
    EXPECT_SAYS(refusal_of_bytes(npy(dict, zeros(24))), "header is damaged");
  }
  std::string many = "(";
  for (int i = 0; i < 100; ++i) many += "1, ";
  EXPECT_SAYS(refusal_of_bytes(npy(dict_for("<f4", many + ")"), zeros(4))), "too many");
}

TEST_F(NpyTest, RefusesTruncatedAndExtraData) {
  const std::string dict = dict_for("<f4", "(2, 3)");
  const std::string cut = refusal_of_bytes(npy(dict, zeros(23)));
  EXPECT_SAYS(cut, "cut short");
  EXPECT_SAYS(cut, "24");
  EXPECT_SAYS(cut, "23");
  EXPECT_SAYS(refusal_of_bytes(npy(dict, "")), "there are 0");
  EXPECT_SAYS(refusal_of_bytes(npy(dict, zeros(25))), "longer than it should be");
}

TEST_F(NpyTest, RefusesOtherLayouts) {
  const auto refusal = [&](const std::string& descr, const std::string& shape,
                           const std::string& order = "False") {
    return refusal_of_bytes(npy(dict_for(descr, shape, order), zeros(48)));
  };
  EXPECT_SAYS(refusal("<f4", "(4, 3)", "True"), "numpy.ascontiguousarray");
  for (const std::string descr : {"<f8", "|i1", "<i4", "<c8", "|O", "", "f4", "|V16"}) {
    EXPECT_SAYS(refusal(descr, "(2, 3)"), ".astype(numpy.float32)");
  }
  EXPECT_SAYS(refusal(">f4", "(4, 3)"), "big endian");
  EXPECT_SAYS(refusal(">f2", "(4, 6)"), "big endian");
  EXPECT_SAYS(refusal_of_bytes(npy("{'descr': [('x', '<f4')], 'fortran_order': False, "
                                   "'shape': (4, 3)}",
                                   zeros(48))),
              "fields");
  for (const std::string shape : {"()", "(12,)", "(1, 4, 3)"}) {
    EXPECT_SAYS(refusal("<f4", shape), "reshape");
  }
  for (const std::string shape : {"(0, 3)", "(4, 0)", "(0, 0)"}) {
    EXPECT_SAYS(refusal("<f4", shape), "holds no vectors");
  }
}

TEST_F(NpyTest, RefusesMisalignedData) {
  EXPECT_SAYS(refusal_of_bytes(npy(dict_for("<f4", "(2, 3)"), zeros(24), 1, 2)), "multiple of 4");
  EXPECT_SAYS(refusal_of_bytes(npy(dict_for("<f2", "(2, 3)"), zeros(12), 1, 1)), "multiple of 2");
  const NpyVectors fits(write_bytes(npy(dict_for("<f2", "(2, 3)"), zeros(12), 1, 2)));
  EXPECT_EQ(fits.view().rows, 2u);
}

TEST_F(NpyTest, LimitsTheDimension) {
  EXPECT_SAYS(refusal_of_bytes(npy(dict_for("<f4", "(1, 65537)"), zeros(65537 * 4))), "65536");
  const NpyVectors most(write_bytes(npy(dict_for("<f4", "(1, 65536)"), zeros(65536 * 4))));
  EXPECT_EQ(most.view().cols, 65536u);
}

// Products that wrap around to the true size would be the worst of them.
TEST_F(NpyTest, RefusesShapesBeyondAnyMemory) {
  for (const std::string shape :
       {"(1152921504606846976, 3)", "(1152921504606846976, 16)", "(4611686018427387904, 1)",
        "(4611686018427387904, 4)", "(18446744073709551615, 65536)", "(4611686018427387910, 4)",
        "(3, 1152921504606846976)", "(18446744073709551615, 18446744073709551615)"}) {
    const std::string said = refusal_of_bytes(npy(dict_for("<f4", shape), zeros(24)));
    EXPECT_TRUE(contains(said, "cut short") || contains(said, "65536")) << said;
  }
}

TEST_F(NpyTest, MessagesShowNoControlCharacters) {
  const std::string dict = "{'descr': '\x1b[31m\x01', 'fortran_order': False, 'shape': (2, 3)}";
  const std::string said = refusal_of_bytes(npy(dict, zeros(24)));
  EXPECT_FALSE(contains(said, "\x1b")) << said;
}

// ---- Any bytes at all --------------------------------------------------------------------------

class AnyBytes : public NpyTest {
 protected:
  // Refused in words, or a view that lies within the file.
  void take_or_refuse(const std::string& bytes) const {
    const std::string file = write_bytes(bytes);
    try {
      const NpyVectors vectors(file);
      const VectorView& view = vectors.view();
      const std::size_t width = view.scalar == Scalar::kFloat32 ? 4 : 2;
      ASSERT_LE(view.rows * view.cols * width, bytes.size());
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % width, 0u);
      volatile double sum = touch(vectors);
      (void)sum;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), Error::Kind::kInput);
    }
  }
};

TEST_F(AnyBytes, TruncatedAnywhere) {
  for (const int version : {1, 2}) {
    const std::string bytes = npy(dict_for("<f4", "(2, 3)"), zeros(24), version);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      refusal_of_bytes(bytes.substr(0, size));
    }
  }
}

TEST_F(AnyBytes, AnyByteChanged) {
  const std::string bytes = good_file();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int value :
         {0x00, 0x01, 0x02, 0x20, 0x27, 0x28, 0x2c, 0x30, 0x39, 0x7f, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(value);
      take_or_refuse(changed);
    }
  }
}

TEST_F(AnyBytes, ManyBytesChanged) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = npy(dict_for("<f4", "(2, 3)"), zeros(24), round % 3 + 1);
    // Mostly in the first bytes, where the header says how long things are.
    const std::size_t span = round % 2 == 0 ? bytes.size() : 80;
    for (std::size_t flips = below(4) + 1; flips > 0; --flips) {
      bytes[below(span)] = static_cast<char>(below(256));
    }
    if (round % 5 == 0) bytes.resize(below(bytes.size() + 1));
    take_or_refuse(bytes);
  }
}

// ---- Writing -----------------------------------------------------------------------------------

std::string write_refusal(const std::string& path) {
  try {
    write_npy(path, std::vector<float>{1, 2, 3});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    EXPECT_TRUE(contains(error.what(), path)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << path << " was written";
  return "";
}

TEST_F(NpyTest, WritesWhatNumPyReads) {
  const std::vector<std::int64_t> values = {1, -2, std::int64_t{1} << 40};
  write_npy(path("i.npy"), values);
  const std::string bytes = read_bytes(path("i.npy"));
  const std::size_t start = bytes.size() - 24;
  EXPECT_EQ(start % 64, 0u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]) + 10,
            start);
  EXPECT_EQ(bytes[start - 1], '\n');
  EXPECT_TRUE(contains(bytes, "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }"));
  EXPECT_EQ(std::memcmp(bytes.data() + start, values.data(), 24), 0);

  write_npy(path("i2.npy"), values, 1);
  EXPECT_TRUE(contains(read_bytes(path("i2.npy")), "'shape': (3, 1), }"));
  write_npy(path("f.npy"), std::vector<float>{});
  EXPECT_TRUE(contains(read_bytes(path("f.npy")),
                       "'descr': '<f4', 'fortran_order': False, "
                       "'shape': (0,), }"));
}

TEST_F(NpyTest, RefusesRowsThatDoNotComeOut) {
  EXPECT_THROW(write_npy(path("x.npy"), std::vector<float>{1, 2, 3}, 2), Error);
  EXPECT_THROW(write_npy(path("x.npy"), std::vector<float>{1, 2, 3}, 0), Error);
  EXPECT_EQ(files(), 0u);
}

TEST_F(NpyTest, ReplacesAFileAndLeavesNoOther) {
  write_npy(path("x.npy"), std::vector<float>{1, 2}, 2);
  write_npy(path("x.npy"), std::vector<float>{3, 4}, 2);
  EXPECT_EQ(touch(NpyVectors(path("x.npy"))), 7);
  EXPECT_EQ(files(), 1u);
}

TEST_F(NpyTest, HonoursTheUmask) {
  const mode_t old = ::umask(0027);
  write_npy(path("x.npy"), std::vector<float>{1});
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat(path("x.npy").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0640u);
}

TEST_F(NpyTest, WritesThroughALink) {
  write_npy(path("real.npy"), std::vector<float>{1, 2}, 2);
  fs::create_symlink("real.npy", path("link.npy"));
  write_npy(path("link.npy"), std::vector<float>{3, 4}, 2);
  EXPECT_TRUE(fs::is_symlink(path("link.npy")));
  EXPECT_EQ(touch(NpyVectors(path("real.npy"))), 7);
}

TEST_F(NpyTest, WritesToADeviceDirectly) {
  write_npy("/dev/null", std::vector<float>{1, 2, 3});
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_SAYS(write_refusal("/dev/full"), "the disk is full");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(NpyTest, SaysWhyItCannotWrite) {
  EXPECT_SAYS(write_refusal(path("missing/x.npy")), "No such file or directory");
  EXPECT_SAYS(write_refusal(folder_.string()), "Is a directory");
  write_bytes("a file");
  EXPECT_SAYS(write_refusal(path("x.npy/y.npy")), "Not a directory");
  write_refusal(path("trailing/"));
  write_refusal(path(std::string(300, 'x')));
  EXPECT_EQ(files(), 1u);
}

// Ends with 0 if a write that outgrows the limit on file sizes is refused for that reason.
[[noreturn]] void write_beyond_limit(const std::string& file) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4096, 4096};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  try {
    write_npy(file, std::vector<float>(100000));
  } catch (const Error& error) {
    std::_Exit(contains(error.what(), "too large") ? 0 : 2);
  }
  std::_Exit(1);
}

// The limit stands in for a disk that fills up half way.
TEST_F(NpyTest, AFailedWriteLeavesTheOldFile) {
  const std::string file = write_bytes(good_file());
  EXPECT_EXIT(write_beyond_limit(file), testing::ExitedWithCode(0), "");
  EXPECT_EQ(read_bytes(file), good_file());
  EXPECT_EQ(files(), 1u);
}

TEST_F(NpyTest, AFailedRenameLeavesNothing) {
  // The name is free when looked at, but too long to be taken.
  write_refusal(path(std::string(256, 'n')));
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace contcore
