// In: inspections and what people say of them. Out: the same, from a SQLite file. Fails when the
// disk does not take it; what was acknowledged stays.
#include "serve/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/file.h"
#include "base/utf8.h"
#include "contcore/error.h"
#include "serve/sqlite.h"
#include "serve/store_checks.h"
#include "serve/store_log.h"
#include "serve/store_outputs.h"
#include "serve/store_regions.h"
#include "serve/store_room.h"
#include "serve/store_samples.h"
#include "serve/store_schema.h"
#include "serve/store_stations.h"
#include "serve/store_totals.h"
#include "serve/store_transaction.h"

namespace contcore {
namespace {

static_assert(std::endian::native == std::endian::little, "maps are stored little endian");

constexpr std::size_t kMostRowsRead = 500;
constexpr std::int64_t kMostRowsLookedAt = 2000;
constexpr std::int64_t kMostTimesRead = 5000;
constexpr std::size_t kMostScores = 100000;
constexpr std::size_t kMostParts = 1000;
constexpr std::size_t kMostTasks = 1000;
constexpr std::int64_t kMostSettings = 10000;
constexpr std::size_t kMostSamplesRead = 10000;

// Ids are reserved on disk in blocks before any is given away, so that none is given twice even if
// the rows are lost.
constexpr std::int64_t kIdBlock = 10000;

constexpr char kAdding[] = "adding an inspection";
constexpr char kReading[] = "reading inspections";

// In the order that read_row() reads them.
constexpr std::string_view kSelect =
    "SELECT id, time, task, source, score, threshold, verdict, latency_ms, width, height, "
    "feedback, feedback_time, learned, has_image, reason, regions, station FROM inspection WHERE ";

std::string select(std::string_view where) { return std::string(kSelect).append(where); }

// What stands under "learned": 0 for not, 1 for learned by a version that did not count, else one
// more than the images that the memory had learned then.
std::int64_t learned_mark(std::uint64_t images) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(images, 1ULL << 62)) + 1;
}

std::size_t not_negative(std::int64_t number) {
  return static_cast<std::size_t>(std::max<std::int64_t>(number, 0));
}

// Nothing longer was ever stored; a file that has it is not to fill the memory.
std::string short_text(const Statement& row, int column) {
  return std::string(row.text(column).substr(0, 3 * kMostTaskBytes));
}

StoredInspection read_row(const Statement& row) {
  StoredInspection inspection;
  inspection.id = row.integer(0);
  inspection.time = short_text(row, 1);
  inspection.task = short_text(row, 2);
  inspection.source = short_text(row, 3);
  inspection.score = static_cast<float>(row.real(4));
  if (!row.is_null(5)) inspection.threshold = static_cast<float>(row.real(5));
  inspection.verdict = short_text(row, 6);
  inspection.latency_ms = row.real(7);
  inspection.width = static_cast<std::uint32_t>(row.integer(8));
  inspection.height = static_cast<std::uint32_t>(row.integer(9));
  inspection.feedback = short_text(row, 10);
  inspection.feedback_time = short_text(row, 11);
  inspection.learned = row.integer(12) != 0;
  inspection.has_image = row.integer(13) != 0;
  inspection.reason = short_text(row, 14);
  inspection.regions = regions_from(row.text(15));
  inspection.station = short_text(row, 16);
  return inspection;
}

// What a filter compares with, in the order of the question marks that stand for it.
struct Where {
  std::string clause = "1";  // fixed words only
  std::vector<std::string> texts;
  std::vector<std::int64_t> numbers;

  explicit Where(const InspectionFilter& filter) {
    equal("verdict", filter.verdict);
    equal("task", filter.task);
    equal("feedback", filter.feedback);
    equal("source", filter.source);
    equal("station", filter.station);
    // They are found by their ids (Store::narrow()); an index of times would take the order away.
    equal("+time", ">=", filter.since);
    equal("+time", "<", filter.until);
    compare("id <", filter.before);
    compare("id >", filter.after);
    clause += " ORDER BY id DESC LIMIT ?";
    numbers.push_back(static_cast<std::int64_t>(std::min(filter.limit, kMostRowsRead)));
  }
  void bind(Statement& statement) const {
    int at = 0;
    for (const std::string& text : texts) statement.bind(++at, text);
    for (const std::int64_t number : numbers) statement.bind(++at, number);
  }

