#include "call.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace contcore::python {
namespace {

constexpr auto kAskEvery = std::chrono::milliseconds(50);

struct Pool {
  static constexpr std::size_t kMostIdle = 8;
  struct Idle {
    Where where;
    std::unique_ptr<Compute> compute;
  };
  std::mutex mutex;
  std::vector<Idle> idle;
  std::map<std::string, Device> devices;  // by the names that were asked for
};

// Never freed: its threads end with the process. A forked process has none of them, and begins
// anew.
std::atomic<Pool*> the_pool = nullptr;
std::atomic<bool> network_ran = false;
std::atomic<bool> forked_after_network = false;
std::atomic<bool> gpu_found = false;
std::atomic<bool> forked_after_gpu = false;
std::atomic<int> inside = 0;  // calls that are being computed
std::atomic<bool> ending = false;
std::thread::id ender;  // written before `ending`

void begin_anew() {
  the_pool = new Pool;
  inside = 0;
  if (network_ran) forked_after_network = true;
  if (gpu_found) forked_after_gpu = true;
}

Pool& pool() {
  static const bool made = [] {
    the_pool = new Pool;
    ::pthread_atfork(nullptr, nullptr, begin_anew);
    return true;
  }();
  static_cast<void>(made);
  return *the_pool;
}

// An interpreter that has ended gives nobody the GIL: it ends the thread that asks, by unwinding
// its stack, whose objects would need the GIL to go. Such a thread stays where it is instead, until
// the process ends.
[[noreturn]] void stay() {
  for (;;) ::pause();
}

template <typename Ask>
void ask_for_gil(const Ask& ask) {
  try {
    ask();
  } catch (...) {  // nothing but such an unwinding comes out of it
    stay();
  }
}

// Whether Python ends, and another thread than this ends it.
bool python_ends() { return ending && std::this_thread::get_id() != ender; }

}  // namespace

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {
  ++inside;
  if (!python_ends()) return;
  --inside;
  stay();
}

WithoutGil::~WithoutGil() {
  --inside;
  if (python_ends()) stay();
  ask_for_gil([this] { PyEval_RestoreThread(state_); });
}

WithGil::WithGil() {
  if (python_ends()) stay();
  ask_for_gil([this] { state_ = PyGILState_Ensure(); });
}

void end_calls() {
  ender = std::this_thread::get_id();
  ending = true;
  const WithoutGil release;
  const auto until = Watch::Clock::now() + std::chrono::seconds(5);
  while (inside > 1 && Watch::Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Watch::update(double done) {
  if (failure_ || stopped_ || python_ends()) return false;
  const Clock::time_point now = Clock::now();
  if (done < 1 && now - asked_ < kAskEvery) return true;
  asked_ = now;
  const WithGil gil;
  try {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!callback_.is_none()) stopped_ = callback_(done).is(py::bool_(false));
  } catch (...) {
    failure_ = std::current_exception();
  }
  return !failure_ && !stopped_;
}

Gpus known_gpus() {
  pool();  // told of forks from now on
  if (forked_after_gpu) return {};
  Gpus found = find_gpus();
  if (!found.all.empty()) gpu_found = true;
  return found;
}

Device device_named(const std::string& name) {
  if (name == "cpu") return {};
  Pool& kept = pool();  // told of forks from now on
  if (forked_after_gpu) {
    if (name == "auto") return {};
    throw Error(
        Error::Kind::kUsage,
        "this process was forked from one that had found a GPU, and cannot use it; start "
        "processes with multiprocessing.get_context('spawn') instead, or give device='cpu'");
  }
  const std::lock_guard lock(kept.mutex);
  const auto known = kept.devices.find(name);
  if (known != kept.devices.end()) return known->second;
  const Device found = Device::parse(name);
  if (!found.is_cpu()) gpu_found = true;
  kept.devices.emplace(name, found);
  return found;
}

PooledCompute::PooledCompute(const Where& where) : where_(where) {
  Pool& from = pool();
  {
    const std::lock_guard lock(from.mutex);
    for (auto at = from.idle.begin(); at != from.idle.end(); ++at) {
      if (at->where.threads != where.threads || at->where.device != where.device) continue;
      compute_ = std::move(at->compute);
      from.idle.erase(at);
      return;
    }
  }
  compute_ = std::make_unique<Compute>(where.threads, where.device);
}

PooledCompute::~PooledCompute() {
  Pool& to = pool();
  const std::lock_guard lock(to.mutex);
  if (to.idle.size() < Pool::kMostIdle) to.idle.push_back({where_, std::move(compute_)});
}

void network_runs() {
  pool();  // told of forks from now on
  if (forked_after_network) {
    throw Error(Error::Kind::kUsage,
                "this process was forked from one that had run a network, whose threads are not "
                "here; start processes with multiprocessing.get_context('spawn') instead");
  }
  network_ran = true;
}

}  // namespace contcore::python
