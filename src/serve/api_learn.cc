// Learning: one image, many of them, and what a person says of an inspection.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/region_json.h"
#include "base/utf8.h"
#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/clock.h"
#include "serve/service.h"
#include "serve/store_checks.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCheckpointAfter = 16;  // images; replaying them must not make a start slow
constexpr auto kQuiet = std::chrono::seconds(2);
constexpr auto kSampleEvery = std::chrono::minutes(10);
constexpr auto kTryAgain = std::chrono::seconds(5);

// Of a job that does not receive: how it ended, if it did.
Refusal no_more(const Job& job, const std::string& what) {
  const std::string why = job.state().error;
  return {409, why.empty() ? what : fmt::format("{}: {}", what, why)};
}

constexpr std::size_t kLongestName = 400;  // bytes of an image's

constexpr char kNoMoreImages[] = "the job takes no more images";

std::shared_ptr<Job> job_of(Jobs& jobs, const std::string& id) {
  auto job = jobs.find(static_cast<std::uint64_t>(number_of(id, 404)));
  if (!job) {
    throw Refusal{404,
                  "there is no such job; if the service was started anew meanwhile, begin another"};
  }
  return job;
}

// Of a job: what it gives, or what the task has.
SharedRegion region_of_job(const Json& body, const std::string& task, const Memory& memory) {
  const auto found = body.find("region");
  if (found == body.end() || found->is_null()) return memory.region_of(task);
  try {
    const auto region = std::make_shared<const RegionOfInterest>(region_in(*found));
    memory.check_region(task, region);
    return region;
  } catch (const Error& error) {
    throw Refusal{400, error.what()};
  }
}

// Of a feedback, in the pixels of the image.
std::optional<DefectBox> region_of(const Json& body, const StoredInspection& row) {
  const auto found = body.find("region");
  if (found == body.end() || found->is_null()) return std::nullopt;
  const auto side = [&](const char* name) {
    if (!found->is_object() || !found->contains(name) || !(*found)[name].is_number()) {
      throw Refusal{400, "a region has the numbers x, y, width and height"};
    }
    return (*found)[name].get<double>();
  };
  const DefectBox box{side("x"), side("y"), side("width"), side("height")};
  const bool inside = box.width > 0 && box.height > 0 && box.x < row.width && box.y < row.height &&
                      box.x + box.width > 0 && box.y + box.height > 0;
  if (!inside) throw Refusal{400, "the region lies outside of the image"};
  return box;
}

// Numbers of images that are not to be learned.
std::vector<std::size_t> without_of(const HttpRequest& request, std::size_t received) {
  if (request.body.empty()) return {};
  const Json body = object_of(request);
  if (!body.contains("without")) return {};
  std::vector<std::size_t> without;
  if (!body["without"].is_array()) throw Refusal{400, "\"without\" is a list of image numbers"};
  for (const Json& number : body["without"]) {
    if (!number.is_number_unsigned() || number.get<std::size_t>() >= received) {
      const std::string sent = number.is_number() ? ": " + number.dump() : "";
      throw Refusal{400, fmt::format("\"without\" has what is no number of one of the {} images{}",
                                     received, sent)};
    }
    without.push_back(number.get<std::size_t>());
  }
  return without;
}

// Whether a good image seldom scores as much: what that asks about is measured in docs/serving.md.
bool is_far_above(const StoredInspection& row) {
  constexpr float kFar = 1.1F;
  return row.threshold && row.score > kFar * *row.threshold;
}

// Of no known product, or, where one was named, not like it: rejected for no score.
bool is_stranger(const StoredInspection& row) {
  return row.verdict == "unknown" ||
         (row.verdict == "defect" && row.threshold && !(row.score > *row.threshold));
}

}  // namespace

void Api::stop_learning(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_.empty() && options_.note) options_.note("learning stops: " + reason);
  stopped_ = reason;
  learned_ = Clock::now();
}

// The journal may be broken, and what it holds unsaved: saving the memory mends both.
void Api::resume_learning(Compute& compute) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_.empty()) return;
  }
  try {
    live_.checkpoint(compute);
  } catch (const Error& error) {
    stop_learning(error.what());
    throw Refusal{503, fmt::format("nothing is learned: {}", error.what())};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_.clear();
  if (options_.note) options_.note("learning goes on");
}