 private:
  void equal(std::string_view column, const std::optional<std::string>& value) {
    equal(column, "=", value);
  }
  void equal(std::string_view column, std::string_view how,
             const std::optional<std::string>& value) {
    if (!value) return;
    clause += fmt::format(" AND {} {} ?", column, how);
    texts.push_back(valid_utf8(*value));
  }
  void compare(std::string_view what, const std::optional<std::int64_t>& value) {
    if (!value) return;
    clause += fmt::format(" AND {} ?", what);
    numbers.push_back(*value);
  }
};

// By one of them there is an index.
bool is_by_several(const InspectionFilter& filter) {
  const auto texts = {&filter.verdict, &filter.task, &filter.feedback, &filter.source,
                      &filter.station};
  return std::ranges::count_if(texts, [](const auto* text) { return text->has_value(); }) > 1;
}

}  // namespace

// All of it with the mutex held.
class Store::State {
 public:
  State(const std::string& path, const Retention& retention, Clock now, const Calendar& calendar);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // The right to use the rest. Rows that are due are written by whoever comes next; that it fails
  // is not the business of one who only wants to read.
  std::unique_lock<std::mutex> enter();
  // Commits, and waits for the disk without the mutex: others go on meanwhile.
  void flush(std::unique_lock<std::mutex> lock);
  void flush() { flush(std::unique_lock(mutex_)); }

  std::int64_t take_id();
  void pass_over(std::int64_t id);
  std::int64_t last_id() const { return next_id_ - 1; }
  void check_place() const;
  void insert(std::int64_t id, const StoredInspection& inspection, Keeps keeps,
              std::size_t kept_bytes, bool has_image);
  void insert_image(std::int64_t id, std::string_view bytes, std::string_view type);
  void insert_map(std::int64_t id, std::span<const float> patches, std::uint32_t grid_w,
                  std::uint32_t grid_h);
  bool set_feedback(std::int64_t id, std::string_view label, std::string_view time);
  std::vector<StoredInspection> list(const InspectionFilter& filter) const;
  [[noreturn]] void damaged(const std::string& what) const;

  const std::string path;
  const Retention retention;
  const Sqlite db;
  const StoreLog log;
  StoreTransaction transaction;
  StoreOutputs outputs;
  StoreRoom room;
  StoreSamples samples;
  StoreStations stations;
  Statement take;
  StoreTotals totals;
  Statement find;
  Statement last_looked_at;
  Statement ids_between;
  Statement image;
  Statement map;
  Statement set_learned;
  Statement unset_learned;
  Statement scores;
  Statement latest_parts;
  Statement count_settings;
  Statement set_setting;
  Statement get_setting;
  Statement erase_setting;
  Statement all_settings;
  Statement file_bytes;

 private:
  void count();
  void reserve(std::int64_t last);

  std::mutex mutex_;
  Statement insert_;
  Statement insert_image_;
  Statement insert_map_;
  Statement kept_;
  Statement set_feedback_;
  Statement reserve_;
  FileIdentity opened_{""};
  std::int64_t next_id_ = 1;
  std::int64_t reserved_ = 0;
  std::uint64_t synced_ = 0;  // of the transaction's commits
};

namespace {

Sqlite open_store(const std::string& path) {
  Sqlite db = open_sqlite(path);
  prepare_store(db.get(), path);
  return db;
}

}  // namespace

