// How far a long computation is, and a way to stop it.
#pragma once

#include <functional>

namespace contcore {

/// Called now and then from the calling thread with the part of the work done, from 0 to 1, never
/// decreasing. Return false to stop: the computation throws Error::Kind::kCancelled and leaves
/// nothing behind.
using Progress = std::function<bool(double done)>;

}  // namespace contcore
