// Safetensors files byte by byte: what is written, and what is refused.
#include "base/safetensors.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using Shape = Safetensors::Shape;

std::string digest(const std::string& text) {
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
  return sha256(parts);
}

std::string with_length(const std::string& header, const std::string& data,
                        std::uint64_t more = 0) {
  const std::uint64_t length = header.size() + more;
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

const std::string kZeros(64, '0');
const std::string kText = R"("__metadata__":{"sha256":")" + kZeros + R"("})";

/// A file with the checksum put in where 64 zeros stand for it.
std::string signed_file(const std::string& header, const std::string& data,
                        std::uint64_t more = 0) {
  std::string bytes = with_length(header, data, more);
  const std::string digits = digest(bytes);
  const std::size_t at = bytes.find(kZeros);
  if (at != std::string::npos) bytes.replace(at, kZeros.size(), digits);
  return bytes;
}

class SafetensorsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_safetensors_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    file_ = (folder_ / "x.safetensors").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string read_bytes() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  void write_bytes(const std::string& bytes) const {
    fs::remove(file_);
    std::ofstream(file_, std::ios::binary) << bytes;
  }
  Safetensors reread(const std::string& bytes) const {
    write_bytes(bytes);
    return Safetensors(file_, "a test");
  }

  /// Opens a file that must be refused, as damaged or as none of ours.
  void expect_refused(const std::string& bytes, const std::string& what) const {
    try {
      reread(bytes);
      ADD_FAILURE() << what << ": was read";
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == Error::Kind::kDamaged || error.kind() == Error::Kind::kInput)
          << what << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(file_), std::string::npos) << error.what();
      EXPECT_LT(std::string(error.what()).size(), 1000u) << what;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": " << error.what();
    }
  }
  /// An array "a" described so must be refused; `data` follows.
  void expect_bad_entry(const std::string& entry, const std::string& data) const {
    expect_refused(signed_file("{" + kText + ",\"a\":" + entry + "}", data), entry);
  }

  fs::path folder_;
  std::string file_;
};

TEST_F(SafetensorsTest, ChecksumIsSha256) {
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string abc = "abc";
  const std::span<const std::byte> all = std::as_bytes(std::span(abc));
  const std::span<const std::byte> parts[] = {all.first(1), all.first(0), all.subspan(1)};
  EXPECT_EQ(sha256(parts), digest("abc"));
}

TEST_F(SafetensorsTest, ComesBackAsItWas) {
  const std::vector<float> floats = {1.5f, -0.0f, 3e38f, 1e-45f, 2, 3};
  const std::vector<std::int32_t> ints = {-1, 0, 2147483647};
  const std::map<std::string, std::string> text = {
      {"", "an empty key"},      {"empty", ""},   {"quotes", "\"\\\b\f\n\r\t\x01/"},
      {"ümlaut", "漢字 🙂"}, {"sha", kZeros}, {"like it", "\"sha256\":\"" + kZeros + "\""}};
  write_safetensors(file_, text,
                    {{"floats", {3, 2}, std::span<const float>(floats)},
                     {"ints", {3}, std::span<const std::int32_t>(ints)},
                     {"none", {0, 7}, std::span<const float>()}});
  const Safetensors file(file_, "a test");
  for (const auto& [key, value] : text) {
    ASSERT_TRUE(file.metadata().contains(key)) << key;
    EXPECT_EQ(file.metadata().at(key), value);
  }
  Shape shape;
  const std::span<const float> f = file.floats("floats", 2, shape);
  EXPECT_EQ(shape.rows, 3u);
  EXPECT_EQ(shape.cols, 2u);
  ASSERT_EQ(f.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(f[i]), std::bit_cast<std::uint32_t>(floats[i]));
  }
  const std::span<const std::int32_t> n = file.ints("ints", shape);
  EXPECT_EQ(shape.rows, 3u);
  EXPECT_EQ(std::vector<std::int32_t>(n.begin(), n.end()), ints);
  EXPECT_TRUE(file.floats("none", 2, shape).empty());
  EXPECT_EQ(shape.rows, 0u);
  EXPECT_EQ(shape.cols, 7u);
}

