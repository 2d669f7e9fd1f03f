#include "evaluate/aggregate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "evaluate/results.h"
#include "evaluate/text.h"

namespace contcore {
namespace {

bool same(const Setting& a, const Setting& b, Parameter parameter) {
  switch (parameter) {
    case kM:
      return a.m == b.m;
    case kP:
      return a.p == b.p;
    case kQ:
      return a.q == b.q;
    default:
      return a.backbone == b.backbone;
  }
}

bool less(const Setting& a, const Setting& b, Parameter parameter) {
  switch (parameter) {
    case kM:
      return a.m < b.m;
    case kP:
      return a.p < b.p;
    case kQ:
      return a.q < b.q;
    default:
      return a.backbone < b.backbone;
  }
}

bool same_but(const Setting& a, const Setting& b, Parameter but) {
  bool equal = a.method == b.method;
  for (int i = 0; i < kParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    equal = equal && (parameter == but || same(a, b, parameter));
  }
  return equal;
}

Statistics statistics(const std::vector<Measures>& all) {
  Statistics out;
  std::vector<std::optional<double>> values(all.size());
  for (std::size_t i = 0; i < kMeasures; ++i) {
    for (std::size_t run = 0; run < all.size(); ++run) values[run] = all[run][i];
    out[i] = statistic(values);
  }
  return out;
}

Measures average_after(const RunResult& result, std::size_t s) {
  std::vector<Measures> tasks;
  for (std::size_t t = 0; t <= s; ++t) tasks.push_back(task_measures(result, s, t));
  return mean_measures(tasks);
}

void summarise_group(Group& group) {
  std::vector<Measures> average, forgetting, classes;
  std::size_t steps = 0;
  for (const RunResult* run : group.runs) {
    const Summary summary = summarise(*run);
    average.push_back(summary.average);
    forgetting.push_back(summary.forgetting);
    classes.push_back(summary.classes);
    steps = std::max(steps, run->steps.size());
  }
  group.average = statistics(average);
  group.forgetting = statistics(forgetting);
  group.classes = statistics(classes);
  for (std::size_t s = 0; s < steps; ++s) {
    std::vector<Measures> after;
    for (const RunResult* run : group.runs) after.push_back(average_after(*run, s));
    group.curve.push_back(statistics(after));
  }
}

// The method, then those of the parameters that are not the same for all of `among`.
std::string label_of(const Setting& setting, const std::vector<const Setting*>& among,
                     Parameter but = kParameters) {
  std::string label = setting.method;
  for (int i = 0; i < kParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    const bool alike = std::all_of(among.begin(), among.end(), [&](const Setting* other) {
      return same(setting, *other, parameter);
    });
    if (alike || parameter == but) continue;
    label += fmt::format(", {}={}", parameter_name(parameter), parameter_text(setting, parameter));
  }
  return label;
}

void add_run(std::vector<Group>& groups, const RunResult& result) {
  const Setting& setting = result.setting;
  auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
    return same_but(other.setting, setting, kParameters);
  });
  if (group == groups.end()) {
    // Behind the last one of its method.
    const auto last = std::find_if(groups.rbegin(), groups.rend(), [&](const Group& other) {
      return other.setting.method == setting.method;
    });
    group = groups.emplace(last == groups.rend() ? groups.end() : last.base());
    group->setting = setting;
  }
  const bool known = std::any_of(group->runs.begin(), group->runs.end(), [&](const RunResult* run) {
    return run->setting.seed == setting.seed && run->setting.order == setting.order;
  });
  if (!known) group->runs.push_back(&result);
}

// Groups that are the same but for the parameter, lists of two or more with different values.
std::vector<std::vector<const Group*>> alike_but(const std::vector<Group>& groups,
                                                 Parameter parameter) {
  std::vector<std::vector<const Group*>> lists;
  for (const Group& group : groups) {
    const auto list = std::find_if(lists.begin(), lists.end(), [&](const auto& other) {
      return same_but(other.front()->setting, group.setting, parameter);
    });
    if (list == lists.end()) {
      lists.push_back({&group});
    } else {
      list->push_back(&group);
    }
  }
  std::erase_if(lists, [](const auto& list) { return list.size() < 2; });
  return lists;
}

