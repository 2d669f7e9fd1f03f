// Files that nobody but their owner may read: tokens, secrets, passwords.
#pragma once

#include <string>
#include <utility>

namespace contcore {

/// Wiped before its memory is given back.
struct Secret {
  std::string text;

  Secret() = default;
  Secret(Secret&& other) noexcept : text(std::exchange(other.text, {})) {}
  Secret& operator=(Secret&&) = delete;
  ~Secret();
};

/// All of it. `kind` is what it is, such as "a list of tokens". Throws Error (kInput), also for a
/// file that others may open, and for one of more than 1 MiB.
Secret read_private(const std::string& path, const std::string& kind);

/// Its one line, without the end. Throws Error (kInput) for one that is empty, or has more lines.
std::string read_private_line(const std::string& path, const std::string& kind);

}  // namespace contcore
