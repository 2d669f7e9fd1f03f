// Inspections, feedback and samples over time, in a SQLite file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contcore/image.h"

namespace contcore {

/// Times are UTC, as in "2024-05-31T23:59:59.999Z", to the millisecond.
struct StoredInspection {
  std::int64_t id = 0;
  std::string time;
  std::string task;    ///< the product it was taken for; may be empty; at most 1000 bytes
  std::string source;  ///< a label from the client; may be empty; at most 200 bytes
  float score = 0;     ///< finite
  std::optional<float> threshold;
  std::string verdict;  ///< "good", "defect", "unknown" or "uncalibrated"
  std::string reason;   ///< of the verdict, in words; at most 1000 bytes
  /// The first of them, at most 16. An inspection that an earlier version kept has none, and no
  /// reason.
  std::vector<Region> regions;
  double latency_ms = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::string feedback;  ///< "", "good" or "defect"
  std::string feedback_time;
  bool learned = false;
  bool has_image = false;
  std::string station;  ///< where it was inspected; may be empty; at most 200 bytes
};

/// Of an inspection, what tells how a task fares.
struct StoredPart {
  std::int64_t id = 0;
  std::string verdict;
  std::string feedback;
  float score = 0;
  std::optional<float> threshold;
};

struct StoredImage {
  std::string bytes;  ///< as uploaded
  std::string type;   ///< such as "image/png"
};

struct StoredMap {
  std::vector<float> patches;  ///< row after row
  std::uint32_t grid_w = 0;
  std::uint32_t grid_h = 0;
};

/// Only inspections that agree in all that is given. `before` and `after` are ids, themselves left
/// out: a page is continued with `before` = the last id seen, what is new since is `after` = the
/// first. Ids only go up, so pages stay where they are while rows are added.
struct InspectionFilter {
  std::optional<std::string> verdict;
  std::optional<std::string> task;
  std::optional<std::string> feedback;
  std::optional<std::string> source;
  std::optional<std::string> station;
  std::optional<std::string> since;  ///< a time; itself not left out
  std::optional<std::string> until;  ///< a time; itself left out
  std::optional<std::int64_t> before;
  std::optional<std::int64_t> after;
  std::size_t limit = 50;  ///< at most 500
};

/// A part of a list that is read bit by bit.
struct StoredPage {
  std::vector<StoredInspection> inspections;
  std::optional<std::int64_t> next;  ///< `before` of what follows; nothing: this was the last
};

/// How many inspections of a slot (serve/calendar.h), a station and a task there were of one kind.
struct StoredTotal {
  std::int64_t begin = 0;  ///< of the slot, seconds since 1970
  std::string station;
  std::string task;
  int what = -1;  ///< CountedAs (serve/store_totals.h)
  std::uint64_t n = 0;
};

/// What a station has inspected since a time, whether or not the rows are still kept.
struct StationCounts {
  std::string name;         ///< empty: those that came without a station
  std::int64_t latest = 0;  ///< id of its latest inspection
  std::size_t good = 0;
  std::size_t defect = 0;
  std::size_t unknown = 0;
  std::size_t uncalibrated = 0;
};

/// The state of one task; NaN for what is not known.
struct TaskSample {
  std::string task;
  std::uint64_t vectors = 0;
  double certificate = 0;
  double drift = 0;
  double alarms = 0;  ///< part of its latest parts that was rejected (serve/promises.h)
  double good = 0;    ///< score of its good parts, of their threshold (same)
};

struct StoredSample {
  std::string time;
  TaskSample sample;
};

/// How much is kept. Images and maps share `image_bytes`; when they are more, the oldest go first
/// and the rows stay. When the rows are more, the oldest go. Images of parts that a person called
/// defect are evidence and go last, as do their rows; but they fill no more than nine tenths, so
/// that there is always room for what comes in. Samples are kept for `sample_steps` calls, then
/// every second for twice as long, every fourth for four times as long, and so on.
/// Totals stay when their inspections go; when they are more than `totals` numbers (of 50 bytes or
/// so), the oldest go.
struct Retention {
  std::size_t inspections = 100000;
  std::size_t image_bytes = std::size_t{2} << 30;
  std::size_t sample_steps = 8192;
  std::size_t totals = 1000000;
};

struct StoreCounts {
  std::size_t inspections = 0;
  std::size_t kept_bytes = 0;      ///< images and maps
  std::size_t evidence = 0;        ///< inspections whose image is evidence
  std::size_t evidence_bytes = 0;  ///< part of kept_bytes
  std::size_t file_bytes = 0;      ///< without the log beside it
  std::size_t pending = 0;         ///< inspections not yet handed to the system
  std::size_t lost = 0;            ///< inspections that add() had taken and the disk then did not
};

/// Where verdicts are sent, and how many: since it was first named, but for those that wait.
struct StoredOutput {
  std::string name;
  std::size_t waiting = 0;
  std::size_t delivered = 0;
  std::size_t dropped = 0;
};

/// What became of verdicts that an output had taken.
struct OutputReport {
  std::int64_t last = 0;      ///< id up to which all are done with
  std::size_t rows = 0;       ///< of the store, among those that follow
  std::size_t delivered = 0;  ///< also of inspections that could not be kept
  std::size_t dropped = 0;    ///< the same
};

/// All calls may be made from any thread. One mutex and one connection serve them, so that what was
/// added is found at once, also while it is not yet written; a call waits for one other at most as
/// long as that takes, and none takes long: adding writes into memory or, once in a while, 64 rows
/// into the log (no flush), lists go by an index and end at 500 rows, old rows go a few at a time.
/// The longest is the folding in of the log every 4 MB. Those who wait for the disk (feedback(),
/// set(), erase() and flush()) do so without the mutex.
///
/// Every text may be any bytes: what is not UTF-8 is replaced by U+FFFD, in filters as well, so
/// that what was stored under a name is found under it. Texts that are too long, numbers that are
/// not finite, and times, verdicts and labels that are none are refused with Error (kInput).
///
/// A failure of the disk is Error (kInput) and the store goes on when the disk does. Inspections
/// that were waiting to be written (200 ms of them) are lost with it; they are counted, and their
/// ids are not used again, not even after a power cut: feedback must never reach another inspection
/// than the one it was given for. From then on each is written by its own add(), which says whether
/// it is kept, until one is.
class Store {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// Opens or makes the file; ":memory:" keeps all in memory. Throws Error: kDamaged for a file
  /// that is no sound store, kInput for one that is another program's or a newer version's, or that
  /// cannot be opened.
  /// Totals are kept apart where one of these shifts begins.
  explicit Store(const std::string& path, const Retention& retention = {},
                 Clock now = std::chrono::steady_clock::now,
                 const std::vector<std::chrono::minutes>& shifts = {});
  /// Flushes; what fails then is lost.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Adds an inspection, with its image and map if they are not empty, and returns its id; `id` and
  /// `has_image` of what is given are not read. An image larger than all that may be kept is left
  /// out. It is written with others by the call that comes 200 ms later or makes it 64, or by
  /// flush(). Throws when it is not kept, and then it has no id.
  std::int64_t add(const StoredInspection& inspection, std::string_view image_bytes,
                   std::string_view image_type, std::span<const float> patches,
                   std::uint32_t grid_w, std::uint32_t grid_h);

