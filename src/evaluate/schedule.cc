#include "contcore/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/random.h"
#include "contcore/error.h"
#include "evaluate/clipped.h"

namespace contcore {
namespace {

constexpr std::size_t kMostClasses = 100000;
constexpr std::string_view kBlanks = " \t\r\n\f\v";

[[noreturn]] void misuse(const std::string& what) { throw Error(Error::Kind::kUsage, what); }

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(mark);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Not std::tolower, which asks the locale; bytes beyond ASCII stay as they are.
std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t next = 0; (next = text.find(from, at)) != text.npos; at = next + from.size()) {
    out.append(text, at, next - at).append(to);
  }
  text = out.append(text, at);
}

// The same with ASCII alone and no blanks.
std::string plain_notation(std::string text) {
  std::erase_if(text, [](char c) { return kBlanks.find(c) != kBlanks.npos; });
  replace_all(text, "×", "x");
  replace_all(text, "X", "x");
  replace_all(text, "–", "-");
  replace_all(text, "--", "-");
  return text;
}

struct Datasets {
  const std::vector<std::string>& names;
  const std::vector<std::size_t>& sizes;
  std::size_t classes;

  std::string list() const {
    constexpr std::size_t kMostShown = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kMostShown); ++i) {
      const std::string size = names.size() > 1 ? fmt::format(" {}", sizes[i]) : "";
      text += fmt::format("{}{}{}", i > 0 ? ", " : "", clipped(names[i], 40), size);
    }
    return names.size() > kMostShown ? text + ", …" : text;
  }

  std::string examples() const {
    std::string text = fmt::format("1x{}", classes);
    if (classes > 1) text += fmt::format(" or {}-1", classes - 1);
    if (names.size() == 2) {
      text += fmt::format(" or {}>{}", clipped(names[0], 40), clipped(names[1], 40));
    }
    return text;
  }
};

[[noreturn]] void refuse_schedule(const std::string& text, const std::string& what,
                                  const Datasets& datasets) {
  misuse(fmt::format("schedule '{}' {} ({}); for example {}", clipped(trimmed(text)), what,
                     datasets.list(), datasets.examples()));
}

// A number from 1 on. What is too large is all the same kMostClasses + 1.
std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = std::min(value * 10 + static_cast<std::size_t>(c - '0'), kMostClasses + 1);
  }
  return value > 0 ? std::optional(value) : std::nullopt;
}

// The sizes of the tasks that "10-1x5" means.
std::vector<std::size_t> task_sizes(const std::string& text, const Datasets& datasets) {
  std::vector<std::size_t> tasks;
  std::size_t classes = 0;
  const std::string plain = plain_notation(text);
  for (const std::string_view piece : split(plain, '-')) {
    const std::size_t x = piece.find('x');
    const auto size = number(piece.substr(0, x));
    const auto repeats =
        x == piece.npos ? std::optional<std::size_t>(1) : number(piece.substr(x + 1));
    if (!size || !repeats) {
      refuse_schedule(text,
                      fmt::format("is not one: '{}' is neither N nor NxR with numbers from 1 on; "
                                  "there are {} classes",
                                  clipped(piece, 20), datasets.classes),
                      datasets);
    }
    classes += *size * *repeats;  // both are small
    if (classes > kMostClasses) {
      refuse_schedule(
          text,
          fmt::format("has more than {} classes, but there are {}", kMostClasses, datasets.classes),
          datasets);
    }
    tasks.insert(tasks.end(), *repeats, *size);
  }
  if (classes != datasets.classes) {
    refuse_schedule(text,
                    fmt::format("has {} classes in {} tasks, but there are {}", classes,
                                tasks.size(), datasets.classes),
                    datasets);
  }
  return tasks;
}

// The only data set of that name; or else of that name but for case; or else whose name begins
// with it; or else has it inside.
std::size_t dataset_named(std::string_view name, const std::string& text,
                          const Datasets& datasets) {
  const std::string wanted = lower(name);
  constexpr std::size_t kWays = 4;
  for (std::size_t way = 0; way < kWays && !name.empty(); ++way) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < datasets.names.size(); ++i) {
      const std::string& whole = datasets.names[i];
      const bool fits[kWays] = {whole == name, lower(whole) == wanted,
                                lower(whole).starts_with(wanted),
                                lower(whole).find(wanted) != whole.npos};
      if (fits[way]) found.push_back(i);
    }
    if (found.size() == 1) return found[0];
    if (found.size() > 1) {
      refuse_schedule(text,
                      fmt::format("is not clear: '{}' may be {} or {}; there are {} classes",
                                  clipped(name, 40), clipped(datasets.names[found[0]], 40),
                                  clipped(datasets.names[found[1]], 40), datasets.classes),
                      datasets);
    }
  }
  refuse_schedule(text,
                  fmt::format("is not one: there is no data set '{}'; there are {} classes",
                              clipped(name, 40), datasets.classes),
                  datasets);
}

