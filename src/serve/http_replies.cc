#include "serve/http_replies.h"

#include <microhttpd.h>
#include <poll.h>

#include <utility>

#include "serve/http_stream.h"

namespace contcore {

HttpResponse http_stopping() {
  return problem(503, "Service Unavailable", "the service is stopping; try again later");
}

bool HttpBodyBudget::take(std::size_t bytes) {
  std::size_t used = used_;
  do {
    if (bytes > most_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

std::size_t HttpBodyBudget::left() const { return most_ - used_; }

HttpBodyShare::HttpBodyShare(HttpBodyShare&& other) noexcept
    : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

HttpBodyShare& HttpBodyShare::operator=(HttpBodyShare&& other) noexcept {
  if (this != &other) {
    release();
    budget_ = std::move(other.budget_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

bool HttpBodyShare::grow_to(std::size_t bytes) {
  if (bytes <= bytes_) return true;
  if (!budget_->take(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

void HttpBodyShare::release() {
  if (bytes_ > 0) budget_->give_back(std::exchange(bytes_, 0));
}

std::shared_ptr<HttpExchange> HttpReplies::open(MHD_Connection* connection, int socket,
                                                HttpBodyShare share) {
  auto exchange = std::make_shared<HttpExchange>();
  exchange->connection = connection;
  exchange->socket = socket;
  exchange->share = std::move(share);
  const std::lock_guard lock(mutex_);
  if (closed_) return nullptr;
  owed_.insert(exchange);
  return exchange;
}

std::optional<HttpResponse> HttpReplies::take(HttpExchange& exchange) {
  const std::lock_guard lock(mutex_);
  return std::exchange(exchange.response, std::nullopt);
}

std::optional<HttpResponse> HttpReplies::take_or_sleep(HttpExchange& exchange) {
  const std::lock_guard lock(mutex_);
  if (exchange.answered) return std::exchange(exchange.response, std::nullopt);
  if (!exchange.suspended) {
    exchange.suspended = true;
    MHD_suspend_connection(exchange.connection);
  }
  return std::nullopt;
}

void HttpReplies::leave(HttpExchange* exchange) {
  if (exchange == nullptr) return;
  const std::lock_guard lock(mutex_);
  exchange->socket = -1;
}

// A connection that sleeps is not looked at by the server's thread.
bool HttpReplies::has_left(const HttpExchange& exchange) {
  const std::lock_guard lock(mutex_);
  if (exchange.socket < 0) return true;
  pollfd state{exchange.socket, POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0;
}

void HttpReplies::answer(const std::shared_ptr<HttpExchange>& exchange, HttpResponse&& response) {
  const std::lock_guard lock(mutex_);
  answer_locked(*exchange, std::move(response));
  owed_.erase(exchange);
}

bool HttpReplies::open(const std::shared_ptr<HttpStream>& stream) {
  const std::lock_guard lock(mutex_);
  if (streams_ended_) return false;
  std::erase_if(streams_, [](const auto& one) { return one.expired(); });
  streams_.push_back(stream);
  return true;
}

void HttpReplies::end_streams() {
  const std::lock_guard lock(mutex_);
  end_streams_locked();
}

void HttpReplies::end_streams_locked() {
  streams_ended_ = true;
  for (const auto& one : streams_) {
    if (const auto stream = one.lock()) stream->fail();
  }
}

void HttpReplies::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  end_streams_locked();
  for (const std::shared_ptr<HttpExchange>& exchange : owed_)
    answer_locked(*exchange, http_stopping());
  owed_.clear();
}

void HttpReplies::answer_locked(HttpExchange& exchange, HttpResponse&& response) {
  if (exchange.answered) return;
  exchange.answered = true;
  exchange.response = std::move(response);
  exchange.share.release();
  if (exchange.suspended) MHD_resume_connection(exchange.connection);
}

HttpReply::HttpReply(std::shared_ptr<HttpReplies> replies, std::shared_ptr<HttpExchange> exchange)
    : replies_(std::move(replies)), exchange_(std::move(exchange)) {}

HttpReply::~HttpReply() {
  if (exchange_ == nullptr) return;
  HttpResponse failed;
  failed.status = 500;
  try {
    failed = problem(500, "Internal Server Error", "the request was not answered");
  } catch (...) {  // no memory: the bare status must do
    failed.body.clear();
  }
  replies_->answer(exchange_, std::move(failed));
}

HttpReply& HttpReply::operator=(HttpReply&& other) noexcept {
  if (this == &other) return *this;
  const HttpReply dropped(std::move(*this));
  replies_ = std::move(other.replies_);
  exchange_ = std::move(other.exchange_);
  return *this;
}

bool HttpReply::client_has_left() const {
  return exchange_ != nullptr && replies_->has_left(*exchange_);
}

void HttpReply::send(HttpResponse response) {
  if (exchange_ == nullptr) return;
  replies_->answer(exchange_, std::move(response));
  exchange_.reset();
  replies_.reset();
}

}  // namespace contcore
