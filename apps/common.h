// What the subcommands share: options they have in common, stopping, results.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "contcore/compute.h"
#include "contcore/detector.h"
#include "contcore/memory.h"
#include "contcore/vectors.h"
#include "detector/eight_bit.h"

namespace contcore::app {

/// Makes Ctrl-C ask for a stop instead of ending the process; a second one ends it.
void catch_interrupts();

/// The exit code of inspect --fail-on-defect when an image is not good.
inline constexpr int kNotGood = 5;

/// Whether Ctrl-C was pressed.
bool stop_asked();

/// Throws Error (kCancelled) if Ctrl-C was pressed.
void stop_if_asked();

/// Bytes from "512M", "2G", "1.5GiB" or a plain number; powers of 1024. Throws Error (kUsage).
std::size_t parse_size(const std::string& text);

/// Throws Error (kInput) naming the first value that is not finite.
void check_finite(VectorView vectors, const std::string& name);

/// "3 vectors", "1 vector".
std::string counted(std::uint64_t count, const std::string& thing);

/// "a, b" from "a,b": the names between commas.
std::vector<std::string> split_names(const std::string& text);

/// The false-alarm rate that thresholds are shown for unless another is asked for.
inline constexpr double kFalseAlarms = 0.05;

/// What a threshold promises, in a sentence.
std::string threshold_text(const Threshold& threshold);

/// A memory's certificate, or "none": of an empty one, and where a task has no vector.
std::string certificate_text(double certificate, std::size_t vectors);

/// Throws Error (kInput) if a file of that name could not be written.
void check_writable(const std::string& path);

/// A memory with its backbone, as Detector::open gives it; says so when lessons that a service was
/// taught were taken from its journal.
Detector open_detector(const std::string& memory, const std::string& backbone,
                       const Device& device);

/// Says how many lessons that a service was taught were taken from its journal, if any.
void note_lessons(std::size_t lessons);

/// What there is to say of the list of its lessons, if anything.
void note_remark(const Detector& detector);

/// Prints on stdout, the first rank alone; throws Error (kInput) if that fails for another reason
/// than that nobody reads.
void print_result(const std::string& text);

/// A remark for the person at the terminal, on stderr; the first rank's alone.
void note(const std::string& text);

/// The same, line by line.
void note_lines(const std::string& text);

/// find_images(), with a note about those that are not read.
std::vector<std::string> find_and_note(const std::vector<std::string>& paths);

/// Features that are no further off the float ones than this have done no harm where it was tried.
inline constexpr double kHarmlessError = 0.25;

/// Features that are further off than this say something else.
inline constexpr double kUselessError = 0.6;

/// How far an 8-bit network's features are from the float one's, in a line.
std::string error_text(const FeatureError& error, std::size_t images);

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Accepts whole numbers from `least` on that fit into 64 bits (CLI11 alone wraps −1 around).
CLI::Validator whole_number(std::uint64_t least = 0);

/// Accepts the numbers that a patch vector may have.
CLI::Validator vector_dimension();

/// Accepts a text that parse_size() takes; an empty one would read as an option left out.
CLI::Validator size_text();

/// Accepts any text but an empty one, which would read as an option left out.
CLI::Validator some_text();

/// Throws Error (kUsage) if --paper stands beside an option that it sets.
void check_paper(const CLI::App& command);

/// --device: what computes, the same answers coming of each.
class DeviceOption {
 public:
  void add_to(CLI::App& command);
  /// Throws Error (kUsage) for a GPU that is not there. Of several that may be taken, the next one
  /// for each process of this machine.
  Device chosen(std::size_t number = 0) const;

 private:
  std::string word_ = "auto";
  mutable std::shared_ptr<std::jthread> warming_up_;  // while what needs no GPU goes on
};

/// Options of every subcommand that computes.
struct CommonOptions {
  std::size_t threads = 0;
  DeviceOption device;
  bool json = false;

  void add_to(CLI::App& command);
  /// The same but for the device, of what is done on the processor.
  void add_processor_to(CLI::App& command);
  /// What is to compute. Throws as DeviceOption::chosen. Of all ranks.
  Compute compute() const;
};

/// The files a command writes. They appear when all is computed, all of them or none: what was
/// written is removed again unless keep() is reached.
class Outputs {
 public:
  explicit Outputs(std::vector<std::string> inputs) : inputs_(std::move(inputs)) {}
  ~Outputs();
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  /// Plans a file, checking now that it can be written later; creates nothing. An empty path means
  /// that the file is not wanted.
  void plan(const std::string& option, const std::string& path);

  /// Writes the file with `write(path)`, if it is wanted.
  void write(const std::string& path, const std::function<void(const std::string&)>& write);

  /// Prints the result, on stdout unless a file goes there, and keeps the files.
  void finish(const std::string& result);

 private:
  struct Planned {
    std::string option;
    std::string path;
  };
  std::vector<std::string> inputs_;
  std::vector<Planned> planned_;
  std::vector<std::string> written_;
};

/// One line of JSON; numbers that JSON does not have become null.
std::string json_line(const nlohmann::json& object);

}  // namespace contcore::app
