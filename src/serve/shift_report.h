// A shift, a day or a week on one page, to be printed or kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/statistics.h"
#include "serve/store.h"

namespace contcore {

struct ShiftReport {
  struct Part {
    StoredInspection inspection;
    std::string picture;  ///< a JPEG; may be empty
  };
  StatisticsQuery query;
  std::optional<Period> span;
  Statistics statistics;
  std::string picture;                ///< of a part, for where defects happen: a JPEG; may be empty
  std::vector<Part> worst;            ///< the worst first
  std::vector<std::string> warnings;  ///< of the service as it is now
  std::string version;
};

/// HTML that needs nothing else: its pictures are inside, it has no script, and fits on A4. Times
/// are the machine's local ones.
std::string shift_report_html(const ShiftReport& report);

}  // namespace contcore
