#include "serve/tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

const std::string kInspect = "inspect-0123456789";
const std::string kAdmin = "admin-0123456789";

std::string refusal(const std::string& text) {
  try {
    Tokens::parse(text, "the list");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    return error.what();
  }
  return "taken";
}

TEST(TokensTest, KnowsEachTokensRoleAndName) {
  const Tokens tokens =
      Tokens::parse("# who\n\n inspect\t" + kInspect + "  the line 3 camera \r\n" +
                        "learn learn-0123456789\nadmin " + kAdmin,
                    "the list");
  EXPECT_EQ(tokens.role("Bearer " + kInspect), Role::kInspect);
  EXPECT_EQ(tokens.holder("Bearer " + kInspect)->name, "the line 3 camera");
  EXPECT_EQ(tokens.role("bEARER  learn-0123456789"), Role::kLearn);
  EXPECT_EQ(tokens.role("Bearer " + kAdmin), Role::kAdmin);
  EXPECT_EQ(tokens.holder("Bearer " + kAdmin)->name, "");
  EXPECT_LT(Role::kInspect, Role::kLearn);
  EXPECT_LT(Role::kLearn, Role::kAdmin);
}

TEST(TokensTest, KnowsNobodyElse) {
  const Tokens tokens = Tokens::parse("admin " + kAdmin, "the list");
  for (const std::string& header :
       {std::string(), std::string("Bearer"), std::string("Bearer "), kAdmin, "Basic " + kAdmin,
        "Bearer" + kAdmin, "Bearer " + kAdmin + "x", "Bearer " + kAdmin + " ",
        "Bearer " + kAdmin.substr(1), "Bearer " + kAdmin + "," + kAdmin,
        "Bearer " + std::string(100'000, 'a')}) {
    EXPECT_EQ(tokens.role(header), std::nullopt) << header.substr(0, 60);
  }
}

TEST(TokensTest, WithoutAnyEverybodyIsAdmin) {
  EXPECT_TRUE(Tokens().empty());
  EXPECT_EQ(Tokens().role(""), Role::kAdmin);
  EXPECT_EQ(Tokens().role("Bearer whatever-it-may-be"), Role::kAdmin);
}

TEST(TokensTest, RefusesListsThatCannotBeMeant) {
  EXPECT_NE(refusal("").find("has no token"), std::string::npos);
  EXPECT_NE(refusal("# all gone\n \n").find("has no token"), std::string::npos);
  EXPECT_NE(refusal("admin short").find("16 to 256"), std::string::npos);
  EXPECT_NE(refusal("admin " + std::string(257, 'a')).find("16 to 256"), std::string::npos);
  EXPECT_EQ(refusal("admin " + std::string(256, 'a')), "taken");
  EXPECT_NE(refusal("admin b\xc3\xa4renstark-01234567").find("ASCII"), std::string::npos);
  EXPECT_NE(refusal("admin").find("16 to 256"), std::string::npos);
  EXPECT_NE(refusal("admin " + kAdmin + "\ninspect " + kAdmin).find("line 2: the token is already"),
            std::string::npos);
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "inspect inspect-number-" + std::to_string(i) + "\n";
  EXPECT_NE(refusal(many).find("more than 1000"), std::string::npos);
}

TEST(TokensTest, ErrorsNeverShowAToken) {
  const std::string secret = "the-secret-0123456789";
  for (const std::string& text : {secret + " admin", "root " + secret, "admin " + secret + "\xff",
                                  "admin " + secret + "\nadmin " + secret}) {
    EXPECT_NE(refusal(text), "taken") << text;
    EXPECT_EQ(refusal(text).find(secret), std::string::npos) << refusal(text);
  }
}

class TokenFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_tokens_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "tokens").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
    try {
      return Tokens::read(path_).role("Bearer " + kAdmin) == Role::kAdmin ? "right" : "wrong";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(TokenFileTest, MustBePrivate) {
  EXPECT_EQ(write("admin " + kAdmin + "\n", 0600), "right");
  for (const mode_t mode : {0640u, 0604u, 0620u, 0601u}) {
    EXPECT_NE(write("admin " + kAdmin + "\n", mode).find("chmod 600 " + path_), std::string::npos);
  }
}

TEST_F(TokenFileTest, MustBeThere) {
  EXPECT_NE(write("", 0600).find("is empty"), std::string::npos);
  EXPECT_THROW(Tokens::read(path_ + "x"), Error);
  EXPECT_THROW(Tokens::read(folder_.string()), Error);
}

}  // namespace
}  // namespace contcore
