#include "serve/multipart.h"

#include <gtest/gtest.h>

#include <random>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=B";

std::string part(const std::string& disposition, const std::string& bytes) {
  return "--B\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + bytes + "\r\n";
}

std::string refusal(const std::string& body, const std::string& type = kType,
                    const FormLimits& limits = {}) {
  try {
    parse_form(type, body, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    return error.what();
  }
  return "taken";
}

TEST(MultipartTest, GivesThePartsAsTheyAre) {
  const std::string bytes("\0\r\n--\r\n-B\r\n--A\r\n\r\n", 18);
  const std::string body =
      "preamble\r\n--B \t\r\ncontent-disposition:form-data;name=\"im\";"
      "filename=\"a \\\"b\\\".png\"\r\nContent-Type: image/png\r\nX: y\r\n\r\n" +
      bytes + "\r\n" + part("name=empty", "") + part("name=im", "second") + "--B--\r\nepilogue --B";
  const std::vector<FormPart> parts = parse_form(kType, body);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "im");
  EXPECT_EQ(parts[0].filename, "a \"b\".png");
  EXPECT_EQ(parts[0].type, "image/png");
  EXPECT_EQ(parts[0].bytes, bytes);
  EXPECT_EQ(parts[1].name, "empty");
  EXPECT_EQ(parts[1].filename, "");
  EXPECT_EQ(parts[1].type, "");
  EXPECT_EQ(parts[1].bytes, "");
  EXPECT_EQ(parts[2].bytes, "second");
}

TEST(MultipartTest, AFormMayBeEmpty) {
  EXPECT_TRUE(parse_form(kType, "--B--").empty());
  EXPECT_TRUE(parse_form(kType, "--B--\r\n").empty());
}

TEST(MultipartTest, BackslashesOfAPathStay) {
  const auto parts = parse_form(kType, part("name=a; filename=\"C:\\dir\\x.png\"", "") + "--B--");
  EXPECT_EQ(parts.at(0).filename, "C:\\dir\\x.png");
}

TEST(MultipartTest, ReadsTheContentType) {
  EXPECT_TRUE(is_form("Multipart/Form-Data ; boundary=x"));
  EXPECT_FALSE(is_form("multipart/form-data-x"));
  EXPECT_FALSE(is_form(""));
  const std::string body = part("name=a", "x") + "--B--";
  EXPECT_EQ(refusal(body, "multipart/form-data; charset=utf-8; BOUNDARY=\"B\" ;"), "taken");
  for (const std::string& type :
       {std::string("multipart/form-data"), std::string("multipart/mixed; boundary=B"),
        std::string("multipart/form-data; boundary="), std::string("multipart/form-data; boundary"),
        std::string("multipart/form-data; boundary=\"B"),
        std::string("multipart/form-data; boundary=B; boundary=C"),
        std::string("multipart/form-data; boundary=\"\xc3\xa4\""),
        "multipart/form-data; boundary=" + std::string(71, 'B')}) {
    EXPECT_NE(refusal(body, type), "taken") << type;
  }
}

TEST(MultipartTest, RefusesWhatIsNotAWholeForm) {
  const std::string whole = part("name=a", "xyz") + part("name=b", "") + "--B--";
  EXPECT_EQ(refusal(whole), "taken");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "taken") << size;
  }
}

TEST(MultipartTest, RefusesPartsThatAreUnclear) {
  const std::string end = "\r\n\r\nx\r\n--B--";
  for (const std::string& head :
       {std::string("Content-Type: a"), std::string("Content-Disposition: form-data"),
        std::string("Content-Disposition: attachment; name=a"),
        std::string("Content-Disposition: form-data; name=a; name=b"),
        std::string("Content-Disposition: form-data; name=\"a\"x"),
        std::string("Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; "
                    "name=b"),
        std::string("Content-Disposition : form-data; name=a"),
        std::string("Content-Disposition: form-data; name=a\r\n folded"),
        std::string("Content-Disposition: form-data; name=\"\xff\""),
        std::string("Content-Disposition: form-data; name=\"a\nb\""),
        std::string("Content-Disposition: form-data; name=a; filename=\"a\0b\"", 51),
        std::string("Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64"),
        std::string("no colon"), std::string(": x")}) {
    EXPECT_NE(refusal("--B\r\n" + head + end), "taken") << head;
  }
  EXPECT_NE(refusal("--B\r\n\r\nx\r\n--B--"), "taken") << "no headers at all";
  EXPECT_NE(refusal(part("name=a", "x\r\n--Bx") + "--B--"), "taken") << "a boundary inside";
}

TEST(MultipartTest, KeepsToItsLimits) {
  std::string body;
  for (int i = 0; i < 3; ++i) body += part("name=a", "x");
  body += "--B--";
  FormLimits limits;
  limits.parts = 3;
  EXPECT_EQ(refusal(body, kType, limits), "taken");
  limits.parts = 2;
  EXPECT_NE(refusal(body, kType, limits).find("more than 2 parts"), std::string::npos);
  limits = {};
  limits.header_bytes = 100;
  const std::string wide = part("name=" + std::string(100, 'a'), "x") + "--B--";
  EXPECT_NE(refusal(wide, kType, limits).find("within 100 bytes"), std::string::npos);
}

// Reads past the end would show under a sanitizer; here it must at least end, in order.
TEST(MultipartTest, SurvivesEditedForms) {
  std::mt19937 random(1);
  const std::string whole = "\r\n" + part("name=\"a\"; filename=\"b\\\"\"", "x\r\n-y") +
                            part("name=c\r\nContent-Type: d", "") + "--B--\r\n";
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string body = whole;
    for (unsigned edits = random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % body.size();
      constexpr std::string_view kBytes("\r\n-B\";=: \\\0x", 12);
      if (random() % 2 == 0) {
        body[at] = kBytes[random() % kBytes.size()];
      } else {
        body.erase(at, random() % 5);
      }
      if (body.empty()) break;
    }
    try {
      for (const FormPart& got : parse_form(kType, body)) {
        EXPECT_GE(got.bytes.data(), body.data());
        EXPECT_LE(got.bytes.data() + got.bytes.size(), body.data() + body.size());
      }
      ++taken;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace contcore