void Api::learn(const Lesson& lesson, Compute& compute, const std::function<void()>& before) {
  const Image picture = decode(lesson.image);
  // Alone: a crew that works in step would wait for whichever of it the inspections hold up.
  const Patches patches = extract(picture, alone_, live_.memory()->region_of(lesson.task));
  take(lesson, patches, compute, before);
}

void Api::take(const Lesson& lesson, const Patches& patches, Compute& compute,
               const std::function<void()>& before) {
  resume_learning(compute);
  // What is wrong with this lesson alone is no reason to stop.
  if (lesson.image.size() > JournalLimits().record_bytes / 2) {
    throw Refusal{413, "the image has too many bytes to be learned"};
  }
  const auto check = [&] {
    try {
      check_lesson(*live_.memory(), lesson);
      if (lesson.defect) {
        defect_patches(*live_.memory(), lesson.task, patches, *lesson.defect, compute);
      }
    } catch (const Error& error) {
      throw Refusal{lesson.defect ? 409 : 400, error.what()};
    }
  };
  check();
  if (before) {
    before();
    check();  // the memory may be another now
  }
  try {
    live_.take(lesson, patches, compute);
  } catch (const Error& error) {
    stop_learning(error.what());
    throw Refusal{503, fmt::format("nothing is learned: {}", error.what())};
  }
  if (lesson.inspection != 0 && !lesson.defect) note_good(lesson.inspection, utc_now_ms());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    learned_ = Clock::now();
  }
  if (lesson.defect) {
    metrics_.counter("contcore_shown_defects_total", "Images that showed a defect").add();
  } else if (!lesson.threshold) {
    metrics_.counter("contcore_learned_images_total", "Images learned one at a time").add();
  }
  if (live_.unsaved() >= kCheckpointAfter) {
    try {
      live_.checkpoint(compute);
      sample();
    } catch (const Error& error) {
      stop_learning(error.what());  // the image itself is safe in the journal
    }
  }
}

// What the journal says of an inspection the store is to say too, sooner or later: it does before
// the journal is begun anew.
void Api::note_good(std::int64_t id, const std::string& time) {
  const std::uint64_t images = images_in(*live_.memory());
  const std::string stored = with_milliseconds(time);
  const std::lock_guard<std::mutex> lock(mutex_);
  good_.insert_or_assign(id,
                         Store::CalledGood{is_stored_time(stored) ? stored : utc_now_ms(), images});
}

void Api::store_good() {
  std::map<std::int64_t, Store::CalledGood> good;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    good = good_;
  }
  if (good.empty()) return;
  store_.called_good(good);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, called] : good) good_.erase(id);
}

// From time to time, when nothing is to be learned.
void Api::idle(Compute& compute) {
  jobs_.forget();
  bool quiet = false;
  bool due = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto since = Clock::now() - learned_;
    quiet = since > kQuiet && (stopped_.empty() || since > kTryAgain);
    due = Clock::now() - sampled_ > kSampleEvery;
  }
  if (quiet && live_.unsaved() > 0) {
    try {
      live_.checkpoint(compute);
      const std::lock_guard<std::mutex> lock(mutex_);
      stopped_.clear();
    } catch (const Error& error) {
      stop_learning(error.what());
    }
    due = true;
  }
  if (due) sample();
}

HttpResponse Api::learn_image(const HttpRequest& request, const Params& params, Compute& compute) {
  const std::string& name = task_name(params[0], *live_.memory());
  Lesson lesson;
  lesson.task = name;
  lesson.who = who(request);
  lesson.image = image_of(request);
  learn(lesson, compute);
  const auto memory = live_.memory();
  const std::size_t t = memory->find_task(name).value();
  return json_response(201, {{"task", this->task(*memory, t, memory->states()[t])}});
}