Schedule by_dataset(const std::string& text, const Datasets& datasets) {
  std::vector<bool> named(datasets.names.size());
  Schedule schedule;
  for (const std::string_view piece : split(text, '>')) {
    const std::size_t i = dataset_named(trimmed(piece), text, datasets);
    if (named[i]) {
      refuse_schedule(text,
                      fmt::format("names {} twice; there are {} classes",
                                  clipped(datasets.names[i], 40), datasets.classes),
                      datasets);
    }
    named[i] = true;
    std::vector<std::size_t>& task = schedule.emplace_back(datasets.sizes[i]);
    const auto sizes = datasets.sizes.begin();
    std::iota(task.begin(), task.end(),
              std::accumulate(sizes, sizes + static_cast<std::ptrdiff_t>(i), std::size_t{0}));
  }
  const auto missing = std::find(named.begin(), named.end(), false);
  if (missing != named.end()) {
    const auto i = static_cast<std::size_t>(missing - named.begin());
    refuse_schedule(text,
                    fmt::format("does not name {}; there are {} classes",
                                clipped(datasets.names[i], 40), datasets.classes),
                    datasets);
  }
  return schedule;
}

std::size_t count_classes(const std::vector<std::string>& datasets,
                          const std::vector<std::size_t>& sizes) {
  if (datasets.empty() || datasets.size() != sizes.size()) {
    misuse(fmt::format("a schedule needs data sets and their sizes, not {} names and {} sizes",
                       datasets.size(), sizes.size()));
  }
  std::size_t classes = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) misuse(fmt::format("data set {} has no classes", clipped(datasets[i])));
    classes += std::min(sizes[i], kMostClasses + 1);
    if (classes > kMostClasses) {
      misuse(fmt::format("there are more than {} classes, too many to schedule", kMostClasses));
    }
  }
  return classes;
}

std::vector<std::size_t> shuffled(std::size_t count, std::string_view seed_text) {
  std::uint64_t seed = 0;
  const char* end = seed_text.data() + seed_text.size();
  const auto [stop, error] = std::from_chars(seed_text.data(), end, seed);
  if (error != std::errc() || stop != end) {
    misuse(
        fmt::format("class order 'shuffle:{}': '{}' is not a seed: give a whole number from 0 "
                    "to 18446744073709551615, such as shuffle:1",
                    clipped(seed_text), clipped(seed_text)));
  }
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Random random(seed);
  for (std::size_t i = 0; i < count; ++i) std::swap(order[i], order[i + random.below(count - i)]);
  return order;
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMostShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostShown); ++i) {
    text += (i > 0 ? ", " : "") + clipped(names[i], 40);
  }
  return names.size() > kMostShown ? text + fmt::format(" and {} more", names.size() - kMostShown)
                                   : text;
}

std::vector<std::size_t> by_name(const std::string& text, const std::vector<std::string>& classes) {
  std::unordered_map<std::string_view, std::size_t> indices;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!indices.emplace(trimmed(classes[i]), i).second) {
      misuse(
          fmt::format("class order: two classes are called '{}', so that names do not tell them "
                      "apart; use alphabetical or shuffle:SEED",
                      clipped(classes[i])));
    }
  }
  std::vector<bool> named(classes.size());
  std::vector<std::size_t> order;
  for (const std::string_view piece : split(text, ',')) {
    const std::string_view name = trimmed(piece);
    const auto found = indices.find(name);
    if (found == indices.end()) {
      misuse(
          fmt::format("class order: there is no class '{}'; give alphabetical, shuffle:SEED or "
                      "all of the {} classes in an order: {}",
                      clipped(name), classes.size(), first_names(classes)));
    }
    if (named[found->second]) {
      misuse(fmt::format("class order: '{}' is there twice; name each class once", clipped(name)));
    }
    named[found->second] = true;
    order.push_back(found->second);
  }
  if (order.size() == classes.size()) return order;
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!named[i]) missing.push_back(classes[i]);
  }
  misuse(fmt::format("class order: {} of the {} classes are missing: {}", missing.size(),
                     classes.size(), first_names(missing)));
}

}  // namespace

Schedule parse_schedule(const std::string& text, const std::vector<std::string>& datasets,
                        const std::vector<std::size_t>& sizes) {
  const Datasets known{datasets, sizes, count_classes(datasets, sizes)};
  const std::string_view inner = trimmed(text);
  const bool names = text.find('>') != text.npos ||
                     (!inner.empty() &&
                      std::string_view("0123456789xX-").find(inner[0]) == std::string_view::npos);
  if (names) return by_dataset(text, known);
  Schedule schedule;
  std::size_t next = 0;
  for (const std::size_t size : task_sizes(text, known)) {
    std::vector<std::size_t>& task = schedule.emplace_back(size);
    std::iota(task.begin(), task.end(), next);
    next += size;
  }
  return schedule;
}

std::vector<std::size_t> class_order(const std::string& text,
                                     const std::vector<std::string>& classes) {
  constexpr std::string_view kShuffle = "shuffle:";
  const std::string_view inner = trimmed(text);
  if (inner.starts_with(kShuffle)) return shuffled(classes.size(), inner.substr(kShuffle.size()));
  if (inner != "alphabetical") return by_name(text, classes);
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

}  // namespace contcore
