#include "memory/history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/file.h"
#include "base/file_system.h"
#include "base/refuse.h"
#include "contcore/error.h"
#include "memory/contents.h"

namespace contcore {
namespace {

using ListJson = nlohmann::json;

constexpr char kListFormat[] = "contcore lessons 1";
constexpr char kAnyListFormat[] = "contcore lessons ";
constexpr std::size_t kMostVersions = 1000;
constexpr std::size_t kMostListBytes = std::size_t{64} << 20;
constexpr std::size_t kMostLessons = 10000;  // in the list; the oldest go
constexpr std::string_view kSpool = "new-";  // images of lessons that are not learned yet

// Unlike those of a process that was killed, which may have had the same number.
const std::string& own_spool() {
  static const std::string name =
      fmt::format("{}{}-{:x}-", kSpool, ::getpid(), std::random_device{}());
  return name;
}

ListJson as_json(const LessonEntry& lesson) {
  ListJson json = {{"id", lesson.id},     {"kind", lesson.kind},  {"task", lesson.task},
                   {"time", lesson.time}, {"who", lesson.who},    {"images", lesson.images},
                   {"head", lesson.head}, {"bytes", lesson.bytes}};
  if (!lesson.to.empty()) json["to"] = lesson.to;
  if (lesson.inspection != 0) json["inspection"] = lesson.inspection;
  if (!lesson.stands_for.empty()) json["stands_for"] = lesson.stands_for.text();
  return json;
}

ListJson as_json(const KnownFile& file) {
  return {{"id", file.id},       {"sha256", file.checksum}, {"time", file.time},
          {"tasks", file.tasks}, {"vectors", file.vectors}, {"lessons", file.lessons.text()},
          {"bytes", file.bytes}};
}

[[noreturn]] void damaged(const char* why) { throw Error(Error::Kind::kDamaged, why); }

// Json::get() would convert any number, one out of range in an undefined way.
std::uint64_t whole_in(const ListJson& entry, const char* key) {
  return entry.at(key).get_ref<const ListJson::number_unsigned_t&>();
}

std::uint64_t number_at(const ListJson& entry, std::uint64_t least = 1) {
  const std::uint64_t id = whole_in(entry, "id");
  if (id < least || id >= LessonSet::kLargest) damaged("its numbers cannot be");
  return id;
}

std::string text_at(const ListJson& entry, const char* key) {
  return entry.at(key).get_ref<const std::string&>();
}

LessonSet set_at(const ListJson& entry, const char* key) {
  return entry.contains(key) ? LessonSet::parse(text_at(entry, key)) : LessonSet();
}

LessonEntry read_entry(const ListJson& entry) {
  LessonEntry lesson;
  lesson.id = number_at(entry);
  lesson.kind = text_at(entry, "kind");
  lesson.task = text_at(entry, "task");
  lesson.time = text_at(entry, "time");
  lesson.who = text_at(entry, "who");
  lesson.images = whole_in(entry, "images");
  lesson.head = text_at(entry, "head");
  lesson.bytes = whole_in(entry, "bytes");
  if (entry.contains("to")) lesson.to = text_at(entry, "to");
  if (entry.contains("inspection")) {
    lesson.inspection =
        static_cast<std::int64_t>(whole_in(entry, "inspection") & 0x7FFFFFFFFFFFFFFFU);
  }
  lesson.stands_for = set_at(entry, "stands_for");
  return lesson;
}

KnownFile read_file(const ListJson& entry) {
  KnownFile file;
  file.id = number_at(entry, 0);
  file.checksum = text_at(entry, "sha256");
  file.time = text_at(entry, "time");
  file.tasks = whole_in(entry, "tasks");
  file.vectors = whole_in(entry, "vectors");
  file.lessons = set_at(entry, "lessons");
  file.bytes = whole_in(entry, "bytes");
  return file;
}

std::size_t bytes_at(const std::string& path) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(path, none);
  return none ? 0 : static_cast<std::size_t>(bytes);
}

// The number in "12.ccm"; nothing of another name.
std::optional<std::uint64_t> number_in(const std::string& name, std::string_view ending) {
  if (!name.ends_with(ending) || name.size() == ending.size()) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = name.data() + name.size() - ending.size();
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

// A second name for a file that is never changed, only replaced; a copy where there are none. False
// when the file is not there.
bool link_or_copy(const std::string& from, const std::string& to) {
  file_system().unlink(to.c_str());
  if (file_system().link(from.c_str(), to.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  if (errno == ENOSPC || errno == EIO || errno == EDQUOT) {
    refuse(to, fmt::format("cannot be written: {}", disk_reason(errno)));
  }
  const std::vector<std::uint8_t> bytes = read_whole(from, "a memory", std::size_t{1} << 40);
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
  write_whole(to, {&part, 1});
  return true;
}

}  // namespace

std::string history_of(const std::string& memory) { return real_path(memory) + ".versions"; }

History::History(const std::string& memory, const HistoryLimits& limits)
    : memory_(real_path(memory)), folder_(history_of(memory)), limits_(limits) {
  if (!is_kept()) return;
  struct stat info {};
  if (::stat(list_file().c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    refuse(list_file(),
           fmt::format("cannot be read: {}; put that right, or go without (--versions 0)",
                       std::strerror(errno)));
  }
  std::vector<std::uint8_t> bytes;
  if (info.st_size > 0) bytes = read_whole(list_file(), "a list of lessons", kMostListBytes);
  std::string why;
  try {
    read_list(ListJson::parse(bytes.begin(), bytes.end()));
    return;
  } catch (const ListJson::exception& error) {
    why = error.what();
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInput) throw;
    why = error.what();
  }
  lessons_.clear();
  renames_.clear();
  founds_.clear();
  versions_.clear();
  files_.clear();
  next_ = next_version_ = 1;
  is_damaged_ = true;
  remark_ = fmt::format(
      "{}: is damaged, so the list of lessons begins anew; the folder with what was kept is moved "
      "aside when the memory is saved ({})",
      list_file(), why);
}

History::~History() {
  if (made_folder_) ::rmdir(folder_.c_str());
}

std::string History::list_file() const { return folder_ + "/lessons.json"; }
std::string History::images_of(LessonId id) const {
  return fmt::format("{}/{}.images", folder_, id);
}
std::string History::file_of(const KnownFile& version) const {
  if (version.id == 0) return memory_;
  return fmt::format("{}/{}.ccm", folder_, version.id);
}

template <typename Json>
void History::read_list(const Json& list) {
  const std::string format = text_at(list, "format");
  if (format != kListFormat && format.starts_with(kAnyListFormat)) {
    refuse(list_file(),
           "was written by a later version of contcore: update it, or go without "
           "(--versions 0)");
  }
  if (format != kListFormat) damaged("it is no list of lessons");
  for (const ListJson& entry : list.at("lessons")) {
    LessonEntry lesson = read_entry(entry);
    if (!lessons_.empty() && lesson.id <= lessons_.back().id)
      damaged("its numbers do not increase");
    insert(std::move(lesson));
  }
  for (const ListJson& entry : list.at("versions")) {
    versions_.push_back(read_file(entry));
    const std::size_t n = versions_.size();
    if (n > 1 && versions_[n - 1].id <= versions_[n - 2].id) damaged("its numbers do not increase");
  }
  next_ = whole_in(list, "next");
  next_version_ = whole_in(list, "next_version");
  if ((!lessons_.empty() && next_ <= lessons_.back().id) || next_ == 0 ||
      (!versions_.empty() && next_version_ <= versions_.back().id) || next_version_ == 0 ||
      next_ > LessonSet::kLargest || next_version_ > LessonSet::kLargest) {
    damaged("its numbers do not increase");
  }
  if (limits_.by_default && list.contains("most_versions") && list.contains("most_bytes")) {
    limits_.versions = std::clamp<std::size_t>(whole_in(list, "most_versions"), 1, kMostVersions);
    limits_.bytes = whole_in(list, "most_bytes");
  }
  // Of the memory's own file there may be two: the last save may have come to its end or not.
  for (const ListJson& entry : list.at("memory")) files_.push_back(read_file(entry));
}

LessonSet History::opened(const std::string& checksum, const Memory& memory) {
  const auto is_it = [&](const KnownFile& file) { return file.checksum == checksum; };
  auto found = std::find_if(files_.begin(), files_.end(), is_it);
  if (found == files_.end()) {
    found = std::find_if(versions_.begin(), versions_.end(), is_it);
    if (found == versions_.end()) {
      LessonSet lessons;
      if (is_kept() && memory.size() > 0) lessons.add(add_found({}, memory));
      current_ =
          KnownFile{0, checksum, utc_time(), lessons, memory.tasks().size(), memory.size(), 0};
      return lessons;
    }
  }
  current_ = *found;
  current_->id = 0;
  return current_->lessons;
}

const LessonEntry* History::find(LessonId id) const {
  const auto at = std::lower_bound(lessons_.begin(), lessons_.end(), id,
                                   [](const LessonEntry& a, LessonId b) { return a.id < b; });
  return at != lessons_.end() && at->id == id ? &*at : nullptr;
}

bool History::has(const LessonSet& lessons, LessonId id) const {
  if (lessons.contains(id)) return true;
  return std::any_of(founds_.begin(), founds_.end(), [&](LessonId found) {
    const LessonEntry* lesson = find(found);
    return lesson != nullptr && lessons.contains(found) && lesson->stands_for.contains(id);
  });
}

std::string History::name_now(const LessonEntry& lesson, const LessonSet& lessons) const {
  std::string name = lesson.kind == "rename" ? lesson.to : lesson.task;
  for (const LessonId id : renames_) {
    const LessonEntry* later = find(id);
    if (later == nullptr || id <= lesson.id || later->task != name) continue;
    if (has(lessons, id)) name = later->to;
  }
  return name;
}

void History::pass_over(LessonId id) {
  if (id < LessonSet::kLargest) next_ = std::max(next_, id + 1);
}

std::unique_ptr<LessonImagesWriter> History::new_images() {
  if (!is_kept()) return nullptr;
  make_folder();
  return std::make_unique<LessonImagesWriter>(
      fmt::format("{}/{}{}", folder_, own_spool(), next_spool_++), memory_, limits_.bytes);
}

LessonId History::add(LessonEntry lesson, std::unique_ptr<LessonImagesWriter> images) {
  if (lesson.id == 0) lesson.id = next_;
  if (images) lesson.bytes = keep_images(lesson.id, *images);
  pass_over(lesson.id);
  const LessonId id = lesson.id;
  insert(std::move(lesson));
  return id;
}

void History::insert(LessonEntry lesson) {
  if (lesson.kind == "rename") renames_.push_back(lesson.id);
  if (lesson.is_found()) founds_.push_back(lesson.id);
  const auto at = std::lower_bound(lessons_.begin(), lessons_.end(), lesson.id,
                                   [](const LessonEntry& a, LessonId b) { return a.id < b; });
  lessons_.insert(at, std::move(lesson));
}

void History::attach(LessonId id, std::unique_ptr<LessonImagesWriter> images) {
  const auto at = std::find_if(lessons_.begin(), lessons_.end(),
                               [&](const LessonEntry& lesson) { return lesson.id == id; });
  if (at == lessons_.end()) return;
  at->bytes = images ? keep_images(id, *images) : 0;
}

std::size_t History::keep_images(LessonId id, LessonImagesWriter& images) const {
  if (images.is_too_large()) return 0;
  images.keep_as(images_of(id));
  return images.bytes();
}

void History::remove(LessonId id) {
  const auto is_it = [&](LessonId one) { return one == id; };
  std::erase_if(lessons_, [&](const LessonEntry& lesson) { return lesson.id == id; });
  std::erase_if(renames_, is_it);
  std::erase_if(founds_, is_it);
}

LessonId History::add_found(const LessonSet& had, const Memory& memory) {
  LessonEntry found;
  found.kind = "found";
  found.time = utc_time();
  for (const TaskRecord& task : memory.tasks()) found.images += task.images;
  found.stands_for = had;
  for (const LessonId id : founds_) {
    const LessonEntry* lesson = find(id);
    if (lesson != nullptr && had.contains(id)) found.stands_for.add(lesson->stands_for);
  }
  return add(std::move(found), nullptr);
}

const KnownFile* History::version(std::uint64_t id) const {
  const auto found = std::find_if(versions_.begin(), versions_.end(),
                                  [&](const KnownFile& version) { return version.id == id; });
  return found == versions_.end() ? nullptr : &*found;
}

// Whoever may not read the memory may not read this either: it holds images.
void History::make_folder() {
  if (is_damaged_) {
    std::string aside = folder_ + ".damaged";
    for (int i = 2; ::access(aside.c_str(), F_OK) == 0; ++i) {
      aside = fmt::format("{}.damaged-{}", folder_, i);
    }
    if (file_system().rename(folder_.c_str(), aside.c_str()) != 0) {
      refuse(folder_,
             fmt::format("is damaged, and cannot be moved to {}: {}", aside, disk_reason(errno)));
    }
    is_damaged_ = false;
  }
  struct stat memory {};
  const mode_t mode = ::stat(memory_.c_str(), &memory) == 0 ? memory.st_mode & 0666U : 0600;
  const mode_t search = (mode & 0444U) >> 2U;
  if (::mkdir(folder_.c_str(), 0700) == 0) {
    made_folder_ = true;
    ::chmod(folder_.c_str(), mode | search | 0700U);
    return;
  }
  if (errno != EEXIST) {
    refuse(folder_,
           fmt::format("cannot be made: {}; --versions 0 goes without", disk_reason(errno)));
  }
}

std::optional<KnownFile> History::keep_version() {
  if (!current_ || current_->vectors == 0) return std::nullopt;
  const auto same = [&](const KnownFile& version) {
    return version.checksum == current_->checksum;
  };
  if (std::any_of(versions_.begin(), versions_.end(), same)) return std::nullopt;
  KnownFile version = *current_;
  version.id = next_version_;
  if (!link_or_copy(memory_, file_of(version))) return std::nullopt;
  version.bytes = bytes_at(file_of(version));
  return version;
}

// The spacing of those that stay grows with their age. The oldest is what the lessons since then
// can be taken again from, and stays.
void History::let_go_of_versions() {
  while (versions_.size() > limits_.versions) {
    std::size_t least = versions_.size() - 1;
    double smallest = 2;
    const auto age = static_cast<double>(next_version_);
    for (std::size_t i = 1; i + 1 < versions_.size(); ++i) {
      const double gap = static_cast<double>(versions_[i + 1].id - versions_[i - 1].id);
      const double part = gap / (gap + age - static_cast<double>(versions_[i].id));
      if (part >= smallest) continue;
      smallest = part;
      least = i;
    }
    if (versions_.size() <= 2) least = 0;
    versions_.erase(versions_.begin() + static_cast<std::ptrdiff_t>(least));
  }
}

// First the images of the oldest lessons, then the oldest versions but for the last.
void History::let_go_of_bytes() {
  std::size_t bytes = 0;
  for (const LessonEntry& lesson : lessons_) bytes += lesson.bytes;
  for (const KnownFile& version : versions_) bytes += version.bytes;
  for (LessonEntry& lesson : lessons_) {
    if (bytes <= limits_.bytes) return;
    bytes -= lesson.bytes;
    lesson.bytes = 0;
  }
  while (versions_.size() > 1 && bytes > limits_.bytes) {
    bytes -= versions_.front().bytes;
    versions_.erase(versions_.begin());
  }
}

void History::let_go() {
  if (lessons_.size() > kMostLessons) {
    lessons_.erase(lessons_.begin(), lessons_.end() - static_cast<std::ptrdiff_t>(kMostLessons));
  }
  let_go_of_versions();
  let_go_of_bytes();
}

void History::write_list(const KnownFile& next) const {
  ListJson list = {{"format", kListFormat},         {"next", next_},
                   {"next_version", next_version_}, {"most_versions", limits_.versions},
                   {"most_bytes", limits_.bytes},   {"memory", ListJson::array({as_json(next)})},
                   {"lessons", ListJson::array()},  {"versions", ListJson::array()}};
  if (current_) list["memory"].push_back(as_json(*current_));
  for (const LessonEntry& lesson : lessons_) list["lessons"].push_back(as_json(lesson));
  for (const KnownFile& version : versions_) list["versions"].push_back(as_json(version));
  const std::string text = list.dump(1, ' ', false, ListJson::error_handler_t::replace) + "\n";
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  write_whole(list_file(), {&part, 1});
}

void History::save(MemoryFile& file, const Memory& memory,
                   const std::optional<JournalMark>& applied, const LessonSet& lessons) {
  if (!is_kept()) return file.save(memory, applied);
  make_folder();
  const std::vector<LessonEntry> lessons_before = lessons_;
  const std::vector<KnownFile> versions_before = versions_;
  const std::uint64_t version_before = next_version_;
  KnownFile next{0, "", utc_time(), lessons, memory.tasks().size(), memory.size(), 0};
  try {
    if (std::optional<KnownFile> version = keep_version()) {
      versions_.push_back(std::move(*version));
      ++next_version_;
    }
    let_go();
    file.save(memory, applied, [&](const std::string& checksum) {
      next.checksum = checksum;
      write_list(next);
    });
  } catch (...) {
    // The list on disk, if it was written, knows the old file as well as the new one.
    if (file.is_ahead() && !next.checksum.empty()) current_ = std::move(next);
    lessons_ = lessons_before;
    versions_ = versions_before;
    next_version_ = version_before;
    throw;
  }
  current_ = std::move(next);
  tidy();
}

// Files that the list does not name: what was let go, and what a killed process left.
void History::tidy() const {
  std::error_code error;
  std::filesystem::directory_iterator at(folder_, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    bool is_left = false;
    if (const auto images = number_in(name, ".images")) {
      const LessonEntry* lesson = find(*images);
      is_left = lesson == nullptr || lesson->bytes == 0;
    } else if (const auto of_version = number_in(name, ".ccm")) {
      is_left = version(*of_version) == nullptr;
    } else {
      is_left = name.starts_with(kSpool) && !name.starts_with(own_spool());
    }
    if (is_left) file_system().unlink(at->path().c_str());
  }
}

}  // namespace contcore