// The defect that a person sees, in the region drawn or in what was outlined, becomes known. An
// inspection that is of no task, is not kept, or had nothing outlined, teaches nothing; a region
// that cannot be learned is refused. `before` is called when nothing is left that could be refused.
void Api::show_defect(const StoredInspection& row, const std::optional<DefectBox>& region,
                      const std::string& who, const std::function<void()>& before,
                      Compute& compute) {
  const auto kept = store_.image(row.id);
  const bool known = !row.task.empty() && live_.memory()->find_task(row.task);
  if (!kept || !known) {
    if (!region) return before();
    throw Refusal{409, kept ? "it belongs to no task, so its defect cannot be learned"
                            : "its image is not kept any more, so its defect cannot be learned"};
  }
  Lesson lesson;
  lesson.task = row.task;
  lesson.image = kept->bytes;
  lesson.inspection = row.id;
  lesson.who = who;
  lesson.defect.emplace().box = region;
  if (!region) {
    const auto map = store_.map(row.id);
    if (!map || row.verdict != "defect") return before();
    lesson.defect->level = layers(row).level;
  }
  try {
    learn(lesson, compute, before);
  } catch (const Refusal& refusal) {
    if (region || refusal.status != 409) throw;
    before();  // what was outlined then may not be any more
  }
}

HttpResponse Api::feedback(const HttpRequest& request, const Params& params, Compute& compute) {
  const Json body = object_of(request);
  if (!body.contains("label") || !body["label"].is_string()) throw Refusal{400, "give a label"};
  const std::string label = body["label"].get<std::string>();
  if (!label.empty() && label != "good" && label != "defect") {
    throw Refusal{400, "a label is \"good\", \"defect\" or \"\""};
  }
  const StoredInspection row = stored(params);
  const std::optional<DefectBox> region = region_of(body, row);
  if (region && label != "defect") throw Refusal{400, "a region is of a defect"};
  // What it taught before, as good or as a defect, is not so. It goes when nothing is left that
  // could be refused: a refusal changes nothing.
  LessonId earlier = label != row.feedback || region ? live_.lesson_of(row.id) : 0;
  const auto take_back_earlier = [&] {
    if (earlier != 0) take_back({{std::exchange(earlier, 0)}, {}}, compute);
  };
  if (label == "good" && !row.learned) {
    const auto kept = store_.image(row.id);
    if (!kept) throw Refusal{409, "its image is not kept any more, so it cannot be learned"};
    if (row.task.empty()) throw Refusal{409, "it belongs to no task, so it cannot be learned"};
    if (!live_.memory()->find_task(row.task)) {
      throw Refusal{
          409, fmt::format("there is no task '{}' any more, so it cannot be learned", row.task)};
    }
    const bool confirmed = body.contains("confirm") && body["confirm"] == true;
    if (is_far_above(row) && !confirmed) {
      throw Refusal{409,
                    fmt::format("its score of {:.4g} is far above the threshold of {:.4g}: what is "
                                "learned as good is not called a defect any more; send "
                                "\"confirm\": true if it is good",
                                row.score, *row.threshold),
                    true};
    }
    if (is_stranger(row) && !confirmed) {
      throw Refusal{
          409,
          fmt::format("it is not like {}: learned as good it is one of them; send \"confirm\": "
                      "true if it is",
                      row.task),
          true};
    }
    Lesson lesson;
    lesson.task = row.task;
    lesson.image = kept->bytes;
    lesson.who = who(request);
    lesson.calibrates = false;  // it was a false alarm, or it would not be taught: no yardstick
    lesson.inspection = row.id;
    learn(lesson, compute, take_back_earlier);
    try {
      store_good();
    } catch (const Error& error) {
      if (options_.note) options_.note(error.what());  // it is learned all the same
    }
    return json_response(200, shown(stored(params)));
  }
  if (label == "defect") show_defect(row, region, who(request), take_back_earlier, compute);
  take_back_earlier();
  store_good();
  store_.feedback(row.id, label, utc_now_ms());
  promises_.changed(row.task);
  return json_response(200, shown(stored(params)));
}

HttpResponse Api::create_job(const HttpRequest& request, const Params& /*params*/,
                             Compute& /*compute*/) {
  const Json body = object_of(request);
  if (!body.contains("task") || !body["task"].is_string()) throw Refusal{400, "give a task"};
  const std::string task = body["task"].get<std::string>();
  const auto memory = live_.memory();
  const SharedRegion region = region_of_job(body, task_name(task, *memory), *memory);
  const auto job = jobs_.create(task, memory->dimension(), region);
  if (!job) {
    throw Refusal{503,
                  "too many jobs receive images already; one of them gives way when nothing "
                  "has come for it for half a minute"};
  }
  job->write_down(who(request), live_.new_images());
  HttpResponse response = json_response(201, as_json(job->state()));
  response.headers.emplace_back("Location", fmt::format("/v1/jobs/{}", job->state().id));
  return response;
}

