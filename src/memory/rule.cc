#include "memory/rule.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "contcore/error.h"

namespace contcore {
namespace {

struct KnownRule {
  Consolidate::Rule rule;
  const char* name;
  std::unique_ptr<const Rule> (*make)(const Consolidate&);
};

// In the order of Consolidate::Rule.
constexpr std::array kRules = {
    KnownRule{Consolidate::Rule::kShare, "share", make_share_rule},
    KnownRule{Consolidate::Rule::kPaper, "paper", make_paper_rule},
};

}  // namespace

std::unique_ptr<const Rule> make_rule(const Consolidate& how) {
  return kRules[static_cast<std::size_t>(how.rule)].make(how);
}

const char* Consolidate::name() const { return kRules[static_cast<std::size_t>(rule)].name; }

Consolidate::Rule Consolidate::parse(const std::string& name) {
  std::string known;
  for (const KnownRule& one : kRules) {
    if (one.name == name) return one.rule;
    known += (known.empty() ? "" : " and ") + std::string(one.name);
  }
  throw Error(Error::Kind::kUsage,
              fmt::format("there is no rule '{}' to consolidate by; there are {}", name, known));
}

}  // namespace contcore
