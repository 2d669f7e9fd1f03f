// A run: a method learns the tasks one after the other and is measured after each.
#pragma once

#include "contcore/compute.h"
#include "contcore/evaluate.h"
#include "contcore/progress.h"
#include "contcore/ranks.h"
#include "evaluate/contender.h"
#include "evaluate/evaluation.h"

namespace contcore {

/// Of all ranks, where there are any: each of them learns all, which gives each the same memory,
/// measures its share of the classes, and has the whole result in the end. An error of one of them
/// is thrown on all, at the end of a task.
RunResult judge_method(Evaluation::State& parts, Contender& method, const Setting& setting,
                       Compute& compute, Ranks* ranks, const Progress& progress);

}  // namespace contcore