  std::optional<StoredInspection> find(std::int64_t id);
  /// Newest first. Where several texts must agree it is read as pages, without the mutex in
  /// between.
  std::vector<StoredInspection> list(const InspectionFilter& filter);
  /// The same, but after 2000 rows that do not all agree it says where to go on: however rare what
  /// is looked for, nobody waits long for this.
  StoredPage page(const InspectionFilter& filter);
  /// Sets `before` and `after` to the ids that lie in the filter's times. It is then found by them,
  /// which is faster. Read a few thousand at a time, without the mutex in between.
  void narrow(InspectionFilter& filter);
  std::optional<StoredImage> image(std::int64_t id);
  std::optional<StoredMap> map(std::int64_t id);

  /// Sets ("good", "defect") or takes back ("") what a person said; on disk when it returns. False
  /// when there is no such inspection.
  bool feedback(std::int64_t id, std::string_view label, std::string_view time);
  /// Notes that a person called these good, by id, and that the memory has learned from them; those
  /// that are noted already, or are gone, stay as they are. On disk when it returns.
  struct CalledGood {
    std::string time;
    std::uint64_t images = 0;  ///< the memory had learned when it had this one
  };
  void called_good(const std::map<std::int64_t, CalledGood>& inspections);
  /// Notes that the memory has not learned from these (any more): their feedback is taken back.
  void taken_back(std::span<const std::int64_t> inspections);
  /// Inspections of a task are found under its new name.
  void rename_task(std::string_view from, std::string_view to);
  /// The memory has learned so many images: what was learned after that (an older copy was put
  /// back) it does not know, and can be taught again.
  void learned_up_to(std::uint64_t images);
  /// Never gives this id to an inspection, nor one before it: the journal knows it from a database
  /// that was here before.
  void pass_over(std::int64_t id);

