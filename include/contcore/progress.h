// How far a long computation is, a way to stop it, and what it has to say.
#pragma once

#include <functional>
#include <string>

namespace contcore {

/// Called now and then from the calling thread with the part of the work done, from 0 to 1, never
/// decreasing. Return false to stop: the computation throws Error::Kind::kCancelled and leaves
/// nothing behind.
using Progress = std::function<bool(double done)>;

/// Told, in words for people, what takes long or did not succeed without being an error.
using Notice = std::function<void(const std::string& what)>;

}  // namespace contcore
