#include "remote_learn.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/utf8.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "progress_line.h"
#include "remote.h"
#include "review_report.h"

namespace contcore::app {
namespace {

struct Report {
  Review review;
  std::size_t learned = 0;
  std::vector<SkippedImage> skipped;
  std::size_t patches = 0;
};

constexpr std::size_t kReviewedOnline = 1000;  // images, as without a service

std::string job_path(const std::string& id) { return "/v1/jobs/" + percent_encoded(id); }

// A job that is cancelled unless it comes to its end.
class Job {
 public:
  Job(Remote& remote, const std::string& task, const SharedRegion& region) : remote_(remote) {
    nlohmann::json asked = {{"task", task}};
    if (region) asked["region"] = nlohmann::json::parse(region_text(*region));
    // Not stopped in the middle: the service would keep a job whose number nobody knows.
    const nlohmann::json said =
        remote.post("/v1/jobs", asked.dump(), "application/json", Remote::Stop::kNever);
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
  /// Nothing of it was meant to be learned.
  void drop() {
    left_ = true;
    remote_.remove(job_path(id_));
  }

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
    if (bytes.empty()) reason = file + ": is empty";
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

// Until the job is in that state.
nlohmann::json follow(Remote& remote, Job& job, const std::string& what, const char* until) {
  ProgressLine progress(what);
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
    if (state == until && state != "done") return said;
    if (state == "done" || state == "failed" || state == "cancelled") {
      job.leave();
      if (state == "done") return said;
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

// The service's numbers of images as ours: `sent` are the files it has taken, in its order. What is
// not as it should be is left out.
std::vector<std::size_t> as_ours(const nlohmann::json& numbers,
                                 const std::vector<std::size_t>& sent) {
  std::vector<std::size_t> ours;
  if (!numbers.is_array()) return ours;
  for (const nlohmann::json& number : numbers) {
    if (number.is_number_unsigned() && number.get<std::size_t>() < sent.size()) {
      ours.push_back(sent[number.get<std::size_t>()]);
    }
  }
  return ours;
}

Review review_in(const nlohmann::json& job, const std::vector<std::size_t>& sent) {
  Review review;
  const nlohmann::json said = job.value("review", nlohmann::json());
  if (!said.is_object()) return review;
  review.images = count_in(said, "images");
  review.scored = count_in(said, "scored");
  for (const nlohmann::json& remark : said.value("remarks", nlohmann::json::array())) {
    if (!remark.is_object()) continue;
    review.remarks.push_back({text_in(remark, "kind"), text_in(remark, "text"),
                              as_ours(remark.value("images", nlohmann::json()), sent)});
  }
  for (const nlohmann::json& image : said.value("strangest", nlohmann::json::array())) {
    if (!image.is_object()) continue;
    const auto ours =
        as_ours(nlohmann::json::array({image.value("image", nlohmann::json())}), sent);
    if (ours.empty()) continue;
    review.strangest.push_back({ours[0], static_cast<float>(number_in(image, "score").value_or(0)),
                                static_cast<float>(number_in(image, "usual").value_or(0))});
  }
  return review;
}

// Sends the images to the job, and tells what the service has to say against them before anything
// is learned.
void review_job(Remote& remote, Job& job, const RemoteLearn& command,
                const std::vector<std::string>& files, Report& report) {
  std::vector<std::size_t> sent;
  {
    ProgressLine progress(fmt::format("sending {}", counted(files.size(), "image")));
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string name = std::filesystem::path(files[i]).filename().string();
      const std::string path =
          fmt::format("{}/images?name={}", job_path(job.id()), percent_encoded(name));
      nlohmann::json said;
      if (send_image(remote, command, path, files[i], report, said)) sent.push_back(i);
      progress.update(static_cast<double>(i + 1) / static_cast<double>(files.size()));
      stop_if_asked();
    }
  }
  if (sent.empty()) throw_none(report);
  remote.post(job_path(job.id()) + "/review", "", nullptr);
  const nlohmann::json said =
      follow(remote, job, fmt::format("looking at {}", counted(sent.size(), "image")), "questions");
  report.review = review_in(said, sent);
  report_review(report.review, {command.task, files, command.review, ""});
  if (command.strict) refuse_if_any(report.review.remarks);
}

void learn_as_job(Remote& remote, const RemoteLearn& command, const std::vector<std::string>& files,
                  Report& report) {
  Job job(remote, command.task, command.region);
  stop_if_asked();
  review_job(remote, job, command, files, report);
  remote.post(job_path(job.id()) + "/start", "", nullptr);
  follow(remote, job,
         fmt::format("learning {}", counted(files.size() - report.skipped.size(), "image")),
         "done");
}

void learn_one_by_one(Remote& remote, const RemoteLearn& command,
                      const std::vector<std::string>& files, Report& report) {
  {
    // The images are looked at as a job that learns nothing.
    Job job(remote, command.task, command.region);
    Report looked;
    const std::size_t count = std::min(files.size(), kReviewedOnline);
    const std::vector<std::string> some(files.begin(),
                                        files.begin() + static_cast<std::ptrdiff_t>(count));
    review_job(remote, job, command, some, looked);
    report.review = std::move(looked.review);
    job.drop();
  }
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

std::string as_json(const RemoteLearn& command, const Report& report,
                    const std::vector<std::string>& files, const nlohmann::json& memory,
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
                    {"review", review_json(report.review, files)},
                    {"patches", report.patches},
                    {"vectors", count_in(memory, "vectors")},
                    {"capacity", count_in(memory, "capacity")},
                    {"certificate", certificate ? nlohmann::json(*certificate) : nlohmann::json()},
                    {"seconds", seconds}});
}

}  // namespace

void learn_remotely(const RemoteLearn& command) {
  Remote remote(command.server);
  if (!command.review.empty()) check_writable(command.review);
  const auto [files, found] = find_good_images(command.images);
  note_remarks(found, files);
  if (command.strict) refuse_if_any(found);
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
  report.review.remarks.insert(report.review.remarks.begin(), found.begin(), found.end());
  print_result(command.json
                   ? as_json(command, report, files, memory, count_in(after, "calibrated"), seconds)
                   : as_text(command, report, memory, after, seconds));
}

}  // namespace contcore::app
