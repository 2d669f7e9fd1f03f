// Lessons, listed and taken back; versions of the memory; the names of tasks. In: numbers and
// names. Out: what the memory has been taught. Refuses what is not there, or not exact any more.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "contcore/error.h"
#include "memory/lesson_set.h"
#include "serve/api_common.h"
#include "serve/clock.h"
#include "serve/service.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLessonsListed = 100;
constexpr std::size_t kMostLessonsListed = 1000;
constexpr std::size_t kMostForgotten = 10000;

Json as_json(const TaughtLesson& lesson) {
  return {{"id", lesson.id},
          {"kind", lesson.kind},
          {"task", lesson.task},
          {"images", lesson.images},
          {"time", lesson.time},
          {"who", lesson.who},
          {"taken", lesson.taken},
          {"inspection", lesson.inspection == 0 ? Json(nullptr) : Json(lesson.inspection)},
          {"exact", lesson.exact},
          {"why", lesson.why},
          {"from", lesson.from},
          {"to", lesson.to}};
}

Json as_json(const MemoryVersion& version) {
  return {{"id", version.id},          {"time", version.time},       {"lessons", version.lessons},
          {"tasks", version.tasks},    {"vectors", version.vectors}, {"bytes", version.bytes},
          {"current", version.current}};
}

std::size_t number_given(const HttpRequest& request, const char* name, std::size_t otherwise) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  return static_cast<std::size_t>(number_of(found->second, 400));
}

Forget read_forget(const Json& body) {
  Forget what;
  for (const auto& [key, value] : body.items()) {
    if (key == "exact" && value.is_boolean()) {
      what.exact = value.get<bool>();
      continue;
    }
    if (!value.is_array() || value.size() > kMostForgotten ||
        (key != "lessons" && key != "tasks")) {
      throw Refusal{400, "give \"lessons\": [numbers] or \"tasks\": [names]"};
    }
    for (const Json& one : value) {
      if (key == "lessons" && one.is_number_unsigned()) {
        what.lessons.push_back(one.get<std::uint64_t>());
      } else if (key == "tasks" && one.is_string()) {
        what.tasks.push_back(one.get<std::string>());
      } else {
        throw Refusal{400, "lessons are numbers, tasks are names"};
      }
    }
  }
  return what;
}

}  // namespace

// Who asks, by the name of the token.
std::string Api::who(const HttpRequest& request) const {
  const auto holder = options_.tokens.holder(request.header("authorization"));
  if (!holder) return "";
  constexpr const char* kRoles[] = {"inspect", "learn", "admin"};
  return holder->name.empty() ? kRoles[static_cast<std::size_t>(holder->role)] : holder->name;
}

// An inspection, with the lesson it was learned by.
Json Api::shown(const StoredInspection& row) const {
  Json json = contcore::as_json(row);
  const LessonId lesson = row.learned ? live_.lesson_of(row.id) : 0;
  json["lesson"] = lesson == 0 ? Json(nullptr) : Json(lesson);
  return json;
}

HttpResponse Api::lessons(const HttpRequest& request, const Params& /*params*/,
                          Compute& /*compute*/) {
  const std::size_t limit = number_given(request, "limit", kLessonsListed);
  const std::size_t before = number_given(request, "before", ~std::size_t{0});
  if (limit < 1 || limit > kMostLessonsListed) throw Refusal{400, "limit is from 1 to 1000"};
  Json list = Json::array();
  Json next = nullptr;
  const std::vector<TaughtLesson> all = live_.lessons();
  for (auto lesson = all.rbegin(); lesson != all.rend(); ++lesson) {
    if (lesson->id >= before) continue;
    if (list.size() == limit) {
      next = list.back()["id"];
      break;
    }
    list.push_back(as_json(*lesson));
  }
  return json_response(200, {{"lessons", std::move(list)}, {"next", next}});
}

HttpResponse Api::versions(const HttpRequest& /*request*/, const Params& /*params*/,
                           Compute& /*compute*/) {
  Json list = Json::array();
  for (const MemoryVersion& version : live_.versions()) list.push_back(as_json(version));
  return json_response(200, {{"versions", std::move(list)}});
}

Forgotten Api::take_back(const Forget& what, Compute& compute) {
  resume_learning(compute);
  try {
    live_.plan(what);
  } catch (const Error& error) {
    throw Refusal{error.kind() == Error::Kind::kUsage ? 404 : 409, error.what()};
  }
  Forgotten done;
  change_memory([&] { done = live_.forget(what, compute); });
  std::set<std::string> tasks;
  for (const TaughtLesson& lesson : live_.lessons()) {
    const auto& gone = done.lessons;
    if (std::binary_search(gone.begin(), gone.end(), lesson.id)) tasks.insert(lesson.task);
  }
  for (const std::string& task : tasks) {
    if (live_.memory()->find_task(task)) promises_.begin_anew(task);
  }
  metrics_.counter("contcore_lessons_taken_back_total", "Lessons that were taken back")
      .add(done.lessons.size());
  return done;
}

