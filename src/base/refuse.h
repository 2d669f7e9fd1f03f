// Input that cannot be used, said in words.
#pragma once

#include <string>

#include "contcore/error.h"

namespace contcore {

[[noreturn]] inline void refuse(const std::string& what) { throw Error(Error::Kind::kInput, what); }

/// `name` is what the person who reads it knows it by, most often a path.
[[noreturn]] inline void refuse(const std::string& name, const std::string& what) {
  refuse(name + ": " + what);
}

/// A file of ours.
[[noreturn]] inline void refuse_damaged(const std::string& path, const std::string& what) {
  throw Error(Error::Kind::kDamaged,
              path + ": " + what + "; the file is damaged: restore it from a copy");
}

}  // namespace contcore
