// Verdicts sent on as they are made: to a reject arm, a PLC's gateway, an MES.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/output_address.h"
#include "serve/output_queue.h"
#include "serve/store.h"

namespace contcore {

struct OutputOptions {
  std::vector<OutputAddress> addresses;
  std::string webhook_secret;  ///< what webhooks are signed with; empty: with nothing
  std::string mqtt_password;   ///< may be empty
  std::size_t queue = 100000;  ///< verdicts that may wait for each; beyond, the oldest are dropped
};

/// Each output has a thread of its own and sends what the store has, in order: at least once, or it
/// is counted as dropped. Nobody waits for it, neither the inspections nor the other outputs; what
/// it has not delivered at the end it delivers after the next start.
class Outputs {
 public:
  /// Throws Error: kUsage for an output that is named twice, kInput where a library is missing or
  /// the store cannot be written.
  Outputs(const OutputOptions& options, Store& store, const OutputQueue::Note& note);
  /// As stop().
  ~Outputs();
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  /// An inspection was made; its id is 0 when it could not be kept.
  void came(const StoredInspection& row);
  std::vector<OutputState> states();

  /// Delivers what waits, for at most three seconds.
  void stop();

 private:
  struct Output;
  std::vector<std::unique_ptr<Output>> outputs_;
  std::string unkept_series_;  // of the keys of what has no id
  std::atomic<std::size_t> unkept_ = 0;
};

}  // namespace contcore