Sweep sweep_of(const std::vector<std::vector<const Group*>>& lists, Parameter parameter) {
  std::vector<const Setting*> values, firsts;
  for (const auto& list : lists) {
    firsts.push_back(&list.front()->setting);
    for (const Group* group : list) values.push_back(&group->setting);
  }
  std::sort(values.begin(), values.end(),
            [&](const Setting* a, const Setting* b) { return less(*a, *b, parameter); });
  const auto end =
      std::unique(values.begin(), values.end(),
                  [&](const Setting* a, const Setting* b) { return same(*a, *b, parameter); });
  values.erase(end, values.end());

  Sweep sweep;
  sweep.parameter = parameter;
  for (const Setting* value : values) sweep.values.push_back(parameter_text(*value, parameter));
  for (const auto& list : lists) {
    std::vector<const Setting*> of_method;
    std::copy_if(
        firsts.begin(), firsts.end(), std::back_inserter(of_method),
        [&](const Setting* other) { return other->method == list.front()->setting.method; });
    Sweep::Line line{label_of(list.front()->setting, of_method, parameter), {}};
    for (const Setting* value : values) {
      const auto found = std::find_if(list.begin(), list.end(), [&](const Group* group) {
        return same(group->setting, *value, parameter);
      });
      line.groups.push_back(found == list.end() ? nullptr : *found);
    }
    sweep.lines.push_back(line);
  }
  return sweep;
}

}  // namespace

std::optional<Statistic> statistic(std::span<const std::optional<double>> values) {
  if (values.empty()) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  Statistic out{0, 0, values.size()};
  for (const std::optional<double>& value : values) {
    if (!value) return std::nullopt;
    out.mean += *value;
  }
  out.mean /= count;
  if (values.size() == 1) return out;
  double squares = 0;
  for (const std::optional<double>& value : values) {
    squares += (*value - out.mean) * (*value - out.mean);
  }
  out.deviation = std::sqrt(squares / (count - 1));
  return out;
}

std::vector<Group> group_runs(const std::vector<RunResult>& results) {
  std::vector<Group> groups;
  for (const RunResult& result : results) add_run(groups, result);
  for (Group& group : groups) {
    summarise_group(group);
    std::vector<const Setting*> of_method;
    for (const Group& other : groups) {
      if (other.setting.method == group.setting.method) of_method.push_back(&other.setting);
    }
    group.label = label_of(group.setting, of_method);
  }
  return groups;
}

std::vector<ClassKey> class_keys(const RunResult& result) {
  std::vector<ClassKey> keys;
  std::map<std::string, std::size_t> seen;
  for (const std::vector<std::string>& task : result.tasks) {
    for (const std::string& name : task) keys.emplace_back(name, seen[name]++);
  }
  return keys;
}

Statistics class_statistics(const Group& group, const ClassKey& key) {
  std::vector<Measures> all;
  for (const RunResult* run : group.runs) {
    const std::vector<ClassKey> keys = class_keys(*run);
    const auto at =
        static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
    const bool measured = !run->steps.empty() && at < run->steps.back().size();
    all.push_back(measured ? run->steps.back()[at] : Measures{});
  }
  return statistics(all);
}

const char* parameter_name(Parameter parameter) {
  constexpr std::array<const char*, kParameters> kNames = {"m", "p", "q", "backbone"};
  return kNames.at(parameter);
}

std::string parameter_text(const Setting& setting, Parameter parameter) {
  switch (parameter) {
    case kM:
      return grouped(setting.m);
    case kP:
      return fmt::format("{:g}", setting.p);
    case kQ:
      return fmt::format("{:g}", setting.q);
    default:
      return setting.backbone.substr(setting.backbone.rfind('/') + 1);
  }
}

std::vector<Sweep> find_sweeps(const std::vector<Group>& groups) {
  std::vector<Sweep> sweeps;
  for (int i = 0; i < kParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    const auto lists = alike_but(groups, parameter);
    if (!lists.empty()) sweeps.push_back(sweep_of(lists, parameter));
  }
  return sweeps;
}

}  // namespace contcore
