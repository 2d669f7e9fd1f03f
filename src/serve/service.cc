#include "serve/service.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/file.h"
#include "contcore/error.h"
#include "device/gpu.h"
#include "serve/api.h"
#include "serve/cameras.h"
#include "serve/http_listen.h"
#include "serve/watch.h"

namespace contcore {
namespace {

constexpr double kDrainSeconds = 30;

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

ServiceOptions checked(ServiceOptions options) {
  if (!is_loopback(options.address) && options.tokens.empty()) {
    throw Error(Error::Kind::kUsage,
                fmt::format("others can reach {}, so tokens are needed; give them with --tokens "
                            "FILE, or listen on 127.0.0.1",
                            options.address));
  }
  if (options.address == "localhost") options.address = "127.0.0.1";
  return options;
}

LiveMemory open_memory(const ServiceOptions& options) {
  Compute compute(0, options.device);
  try {
    compute.gpu();  // one that is not there is to be told now, not to every client
  } catch (const GpuError&) {
    // Others have it now; what it cannot do then the processor does.
  }
  return {options.memory, compute};
}

// It keeps images, so whoever may not read the memory may not read it either.
std::string place_for_store(const std::string& memory) {
  const std::string path = memory + ".db";
  const File fresh(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fresh.is_open()) share_rights(fresh.fd(), memory);
  return path;
}

}  // namespace

class Service::State {
 public:
  explicit State(const ServiceOptions& given)
      : options_(checked(given)),
        place_(take_place(options_.address, options_.port)),
        live_(open_memory(options_)),
        store_(place_for_store(live_.path()), options_.retention, std::chrono::steady_clock::now,
               options_.shifts),
        outputs_(options_.outputs, store_, options_.note),
        cameras_(options_.cameras, at_once(), options_.note),
        api_(options_, live_, store_, outputs_, cameras_),
        server_(
            std::move(place_), options_.http,
            [this](const HttpRequest& head) { return api_.admit(head); },
            [this](HttpRequest&& request, HttpReply reply) {
              api_.handle(std::move(request), std::move(reply));
            }) {
    if (options_.note && !live_.remark().empty()) options_.note(live_.remark());
    if (!options_.watch.empty()) {
      watch_ = start_watch();
    }
    cameras_.start([this](const std::string& station, Frame&& frame, CameraFeed::Done done) {
      return api_.inspect_frame(station, std::move(frame), std::move(done));
    });
  }

  ~State() {
    try {
      stop();
    } catch (const std::exception& error) {
      // What was acknowledged is in the journal.
      if (options_.note) options_.note(error.what());
    }
  }

  void stop() {
    if (std::exchange(stopped_, true)) return;
    api_.wind_down();
    if (watch_) watch_->stop();
    cameras_.stop();
    server_.drain(kDrainSeconds);
    api_.finish();
    Compute compute(0, options_.device);
    live_.checkpoint(compute);
    outputs_.stop();
    store_.flush();
  }

  std::uint16_t port() const { return server_.port(); }

 private:
  std::unique_ptr<Watch> start_watch() {
    WatchHooks hooks;
    hooks.inspect = [this](const std::string& path, const std::string& name,
                           WatchHooks::Done done) {
      return api_.inspect_file(path, name, std::move(done));
    };
    hooks.flush = [this] { store_.flush(); };
    hooks.note = [this](const std::string& text) {
      if (options_.note) options_.note(text);
    };
    hooks.report = [this](const WatchState& state) { api_.show_watch(state); };
    WatchLimits limits;
    limits.at_once = at_once();
    return std::make_unique<Watch>(options_.watch, live_.path() + ".watched", std::move(hooks),
                                   limits);
  }

  // Of a folder or a camera. All together must not keep those that come over HTTP out of the queue.
  std::size_t at_once() const {
    const std::size_t threads = options_.threads != 0
                                    ? options_.threads
                                    : std::max(1U, std::thread::hardware_concurrency());
    const std::size_t sources = options_.cameras.size() + (options_.watch.empty() ? 0 : 1);
    return std::max<std::size_t>(
        1, std::min(2 * threads, options_.queue / 2) / std::max<std::size_t>(1, sources));
  }

  const ServiceOptions options_;
  Listener place_;  // before the memory: where somebody else listens no file is made
  LiveMemory live_;
  Store store_;
  Outputs outputs_;
  Cameras cameras_;
  Api api_;
  HttpServer server_;
  std::unique_ptr<Watch> watch_;
  bool stopped_ = false;
};

Service::Service(const ServiceOptions& options) : state_(std::make_unique<State>(options)) {}
Service::~Service() = default;
void Service::stop() { state_->stop(); }
std::uint16_t Service::port() const { return state_->port(); }

}  // namespace contcore