Store::State::State(const std::string& file, const Retention& how_much, Clock now,
                    const Calendar& calendar)
    : path(file),
      retention(how_much),
      db(open_store(path)),
      log(db.get(), path),
      transaction(db.get(), path, std::move(now)),
      outputs(db.get(), path),
      room(db.get(), path, how_much, outputs),
      samples(db.get(), path, how_much.sample_steps),
      stations(db.get(), path),
      take(db.get(), path, select("id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3")),
      totals(db.get(), path, calendar, how_much.totals),
      find(db.get(), path, select("id = ?1")),
      last_looked_at(db.get(), path,
                     "SELECT id FROM inspection WHERE id < ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2"),
      ids_between(db.get(), path,
                  "SELECT id, time FROM inspection WHERE (time, id) > (?1, ?2) AND time < ?3 ORDER "
                  "BY time, id LIMIT ?4"),
      image(db.get(), path, "SELECT bytes, type FROM image WHERE id = ?1"),
      map(db.get(), path, "SELECT patches, grid_w, grid_h FROM map WHERE id = ?1"),
      set_learned(db.get(), path, "UPDATE inspection SET learned = ?2 WHERE id = ?1"),
      unset_learned(db.get(), path, "UPDATE inspection SET learned = 0 WHERE learned > ?1"),
      scores(db.get(), path,
             "SELECT score FROM inspection WHERE task = ?1 AND verdict = ?2 ORDER BY id DESC LIMIT "
             "?3"),
      latest_parts(db.get(), path,
                   "SELECT id, verdict, feedback, score, threshold FROM inspection WHERE task = ?1 "
                   "AND id > ?2 ORDER BY id DESC LIMIT ?3"),
      count_settings(db.get(), path, "SELECT count(*) FROM setting WHERE key <> ?1"),
      set_setting(db.get(), path, "INSERT OR REPLACE INTO setting(key, value) VALUES(?1, ?2)"),
      get_setting(db.get(), path, "SELECT value FROM setting WHERE key = ?1"),
      erase_setting(db.get(), path, "DELETE FROM setting WHERE key = ?1"),
      all_settings(db.get(), path, "SELECT key, value FROM setting ORDER BY key"),
      file_bytes(db.get(), path,
                 "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"),
      insert_(
          db.get(), path,
          "INSERT INTO inspection(id, time, task, source, score, threshold, verdict, latency_ms, "
          "width, height, feedback, feedback_time, learned, has_image, keeps, kept_bytes, reason, "
          "regions, station) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
          "?15, ?16, ?17, ?18, ?19)"),
      insert_image_(db.get(), path, "INSERT INTO image(id, type, bytes) VALUES(?1, ?2, ?3)"),
      insert_map_(db.get(), path,
                  "INSERT INTO map(id, grid_w, grid_h, patches) VALUES(?1, ?2, ?3, ?4)"),
      kept_(db.get(), path,
            "SELECT keeps, kept_bytes, time, station, task, feedback FROM inspection WHERE id = "
            "?1"),
      set_feedback_(
          db.get(), path,
          "UPDATE inspection SET feedback = ?2, feedback_time = ?3, keeps = ?4 WHERE id = ?1"),
      reserve_(db.get(), path, "UPDATE reserved SET last = ?1") {
  count();
  if (totals.is_due()) {
    transaction.change(0, 0, [&] { totals.count_rows(); });
    transaction.commit();
  }
  opened_ = FileIdentity(path);
}

Store::State::~State() {
  try {
    flush();
    if (reserved_ >= next_id_) reserve(next_id_ - 1);
  } catch (const std::exception&) {
    // A destructor has nobody to tell. The ids that are left are skipped.
  }
}

void Store::State::count() {
  Statement all(db.get(), path,
                "SELECT count(*), total(kept_bytes), total(keeps = 2), total(iif(keeps = 2, "
                "kept_bytes, 0)), max(id) FROM inspection");
  Statement last(db.get(), path, "SELECT last FROM reserved");
  if (!all.step(kReading) || !last.step(kReading)) damaged("has lost its count of ids");
  const auto whole = [&](int column) {
    return static_cast<std::size_t>(std::clamp(all.real(column), 0.0, 1e18));
  };
  transaction.tally = {not_negative(all.integer(0)), whole(1), whole(2), whole(3)};
  reserved_ = std::max({all.integer(4), last.integer(0), std::int64_t{0}});
  // All of them may have been given away.
  next_id_ = reserved_ == std::numeric_limits<std::int64_t>::max() ? reserved_ : reserved_ + 1;
}

void Store::State::damaged(const std::string& what) const {
  throw Error(Error::Kind::kDamaged,
              fmt::format("{}: {}; restore it from a copy or move it away", path, what));
}

std::unique_lock<std::mutex> Store::State::enter() {
  std::unique_lock lock(mutex_);
  if (transaction.is_due()) {
    try {
      transaction.commit();
    } catch (const Error&) {
      // Counted as lost.
    }
  }
  return lock;
}