TEST_F(SafetensorsTest, IsLaidOutAsTheFormatSays) {
  const std::vector<float> one = {1, 2, 3};
  const std::vector<std::int32_t> two = {4, 5};
  for (int pad = 0; pad < 9; ++pad) {
    write_safetensors(file_, {{"k", std::string(static_cast<std::size_t>(pad), 'x')}},
                      {{"one", {3}, std::span<const float>(one)},
                       {"two", {2, 1}, std::span<const std::int32_t>(two)}});
    const std::string bytes = read_bytes();
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    EXPECT_EQ(length % 8, 0u);
    ASSERT_EQ(bytes.size(), 8 + length + 20);
    const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
    EXPECT_EQ(header["one"],
              nlohmann::json::parse(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 12]})"));
    EXPECT_EQ(header["two"], nlohmann::json::parse(
                                 R"({"dtype": "I32", "shape": [2, 1], "data_offsets": [12, 20]})"));
    EXPECT_EQ(std::memcmp(bytes.data() + 8 + length, one.data(), 12), 0);
    EXPECT_EQ(std::memcmp(bytes.data() + 8 + length + 12, two.data(), 8), 0);
    // The checksum is that of the file with its own digits being zeros.
    const std::string digits = header["__metadata__"]["sha256"];
    std::string zeroed = bytes;
    zeroed.replace(zeroed.find(digits), 64, kZeros);
    EXPECT_EQ(digest(zeroed), digits);
    // The same again is the same bytes.
    write_safetensors(file_, {{"k", std::string(static_cast<std::size_t>(pad), 'x')}},
                      {{"one", {3}, std::span<const float>(one)},
                       {"two", {2, 1}, std::span<const std::int32_t>(two)}});
    EXPECT_EQ(read_bytes() == bytes, true);
  }
}

TEST_F(SafetensorsTest, ArraysAreWhatTheCallerExpectsOrDamaged) {
  const std::vector<float> floats(6);
  write_safetensors(file_, {}, {{"f", {3, 2}, std::span<const float>(floats)}});
  const Safetensors file(file_, "a test");
  Shape shape;
  const auto damaged = [&](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kDamaged) << error.what();
    }
  };
  damaged([&] { file.floats("g", 2, shape); });
  damaged([&] { file.floats("f", 1, shape); });
  damaged([&] { file.ints("f", shape); });
  damaged([&] { file.floats("__metadata__", 1, shape); });
}

TEST_F(SafetensorsTest, AFileMadeByHandIsRead) {
  const std::string data("\0\0\x80?\0\0\0@", 8);
  std::string header =
      "{" + kText + R"(, "a": {"shape": [2], "data_offsets": [0, 8], "dtype": "F32"}}   )";
  while (header.size() % 8 != 0) header += ' ';
  const Safetensors file = reread(signed_file(header, data));
  Shape shape;
  const std::span<const float> a = file.floats("a", 1, shape);
  ASSERT_EQ(a.size(), 2u);
  EXPECT_EQ(a[0], 1.0f);
  EXPECT_EQ(a[1], 2.0f);
}

TEST_F(SafetensorsTest, HostileLengths) {
  const std::string header = "{" + kText + "}";
  reread(signed_file(header, ""));
  for (const std::uint64_t length :
       {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 32,
        std::uint64_t{1} << 62, header.size() + 1, header.size() - 1, std::uint64_t{0},
        std::uint64_t{1}}) {
    expect_refused(signed_file(header, "", length - header.size()),
                   "length " + std::to_string(length));
  }
  expect_refused(with_length("", ""), "nothing");
  expect_refused(with_length("{}", ""), "no checksum");
  expect_refused(std::string(7, '\0'), "seven bytes");
}

TEST_F(SafetensorsTest, HostileHeaders) {
  const std::size_t deep = 200000;
  for (const std::string& header : std::vector<std::string>{
           "[]",
           "5",
           "null",
           "\"x\"",
           "{",
           "{]",
           "{\"a\"}",
           "{\"__metadata__\":5}",
           "{\"__metadata__\":[]}",
           "{\"__metadata__\":{\"sha256\":5}}",
           "{\"__metadata__\":{\"sha256\":\"\"}}",
           "{\"__metadata__\":{\"sha256\":\"abc\"}}",
           "{\"__metadata__\":{\"sha256\":\"" + kZeros + "\",\"x\":{}}}",
           "{\"__metadata__\":{\"sha256\":\"" + kZeros + "\",\"x\":1}}",
           "{" + kText + "} x",
           "{" + kText + "}{}",
           std::string(deep, '['),
           "{\"a\":" + std::string(deep, '['),
           "{" + kText + ",\"a\":" + std::string(deep, '[') + std::string(deep, ']') + "}",
           "{" + kText + ",\"\xff\xfe\":{}}",
           std::string("{\0}", 3)}) {
    expect_refused(signed_file(header, ""), header.substr(0, 100));
  }
  for (std::string nested = "1"; nested.size() < 100000; nested = "{\"a\":" + nested + "}") {
    if (nested.size() % 7919 < 6) {
      expect_refused(signed_file("{" + kText + ",\"a\":" + nested + "}", ""), "nested");
    }
    if (nested.size() > 2000) nested.insert(0, 1, ' ');
  }
}

