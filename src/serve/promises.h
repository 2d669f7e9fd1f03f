// What a task's threshold promises, beside what was seen on the line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "contcore/memory.h"
#include "serve/store.h"

namespace contcore {

/// Nobody knows which parts are good. So the alarms among those that no person has called defect
/// are set beside the promised rate of false alarms.
struct TaskPromise {
  std::optional<double> rate;  ///< nothing: there is no threshold, or a person has set it
  std::size_t parts = 0;       ///< latest parts that were judged and that nobody called defect
  std::size_t alarms = 0;      ///< of these, rejected
  std::string warning;         ///< when they differ beyond chance; else empty
  /// Nothing while there are no parts.
  std::optional<double> alarm_rate() const;

  /// Of the latest parts called good: the median of score / threshold. It says how near to the
  /// limit good parts are, and stays as it is when the memory gives a task more or fewer vectors.
  std::size_t good_parts = 0;
  std::optional<double> good;
  std::optional<double> good_at_first;  ///< the same of the first ones
  std::string good_warning;             ///< when it has moved beyond chance, and by much
};

/// Keeps what was counted until it changes, so that asking for all tasks costs little. All calls
/// may be made from any thread.
class Promises {
 public:
  /// How many of the latest parts count.
  static constexpr std::size_t kParts = 500;
  /// So many are needed before anything is said of them.
  static constexpr std::size_t kFewest = 30;

  explicit Promises(Store& store);

  /// Throws Error as Store does.
  TaskPromise of(const std::string& task, const std::optional<Threshold>& threshold);

  /// A part of it was inspected, or a person said what it is.
  void changed(const std::string& task);
  /// Its threshold or what it knows is not what it was: earlier parts do not count any more.
  void begin_anew(const std::string& task);

 private:
  // The first parts called good since the beginning, kept in the store: they may be gone there.
  struct Beginning {
    std::int64_t since = 0;       // parts with a larger id count
    std::int64_t until = 0;       // id of the last of them; 0: there are too few as yet
    std::optional<double> first;  // their median
  };
  struct Seen {
    std::size_t parts = 0;
    std::size_t alarms = 0;
    std::size_t good_parts = 0;
    std::optional<double> good;
    std::size_t compared = 0;  // parts called good that are none of the first
    std::size_t higher = 0;    // of these, above the median of the first
  };
  const Seen& seen(const std::string& task);
  Seen count(const std::string& task);
  void keep(const std::string& task, const Beginning& beginning);

  Store& store_;
  std::mutex mutex_;
  std::map<std::string, Beginning> beginnings_;
  std::map<std::string, Seen> seen_;
};

}  // namespace contcore
