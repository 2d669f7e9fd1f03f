// The measures of a ranking, from its thresholds.
#pragma once

#include "contcore/metrics.h"
#include "evaluate/thresholds.h"

namespace contcore {

Ranking rank(const Thresholds& thresholds);

}  // namespace contcore
