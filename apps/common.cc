#include "common.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string_view>

#include "base/utf8.h"
#include "contcore/embedding.h"
#include "contcore/error.h"
#include "coreset/points.h"
#include "coreset/sketch.h"
#include "device/gpu.h"
#include "memory/journal.h"
#include "progress_line.h"
#include "ranks.h"

namespace contcore::app {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t stop_flag = 0;
volatile std::sig_atomic_t writing_files = 0;

// While files are written a stop has to wait the moment it takes, or half a result would stay.
void on_interrupt(int) {
  if (stop_flag != 0 && writing_files == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  stop_flag = 1;
}

// The inputs are mapped: when a file shrinks under us, or its disk fails, the read ends here.
void on_bus_error(int) {
  constexpr std::string_view kMessage =
      "contcore: an input file was cut short or became unreadable while it was in use; nothing was "
      "written\n";
  [[maybe_unused]] const ssize_t ignored = ::write(2, kMessage.data(), kMessage.size());
  ::_exit(3);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction old {};
  // Whoever started us with the signal ignored (nohup, a shell's background) wants it so.
  if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const fs::path whole_a = fs::weakly_canonical(a, error);
  if (error) return a == b;
  const fs::path whole_b = fs::weakly_canonical(b, error);
  return error ? a == b : whole_a == whole_b;
}

bool is_regular_or_absent(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
}

// A device or a pipe; a stdout that is redirected to a file is replaced like any other file.
bool goes_to_stdout(const std::string& path) {
  struct stat file {};
  struct stat out {};
  return ::stat(path.c_str(), &file) == 0 && ::fstat(STDOUT_FILENO, &out) == 0 &&
         !S_ISREG(file.st_mode) && file.st_dev == out.st_dev && file.st_ino == out.st_ino;
}

}  // namespace

void check_writable(const std::string& path) {
  const auto fail = [&](const std::string& what) {
    throw Error(Error::Kind::kInput, fmt::format("{}: cannot be written: {}", path, what));
  };
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) fail("it is a folder; give the name of a file");
    if (!S_ISREG(info.st_mode)) {
      if (::access(path.c_str(), W_OK) != 0) fail(std::strerror(errno));
      return;
    }
  }
  std::string folder = fs::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  if (::stat(folder.c_str(), &info) != 0) {
    fail(fmt::format("the folder {}: {}; create it first", folder, std::strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode)) fail(fmt::format("{} is not a folder", folder));
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(fmt::format("the folder {}: {}", folder, std::strerror(errno)));
  }
}

void note_lessons(std::size_t lessons) {
  if (lessons == 0) return;
  note(fmt::format("{} that a service was taught {} taken from its journal",
                   counted(lessons, "lesson"), lessons == 1 ? "was" : "were"));
}

Detector open_detector(const std::string& memory, const std::string& backbone,
                       const Device& device) {
  std::size_t lessons = 0;
  Detector detector = Detector::open(memory, backbone, &lessons, device);
  note_lessons(lessons);
  return detector;
}

void catch_interrupts() {
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_interrupt);
  handle(SIGBUS, on_bus_error);
  // A reader that goes away is an error of that write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
}

bool stop_asked() { return stop_flag != 0; }

void stop_if_asked() {
  if (stop_asked()) throw Error(Error::Kind::kCancelled, "stopped");
}

std::size_t parse_size(const std::string& text) {
  const auto fail = [&] {
    throw Error(Error::Kind::kUsage,
                fmt::format("'{}' is not a size; write it like 512M, 2G or 1.5GiB", text));
  };
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0) fail();
  std::string unit(rest, end);
  std::transform(unit.begin(), unit.end(), unit.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  constexpr std::string_view kPrefixes = "KMGT";
  int power = 0;
  if (!unit.empty() && unit != "B") {
    const std::size_t found = kPrefixes.find(unit[0]);
    const std::string_view after = std::string_view(unit).substr(1);
    if (found == kPrefixes.npos || !(after.empty() || after == "B" || after == "IB")) fail();
    power = static_cast<int>(found) + 1;
  }
  const double bytes = std::ldexp(number, 10 * power);
  if (bytes >= 0x1p63) fail();
  // 0 means no limit, so a part of a byte must not become 0.
  return static_cast<std::size_t>(std::ceil(bytes));
}