  /// The stations that inspections came from, by name, with their counts since that time: of the
  /// thousand that were heard of last. Counted once for each `since`, and kept up to date from then
  /// on, so asking costs next to nothing.
  std::vector<StationCounts> stations(std::string_view since);

  /// Calls `visit` with all totals of slots that begin from `since` to before `until`, in order.
  /// Read a few thousand at a time, without the mutex in between.
  void totals(std::int64_t since, std::int64_t until,
              const std::function<void(const StoredTotal&)>& visit);

  /// Scores of a task's last inspections with this verdict, newest first, at most n or 100,000.
  std::vector<float> scores(std::string_view task, std::string_view verdict, std::size_t n);

  /// A task's latest inspections with an id above `since`, newest first, at most n or 1000, by an
  /// index that has all of it.
  std::vector<StoredPart> latest_parts(std::string_view task, std::int64_t since, std::size_t n);

  /// At most 1000 tasks.
  void sample(std::string_view time, std::span<const TaskSample> tasks);
  /// In the order of time, from `since` ("" for all) on: at most n points in time, spread evenly
  /// over those there are, the first and last among them.
  std::vector<StoredSample> samples(std::string_view since, std::size_t n);

  /// These outputs are told of what is added from now on, or since they were last named; what waits
  /// beyond `most` is dropped, the oldest first. Others are forgotten, and returned. Where there is
  /// one, add() has handed an inspection to the system when it returns, so that one that was
  /// acknowledged outlasts the process.
  std::vector<StoredOutput> use_outputs(std::span<const std::string> names, std::size_t most);
  /// What an output has not taken yet, in order: at most n, and up to that id.
  std::vector<StoredInspection> take(std::string_view output, std::size_t n, std::int64_t up_to);
  /// Notes what became of it; handed to the system when it returns.
  void settle(std::string_view output, const OutputReport& report);
  std::vector<StoredOutput> outputs();
  /// What tells the inspections of this store from those of another.
  std::string series();
  /// No inspection has a larger id yet.
  std::int64_t last_id();

  /// Small texts by name; on disk when the call returns. Names have at most 1200 bytes, values
  /// 4000, and there are at most 10,000.
  void set(std::string_view key, std::string_view value);
  std::optional<std::string> get(std::string_view key);
  void erase(std::string_view key);
  std::vector<std::pair<std::string, std::string>> settings();

  StoreCounts counts();

  /// All that was added is on disk when it returns. To be called every 200 ms: what is lost when
  /// the power goes is what was added since.
  void flush();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace contcore
