// The service: a line's memory behind an HTTP API, with a page.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "camera/camera.h"
#include "serve/http.h"
#include "serve/live_memory.h"
#include "serve/outputs.h"
#include "serve/store.h"
#include "serve/tokens.h"

namespace contcore {

/// Largest image that is taken, unless another is asked for.
inline constexpr std::size_t kLargestImage = std::size_t{32} << 20;

struct ServiceOptions {
  LiveMemoryOptions memory;
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;
  Tokens tokens;
  HttpLimits http;
  std::size_t queue = 64;      ///< inspections that may wait
  double rate = 0;             ///< requests a second for each client; 0: no limit
  double false_alarms = 0.05;  ///< of thresholds that nobody has set
  double strangers = 0.01;     ///< InspectOptions::strangers
  Retention retention;
  std::size_t threads = 0;  ///< images inspected at once; 0: one for each core
  Device device;            ///< that inspecting and learning are done on
  std::string watch;        ///< folder whose images are inspected; empty: none
  std::string station;      ///< that the watched folder's inspections are of; may be empty
  std::vector<std::chrono::minutes> shifts = {  ///< when they begin, local time after midnight
      std::chrono::hours(6), std::chrono::hours(14), std::chrono::hours(22)};
  OutputOptions outputs;
  std::vector<CameraSettings> cameras;
  std::string version;
  std::function<void(const std::string&)> note;  ///< for the log
};

class Service {
 public:
  /// Ready when it returns. Throws Error: kUsage for an address that others can reach without
  /// tokens, and as LiveMemory, Store and HttpServer.
  explicit Service(const ServiceOptions& options);
  /// As stop(); what fails then is told to the log alone.
  ~Service();

  /// Finishes what was accepted, saves the memory and delivers what it can of the verdicts that
  /// wait for the outputs. Throws Error when the memory cannot be saved: what was acknowledged is
  /// in its journal, and is there again at the next start.
  void stop();

  std::uint16_t port() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace contcore
