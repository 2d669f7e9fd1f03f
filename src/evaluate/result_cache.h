// Results of earlier runs, so that an interrupted evaluation goes on where it was.
#pragma once

#include <optional>
#include <string>

#include "contcore/evaluate.h"

namespace contcore {

class ResultCache {
 public:
  /// `folder` empty: nothing is kept. Throws Error (kInput) if it cannot be made.
  explicit ResultCache(std::string folder);

  /// Under a key that must hold everything the result depends on; this program's own bytes are
  /// added to it, so that another version never answers.
  std::optional<RunResult> find(const std::string& key) const;
  /// Whether there is one, which need not be whole.
  bool has(const std::string& key) const;
  void keep(const std::string& key, const RunResult& result) const;

 private:
  std::string path(const std::string& key) const;
  std::string folder_;
};

}  // namespace contcore
