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
  const char* words;  // q stands in {}
  std::unique_ptr<const Rule> (*make)(const Consolidate&);
};

// In the order of Consolidate::Rule.
constexpr std::array kRules = {
    KnownRule{Consolidate::Rule::kShare, "share",
              "share: every task keeps an equal part, the first of its own order", make_share_rule},
    KnownRule{Consolidate::Rule::kPaper, "paper",
              "paper, q {}: the memory is sampled again, whatever task vectors are of",
              make_paper_rule},
};

}  // namespace

std::unique_ptr<const Rule> make_rule(const Consolidate& how) {
  return kRules[static_cast<std::size_t>(how.rule)].make(how);
}

const char* Consolidate::name() const { return kRules[static_cast<std::size_t>(rule)].name; }

std::string Consolidate::text() const {
  return fmt::format(fmt::runtime(kRules[static_cast<std::size_t>(rule)].words), q);
}

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