TEST_F(SafetensorsTest, HostileArrays) {
  const std::string data(16, '\0');
  const Safetensors fine = reread(signed_file(
      "{" + kText + R"(,"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", data));
  for (const char* shape : {"[5]",
                            "[3]",
                            "[]",
                            "[4,0]",
                            "[-4]",
                            "[4.0]",
                            "[\"4\"]",
                            "[null]",
                            "[true]",
                            "4",
                            "{}",
                            "null",
                            "[[4]]",
                            "[18446744073709551615]",
                            "[18446744073709551620]",
                            "[1e1]",
                            "[4611686018427387908]",
                            "[4294967296,4294967296]",
                            "[9223372036854775808,2]",
                            "[4294967296,4294967297,4]",
                            "[2,9223372036854775810]"}) {
    expect_bad_entry(std::string(R"({"dtype":"F32","data_offsets":[0,16],"shape":)") + shape + "}",
                     data);
  }
  for (const char* offsets :
       {"[0]", "[]", "16", "null", "{}", "[16,0]", "[0,20]", "[4,20]", "[0,12]", "[-1,15]",
        "[0.0,16.0]", "[\"0\",\"16\"]", "[18446744073709551600,18446744073709551616]",
        "[18446744073709551608,8]", "[18446744073709551600,0]", "[0,18446744073709551615]",
        "[null,16]"}) {
    expect_bad_entry(std::string(R"({"dtype":"F32","shape":[4],"data_offsets":)") + offsets + "}",
                     data);
  }
  for (const char* entry :
       {"5", "[]", "{}", "null", "\"x\"", R"({"dtype":"F32","shape":[4]})",
        R"({"dtype":"F32","data_offsets":[0,16]})", R"({"shape":[4],"data_offsets":[0,16]})",
        R"({"dtype":5,"shape":[4],"data_offsets":[0,16]})",
        R"({"dtype":null,"shape":[4],"data_offsets":[0,16]})"}) {
    expect_bad_entry(entry, data);
  }
}

TEST_F(SafetensorsTest, ArraysMayNotOverlapNorLeaveGaps) {
  const std::string data(16, '\0');
  const auto two = [&](const std::string& a, const std::string& b) {
    return signed_file("{" + kText + R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":)" + a +
                           R"(},"b":{"dtype":"I32","shape":[2],"data_offsets":)" + b + "}}",
                       data);
  };
  reread(two("[0,8]", "[8,16]"));
  reread(two("[8,16]", "[0,8]"));
  expect_refused(two("[4,12]", "[8,16]"), "overlap");
  expect_refused(two("[8,16]", "[8,16]"), "the same place");
  expect_refused(
      signed_file("{" + kText + R"(,"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)" +
                      R"("b":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})",
                  data),
      "overlap from the start");
  expect_refused(
      signed_file("{" + kText + R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", data),
      "a gap before");
}

TEST_F(SafetensorsTest, ArraysThatAreNotAlignedAreNotLookedAt) {
  const Safetensors file = [&] {
    std::string header = "{" + kText + R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    while (header.size() % 4 != 1) header += ' ';
    return reread(signed_file(header, std::string(8, '\0')));
  }();
  Shape shape;
  try {
    file.floats("a", 1, shape);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kDamaged);
  }
}

TEST_F(SafetensorsTest, AFailedWriteLeavesNothing) {
  const auto refused = [](const std::string& path) {
    try {
      write_safetensors(path, {}, {});
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput) << error.what();
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  };
  refused((folder_ / "no" / "folder").string());
  refused("/dev/full");
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace contcore
