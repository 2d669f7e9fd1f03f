// Ranks that are threads of one process: what MPI does, without it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "contcore/ranks.h"

namespace contcore::in_threads {

/// Where the ranks meet. Who leaves by an exception is not waited for: the others get one too.
class MeetingPlace {
 public:
  explicit MeetingPlace(std::size_t size) : said_(size) {}

  std::size_t size() const { return said_.size(); }

  std::vector<Ranks::Bytes> meet(std::size_t rank, std::span<const std::uint8_t> mine) {
    std::unique_lock lock(mutex_);
    said_[rank].assign(mine.begin(), mine.end());
    const std::size_t round = round_;
    if (++here_ == said_.size()) {
      heard_ = said_;
      here_ = 0;
      ++round_;
      all_.notify_all();
    } else {
      all_.wait(lock, [&] { return round_ != round || left_; });
      if (round_ == round) throw Error(Error::Kind::kInternal, "another rank has gone");
    }
    return heard_;
  }

  void send(std::size_t from, std::size_t to, std::span<const std::uint8_t> bytes) {
    const std::lock_guard lock(mutex_);
    letters_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    all_.notify_all();
  }
  Ranks::Bytes receive(std::size_t from, std::size_t to) {
    std::unique_lock lock(mutex_);
    std::deque<Ranks::Bytes>& letters = letters_[{from, to}];
    all_.wait(lock, [&] { return !letters.empty() || left_; });
    if (letters.empty()) throw Error(Error::Kind::kInternal, "another rank has gone");
    Ranks::Bytes bytes = std::move(letters.front());
    letters.pop_front();
    return bytes;
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    left_ = true;
    all_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  std::vector<Ranks::Bytes> said_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Ranks::Bytes>> letters_;
  std::vector<Ranks::Bytes> heard_;  // stays until the next round is complete
  std::size_t here_ = 0;
  std::size_t round_ = 0;
  bool left_ = false;
};

class ThreadRanks : public Ranks {
 public:
  ThreadRanks(MeetingPlace& place, std::size_t rank) : place_(place), rank_(rank) {}
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return place_.size(); }
  std::size_t on_this_machine() const override { return place_.size(); }

 protected:
  std::vector<Bytes> exchange(std::span<const std::uint8_t> mine) override {
    return place_.meet(rank_, mine);
  }
  void hand_over(std::size_t to, std::span<const std::uint8_t> bytes) override {
    place_.send(rank_, to, bytes);
  }
  Bytes take_over(std::size_t from) override { return place_.receive(from, rank_); }

 private:
  MeetingPlace& place_;
  std::size_t rank_;
};

/// Does the same work as each of so many ranks. Throws what the first of them throws that did not
/// merely wait for another.
inline void on_ranks(std::size_t count, const std::function<void(Ranks&)>& work) {
  MeetingPlace place(count);
  std::vector<std::exception_ptr> errors(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ThreadRanks ranks(place, rank);
          work(ranks);
        } catch (...) {
          errors[rank] = std::current_exception();
          place.leave();
        }
      });
    }
  }
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      if (!first || e.kind() != Error::Kind::kInternal) first = error;
      if (e.kind() != Error::Kind::kInternal) break;
    } catch (...) {
      first = error;
      break;
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace contcore::in_threads
