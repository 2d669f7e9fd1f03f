#include "kept_versions.h"

#include <pwd.h>
#include <unistd.h>

#include "common.h"

namespace contcore::app {

void KeptVersions::add_to(CLI::App& command) {
  command_ = &command;
  command
      .add_option("--versions", versions_,
                  "Versions of the memory to keep beside it, with the images of its lessons, so "
                  "that these can be taken back; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, std::size_t{1000}))
      ->type_name("N");
  command.add_option("--versions-size", size_, "Most bytes of these; the oldest go first")
      ->capture_default_str()
      ->check(size_text())
      ->type_name("SIZE");
}

HistoryLimits KeptVersions::limits() const {
  const bool given = command_ != nullptr && (command_->get_option("--versions")->count() > 0 ||
                                             command_->get_option("--versions-size")->count() > 0);
  return {versions_, parse_size(size_), !given};
}

std::string user_name() {
  const passwd* const user = ::getpwuid(::geteuid());
  return user == nullptr ? "" : user->pw_name;
}

}  // namespace contcore::app
