// A body that is made while it is sent.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

struct MHD_Connection;

namespace contcore {

/// One piece is in memory at a time: the next is asked for when the last has left, and meanwhile
/// the connection sleeps. So a client that reads slowly keeps a piece and no thread, and one that
/// leaves is asked for no more.
class HttpStream : public std::enable_shared_from_this<HttpStream> {
 public:
  /// Has somebody make the next piece and give() it. Called by the server's thread: must not wait.
  using Ask = std::function<void(std::shared_ptr<HttpStream>)>;
  explicit HttpStream(Ask ask) : ask_(std::move(ask)) {}

  /// The piece that was asked for; an empty one is the end. From any thread.
  void give(std::string piece);
  /// There will be no end: the client is to see that something is missing.
  void fail();
  /// Whether nobody reads it any more.
  bool is_closed();

  /// For the server's thread. The bytes copied, or one of these.
  static constexpr std::ptrdiff_t kAtEnd = -1;
  static constexpr std::ptrdiff_t kFailed = -2;
  /// 0: the connection sleeps until there is more.
  std::ptrdiff_t read(MHD_Connection* connection, char* to, std::size_t most);
  void close();

 private:
  void wake();

  const Ask ask_;
  std::mutex mutex_;
  std::string piece_;
  std::size_t at_ = 0;  // of it, what has left
  bool asked_ = false;
  bool ended_ = false;
  bool failed_ = false;
  bool closed_ = false;
  MHD_Connection* sleeping_ = nullptr;
};

}  // namespace contcore
