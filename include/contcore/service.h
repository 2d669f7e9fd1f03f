// The service of `contcore serve`, run by a program of your own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "contcore/detector.h"

namespace contcore {

/// What is not here is as the command has it by default; the environment is not looked at.
struct ServeOptions {
  std::string memory;                 ///< the memory's file; made if it is not there
  std::string backbone;               ///< where the backbone is, if not where the memory says
  DetectorOptions settings;           ///< of a new memory
  std::string address = "127.0.0.1";  ///< to listen on
  std::uint16_t port = 8080;          ///< 0: any that is free
  std::string tokens;                 ///< file of tokens and their roles; empty: none
  Device device;                      ///< that inspecting and learning are done on
};

/// Inspects and learns over HTTP, in threads of its own, as long as it lives.
class RunningService {
 public:
  /// Ready when it returns. Throws Error: kUsage for an address that others can reach without
  /// tokens, kInput and kDamaged for files that cannot be used.
  explicit RunningService(const ServeOptions& options);
  /// As stop(), but what fails is not told: what was acknowledged is in the memory's journal.
  ~RunningService();

  /// Finishes what was accepted, then saves the memory. Throws Error when it cannot be saved.
  void stop();

  /// Where it listens.
  std::uint16_t port() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace contcore
