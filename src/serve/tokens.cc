#include "serve/tokens.h"

#include <fmt/format.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>

#include <algorithm>

#include "base/refuse.h"
#include "contcore/error.h"
#include "serve/private_file.h"

namespace contcore {
namespace {

constexpr std::size_t kMostTokens = 1000;
constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kLongestToken = 256;
constexpr std::string_view kSpaces = " \t\r";

std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kSpaces));
  line.remove_prefix(word.size());
  return word;
}

Role parse_role(std::string_view word) {
  if (word == "inspect") return Role::kInspect;
  if (word == "learn") return Role::kLearn;
  if (word == "admin") return Role::kAdmin;
  // The word is not shown: it may be a token in the wrong place.
  refuse("the first word is not a role; write \"inspect\", \"learn\" or \"admin\", then the token");
}

bool is_token(std::string_view text) {
  return text.size() >= kShortestToken && text.size() <= kLongestToken &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string parse_name(std::string_view text) {
  const std::size_t last = text.find_last_not_of(kSpaces);
  text = text.substr(0, last + 1);
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  std::string name(text.substr(0, 64));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

// The token behind "Bearer", whose letters may be of any case.
std::optional<std::string_view> bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != kScheme[i]) {
      return std::nullopt;
    }
  }
  authorization.remove_prefix(kScheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  if (!is_token(authorization)) return std::nullopt;
  return authorization;
}

}  // namespace

Tokens::Digest Tokens::digest_of(std::string_view token) {
  Digest digest{};
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, token.size(), reinterpret_cast<const std::uint8_t*>(token.data()));
  sha256_digest(&context, digest.size(), digest.data());
  return digest;
}

void Tokens::add_line(std::string_view line) {
  const Role role = parse_role(take_word(line));
  const std::string_view token = take_word(line);
  if (!is_token(token)) {
    refuse(
        fmt::format("a token must have {} to {} visible ASCII characters; one may come from: "
                    "openssl rand -hex 24",
                    kShortestToken, kLongestToken));
  }
  if (entries_.size() == kMostTokens) refuse(fmt::format("there are more than {}", kMostTokens));
  const Digest digest = digest_of(token);
  if (std::any_of(entries_.begin(), entries_.end(),
                  [&](const Entry& entry) { return entry.digest == digest; })) {
    refuse("the token is already in a line above; give each holder a token of their own");
  }
  entries_.push_back({digest, {role, parse_name(line)}});
}

Tokens Tokens::parse(std::string_view text, const std::string& source) {
  Tokens tokens;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t first = line.find_first_not_of(kSpaces);
    if (first == line.npos || line[first] == '#') continue;
    try {
      tokens.add_line(line);
    } catch (const Error& error) {
      refuse(fmt::format("{}, line {}: {}", source, number, error.what()));
    }
  }
  if (tokens.empty()) refuse(fmt::format("{}: has no token; write \"admin TOKEN\"", source));
  return tokens;
}

Tokens Tokens::read(const std::string& path) {
  const Secret secret = read_private(path, "a list of tokens");
  return parse(secret.text, path);
}

std::optional<Tokens::Holder> Tokens::holder(std::string_view authorization) const {
  if (entries_.empty()) return Holder{Role::kAdmin, ""};
  const std::optional<std::string_view> token = bearer(authorization);
  if (!token) return std::nullopt;
  const Digest digest = digest_of(*token);
  // All are compared, and none in a way that ends early. Digests differ, so at most one is added.
  std::size_t found = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const int same = memeql_sec(entries_[i].digest.data(), digest.data(), digest.size());
    found += (i + 1) * static_cast<std::size_t>(same);
  }
  if (found == 0) return std::nullopt;
  return entries_[found - 1].holder;
}

std::optional<Role> Tokens::role(std::string_view authorization) const {
  const std::optional<Holder> found = holder(authorization);
  return found ? std::optional(found->role) : std::nullopt;
}

}  // namespace contcore
