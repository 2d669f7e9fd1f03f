#include "remote_learn.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/file.h"
#include "base/utf8.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "progress_line.h"
#include "remote.h"

namespace contcore::app {
namespace {

struct Report {
  std::size_t learned = 0;
  std::vector<SkippedImage> skipped;
  std::size_t patches = 0;
};

std::string job_path(const std::string& id) { return "/v1/jobs/" + percent_encoded(id); }

// A job that is cancelled unless it comes to its end.
class Job {
 public:
  Job(Remote& remote, const std::string& task) : remote_(remote) {
    // Not stopped in the middle: the service would keep a job whose number nobody knows.
    const nlohmann::json said = remote.post("/v1/jobs", nlohmann::json({{"task", task}}).dump(),
                                            "application/json", Remote::Stop::kNever);
    id_ = text_in(said, "id");
    if (id_.empty()) remote.throw_strange("/v1/jobs", "it has no id");
  }
  ~Job() {
    if (!left_) cancel();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const std::string& id() const { return id_; }
  void leave() { left_ = true; }

 private:
  void cancel() noexcept {
    try {
      const std::string state = text_in(remote_.remove(job_path(id_)), "state");
      note(state == "done" ? fmt::format("job {} was done already: what it learned stays", id_)
                           : fmt::format("job {} was cancelled: nothing of it was learned", id_));
    } catch (const RemoteRefusal& refusal) {
      note(fmt::format("job {} could not be cancelled: {}", id_, refusal.reason()));
    } catch (const std::exception&) {
      note(fmt::format("job {} could not be cancelled: the service does not answer", id_));
    }
  }

  Remote& remote_;
  std::string id_;
  bool left_ = false;
};

// Posts an image to `path`; one that cannot be used is left out, or (strict) the end. False then.
bool send_image(Remote& remote, const RemoteLearn& command, const std::string& path,
                const std::string& file, Report& report, nlohmann::json& said) {
  std::string reason;
  std::vector<std::uint8_t> bytes;
  try {
    bytes = read_whole(file, "an image", ImageLimits().bytes);
  } catch (const Error& error) {
    reason = error.what();
  }
  try {
    if (reason.empty()) {
      said = remote.post(path, bytes);
      return true;
    }
  } catch (const RemoteRefusal& refusal) {
    if (!refusal.is_about_the_image()) throw;
    reason = fmt::format("{}: {}", file, refusal.reason());
  }
  if (command.strict) throw Error(Error::Kind::kInput, reason);
  report.skipped.push_back({file, reason});
  return false;
}

void follow(Remote& remote, Job& job, std::size_t images) {
  ProgressLine progress(fmt::format("learning {}", counted(images, "image")));
  const std::string path = job_path(job.id());
  for (auto pause = std::chrono::milliseconds(50);;
       pause = std::min(2 * pause, std::chrono::milliseconds(1000))) {
    nlohmann::json said;
    try {
      said = remote.get(path);
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::kCancelled) throw;
      job.leave();
      throw Error(error.kind(), fmt::format("{} (job {} may still be learned by the service)",
                                            error.what(), job.id()));
    }
    const std::string state = text_in(said, "state");
    if (state == "done" || state == "failed" || state == "cancelled") {
      job.leave();
      if (state == "done") return;
      const std::string reason = text_in(said, "error");
      throw Error(Error::Kind::kInput,
                  fmt::format("{}{}: the job {}{}{}; nothing of it was learned", remote.url(), path,
                              state == "failed" ? "failed" : "was cancelled by somebody else",
                              reason.empty() ? "" : ": ", reason));
    }
    if (state.empty()) remote.throw_strange(path, "it has no state");
    progress.update(number_in(said, "progress").value_or(0));
    stop_if_asked();
    std::this_thread::sleep_for(pause);
  }
}

[[noreturn]] void throw_none(const Report& report) {
  throw Error(Error::Kind::kInput,
              fmt::format("none of the images could be used; the first: {}",
                          report.skipped.empty() ? "" : report.skipped.front().reason));
}

void learn_as_job(Remote& remote, const RemoteLearn& command, const std::vector<std::string>& files,
                  Report& report) {
  Job job(remote, command.task);
  stop_if_asked();
  {
    ProgressLine progress(fmt::format("sending {}", counted(files.size(), "image")));
    const std::string path = job_path(job.id()) + "/images";
    nlohmann::json said;
    for (std::size_t i = 0; i < files.size(); ++i) {
      send_image(remote, command, path, files[i], report, said);
      progress.update(static_cast<double>(i + 1) / static_cast<double>(files.size()));
      stop_if_asked();
    }
  }
  if (report.skipped.size() == files.size()) throw_none(report);
  remote.post(job_path(job.id()) + "/start", "", nullptr);
  follow(remote, job, files.size() - report.skipped.size());
}

void learn_one_by_one(Remote& remote, const RemoteLearn& command,
                      const std::vector<std::string>& files, Report& report) {
  ProgressLine progress(fmt::format("learning {}", counted(files.size(), "image")));
  const std::string path = fmt::format("/v1/tasks/{}/images", percent_encoded(command.task));
  for (std::size_t i = 0; i < files.size(); ++i) {
    nlohmann::json said;
    if (send_image(remote, command, path, files[i], report, said)) {
      ++report.learned;
    }
    progress.update(static_cast<double>(i + 1) / static_cast<double>(files.size()));
    stop_if_asked();
  }
  if (report.skipped.size() == files.size()) throw_none(report);
}

// What the service knows of the task; an empty object if that is nothing.
nlohmann::json task_of(Remote& remote, const std::string& name) {
  const nlohmann::json said = remote.get("/v1/tasks");
  if (!said.contains("tasks") || !said["tasks"].is_array()) {
    remote.throw_strange("/v1/tasks", "it has no tasks");
  }
  for (const nlohmann::json& task : said["tasks"]) {
    if (task.is_object() && task.contains("name") && task["name"] == name) return task;
  }
  return nlohmann::json::object();
}

std::size_t grown(const nlohmann::json& before, const nlohmann::json& after, const char* key) {
  return std::max(count_in(after, key), count_in(before, key)) - count_in(before, key);
}

std::string as_text(const RemoteLearn& command, const Report& report, const nlohmann::json& memory,
                    const nlohmann::json& task, double seconds) {
  std::string text =
      fmt::format("learned {} of {} in {:.1f} s: {} patches\n", counted(report.learned, "image"),
                  printable_name(command.task), seconds, report.patches);
  const auto certificate = number_in(memory, "certificate");
  text += fmt::format(
      "memory: {} of {} vectors{}\n", count_in(memory, "vectors"), count_in(memory, "capacity"),
      certificate ? fmt::format(", every patch learned lies within {:.4g} of one", *certificate)
                  : "");
  return text + threshold_line(task);
}

std::string as_json(const RemoteLearn& command, const Report& report, const nlohmann::json& memory,
                    std::size_t calibrated, double seconds) {
  nlohmann::json skipped = nlohmann::json::array();
  for (const SkippedImage& image : report.skipped) {
    skipped.push_back({{"file", image.file}, {"reason", image.reason}});
  }
  const auto certificate = number_in(memory, "certificate");
  return json_line({{"task", command.task},
                    {"learned", report.learned},
                    {"calibrated", calibrated},
                    {"skipped", skipped},
                    {"patches", report.patches},
                    {"vectors", count_in(memory, "vectors")},
                    {"capacity", count_in(memory, "capacity")},
                    {"certificate", certificate ? nlohmann::json(*certificate) : nlohmann::json()},
                    {"seconds", seconds}});
}

}  // namespace

void learn_remotely(const RemoteLearn& command) {
  Remote remote(command.server);
  const std::vector<std::string> files = find_images(command.images);
  const Stopwatch watch;
  const nlohmann::json before = task_of(remote, command.task);
  Report report;
  try {
    if (command.online) {
      learn_one_by_one(remote, command, files, report);
    } else {
      learn_as_job(remote, command, files, report);
    }
  } catch (const Error& error) {
    const std::size_t taken = report.learned;
    if (taken == 0) throw;
    // Each image was learned for good when it was answered.
    throw Error(error.kind(),
                fmt::format("{}; {} had been learned before that, and {} so", error.what(),
                            counted(taken, "image"), taken == 1 ? "stays" : "stay"));
  }
  const nlohmann::json after = task_of(remote, command.task);
  const nlohmann::json status = remote.get("/v1/status");
  const nlohmann::json memory = status.value("memory", nlohmann::json::object());
  const double seconds = watch.seconds();
  report.patches = grown(before, after, "patches");
  if (!command.online) {
    report.learned = grown(before, after, "images");
  }
  for (const SkippedImage& image : report.skipped) note("left out: " + image.reason);
  print_result(command.json
                   ? as_json(command, report, memory, count_in(after, "calibrated"), seconds)
                   : as_text(command, report, memory, after, seconds));
}

}  // namespace contcore::app
