// What went wrong, in words for the person who has to put it right.
#pragma once

#include <stdexcept>
#include <string>

namespace contcore {

/// The one exception this library throws on purpose. The message names the thing (a file, a row),
/// the reason and, where there is one, the remedy.
class Error : public std::runtime_error {
 public:
  enum class Kind {
    kInternal = 1,   ///< a broken promise of our own
    kUsage = 2,      ///< the call makes no sense (unknown option, count of zero)
    kInput = 3,      ///< the data cannot be used (not an .npy, a NaN, wrong dimension)
    kDamaged = 4,    ///< a file of ours that is cut short or altered
    kCancelled = 5,  ///< the progress callback asked to stop
  };

  Error(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}

  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace contcore
