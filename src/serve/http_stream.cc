#include "serve/http_stream.h"

#include <microhttpd.h>

#include <algorithm>
#include <utility>

namespace contcore {

void HttpStream::wake() {
  if (MHD_Connection* connection = std::exchange(sleeping_, nullptr)) {
    MHD_resume_connection(connection);
  }
}

void HttpStream::give(std::string piece) {
  const std::lock_guard lock(mutex_);
  if (closed_ || failed_ || ended_) return;
  ended_ = piece.empty();
  piece_ = std::move(piece);
  at_ = 0;
  asked_ = false;
  wake();
}

void HttpStream::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  wake();
}

bool HttpStream::is_closed() {
  const std::lock_guard lock(mutex_);
  return closed_ || failed_;
}

// A connection is woken with the lock held, and is put to sleep with it held: no piece is missed.
std::ptrdiff_t HttpStream::read(MHD_Connection* connection, char* to, std::size_t most) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return kFailed;
    if (at_ < piece_.size()) {
      const std::size_t bytes = std::min(most, piece_.size() - at_);
      std::copy_n(piece_.data() + at_, bytes, to);
      at_ += bytes;
      return static_cast<std::ptrdiff_t>(bytes);
    }
    if (ended_) return kAtEnd;
    sleeping_ = connection;
    MHD_suspend_connection(connection);
    if (std::exchange(asked_, true)) return 0;
  }
  ask_(shared_from_this());
  return 0;
}

void HttpStream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  sleeping_ = nullptr;
  piece_ = {};
  at_ = 0;
}

}  // namespace contcore