void check_finite(VectorView vectors, const std::string& name) {
  std::vector<float> scratch(vectors.cols);
  for (std::size_t i = 0; i < vectors.rows; ++i) {
    if (i % 4096 == 0) stop_if_asked();
    const float* row = vectors.row(i, scratch.data());
    for (std::size_t j = 0; j < vectors.cols; ++j) {
      if (!std::isfinite(row[j])) throw_not_finite(name, i, j, row[j]);
    }
  }
}

std::string counted(std::uint64_t count, const std::string& thing) {
  if (count == 1) return "1 " + thing;
  return thing.ends_with('y') ? fmt::format("{} {}ies", count, thing.substr(0, thing.size() - 1))
                              : fmt::format("{} {}s", count, thing);
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::string threshold_text(const Threshold& threshold) {
  if (threshold.by_hand) return fmt::format("threshold {:.4g}: set by hand", threshold.score);
  return fmt::format(
      "threshold {:.4g}: about {:.1f} % of good images score above it (calibrated with {})",
      threshold.score, 100 * threshold.false_alarms, counted(threshold.images, "image"));
}

std::string certificate_text(double certificate, std::size_t vectors) {
  return vectors > 0 && std::isfinite(certificate) ? fmt::format("{:.4g}", certificate) : "none";
}

void print_result(const std::string& text) {
  if (!is_first()) return;
  if (::isatty(STDOUT_FILENO) == 1) ProgressLine::step_aside();
  errno = 0;
  const bool printed = std::fputs(printable(text).c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  // A reader that went away has seen all it wanted.
  if (printed || errno == EPIPE) return;
  throw Error(Error::Kind::kInput,
              fmt::format("standard output: cannot be written: {}", std::strerror(errno)));
}

void note_remark(const Detector& detector) {
  if (!detector.remark().empty()) note(detector.remark());
}

std::vector<std::string> find_and_note(const std::vector<std::string>& paths) {
  std::vector<std::string> unread;
  std::vector<std::string> files = find_images(paths, &unread);
  if (!unread.empty()) note(remark_on_unread(std::move(unread)));
  return files;
}

void note(const std::string& text) {
  if (!is_first()) return;
  ProgressLine::step_aside();
  std::fputs(fmt::format("contcore: {}\n", printable_name(text)).c_str(), stderr);
}

void note_lines(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) note(line);
}

CLI::Validator whole_number(std::uint64_t least) {
  const auto check = [least](const std::string& text) -> std::string {
    std::uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && rest == end && number >= least) return "";
    return fmt::format("'{}' is not a whole number from {} on", text, least);
  };
  return CLI::Validator(check, "");
}

CLI::Validator vector_dimension() {
  const auto check = [](const std::string& text) -> std::string {
    std::size_t number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    const bool fits = number > 0 && number <= kLargestDimension;
    if (error == std::errc() && rest == end && fits) return "";
    return fmt::format("'{}' is not a dimension; a patch vector has 1 to {} numbers", text,
                       kLargestDimension);
  };
  return CLI::Validator(check, "");
}

