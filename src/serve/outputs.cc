#include "serve/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <span>
#include <thread>
#include <utility>

#include "base/sha256.h"
#include "contcore/error.h"
#include "serve/clock.h"
#include "serve/curl.h"
#include "serve/mosquitto.h"
#include "serve/mqtt.h"
#include "serve/webhook.h"

namespace contcore {
namespace {

constexpr std::chrono::seconds kLastDeliveries{3};
constexpr std::chrono::seconds kAfterTrouble{1};

void check_names(const std::vector<OutputAddress>& addresses) {
  for (auto one = addresses.begin(); one != addresses.end(); ++one) {
    const bool twice = std::any_of(addresses.begin(), one, [&](const OutputAddress& earlier) {
      return earlier.name == one->name;
    });
    if (twice) {
      throw Error(Error::Kind::kUsage,
                  fmt::format("{}: is named twice; leave one of them out", one->name));
    }
  }
}

// What is missing is to be told before an output that is not named any more is forgotten.
void load_libraries(const std::vector<OutputAddress>& addresses) {
  for (const OutputAddress& address : addresses) {
    if (address.kind == OutputAddress::Kind::kWebhook) {
      libcurl();
    } else {
      libmosquitto();
    }
  }
}

void keep_cursors(const OutputOptions& options, Store& store, const OutputQueue::Note& note) {
  std::vector<std::string> names;
  for (const OutputAddress& address : options.addresses) names.push_back(address.name);
  if (names.empty() && store.outputs().empty()) return;
  for (const StoredOutput& gone : store.use_outputs(names, options.queue)) {
    if (!note) continue;
    note(fmt::format("{}: is not named any more and is forgotten; {} verdict{} waited for it",
                     gone.name, gone.waiting, gone.waiting == 1 ? "" : "s"));
  }
}

// The same for every start, so that a broker knows who comes back; another for each output.
std::string client_id(Store& store, const std::string& name) {
  const std::string who = store.series() + " " + name;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(who));
  return "contcore-" + sha256(std::array{bytes}).substr(0, 14);
}

}  // namespace

struct Outputs::Output {
  // Throws where the sender cannot be made.
  Output(const OutputAddress& address, const OutputOptions& options, Store& store,
         const OutputQueue::Note& note)
      : queue(store, address.name, note) {
    if (address.kind == OutputAddress::Kind::kWebhook) {
      send = [sender = std::make_shared<Webhook>(address, options.webhook_secret)](
                 OutputQueue& from) { sender->run(from); };
    } else {
      send = [sender = std::make_shared<Mqtt>(address, options.mqtt_password,
                                              client_id(store, address.name))](OutputQueue& from) {
        sender->run(from);
      };
    }
  }

  void start() {
    thread = std::thread([this] { run(); });
  }

  void run() {
    for (;;) {
      try {
        return send(queue);
      } catch (const std::exception& error) {
        queue.failed(error.what());
      }
      if (queue.stopping()) return;
      queue.pause(kAfterTrouble);
    }
  }

  OutputQueue queue;
  std::function<void(OutputQueue&)> send;
  std::thread thread;
};

Outputs::Outputs(const OutputOptions& options, Store& store, const OutputQueue::Note& note) {
  check_names(options.addresses);
  load_libraries(options.addresses);
  keep_cursors(options, store, note);
  unkept_series_ = fmt::format("{}-{}", store.series(), utc_now_ms());
  for (const OutputAddress& address : options.addresses) {
    outputs_.push_back(std::make_unique<Output>(address, options, store, note));
  }
  try {
    for (const auto& output : outputs_) output->start();
  } catch (...) {
    stop();
    throw;
  }
}

Outputs::~Outputs() { stop(); }

void Outputs::came(const StoredInspection& row) {
  const std::string key = row.id != 0 ? "" : fmt::format("{}-{}", unkept_series_, ++unkept_);
  for (const auto& output : outputs_) {
    if (row.id != 0) {
      output->queue.came();
    } else {
      output->queue.unkept(row, key);
    }
  }
}

std::vector<OutputState> Outputs::states() {
  std::vector<OutputState> states;
  for (const auto& output : outputs_) states.push_back(output->queue.state());
  return states;
}

void Outputs::stop() {
  const auto end = OutputQueue::Clock::now() + kLastDeliveries;
  for (const auto& output : outputs_) output->queue.stop(end);
  for (const auto& output : outputs_) {
    if (!output->thread.joinable()) continue;
    output->thread.join();
    output->queue.close();
  }
}

}  // namespace contcore