void Store::State::flush(std::unique_lock<std::mutex> lock) {
  transaction.commit();
  const std::uint64_t commit = transaction.commits();
  if (synced_ >= commit) return;
  lock.unlock();
  log.sync();
  lock.lock();
  synced_ = std::max(synced_, commit);
}

void Store::State::reserve(std::int64_t last) {
  transaction.change(0, 0, [&] {
    reserve_.bind(1, last);
    reserve_.run("reserving ids");
  });
  transaction.commit();
  log.sync();
  reserved_ = last;
}

std::int64_t Store::State::take_id() {
  if (next_id_ > std::numeric_limits<std::int64_t>::max() - 2 * kIdBlock) {
    damaged("has no ids left");
  }
  if (next_id_ > reserved_) reserve(next_id_ - 1 + kIdBlock);
  return next_id_++;
}

void Store::State::pass_over(std::int64_t id) {
  // A number that is far off was never an id.
  if (id >= next_id_ && id - next_id_ < 1'000'000'000) next_id_ = id + 1;
}

// What is written to a file without a name is kept for nobody.
void Store::State::check_place() const {
  const FileIdentity now(path);
  if (now.device == opened_.device && now.inode == opened_.inode) return;
  throw Error(Error::Kind::kInput,
              fmt::format("{}: was removed or replaced while it is in use; start the service anew "
                          "to begin another",
                          path));
}

void Store::State::insert(std::int64_t id, const StoredInspection& inspection, Keeps keeps,
                          std::size_t kept_bytes, bool has_image) {
  const std::string task = valid_utf8(inspection.task);
  const std::string source = valid_utf8(inspection.source);
  const std::string reason = valid_utf8(inspection.reason);
  const std::string regions = regions_text(inspection.regions);
  const std::string station = valid_utf8(inspection.station);
  insert_.bind(1, id);
  insert_.bind(2, inspection.time);
  insert_.bind(3, task);
  insert_.bind(4, source);
  insert_.bind(5, static_cast<double>(inspection.score));
  if (inspection.threshold) {
    insert_.bind(6, static_cast<double>(*inspection.threshold));
  } else {
    insert_.bind_null(6);
  }
  insert_.bind(7, inspection.verdict);
  insert_.bind(8, inspection.latency_ms);
  insert_.bind(9, std::int64_t{inspection.width});
  insert_.bind(10, std::int64_t{inspection.height});
  insert_.bind(11, inspection.feedback);
  insert_.bind(12, inspection.feedback_time);
  insert_.bind(13, std::int64_t{inspection.learned});
  insert_.bind(14, std::int64_t{has_image});
  insert_.bind(15, static_cast<std::int64_t>(keeps));
  insert_.bind(16, static_cast<std::int64_t>(kept_bytes));
  insert_.bind(17, reason);
  insert_.bind(18, regions);
  insert_.bind(19, station);
  insert_.run(kAdding);
}

void Store::State::insert_image(std::int64_t id, std::string_view bytes, std::string_view type) {
  const std::string name = valid_utf8(type);
  insert_image_.bind(1, id);
  insert_image_.bind(2, name);
  insert_image_.bind_blob(3, std::as_bytes(std::span(bytes)));
  insert_image_.run(kAdding);
}

void Store::State::insert_map(std::int64_t id, std::span<const float> patches, std::uint32_t grid_w,
                              std::uint32_t grid_h) {
  insert_map_.bind(1, id);
  insert_map_.bind(2, std::int64_t{grid_w});
  insert_map_.bind(3, std::int64_t{grid_h});
  insert_map_.bind_blob(4, std::as_bytes(patches));
  insert_map_.run(kAdding);
}

// Feedback may make an image evidence, or no longer.
bool Store::State::set_feedback(std::int64_t id, std::string_view label, std::string_view time) {
  std::int64_t keeps = 0;
  std::size_t bytes = 0;
  {
    const ResetGuard reset(kept_);
    kept_.bind(1, id);
    if (!kept_.step(kReading)) return false;
    keeps = kept_.integer(0);
    bytes = not_negative(kept_.integer(1));
    totals.call(short_text(kept_, 2), short_text(kept_, 3), short_text(kept_, 4),
                short_text(kept_, 5), label);
  }
  const Keeps before{keeps};
  Keeps after = before;
  if (before != Keeps::kNothing) after = label == "defect" ? Keeps::kEvidence : Keeps::kImage;
  set_feedback_.bind(1, id);
  set_feedback_.bind(2, label);
  set_feedback_.bind(3, time);
  set_feedback_.bind(4, static_cast<std::int64_t>(after));
  set_feedback_.run("keeping feedback");
  take_kept(transaction.tally, before, bytes);
  add_kept(transaction.tally, after, bytes);
  return true;
}

std::vector<StoredInspection> Store::State::list(const InspectionFilter& filter) const {
  const Where where(filter);
  Statement statement(db.get(), path, select(where.clause));
  where.bind(statement);
  std::vector<StoredInspection> inspections;
  while (statement.step(kReading)) inspections.push_back(read_row(statement));
  return inspections;
}

Store::Store(const std::string& path, const Retention& retention, Clock now,
             const std::vector<std::chrono::minutes>& shifts)
    : state_(std::make_unique<State>(path, retention, std::move(now), Calendar(shifts))) {}

Store::~Store() = default;

std::int64_t Store::add(const StoredInspection& inspection, std::string_view image_bytes,
                        std::string_view image_type, std::span<const float> patches,
                        std::uint32_t grid_w, std::uint32_t grid_h) {
  check_inspection(inspection);
  check_length(image_type, kMostTypeBytes, "image's type");
  check_map(patches, grid_w, grid_h);
  if (patches.size() > kMostPatches) patches = {};
  const std::size_t wanted = image_bytes.size() + patches.size_bytes();
  const bool fits = wanted <= state_->retention.image_bytes;
  const bool keep_image = fits && !image_bytes.empty();
  const bool keep_map = fits && !patches.empty();
  const std::size_t kept = fits ? wanted : 0;
  const Keeps keeps = kept == 0                         ? Keeps::kNothing
                      : inspection.feedback == "defect" ? Keeps::kEvidence
                                                        : Keeps::kImage;
  const auto lock = state_->enter();
  state_->check_place();
  const std::int64_t id = state_->take_id();
  state_->transaction.change(1, kept, [&] {
    StoreTally& tally = state_->transaction.tally;
    ++tally.inspections;
    add_kept(tally, keeps, kept);
    state_->insert(id, inspection, keeps, kept, keep_image);
    if (keep_image) state_->insert_image(id, image_bytes, image_type);
    if (keep_map) state_->insert_map(id, patches, grid_w, grid_h);
    state_->outputs.added(id);
    state_->totals.add(inspection);
    state_->room.make(tally);
  });
  if (!state_->outputs.empty() || state_->transaction.is_due()) state_->transaction.commit(1);
  state_->outputs.written();
  state_->stations.add(id, inspection);
  return id;
}

std::optional<StoredInspection> Store::find(std::int64_t id) {
  const auto lock = state_->enter();
  const ResetGuard reset(state_->find);
  state_->find.bind(1, id);
  if (!state_->find.step(kReading)) return {};
  return read_row(state_->find);
}

std::vector<StoredInspection> Store::list(const InspectionFilter& filter) {
  if (!is_by_several(filter)) {
    const auto lock = state_->enter();
    return state_->list(filter);
  }
  std::vector<StoredInspection> rows;
  InspectionFilter rest = filter;
  rest.limit = std::min(filter.limit, kMostRowsRead);
  for (bool more = rest.limit > 0; more;) {
    StoredPage page = this->page(rest);
    rest.limit -= page.inspections.size();
    rest.before = page.next;
    more = page.next && rest.limit > 0;
    std::move(page.inspections.begin(), page.inspections.end(), std::back_inserter(rows));
  }
  return rows;
}

StoredPage Store::page(const InspectionFilter& filter) {
  InspectionFilter few = filter;
  few.before = filter.before.value_or(std::numeric_limits<std::int64_t>::max());
  const auto lock = state_->enter();
  std::optional<std::int64_t> last;
  {
    const ResetGuard reset(state_->last_looked_at);
    state_->last_looked_at.bind(1, *few.before);
    state_->last_looked_at.bind(2, kMostRowsLookedAt - 1);
    if (state_->last_looked_at.step(kReading)) last = state_->last_looked_at.integer(0);
  }
  if (last && filter.after && *last <= *filter.after) last.reset();
  if (last) few.after = *last - 1;
  StoredPage page;
  page.inspections = state_->list(few);
  const bool is_full = page.inspections.size() == std::min(few.limit, kMostRowsRead);
  page.next = is_full && !page.inspections.empty() ? page.inspections.back().id : last;
  return page;
}

void Store::narrow(InspectionFilter& filter) {
  if (!filter.since && !filter.until) return;
  if (filter.since) check_time(*filter.since);
  if (filter.until) check_time(*filter.until);
  const std::string until = filter.until.value_or(":");  // behind every figure
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  std::string since = filter.since.value_or("");
  std::int64_t id = std::numeric_limits<std::int64_t>::min();
  // They all must be looked at, for a clock that was put back leaves them out of order.
  for (std::int64_t rows = kMostTimesRead; rows == kMostTimesRead;) {
    const auto lock = state_->enter();
    Statement& next = state_->ids_between;
    const ResetGuard reset(next);
    std::string time;
    next.bind(1, since);
    next.bind(2, id);
    next.bind(3, until);
    next.bind(4, kMostTimesRead);
    for (rows = 0; next.step(kReading); ++rows) {
      id = next.integer(0);
      first = std::min(first, id);
      last = std::max(last, id);
      if (rows + 1 == kMostTimesRead) time = next.text(1);
    }
    since = std::move(time);
  }
  first = std::min(first, last);
  filter.after = std::max(filter.after.value_or(0), first - 1);
  filter.before = std::min(filter.before.value_or(last + 1), last + 1);
}

std::optional<StoredImage> Store::image(std::int64_t id) {
  const auto lock = state_->enter();
  Statement& row = state_->image;
  const ResetGuard reset(row);
  row.bind(1, id);
  if (!row.step("reading an image")) return {};
  const std::span<const std::byte> bytes = row.blob(0);
  return StoredImage{{reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                     std::string(row.text(1))};
}

std::optional<StoredMap> Store::map(std::int64_t id) {
  const auto lock = state_->enter();
  Statement& row = state_->map;
  const ResetGuard reset(row);
  row.bind(1, id);
  if (!row.step("reading a map")) return {};
  const std::span<const std::byte> bytes = row.blob(0);
  const std::int64_t w = row.integer(1);
  const std::int64_t h = row.integer(2);
  const auto most = static_cast<std::int64_t>(kMostPatches);
  if (w < 1 || h < 1 || w > most || h > most ||
      bytes.size() != not_negative(w * h) * sizeof(float)) {
    state_->damaged(fmt::format("the map of inspection {} does not fit its grid", id));
  }
  StoredMap map{std::vector<float>(bytes.size() / sizeof(float)), static_cast<std::uint32_t>(w),
                static_cast<std::uint32_t>(h)};
  std::memcpy(map.patches.data(), bytes.data(), bytes.size());
  return map;
}

bool Store::feedback(std::int64_t id, std::string_view label, std::string_view time) {
  check_feedback(label, time);
  auto lock = state_->enter();
  state_->check_place();
  bool found = false;
  state_->transaction.change(0, 0, [&] { found = state_->set_feedback(id, label, time); });
  if (found) state_->flush(std::move(lock));
  return found;
}

void Store::called_good(const std::map<std::int64_t, CalledGood>& inspections) {
  constexpr std::string_view kGood = "good";
  for (const auto& [id, good] : inspections) check_feedback(kGood, good.time);
  auto lock = state_->enter();
  state_->check_place();
  state_->transaction.change(0, 0, [&] {
    for (const auto& [id, good] : inspections) {
      state_->find.bind(1, id);
      {
        const ResetGuard reset(state_->find);
        if (!state_->find.step(kReading) || read_row(state_->find).learned) continue;
      }
      state_->set_feedback(id, kGood, good.time);
      state_->set_learned.bind(1, id);
      state_->set_learned.bind(2, learned_mark(good.images));
      state_->set_learned.run("noting what was learned");
    }
  });
  state_->flush(std::move(lock));
}

void Store::taken_back(std::span<const std::int64_t> inspections) {
  auto lock = state_->enter();
  state_->check_place();
  state_->transaction.change(0, 0, [&] {
    for (const std::int64_t id : inspections) {
      state_->find.bind(1, id);
      {
        const ResetGuard reset(state_->find);
        if (!state_->find.step(kReading) || !read_row(state_->find).learned) continue;
      }
      state_->set_feedback(id, "", "");
      state_->set_learned.bind(1, id);
      state_->set_learned.bind(2, std::int64_t{0});
      state_->set_learned.run("noting what was taken back");
    }
  });
  state_->flush(std::move(lock));
}

void Store::rename_task(std::string_view from, std::string_view to) {
  const std::string names[] = {valid_utf8(from), valid_utf8(to)};
  auto lock = state_->enter();
  state_->check_place();
  state_->transaction.change(0, 0, [&] {
    for (const char* table : {"inspection", "sample"}) {
      Statement rename(state_->db.get(), state_->path,
                       fmt::format("UPDATE OR REPLACE {} SET task = ?2 WHERE task = ?1", table));
      rename.bind(1, names[0]);
      rename.bind(2, names[1]);
      rename.run("renaming a task");
    }
    state_->totals.rename_task(names[0], names[1]);
  });
  state_->flush(std::move(lock));
}

void Store::learned_up_to(std::uint64_t images) {
  const auto lock = state_->enter();
  state_->transaction.change(0, 0, [&] {
    state_->unset_learned.bind(1, learned_mark(images));
    state_->unset_learned.run("noting what is not learned any more");
  });
}

void Store::pass_over(std::int64_t id) {
  const auto lock = state_->enter();
  state_->pass_over(id);
}

std::vector<StationCounts> Store::stations(std::string_view since) {
  check_time(since);
  const auto lock = state_->enter();
  return state_->stations.read(since);
}

void Store::totals(std::int64_t since, std::int64_t until,
                   const std::function<void(const StoredTotal&)>& visit) {
  StoredTotal last;
  last.begin = since;
  for (;;) {
    std::vector<StoredTotal> some;
    {
      const auto lock = state_->enter();
      some = state_->totals.read(last, until);
    }
    if (some.empty()) return;
    for (const StoredTotal& total : some) visit(total);
    last = std::move(some.back());
  }
}

std::vector<float> Store::scores(std::string_view task, std::string_view verdict, std::size_t n) {
  check_verdict(verdict);
  const std::string name = valid_utf8(task);
  const auto lock = state_->enter();
  Statement& row = state_->scores;
  const ResetGuard reset(row);
  row.bind(1, name);
  row.bind(2, verdict);
  row.bind(3, static_cast<std::int64_t>(std::min(n, kMostScores)));
  std::vector<float> scores;
  while (row.step("reading scores")) scores.push_back(static_cast<float>(row.real(0)));
  return scores;
}

std::vector<StoredPart> Store::latest_parts(std::string_view task, std::int64_t since,
                                            std::size_t n) {
  const std::string name = valid_utf8(task);
  const auto lock = state_->enter();
  Statement& row = state_->latest_parts;
  const ResetGuard reset(row);
  row.bind(1, name);
  row.bind(2, since);
  row.bind(3, static_cast<std::int64_t>(std::min(n, kMostParts)));
  std::vector<StoredPart> parts;
  while (row.step(kReading)) {
    StoredPart& part = parts.emplace_back();
    part.id = row.integer(0);
    part.verdict = short_text(row, 1);
    part.feedback = short_text(row, 2);
    part.score = static_cast<float>(row.real(3));
    if (!row.is_null(4)) part.threshold = static_cast<float>(row.real(4));
  }
  return parts;
}

void Store::sample(std::string_view time, std::span<const TaskSample> tasks) {
  check_time(time);
  for (const TaskSample& task : tasks) check_sample(task);
  if (tasks.size() > kMostTasks) {
    throw Error(Error::Kind::kInput,
                fmt::format("a sample of {} tasks; at most {} are kept", tasks.size(), kMostTasks));
  }
  const auto lock = state_->enter();
  state_->transaction.change(0, 0, [&] { state_->samples.add(time, tasks); });
}

std::vector<StoredSample> Store::samples(std::string_view since, std::size_t n) {
  if (!since.empty()) check_time(since);
  const auto lock = state_->enter();
  return state_->samples.read(since, std::min(n, kMostSamplesRead));
}

std::vector<StoredOutput> Store::use_outputs(std::span<const std::string> names, std::size_t most) {
  const auto lock = state_->enter();
  std::vector<StoredOutput> forgotten;
  state_->transaction.change(
      0, 0, [&] { forgotten = state_->outputs.use(names, most, state_->last_id()); });
  state_->transaction.commit();
  return forgotten;
}

std::vector<StoredInspection> Store::take(std::string_view output, std::size_t n,
                                          std::int64_t up_to) {
  const auto lock = state_->enter();
  Statement& row = state_->take;
  const ResetGuard reset(row);
  row.bind(1, state_->outputs.taken(output));
  row.bind(2, up_to);
  row.bind(3, static_cast<std::int64_t>(std::min(n, kMostRowsRead)));
  std::vector<StoredInspection> inspections;
  while (row.step(kReading)) inspections.push_back(read_row(row));
  if (!inspections.empty()) state_->outputs.take(output, inspections.back().id);
  return inspections;
}

void Store::settle(std::string_view output, const OutputReport& report) {
  const auto lock = state_->enter();
  state_->check_place();
  state_->transaction.change(0, 0, [&] { state_->outputs.settle(output, report); });
  state_->transaction.commit();
}

std::vector<StoredOutput> Store::outputs() {
  const auto lock = state_->enter();
  return state_->outputs.read();
}

std::string Store::series() {
  const auto lock = state_->enter();
  return state_->outputs.series();
}

std::int64_t Store::last_id() {
  const auto lock = state_->enter();
  return state_->last_id();
}

void Store::set(std::string_view key, std::string_view value) {
  check_length(key, kMostKeyBytes, "setting's name");
  check_length(value, kMostValueBytes, "setting's value");
  const std::string name = valid_utf8(key);
  const std::string text = valid_utf8(value);
  auto lock = state_->enter();
  state_->transaction.change(0, 0, [&] {
    {
      Statement& others = state_->count_settings;
      const ResetGuard reset(others);
      others.bind(1, name);
      if (others.step("counting settings") && others.integer(0) >= kMostSettings) {
        throw Error(Error::Kind::kInput,
                    fmt::format("{}: there are {} settings already; remove some", state_->path,
                                kMostSettings));
      }
    }
    state_->set_setting.bind(1, name);
    state_->set_setting.bind(2, text);
    state_->set_setting.run("keeping a setting");
  });
  state_->flush(std::move(lock));
}

std::optional<std::string> Store::get(std::string_view key) {
  const std::string name = valid_utf8(key);
  const auto lock = state_->enter();
  Statement& row = state_->get_setting;
  const ResetGuard reset(row);
  row.bind(1, name);
  if (!row.step("reading a setting")) return {};
  return std::string(row.text(0));
}

void Store::erase(std::string_view key) {
  const std::string name = valid_utf8(key);
  auto lock = state_->enter();
  state_->transaction.change(0, 0, [&] {
    state_->erase_setting.bind(1, name);
    state_->erase_setting.run("removing a setting");
  });
  state_->flush(std::move(lock));
}

std::vector<std::pair<std::string, std::string>> Store::settings() {
  const auto lock = state_->enter();
  Statement& row = state_->all_settings;
  const ResetGuard reset(row);
  std::vector<std::pair<std::string, std::string>> settings;
  while (row.step("reading the settings")) settings.emplace_back(row.text(0), row.text(1));
  return settings;
}

StoreCounts Store::counts() {
  const auto lock = state_->enter();
  const ResetGuard reset(state_->file_bytes);
  const bool known = state_->file_bytes.step("asking for the size");
  const StoreTally& tally = state_->transaction.tally;
  return {tally.inspections,
          tally.kept_bytes,
          tally.evidence,
          tally.evidence_bytes,
          known ? not_negative(state_->file_bytes.integer(0)) : 0,
          state_->transaction.pending(),
          state_->transaction.lost()};
}

void Store::flush() {
  state_->flush();  // and not by enter(), which is silent about what is lost
}

}  // namespace contcore