CLI::Validator size_text() {
  const auto check = [](const std::string& text) -> std::string {
    try {
      parse_size(text);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  return CLI::Validator(check, "");
}

CLI::Validator some_text() {
  const auto check = [](const std::string& text) -> std::string {
    return text.empty() ? "it is empty; leave the option out, or give it a value" : "";
  };
  return CLI::Validator(check, "");
}

void check_paper(const CLI::App& command) {
  if (command.count("--paper") == 0) return;
  for (const char* option : {"--precision", "--dimension", "--resize", "--crop", "--tile",
                             "--overlap", "--score", "--consolidate", "--q"}) {
    if (command.count(option) == 0) continue;
    throw Error(
        Error::Kind::kUsage,
        fmt::format("--paper sets {0} as the paper has it; leave out {0}, or --paper", option));
  }
}

Device DeviceOption::chosen(std::size_t number) const {
  Device device = Device::parse(word_);
  if (word_ == "auto") {
    if (number > 0 && !device.is_cpu()) {
      const std::vector<GpuInfo> gpus = find_gpus().all;
      device = gpus[number % gpus.size()].device;
    }
    warming_up_ = std::make_shared<std::jthread>(warm_up(device));
  } else {
    try {  // who names one is told now that it does not work
      Compute(1, device).gpu();
    } catch (const GpuError& error) {
      throw Error(Error::Kind::kUsage, error.what());
    }
  }
  return device;
}

void DeviceOption::add_to(CLI::App& command) {
  command
      .add_option("--device", word_,
                  "What computes: auto (a GPU where one can be used), cpu, cuda, cuda:1 and so on "
                  "(default: auto)")
      ->type_name("DEVICE");
}

void CommonOptions::add_to(CLI::App& command) {
  device.add_to(command);
  add_processor_to(command);
}

Compute CommonOptions::compute() const {
  const Place place = place_of_rank();
  Device where;
  do_on_all(ranks(), [&] { where = device.chosen(place.number); });
  return Compute(threads != 0 ? threads : place.threads, where);
}

void CommonOptions::add_processor_to(CLI::App& command) {
  command.add_option("--threads", threads, "Threads to use (default: one for each core)")
      ->check(CLI::Range(0, 1024))
      ->type_name("T");
  command.add_flag("--json", json, "Print the result as one JSON object");
}

Outputs::~Outputs() {
  for (const auto& path : written_) {
    if (is_regular_or_absent(path)) ::unlink(path.c_str());
  }
  writing_files = 0;
}

void Outputs::plan(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  for (const auto& input : inputs_) {
    if (!same_file(path, input)) continue;
    throw Error(Error::Kind::kUsage, fmt::format("{} {} would overwrite an input; give it another "
                                                 "name",
                                                 option, path));
  }
  for (const auto& other : planned_) {
    if (!is_regular_or_absent(path) || !same_file(path, other.path)) continue;
    throw Error(Error::Kind::kUsage, fmt::format("{} and {} both name {}; give each its own file",
                                                 other.option, option, path));
  }
  check_writable(path);
  planned_.push_back({option, path});
}

void Outputs::write(const std::string& path, const std::function<void(const std::string&)>& write) {
  stop_if_asked();
  if (path.empty()) return;
  writing_files = 1;
  write(path);
  written_.push_back(path);
}

void Outputs::finish(const std::string& result) {
  stop_if_asked();
  const bool taken = std::any_of(planned_.begin(), planned_.end(),
                                 [](const Planned& p) { return goes_to_stdout(p.path); });
  if (taken) {
    ProgressLine::step_aside();
    std::fputs(printable(result).c_str(), stderr);
  } else {
    print_result(result);
  }
  written_.clear();
}

std::string json_line(const nlohmann::json& object) {
  // Paths may hold bytes that are not UTF-8.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string error_text(const FeatureError& error, std::size_t images) {
  constexpr char kRemedy[] =
      ": it is of no use; calibrate it with images of your own (backbone quantize --images), or "
      "stay with float (--precision float)\n";
  if (error.all_zero) return std::string("its features are all zero") + kRemedy;
  const std::string text = fmt::format("patch vectors are {:.1f} % off the float ones on {}",
                                       error.relative * 100, counted(images, "image"));
  if (error.relative > kUselessError) return text + kRemedy;
  if (error.relative > kHarmlessError) {
    return text +
           ": more than the 25 % that has done no harm; compare with --precision float on images "
           "of your own\n";
  }
  return text + " (up to 25 % has done no harm)\n";
}

}  // namespace contcore::app