// What changes the memory whole; what follows from it elsewhere is changed too.
void Api::change_memory(const std::function<void()>& change) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    learning_ = true;
  }
  const std::vector<TaughtLesson> before = live_.lessons();
  const auto end = [&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    learning_ = false;
    learned_ = Clock::now();
  };
  try {
    change();
    end();
  } catch (const Error& error) {
    end();
    if (error.kind() != Error::Kind::kInput) throw;
    stop_learning(error.what());
    throw Refusal{503, fmt::format("nothing has changed: {}", error.what())};
  } catch (...) {
    end();
    throw;
  }
  try {
    follow_renames(before);
    follow_lessons();
  } catch (const Error& error) {
    if (options_.note) options_.note(error.what());  // the next start does it
  }
  sample();
}

// Names in the store and of pinned products change with the renames that the memory has.
void Api::follow_renames(const std::vector<TaughtLesson>& before) {
  const std::vector<TaughtLesson> after = live_.lessons();
  const auto is_taken = [](const std::vector<TaughtLesson>& all, std::uint64_t id) {
    return std::any_of(all.begin(), all.end(),
                       [&](const TaughtLesson& lesson) { return lesson.id == id && lesson.taken; });
  };
  const auto rename = [&](const std::string& from, const std::string& to) {
    store_.rename_task(from, to);
    rename_pins(from, to);
  };
  for (auto lesson = before.rbegin(); lesson != before.rend(); ++lesson) {
    if (lesson->to.empty() || !lesson->taken || is_taken(after, lesson->id)) continue;
    rename(lesson->to, lesson->from);
  }
  for (const TaughtLesson& lesson : after) {
    if (lesson.to.empty() || !lesson.taken || is_taken(before, lesson.id)) continue;
    rename(lesson.from, lesson.to);
  }
}

// The store says of inspections what the lessons say.
void Api::follow_lessons() {
  const std::vector<std::int64_t> gone = live_.taken_back();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::int64_t id : gone) good_.erase(id);
  }
  store_.taken_back(gone);
  for (const TaughtLesson& lesson : live_.lessons()) {
    if (lesson.kind == "feedback" && lesson.taken) {
      note_good(lesson.inspection, lesson.time);
    }
  }
  store_good();
}

// Who is no admin may take back what he taught himself, and images that others taught as long as
// their task stays; not what an admin alone may do.
void Api::check_right_to_forget(const HttpRequest& request, const Forget& what) {
  if (options_.tokens.empty() ||
      options_.tokens.role(request.header("authorization")) == Role::kAdmin) {
    return;
  }
  if (!what.tasks.empty()) throw Refusal{403, "to forget a task needs an admin's token"};
  LessonSet lessons;
  std::vector<std::string> gone;
  try {
    const Forgetting plan = live_.plan(what);
    lessons = plan.lessons;
    gone = plan.gone;
  } catch (const Error&) {
    return;  // which will be said
  }
  const std::string self = who(request);
  for (const TaughtLesson& lesson : live_.lessons()) {
    const bool goes_with_it =
        lesson.taken && std::find(gone.begin(), gone.end(), lesson.task) != gone.end();
    if (lesson.who == self || !(goes_with_it || lessons.contains(lesson.id))) continue;
    if (goes_with_it || lesson.kind == "threshold" || lesson.kind == "rename") {
      throw Refusal{403, fmt::format("lesson {} was taught by another, and is an admin's to take "
                                     "back",
                                     lesson.id)};
    }
  }
}

HttpResponse Api::forget(const HttpRequest& request, const Params& /*params*/, Compute& compute) {
  const Forget what = read_forget(object_of(request));
  check_right_to_forget(request, what);
  const Forgotten done = take_back(what, compute);
  return json_response(200,
                       {{"forgotten", done.lessons}, {"exact", done.exact}, {"note", done.note}});
}

HttpResponse Api::restore(const HttpRequest& /*request*/, const Params& params, Compute& compute) {
  const auto version = static_cast<std::uint64_t>(number_of(params[0], 404));
  resume_learning(compute);
  try {
    live_.check_restore(version);
  } catch (const Error& error) {
    throw Refusal{error.kind() == Error::Kind::kUsage ? 404 : 409, error.what()};
  }
  change_memory([&] { live_.restore(version, compute); });
  for (const TaskRecord& task : live_.memory()->tasks()) promises_.begin_anew(task.name);
  return versions(HttpRequest{}, {}, compute);
}

HttpResponse Api::rename_task(const HttpRequest& request, const Params& params, Compute& compute) {
  const Json body = object_of(request);
  if (!body.contains("name") || !body["name"].is_string()) throw Refusal{400, "give a name"};
  Lesson lesson;
  lesson.who = who(request);
  lesson.task = params[0];
  lesson.rename_to = body["name"].get<std::string>();
  if (!live_.memory()->find_task(lesson.task)) {
    throw Refusal{404, fmt::format("there is no task '{}'", lesson.task)};
  }
  task_name(lesson.rename_to, live_.memory()->fresh());
  if (lesson.rename_to != lesson.task) {
    if (live_.memory()->find_task(lesson.rename_to)) {
      throw Refusal{409, fmt::format("there is a task '{}' already", lesson.rename_to)};
    }
    take(lesson, {}, compute);
    store_.rename_task(lesson.task, lesson.rename_to);
    rename_pins(lesson.task, lesson.rename_to);
    promises_.begin_anew(lesson.rename_to);
  }
  const auto memory = live_.memory();
  const std::size_t t = memory->find_task(lesson.rename_to).value();
  return json_response(200, task(*memory, t, memory->states()[t]));
}

}  // namespace contcore