HttpResponse Api::job_image(const HttpRequest& request, const Params& params, Compute& compute) {
  const auto job = job_of(jobs_, params[0]);
  if (!job->untouched()) throw no_more(*job, kNoMoreImages);
  job->touch();
  const auto named = request.query.find("name");
  JobImage image{
      named == request.query.end() ? "" : valid_utf8(named->second.substr(0, kLongestName)), {}};
  std::string_view bytes;
  Patches patches;
  try {
    bytes = image_of(request);
    const Image picture = decode(bytes);
    patches = extract(picture, compute, job->region());
    image.look = look_at(picture, job->region());
  } catch (const Refusal& refused) {
    job->skip(image.name, refused.detail);
    throw;
  }
  std::optional<std::size_t> number;
  try {
    const std::span as_came(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    number = job->take(patches, std::move(image), as_came);
  } catch (const Error& error) {
    throw Refusal{507, fmt::format("the job has failed: {}", error.what())};
  }
  if (!number) throw no_more(*job, kNoMoreImages);
  Json answer = as_json(job->state());
  answer["image"] = *number;
  return json_response(200, answer);
}

HttpResponse Api::review_job(const HttpRequest& /*request*/, const Params& params,
                             Compute& /*compute*/) {
  const auto job = job_of(jobs_, params[0]);
  job->touch();
  if (!job->start_review()) {
    throw no_more(*job, "the job has no images, or was reviewed, started or ended before");
  }
  if (!learner_->submit([this, job](Compute& compute) { job->review(live_, compute); })) {
    job->put_off();
    throw Refusal{503, "too much waits to be learned already"};
  }
  return json_response(202, as_json(job->state()));
}

HttpResponse Api::start_job(const HttpRequest& request, const Params& params,
                            Compute& /*compute*/) {
  const auto job = job_of(jobs_, params[0]);
  switch (jobs_.start(*job, without_of(request, job->state().received))) {
    case Jobs::Start::kStarted:
      break;
    case Jobs::Start::kNothingToLearn:
      throw no_more(*job, "the job has no images, or was started or ended before");
    case Jobs::Start::kFull:
      throw Refusal{503, "too many jobs wait to be learned already"};
  }
  const bool taken = learner_->submit([this, job](Compute& compute) {
    const auto learning = [&](bool is) {
      const std::lock_guard<std::mutex> lock(mutex_);
      learning_ = is;
      learned_ = Clock::now();
    };
    learning(true);
    try {
      resume_learning(compute);
    } catch (const Refusal&) {
      // The job will say so itself.
    }
    if (const auto reason = job->learn(live_, compute)) {
      stop_learning(*reason);
    } else if (job->state().state == "done") {
      metrics_.counter("contcore_jobs_total", "Tasks learned by jobs").add();
      promises_.begin_anew(job->state().task);
      sample();
    }
    learning(false);
  });
  if (!taken) {
    job->put_off();
    throw Refusal{503, "too much waits to be learned already"};
  }
  return json_response(202, as_json(job->state()));
}

HttpResponse Api::jobs(const HttpRequest& /*request*/, const Params& /*params*/,
                       Compute& /*compute*/) {
  Json list = Json::array();
  for (const JobState& state : jobs_.list()) list.push_back(as_json(state));
  return json_response(200, {{"jobs", std::move(list)}});
}

HttpResponse Api::job(const HttpRequest& /*request*/, const Params& params, Compute& /*compute*/) {
  return json_response(200, as_json(job_of(jobs_, params[0])->state()));
}

HttpResponse Api::cancel_job(const HttpRequest& /*request*/, const Params& params,
                             Compute& /*compute*/) {
  const auto job = job_of(jobs_, params[0]);
  job->cancel();
  return json_response(200, as_json(job->state()));
}

}  // namespace contcore
