#include "detector/lessons.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "contcore/error.h"
#include "contcore/image.h"
#include "detector/in_order.h"
#include "detector/learning.h"
#include "device/one_each.h"
#include "memory/calibration.h"

namespace contcore {
namespace {

using LessonJson = nlohmann::json;

[[noreturn]] void refuse_record(const std::string& path) {
  throw Error(Error::Kind::kDamaged,
              fmt::format("{}: has a record that this version does not know; use the version that "
                          "wrote it",
                          path));
}

// Of a lesson or an inspection: whole, and far from where the next one would be none.
std::uint64_t number_in(const LessonJson& json) {
  const std::uint64_t number = json.get_ref<const LessonJson::number_unsigned_t&>();
  if (number >= LessonSet::kLargest) json.get_ref<const LessonJson::object_t&>();  // throws
  return number;
}

SetThreshold read_set(const LessonJson& head) {
  SetThreshold set;
  if (head.contains("score")) set.score = head["score"].get<float>();
  if (head.contains("false_alarms")) set.false_alarms = head["false_alarms"].get<double>();
  return set;
}

LessonJson as_json(const DefectMark& mark) {
  LessonJson json = LessonJson::object();
  if (mark.box) {
    json["box"] = {mark.box->x, mark.box->y, mark.box->width, mark.box->height};
  }
  if (mark.level) json["level"] = *mark.level;
  return json;
}

DefectMark read_mark(const LessonJson& json) {
  DefectMark mark;
  json.get_ref<const LessonJson::object_t&>();  // throws where it is none
  if (json.contains("box")) {
    const auto side = [&](std::size_t i) { return json["box"].at(i).get<double>(); };
    mark.box = DefectBox{side(0), side(1), side(2), side(3)};
  }
  if (json.contains("level")) mark.level = json["level"].get<float>();
  return mark;
}

}  // namespace

const char* Lesson::kind() const {
  if (batch) return "batch";
  if (threshold) return "threshold";
  if (!rename_to.empty()) return "rename";
  if (defect) return "defect";
  return inspection != 0 ? "feedback" : "online";
}

LessonEntry entry_of(const Lesson& lesson, std::uint64_t images) {
  LessonEntry entry;
  entry.id = lesson.id;
  entry.kind = lesson.kind();
  entry.task = lesson.task;
  entry.to = lesson.rename_to;
  entry.time = lesson.time;
  entry.who = lesson.who;
  entry.images = images;
  entry.inspection = lesson.inspection;
  entry.bytes = lesson.image.size();
  Lesson without = lesson;
  without.image = {};
  entry.head = as_record(without);
  entry.head.pop_back();
  return entry;
}

std::string as_record(const Lesson& lesson) {
  LessonJson head = {{"task", lesson.task}, {"time", lesson.time}};
  if (lesson.id != 0) head["id"] = lesson.id;
  if (!lesson.who.empty()) head["who"] = lesson.who;
  if (!lesson.rename_to.empty()) head["to"] = lesson.rename_to;
  if (lesson.batch) head["batch"] = true;
  if (lesson.p != 0) head["p"] = lesson.p;
  if (!lesson.calibrates) head["hold_out"] = false;  // the word of the first version
  if (lesson.inspection != 0) head["inspection"] = lesson.inspection;
  if (lesson.threshold) {
    head["threshold"] = LessonJson::object();
    if (lesson.threshold->score) head["threshold"]["score"] = *lesson.threshold->score;
    if (lesson.threshold->false_alarms) {
      head["threshold"]["false_alarms"] = *lesson.threshold->false_alarms;
    }
  }
  if (lesson.defect) head["defect"] = as_json(*lesson.defect);
  if (lesson.has_masks) head["masks"] = true;
  std::string record = head.dump(-1, ' ', false, LessonJson::error_handler_t::replace);
  record += '\n';
  record += lesson.image;
  return record;
}

Lesson read_lesson(std::string_view record, const std::string& path) {
  const std::size_t end = record.find('\n');
  if (end == record.npos) refuse_record(path);
  Lesson lesson;
  try {
    const LessonJson head = LessonJson::parse(record.substr(0, end));
    lesson.task = head.at("task").get<std::string>();
    lesson.time = head.at("time").get<std::string>();
    if (head.contains("id")) lesson.id = number_in(head["id"]);
    lesson.who = head.value("who", "");
    lesson.rename_to = head.value("to", "");
    lesson.batch = head.value("batch", false);
    lesson.p = head.value("p", 0.0);
    lesson.calibrates = head.value("hold_out", true);
    if (head.contains("inspection")) {
      lesson.inspection = static_cast<std::int64_t>(number_in(head["inspection"]));
    }
    lesson.has_masks = head.value("masks", false);
    if (head.contains("threshold")) lesson.threshold = read_set(head["threshold"]);
    if (head.contains("defect")) lesson.defect = read_mark(head["defect"]);
  } catch (const LessonJson::exception&) {
    refuse_record(path);
  }
  lesson.image = record.substr(end + 1);
  return lesson;
}

void check_lesson(const Memory& memory, const Lesson& lesson) {
  if (lesson.defect && !memory.find_task(lesson.task)) {
    throw Error(Error::Kind::kUsage,
                fmt::format("task '{}': was not learned, so it has no defects yet", lesson.task));
  }
  if (!lesson.rename_to.empty()) {
    memory.fresh().check_task(lesson.rename_to);
    if (memory.find_task(lesson.task) && !memory.find_task(lesson.rename_to)) return;
    throw Error(Error::Kind::kUsage,
                fmt::format("task '{}' cannot be called '{}': it is not there, or there is one of "
                            "that name",
                            lesson.task, lesson.rename_to));
  }
  if (!lesson.threshold) return memory.check_task(lesson.task);
  if (!memory.find_task(lesson.task) || !is_threshold(*lesson.threshold)) {
    throw Error(Error::Kind::kUsage, fmt::format("task '{}': is not there, or cannot have this "
                                                 "threshold",
                                                 lesson.task));
  }
}

void take_lesson(Memory& memory, const Lesson& lesson, const Patches& patches, Compute& compute) {
  if (lesson.threshold) return memory.set_threshold(lesson.task, *lesson.threshold);
  if (!lesson.rename_to.empty()) return memory.rename_task(lesson.task, lesson.rename_to);
  if (lesson.defect) return learn_defect(memory, lesson.task, patches, *lesson.defect, compute);
  LearnHow how;
  how.task = lesson.task;
  how.p = lesson.p != 0 ? lesson.p : kOnlineRatio;
  how.time = lesson.time;
  learn_next(memory, patches, how, lesson.calibrates, compute);
}

namespace {

// What the image of each record is to be seen through: it is extracted before those in front of it
// are taken, which may give its task another name. None of them gives a task a region.
std::vector<SharedRegion> regions_of_records(const Memory& memory,
                                             const std::vector<std::string>& records,
                                             const std::string& path) {
  std::map<std::string, SharedRegion> regions;
  for (const TaskRecord& task : memory.tasks()) regions[task.name] = task.region;
  std::vector<SharedRegion> result;
  for (const std::string& record : records) {
    const Lesson lesson = read_lesson(record, path);
    const auto known = regions.find(lesson.task);
    result.push_back(known == regions.end() ? nullptr : known->second);
    if (lesson.has_image() && !lesson.defect) regions.try_emplace(lesson.task);
    if (lesson.rename_to.empty() || known == regions.end()) continue;
    if (regions.try_emplace(lesson.rename_to, result.back()).second) regions.erase(lesson.task);
  }
  return result;
}

}  // namespace

Replayed replay(Memory& memory, const Extractor& extractor, const std::vector<std::string>& records,
                const std::string& path, Compute& compute) {
  struct Read {
    Lesson lesson;
    Patches patches;  // none of a threshold
  };
  Replayed result;
  const std::vector<SharedRegion> regions = regions_of_records(memory, records, path);
  const auto read = [&](std::size_t i, Compute& with) {
    Read made{read_lesson(records[i], path), {}};
    if (!made.lesson.has_image()) return made;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(made.lesson.image.data());
    try {
      const Image image = decode_image({bytes, made.lesson.image.size()}, path);
      made.patches = extractor.extract(image, with, regions[i]);
    } catch (const Error& error) {
      // It could be read when it came, or it would not be here.
      throw Error(error.kind(),
                  fmt::format("lesson {}, an image of task '{}', cannot be read by this version "
                              "({}); open the memory with the version that wrote it, or move "
                              "the journal away to go on without its lessons",
                              i + 1, made.lesson.task, error.what()));
    }
    return made;
  };
  const auto take = [&](const Read& made, Compute& with) {
    // Refused rather than left out: an earlier version may have taken such a name.
    if (made.lesson.has_image()) memory.check_task(made.lesson.task);
    result.taken.push_back(false);
    try {
      take_lesson(memory, made.lesson, made.patches, with);
      result.taken.back() = true;
      if (made.lesson.inspection != 0 && !made.lesson.defect) {
        result.good.emplace_back(made.lesson.inspection, made.lesson.time);
      }
    } catch (const Error& error) {
      const auto kind = error.kind();
      if (kind != Error::Kind::kInput && kind != Error::Kind::kUsage) throw;
      ++result.unusable;
    }
  };
  if (extractor.geometry().tile != 0) {  // by all threads: one takes much memory
    for (std::size_t i = 0; i < records.size(); ++i) take(read(i, compute), compute);
    return result;
  }
  OneEach each(compute);
  // They are taken while the crew is at work on the next ones.
  Compute alone(1, compute.device());
  run_in_order<Read>(
      compute, records.size(), compute.threads().count(),
      [&](std::size_t i, std::size_t worker) { return read(i, each[worker]); },
      [&](std::size_t, Read& made) { take(made, alone); });
  return result;
}

std::unique_ptr<LessonImagesWriter> images_of_lesson(History& history, const Lesson& lesson) {
  if (!lesson.has_image()) return nullptr;
  auto images = history.new_images();
  if (images) {
    images->append(
        {reinterpret_cast<const std::uint8_t*>(lesson.image.data()), lesson.image.size()});
  }
  return images;
}

void write_down_records(History& history, LessonSet& lessons,
                        const std::vector<std::string>& records, const Replayed& replayed,
                        const std::string& path) {
  if (!history.is_kept()) return;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!replayed.taken[i]) continue;
    const Lesson lesson = read_lesson(records[i], path);
    if (history.find(lesson.id) == nullptr) {
      lessons.add(history.add(entry_of(lesson, lesson.has_image() ? 1 : 0),
                              images_of_lesson(history, lesson)));
    } else {
      lessons.add(lesson.id);
    }
  }
}

}  // namespace contcore
