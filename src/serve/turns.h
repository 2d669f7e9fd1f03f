// Work that several threads do at once, and whose results are told in the order in which it came.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace contcore {

/// Of work that is begun in the order in which it came, such as an Executor's: so who waits for its
/// turn waits for work that is being done.
class Turns {
 public:
  class Turn {
   public:
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Until all turns that were taken before are over.
    void wait();

   private:
    friend class Turns;
    explicit Turn(Turns& turns);
    const std::shared_ptr<struct TurnsState> state_;
    std::uint64_t number_;
  };

  Turns();
  /// It is over when its last owner lets go of it. May be called from any thread.
  std::shared_ptr<Turn> take() { return std::shared_ptr<Turn>(new Turn(*this)); }

 private:
  std::shared_ptr<TurnsState> state_;
};

struct TurnsState {
  std::mutex mutex;
  std::condition_variable over;
  std::uint64_t last = 0;
  std::set<std::uint64_t> open;
};

inline Turns::Turns() : state_(std::make_shared<TurnsState>()) {}

inline Turns::Turn::Turn(Turns& turns) : state_(turns.state_) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  number_ = ++state_->last;
  state_->open.insert(number_);
}

inline Turns::Turn::~Turn() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->open.erase(number_);
  }
  state_->over.notify_all();
}

inline void Turns::Turn::wait() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->over.wait(lock, [&] { return *state_->open.begin() == number_; });
}

}  // namespace contcore
