// Task schedules: which classes come in which step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace contcore {

/// Task after task, indices into the list of classes.
using Schedule = std::vector<std::vector<std::size_t>>;

/// The paper's notation for `sizes.size()` data sets that have `sizes[i]` classes of names
/// `datasets[i]`, numbered one data set after the other: pieces separated by '-', each N (a task of
/// N classes) or NxR (R tasks of N classes each): "1x15", "3x5", "10-1x5", "14-1", "8-1x4". 'X' and
/// '×' are 'x', '–' and "--" are '-', blanks are nothing. Or names of data sets joined by '>', each
/// a task of its own in that order, all of them once: "mvtec>visa". A part of a name will do if
/// only one data set has it, and case does not matter. Throws Error (kUsage) showing what it adds
/// up to and how many classes there are: "10-1x5 has 15 classes in 6 tasks, but there are 12
/// (visa)", with an example that would fit.
Schedule parse_schedule(const std::string& text, const std::vector<std::string>& datasets,
                        const std::vector<std::size_t>& sizes);

/// The order in which classes fill the schedule: "alphabetical" (as they are), "shuffle:SEED", or
/// names separated by commas, all of them once, blanks around them being nothing. The same seed
/// gives the same order on every machine. Throws Error (kUsage) naming what is missing, unknown or
/// twice.
std::vector<std::size_t> class_order(const std::string& text,
                                     const std::vector<std::string>& classes);

}  // namespace contcore
