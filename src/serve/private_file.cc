#include "serve/private_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/refuse.h"

namespace contcore {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;

}  // namespace

Secret::~Secret() { ::explicit_bzero(text.data(), text.size()); }

Secret read_private(const std::string& path, const std::string& kind) {
  const OpenFile open = open_regular(path, kind);
  struct stat info {};
  if (::fstat(open.file.fd(), &info) != 0) {
    refuse(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }
  if ((info.st_mode & 077) != 0) {
    refuse(fmt::format("{}: others than its owner may open it; run: chmod 600 {}", path, path));
  }
  if (open.bytes > kMostFileBytes) refuse(fmt::format("{}: is too large for {}", path, kind));
  Secret secret;
  secret.text.resize(open.bytes);
  std::size_t at = 0;
  while (at < secret.text.size()) {
    const ssize_t got = ::read(open.file.fd(), secret.text.data() + at, secret.text.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
    if (got == 0) break;
    at += static_cast<std::size_t>(got);
  }
  secret.text.resize(at);
  return secret;
}

std::string read_private_line(const std::string& path, const std::string& kind) {
  const Secret secret = read_private(path, kind);
  std::string_view line = secret.text;
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty() || line.find_first_of(std::string_view("\r\n\0", 3)) != line.npos) {
    refuse(fmt::format("{}: is not {}: it must have one line", path, kind));
  }
  return std::string(line);
}

}  // namespace contcore
