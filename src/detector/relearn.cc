#include "detector/relearn.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contcore/error.h"
#include "contcore/image.h"
#include "detector/in_order.h"
#include "detector/learning.h"
#include "detector/lessons.h"
#include "device/one_each.h"
#include "memory/lesson_images.h"

namespace contcore {
namespace {

constexpr std::size_t kImagesHeld = 32;  // as they came, while they are extracted

// The lessons of a memory, by the task they are of now.
using LessonsOfTasks = std::map<std::string, std::vector<const LessonEntry*>>;

LessonsOfTasks lessons_of_tasks(const History& history, const LessonSet& lessons) {
  LessonsOfTasks result;
  for (const LessonEntry& lesson : history.lessons()) {
    if (!lessons.contains(lesson.id) || lesson.is_found()) continue;
    result[history.name_now(lesson, lessons)].push_back(&lesson);
  }
  return result;
}

// What makes a task; images of defects do not.
bool is_of_good_images(const LessonEntry& lesson) {
  return lesson.images > 0 && lesson.kind != "defect";
}

// Whether the task has learned from nothing else.
bool are_all_of(const std::vector<const LessonEntry*>& lessons, const Memory& memory,
                const std::string& task) {
  std::uint64_t images = 0;
  for (const LessonEntry* lesson : lessons) {
    if (is_of_good_images(*lesson)) images += lesson->images;
  }
  const auto known = memory.find_task(task);
  return known && memory.tasks()[*known].images == images;
}

// Where a memory with these lessons can begin: files that have the first of them and no others. The
// last of them leaves the fewest to be taken again.
std::vector<const KnownFile*> beginnings(const History& history, const LessonSet& wanted) {
  std::vector<const KnownFile*> result;
  const auto consider = [&](const KnownFile& file) {
    if (file.lessons == wanted.up_to(file.lessons.last())) result.push_back(&file);
  };
  for (const KnownFile& version : history.versions()) consider(version);
  if (history.own_file()) consider(*history.own_file());
  std::stable_sort(result.begin(), result.end(), [](const KnownFile* a, const KnownFile* b) {
    return a->lessons.last() < b->lessons.last();
  });
  return result;
}

// The last of these that cannot be taken again; 0: all can.
LessonId last_unrepeatable(const History& history, const LessonSet& lessons, LessonId but) {
  for (auto run = lessons.runs().rbegin(); run != lessons.runs().rend(); ++run) {
    for (LessonId id = run->last; id >= run->first; --id) {
      const LessonEntry* lesson = history.find(id);
      if (id != but && (lesson == nullptr || !lesson->can_be_repeated())) return id;
    }
  }
  return 0;
}

std::string why_not(const History& history, LessonId id) {
  const LessonEntry* lesson = history.find(id);
  if (lesson != nullptr && lesson->is_found()) {
    return "it is part of the memory as it was found when its lessons were first written down, or "
           "no version from before is kept";
  }
  return fmt::format(
      "lesson {}, which came after the last version kept from before, cannot be "
      "taken again: its images are not kept any more",
      id);
}

// Lessons go by the names of their time. Where later ones say one of the two names, they would come
// to another task than the one they were meant for.
void check_rename(const History& history, const LessonSet& lessons, const LessonEntry& rename) {
  for (const LessonEntry& later : history.lessons()) {
    if (later.id <= rename.id || !history.has(lessons, later.id)) continue;
    const bool names_it = later.task == rename.task || later.task == rename.to ||
                          later.to == rename.task || later.to == rename.to;
    if (!names_it) continue;
    throw Error(
        Error::Kind::kInput,
        fmt::format("lesson {} cannot be taken back: later lessons go by '{}' or '{}'; give "
                    "the task another name instead",
                    rename.id, rename.task, rename.to));
  }
}

LessonSet chosen_lessons(const History& history, const LessonSet& lessons, const Forget& what) {
  std::vector<LessonId> ids;
  for (const LessonId id : what.lessons) {
    const LessonEntry* lesson = history.find(id);
    if (lesson == nullptr) {
      throw Error(Error::Kind::kUsage, fmt::format("there is no lesson {} in the list", id));
    }
    if (!history.has(lessons, id)) {
      throw Error(Error::Kind::kUsage, fmt::format("lesson {} was taken back already", id));
    }
    if (!lessons.contains(id) || lesson->is_found()) {
      throw Error(Error::Kind::kInput,
                  fmt::format("lesson {} cannot be taken back: it is part of the memory as it was "
                              "found; forget its task, or restore a version from before",
                              id));
    }
    if (lesson->kind == "rename") check_rename(history, lessons, *lesson);
    ids.push_back(id);
  }
  return LessonSet(std::move(ids));
}

}  // namespace

Forgetting plan_forget(const History& history, const Memory& memory, const LessonSet& lessons,
                       const Forget& what) {
  Forgetting plan;
  plan.lessons = chosen_lessons(history, lessons, what);
  const LessonsOfTasks of_tasks = lessons_of_tasks(history, lessons);
  std::set<std::string> gone;
  bool has_more = false;  // something of a task that is in no lesson of the list
  for (const std::string& task : what.tasks) {
    if (!memory.find_task(task)) {
      throw Error(Error::Kind::kUsage, fmt::format("there is no task '{}' in this memory", task));
    }
    const auto own = of_tasks.find(task);
    const auto some = own == of_tasks.end() ? std::vector<const LessonEntry*>() : own->second;
    for (const LessonEntry* lesson : some) plan.lessons.add(lesson->id);
    has_more = has_more || !are_all_of(some, memory, task);
    gone.insert(task);
  }
  if (plan.lessons.empty() && gone.empty()) {
    throw Error(Error::Kind::kUsage, "name a lesson or a task to forget");
  }
  LessonSet rest = plan.lessons;
  for (const auto& [task, own] : of_tasks) {
    LessonSet of_task;
    LessonSet of_images;
    for (const LessonEntry* lesson : own) {
      of_task.add(lesson->id);
      if (is_of_good_images(*lesson)) of_images.add(lesson->id);
    }
    const bool all = of_images.without(plan.lessons).empty();
    if (gone.contains(task) || (all && are_all_of(own, memory, task))) {
      gone.insert(task);
      plan.lessons.add(
          of_task);  // its thresholds, its defects: there is nothing they could be about
      rest = rest.without(of_task);
    }
  }
  plan.wanted = lessons.without(plan.lessons);
  plan.gone.assign(gone.begin(), gone.end());
  // Tasks that never gave way to each other are what they would be alone.
  const bool whole_tasks = rest.empty();
  if (whole_tasks && memory.tasks_are_apart()) {
    plan.drop = plan.gone;
    plan.is_new_beginning = has_more;
    return plan;
  }
  const std::vector<const KnownFile*> files = beginnings(history, plan.wanted);
  const LessonId begin = files.empty() ? 0 : files.back()->lessons.last();
  LessonId missing = has_more ? lessons.last() : last_unrepeatable(history, plan.wanted, 0);
  if (!has_more && missing <= begin) missing = 0;
  if (missing == 0) {
    if (begin != 0) plan.from = *files.back();
    return plan;
  }
  if (!what.exact && whole_tasks) {
    plan.drop = plan.gone;
    plan.exact = false;
    plan.is_new_beginning = true;
    return plan;
  }
  throw Error(Error::Kind::kInput,
              fmt::format("this cannot be taken back exactly any more: {}; {}",
                          has_more ? "the task was learned before its lessons were written down"
                                   : why_not(history, missing),
                          whole_tasks ? "inexactly it can: its vectors are taken out, and no more"
                                      : "forget the whole task, or restore a version"));
}

namespace {

LearnHow how_of(const Lesson& lesson, double usual) {
  LearnHow how;
  how.task = lesson.task;
  how.p = lesson.p != 0 ? lesson.p : usual;
  how.time = lesson.time;
  return how;
}

// Calls use(image's bytes, patches) for the images of a lesson, in their order.
template <typename Use>
void each_image(const std::string& file, const Extractor& extractor, const SharedRegion& region,
                Compute& compute, const Use& use) {
  LessonImagesReader reader(file);
  if (extractor.geometry().tile != 0) {  // by all threads: one takes much memory
    while (const auto image = reader.next()) {
      use(extractor.extract(decode_image(*image, file), compute, region));
    }
    return;
  }
  OneEach alone(compute);
  for (bool more = true; more;) {
    std::vector<std::vector<std::uint8_t>> images;
    while (images.size() < kImagesHeld) {
      auto image = reader.next();
      more = image.has_value();
      if (!more) break;
      images.push_back(std::move(*image));
    }
    std::vector<Patches> patches(images.size());
    compute.threads().run(images.size(), [&](std::size_t i, std::size_t worker) {
      patches[i] = extractor.extract(decode_image(images[i], file), alone[worker], region);
    });
    for (const Patches& of_image : patches) use(of_image);
  }
}

// Where a memory with other lessons outlines nothing in an image, there is no defect to know.
void take_or_pass_over(Memory& memory, const Lesson& lesson, const Patches& patches,
                       Compute& compute) {
  try {
    take_lesson(memory, lesson, patches, compute);
  } catch (const Error& error) {
    if (!lesson.defect || error.kind() != Error::Kind::kInput) throw;
  }
}

// Images of defects, each with its mask behind it.
void take_with_masks(Memory& memory, Lesson lesson, const std::string& file,
                     const Extractor& extractor, const SharedRegion& region, Compute& compute) {
  LessonImagesReader reader(file);
  while (const auto image = reader.next()) {
    const auto bytes = reader.next();
    if (!bytes) throw Error(Error::Kind::kDamaged, fmt::format("{}: is cut short", file));
    Image mask;
    if (!bytes->empty()) mask = decode_image(*bytes, file);
    lesson.defect->mask = bytes->empty() ? nullptr : &mask;
    const Patches patches = extractor.extract(decode_image(*image, file), compute, region);
    take_or_pass_over(memory, lesson, patches, compute);
  }
}

// `region` is the task's, whatever is left of its lessons.
void take_again(Memory& memory, const History& history, const LessonEntry& entry,
                const SharedRegion& region, const Extractor& extractor, Compute& compute) {
  const std::string file = history.images_of(entry.id);
  const std::string record = entry.head + "\n";
  const Lesson lesson = read_lesson(record, file);
  if (!lesson.has_image()) return take_lesson(memory, lesson, {}, compute);
  if (lesson.has_masks && lesson.defect) {
    return take_with_masks(memory, lesson, file, extractor, region, compute);
  }
  if (!lesson.batch) {
    return each_image(file, extractor, region, compute, [&](const Patches& patches) {
      take_or_pass_over(memory, lesson, patches, compute);
    });
  }
  TrainingSetBuilder set(memory.dimension(), kFeaturesInMemory);
  each_image(file, extractor, region, compute, [&](const Patches& patches) { set.add(patches); });
  LearnHow how = how_of(lesson, kBatchRatio);
  how.region = region;
  learn_task(memory, set.view(), how, compute);
}

void check_version(const Memory& version, const Memory& memory, const std::string& path) {
  const bool same = version.source == memory.source && version.scalar() == memory.scalar() &&
                    version.dimension() == memory.dimension();
  if (same) return;
  throw Error(Error::Kind::kInput,
              fmt::format("{}: was made with another backbone or other settings than the memory; "
                          "copy it to another place and use it there",
                          path));
}

}  // namespace

namespace {

Taught open_file(const History& history, const KnownFile& file, const Memory& memory) {
  const std::string path = history.file_of(file);
  Memory::Saved saved;
  Memory opened = Memory::open(path, &saved);
  if (saved.checksum != file.checksum) {
    throw Error(Error::Kind::kDamaged, fmt::format("{}: is not the file that was kept", path));
  }
  check_version(opened, memory, path);
  return {std::move(opened), file.lessons};
}

}  // namespace

Taught open_version(const History& history, std::uint64_t id, const Memory& memory) {
  if (const KnownFile* version = history.version(id)) return open_file(history, *version, memory);
  throw Error(Error::Kind::kUsage, fmt::format("there is no version {}, or not any more", id));
}

Taught carry_out(const Forgetting& plan, const History& history, const Memory& memory,
                 const Extractor& extractor, Compute& compute, const Progress& progress) {
  if (!plan.drop.empty()) {
    Taught rest{memory.copy(), plan.wanted};
    for (const std::string& task : plan.drop) rest.memory = rest.memory.without_task(task);
    return rest;
  }
  Taught made = plan.from ? open_file(history, *plan.from, memory) : Taught{memory.fresh(), {}};
  const std::vector<LessonId> again = plan.wanted.after(made.lessons.last()).ids();
  LessonSet now = plan.wanted;  // what the memory has, and its tasks are named by
  now.add(plan.lessons);
  std::uint64_t images = 0;
  for (const LessonId id : again) images += history.find(id)->images + 1;
  std::uint64_t done = 0;
  for (const LessonId id : again) {
    if (progress && !progress(static_cast<double>(done) / static_cast<double>(images))) {
      throw Error(Error::Kind::kCancelled, "stopped");
    }
    const LessonEntry& entry = *history.find(id);
    done += entry.images + 1;
    // What concerns a task that is not there any more.
    if (entry.kind == "defect" && !made.memory.find_task(entry.task)) continue;
    try {
      const SharedRegion region = memory.region_of(history.name_now(entry, now));
      take_again(made.memory, history, entry, region, extractor, compute);
      made.lessons.add(id);
    } catch (const Error& error) {
      const Error::Kind kind = error.kind();
      if (entry.images > 0 || (kind != Error::Kind::kUsage && kind != Error::Kind::kInput)) throw;
    }
  }
  for (const std::string& task : plan.gone) {
    if (!made.memory.find_task(task)) continue;
    throw Error(Error::Kind::kInput,
                fmt::format("task '{}' is more than its lessons; nothing was taken back", task));
  }
  return made;
}

Forgotten report_of(const Forgetting& plan, const LessonSet& left) {
  Forgotten result;
  result.exact = plan.exact;
  const LessonSet others = plan.is_new_beginning ? LessonSet() : plan.wanted.without(left);
  result.lessons = plan.lessons.ids();
  const std::vector<LessonId> with_them = others.ids();
  result.lessons.insert(result.lessons.end(), with_them.begin(), with_them.end());
  std::sort(result.lessons.begin(), result.lessons.end());
  if (!plan.exact) {
    result.note = kNotExact;
  }
  if (!others.empty()) {
    result.note +=
        fmt::format("{}lesson{} {} went with it: there is nothing it could be about",
                    result.note.empty() ? "" : "; ", others.size() == 1 ? "" : "s", others.text());
  }
  return result;
}

namespace {

// What the memory was found as after a lesson, by nothing that the list knows.
const LessonEntry* found_after(const History& history, const LessonSet& lessons, LessonId id) {
  for (const LessonEntry& found : history.lessons()) {
    if (found.id > id && found.is_found() && found.stands_for.empty() &&
        history.has(lessons, found.id)) {
      return &found;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<TaughtLesson> taught_lessons(const History& history, const Memory& memory,
                                         const LessonSet& lessons) {
  const std::vector<const KnownFile*> files = beginnings(history, lessons);
  const LessonsOfTasks of_tasks = lessons_of_tasks(history, lessons);
  const LessonId last = last_unrepeatable(history, lessons, 0);
  const LessonId last_but_one = last_unrepeatable(history, lessons, last);
  const bool apart = memory.tasks_are_apart();
  const auto is_alone = [&](const std::string& task) {
    const auto own = of_tasks.find(task);
    return own != of_tasks.end() && own->second.size() == 1 &&
           are_all_of(own->second, memory, task);
  };
  std::vector<TaughtLesson> result;
  for (const LessonEntry& entry : history.lessons()) {
    TaughtLesson lesson;
    lesson.id = entry.id;
    lesson.kind = entry.kind;
    lesson.task = history.name_now(entry, lessons);
    if (entry.kind == "rename") {
      lesson.from = entry.task;
      lesson.to = entry.to;
    }
    lesson.images = entry.images;
    lesson.time = entry.time;
    lesson.who = entry.who;
    lesson.inspection = entry.inspection;
    lesson.taken = history.has(lessons, entry.id);
    if (lessons.contains(entry.id) && !entry.is_found()) {
      // The last beginning that does not have it.
      LessonId begin = 0;
      for (const KnownFile* file : files) {
        const LessonId end = file->lessons.last();
        begin = end < entry.id ? std::max(begin, end) : begin;
      }
      const LessonId missing = last == entry.id ? last_but_one : last;
      lesson.exact = missing <= begin || (apart && is_alone(lesson.task));
      if (!lesson.exact) lesson.why = why_not(history, missing);
    } else if (lesson.taken) {
      lesson.why = "it is part of the memory as it was found";
    } else if (const LessonEntry* found = found_after(history, lessons, entry.id)) {
      lesson.why = fmt::format(
          "whether the memory has it is not known: its file was changed without the list (lesson "
          "{})",
          found->id);
    }
    result.push_back(std::move(lesson));
  }
  return result;
}

std::vector<MemoryVersion> versions_of(const History& history, const LessonSet& lessons) {
  std::vector<MemoryVersion> result;
  for (const KnownFile& version : history.versions()) {
    result.push_back({version.id, version.time, version.lessons.size(), version.tasks,
                      version.vectors, version.bytes, version.lessons == lessons});
  }
  return result;
}

}  // namespace contcore
