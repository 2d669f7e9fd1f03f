// Talking to a service (contcore serve) over HTTP.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "contcore/memory.h"

namespace contcore::app {

/// The service answered, but not what was hoped for.
class RemoteRefusal : public Error {
 public:
  /// `reason` is what the service said, without the URL.
  RemoteRefusal(const std::string& what, int status, std::string reason)
      : Error(Kind::kInput, what), status_(status), reason_(std::move(reason)) {}

  int status() const { return status_; }
  const std::string& reason() const { return reason_; }
  /// Whether it is this one image that cannot be used, and others may be.
  bool is_about_the_image() const { return status_ == 413 || status_ == 415 || status_ == 422; }

 private:
  int status_;
  std::string reason_;
};

/// One service; one request at a time. Follows no redirects, waits and tries again when it is told
/// to (at most a minute for each request), and takes answers of at most 16 MiB.
class Remote {
 public:
  /// Whether Ctrl-C ends the request, with Error (kCancelled).
  enum class Stop { kAtOnce, kNever };

  /// `url` is such as "http://127.0.0.1:8080"; the token, if there is one, is that of the
  /// environment's CONTCORE_TOKEN. Throws Error (kUsage) for what can be neither.
  explicit Remote(const std::string& url);
  ~Remote();
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  /// The JSON object that is answered. `path` is such as "/v1/tasks/a%20b". Throws RemoteRefusal,
  /// and Error (kInput) when nobody answers; both name the URL, the reason and the remedy.
  nlohmann::json get(const std::string& path, Stop stop = Stop::kAtOnce);
  nlohmann::json post(const std::string& path, std::string_view body, const char* type,
                      Stop stop = Stop::kAtOnce);
  /// Never waits long: it is what is done on the way out.
  nlohmann::json remove(const std::string& path);

  /// Posts an image.
  nlohmann::json post(const std::string& path, std::span<const std::uint8_t> image);

  const std::string& url() const { return url_; }

  /// Throws that an answer does not have what it should have.
  [[noreturn]] void throw_strange(const std::string& path, const std::string& what) const;

 private:
  struct Connection;
  struct Request;
  struct Answer;
  Answer send(const Request& request);
  nlohmann::json ask(const Request& request);
  void refuse(const std::string& address, const Answer& answer) const;

  std::string url_;  // without a '/' at its end
  std::string token_;
  std::unique_ptr<Connection> connection_;
};

/// A name as it may stand in a path or a query.
std::string percent_encoded(std::string_view text);

/// What a service says, fit for a terminal: no control characters, not endless.
std::string clean(std::string_view text);

/// The value under a key if it is there and of that kind.
std::optional<double> number_in(const nlohmann::json& object, const char* key);
std::string text_in(const nlohmann::json& object, const char* key);
std::size_t count_in(const nlohmann::json& object, const char* key);

/// What the threshold of a task, as the service tells it, promises; "" if there is none.
std::string threshold_line(const nlohmann::json& task);

/// Throws Error (kUsage) if one of these options was given: they are for a memory's file.
void refuse_local_options(const CLI::App& command, const std::vector<std::string>& options);

/// The positionals of a command with --server, where the first is an image as well. Without it both
/// must be there. Throws CLI::RequiredError, and Error (kUsage) for an empty address or a memory's
/// name.
void sort_positionals(const CLI::App& command, const std::string& server, std::string& memory,
                      std::vector<std::string>& images);

}  // namespace contcore::app
