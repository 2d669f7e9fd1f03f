// Who may do what: bearer tokens and their roles.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace contcore {

/// Each may do what those before it may.
enum class Role { kInspect, kLearn, kAdmin };

/// Only the tokens' SHA-256 is kept.
class Tokens {
 public:
  struct Holder {
    Role role;
    std::string name;  ///< for the log; may be empty
  };

  /// None: whoever comes is an admin. Whether that is wise the caller must decide by the address.
  Tokens() = default;

  /// One a line, "role token [name]", with empty lines and '#' comments; roles are inspect, learn
  /// and admin, tokens 16 to 256 visible ASCII characters. `source` names the text in errors, which
  /// never show a token. Throws Error (kInput) if a line cannot be used, or if there is none: a
  /// list that is empty by mistake must not open the service to all.
  static Tokens parse(std::string_view text, const std::string& source);
  /// From a file that nobody but its owner may read.
  static Tokens read(const std::string& path);

  bool empty() const { return entries_.empty(); }

  /// Whose token an Authorization header bears ("Bearer xyz"). Takes the same time for every token
  /// of that length.
  std::optional<Holder> holder(std::string_view authorization) const;
  std::optional<Role> role(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    Holder holder;
  };

  static Digest digest_of(std::string_view token);
  void add_line(std::string_view line);

  std::vector<Entry> entries_;
};

}  // namespace contcore
