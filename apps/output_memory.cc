#include "output_memory.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "common.h"
#include "contcore/error.h"

namespace contcore::app {

namespace {

Memory with_lessons(SavedMemory saved, const std::string& path, const std::string& backbone,
                    const Device& device) {
  return saved.records.empty() ? std::move(saved.memory)
                               : open_detector(path, backbone, device).memory().copy();
}

}  // namespace

std::vector<Memory> open_memories(const std::vector<std::string>& paths,
                                  const std::string& backbone, const Device& device) {
  std::vector<Memory> memories;
  for (const std::string& path : paths) {
    memories.push_back(with_lessons(open_saved(path), path, backbone, device));
  }
  return memories;
}

OutputMemory::OutputMemory(const std::string& path, bool force,
                           const std::vector<std::string>& inputs, const std::string& backbone,
                           const Device& device) {
  check_writable(path);
  std::error_code ignored;
  if (!force && std::filesystem::exists(path, ignored)) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: is there already and would be overwritten; name another file, or "
                            "add --force",
                            path));
  }
  file_.emplace(path);
  bool is_input = false;
  for (const std::string& input : inputs) {
    SavedMemory saved = open_saved(input);
    if (real_path(input) == file_->path()) {
      is_input = true;
      applied_ = saved.applied;
    }
    memories.push_back(with_lessons(std::move(saved), input, backbone, device));
  }
  if (is_input || !file_->exists()) return;
  const SavedMemory replaced = open_saved(file_->path());
  if (!replaced.records.empty()) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: a service has taught it what is in its journal alone, and would "
                            "be lost; name it among the memories as well, or another file",
                            path));
  }
  applied_ = replaced.applied;
}

}  // namespace contcore::app
