// Results of a run: what they come to, and their JSON.
//
//   {"setting": {"method", "backbone", "m", "p", "q", "seed", "order"},
//    "tasks": [["bottle", …], …],
//    "steps": [[{"image_auroc": 0.98, …, "aupro": null}, …], …],
//    "vectors", "numbers", "parameters", "gflops", "train_seconds", "test_seconds", "peak_bytes",
//    "gallery": [{"why", "product", "file", "kind", "defect", "score", "level"}, …]}
//
// null is a measure that is undefined, and a level that nothing can reach.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "contcore/error.h"
#include "contcore/evaluate.h"
#include "evaluate/results.h"

namespace contcore {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMost = 10000;  // tasks, classes, pictures

struct MeasureText {
  const char* key;
  const char* name;
};

constexpr std::array<MeasureText, kMeasures> kTexts = {{{"image_auroc", "image AUROC"},
                                                        {"image_ap", "image AP"},
                                                        {"image_f1", "image F1-max"},
                                                        {"pixel_auroc", "pixel AUROC"},
                                                        {"pixel_ap", "pixel AP"},
                                                        {"pixel_f1", "pixel F1-max"},
                                                        {"aupro", "AUPRO"}}};

constexpr std::array<const char*, 3> kWhys = {"best", "worst", "borderline"};

// max over s from t to T − 2 of R_{s,t} − R_{T−1,t}, counting from 0.
std::optional<double> forgotten(const std::vector<std::vector<Measures>>& r, std::size_t t,
                                std::size_t measure) {
  const std::optional<double>& last = r.back()[t][measure];
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t s = t; s + 1 < r.size(); ++s) {
    if (!r[s][t][measure] || !last) return std::nullopt;
    most = std::max(most, *r[s][t][measure] - *last);
  }
  return most;
}

Json json_of(const Measures& measures) {
  Json out;
  for (std::size_t i = 0; i < kMeasures; ++i) {
    out[kTexts[i].key] = measures[i] ? Json(*measures[i]) : Json();
  }
  return out;
}

Json json_of(const Verdict& verdict) {
  return {{"why", kWhys.at(verdict.why)}, {"product", verdict.product}, {"file", verdict.file},
          {"kind", verdict.kind},         {"defect", verdict.defect},   {"score", verdict.score},
          {"level", verdict.level}};
}

// Reads with a word on where something is wrong.
class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: {}; this is not a result of contcore, or it is damaged: delete it "
                            "and run again",
                            name_, what));
  }

  const Json& field(const Json& object, const char* key) const {
    if (!object.is_object()) fail(fmt::format("there is no object to hold \"{}\"", key));
    const auto found = object.find(key);
    if (found == object.end()) fail(fmt::format("\"{}\" is missing", key));
    return *found;
  }

  const Json& array(const Json& value, const char* what) const {
    if (!value.is_array()) fail(fmt::format("\"{}\" is not a list", what));
    if (value.size() > kMost) {
      fail(fmt::format("\"{}\" has {} entries, more than {}", what, value.size(), kMost));
    }
    return value;
  }

  std::string text(const Json& object, const char* key) const {
    return text(field(object, key), std::string(key));
  }
  std::string text(const Json& value, const std::string& what) const {
    if (!value.is_string()) fail(fmt::format("\"{}\" is not a text", what));
    return value.get<std::string>();
  }

  std::uint64_t count(const Json& object, const char* key) const {
    const Json& value = field(object, key);
    if (!value.is_number_unsigned()) fail(fmt::format("\"{}\" is not a count", key));
    return value.get<std::uint64_t>();
  }

  double number(const Json& object, const char* key, double low, double high) const {
    const Json& value = field(object, key);
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!(number >= low && number <= high)) {
      fail(fmt::format("\"{}\" is not a number from {:g} to {:g}", key, low, high));
    }
    return number;
  }

  bool flag(const Json& object, const char* key) const {
    const Json& value = field(object, key);
    if (!value.is_boolean()) fail(fmt::format("\"{}\" is neither true nor false", key));
    return value.get<bool>();
  }

 private:
  const std::string& name_;
};

Setting read_setting(const Reader& reader, const Json& json) {
  Setting setting;
  setting.method = reader.text(json, "method");
  setting.backbone = reader.text(json, "backbone");
  setting.m = reader.count(json, "m");
  setting.p = reader.number(json, "p", 0, 1);
  setting.q = reader.number(json, "q", 0, 1);
  setting.seed = reader.count(json, "seed");
  setting.order = reader.text(json, "order");
  return setting;
}

std::vector<std::vector<std::string>> read_tasks(const Reader& reader, const Json& json) {
  std::vector<std::vector<std::string>> tasks;
  std::size_t classes = 0;
  for (const Json& task : reader.array(json, "tasks")) {
    std::vector<std::string>& names = tasks.emplace_back();
    for (const Json& name : reader.array(task, "tasks")) {
      names.push_back(reader.text(name, std::string("tasks")));
    }
    if (names.empty()) reader.fail("a task has no classes");
    classes += names.size();
    if (classes > kMost) reader.fail(fmt::format("there are more than {} classes", kMost));
  }
  if (tasks.empty()) reader.fail("there are no tasks");
  return tasks;
}

Measures read_measures(const Reader& reader, const Json& json) {
  constexpr double kRounding = 1e-9;
  Measures measures;
  for (std::size_t i = 0; i < kMeasures; ++i) {
    const char* key = kTexts[i].key;
    if (reader.field(json, key).is_null()) continue;
    measures[i] = reader.number(json, key, -kRounding, 1 + kRounding);
  }
  return measures;
}

void read_steps(const Reader& reader, const Json& json, RunResult& result) {
  if (reader.array(json, "steps").size() != result.tasks.size()) {
    reader.fail(fmt::format("there are {} steps for {} tasks", json.size(), result.tasks.size()));
  }
  std::size_t classes = 0;
  for (const Json& step : json) {
    classes += result.tasks[result.steps.size()].size();
    if (reader.array(step, "steps").size() != classes) {
      reader.fail(fmt::format("step {} has {} classes instead of {}", result.steps.size(),
                              step.size(), classes));
    }
    std::vector<Measures>& measures = result.steps.emplace_back();
    for (const Json& entry : step) measures.push_back(read_measures(reader, entry));
  }
}

Verdict read_verdict(const Reader& reader, const Json& json) {
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  Verdict verdict;
  const std::string why = reader.text(json, "why");
  const auto known = std::find(kWhys.begin(), kWhys.end(), why);
  if (known == kWhys.end()) reader.fail("\"why\" is none of best, worst, borderline");
  verdict.why = static_cast<Verdict::Why>(known - kWhys.begin());
  verdict.product = reader.text(json, "product");
  verdict.file = reader.text(json, "file");
  verdict.kind = reader.text(json, "kind");
  verdict.defect = reader.flag(json, "defect");
  verdict.score = static_cast<float>(reader.number(json, "score", -kLargest, kLargest));
  verdict.level = reader.field(json, "level").is_null()
                      ? std::numeric_limits<float>::infinity()
                      : static_cast<float>(reader.number(json, "level", -kLargest, kLargest));
  return verdict;
}

RunResult read_result(const Reader& reader, const Json& json) {
  constexpr double kLargest = 1e15;
  RunResult result;
  result.setting = read_setting(reader, reader.field(json, "setting"));
  result.tasks = read_tasks(reader, reader.field(json, "tasks"));
  read_steps(reader, reader.field(json, "steps"), result);
  result.vectors = reader.count(json, "vectors");
  result.numbers = reader.count(json, "numbers");
  result.parameters = reader.count(json, "parameters");
  result.gflops = reader.number(json, "gflops", 0, kLargest);
  result.train_seconds = reader.number(json, "train_seconds", 0, kLargest);
  result.test_seconds = reader.number(json, "test_seconds", 0, kLargest);
  result.peak_bytes = reader.count(json, "peak_bytes");
  for (const Json& verdict : reader.array(reader.field(json, "gallery"), "gallery")) {
    result.gallery.push_back(read_verdict(reader, verdict));
  }
  return result;
}

}  // namespace

const char* measure_key(Measure measure) { return kTexts.at(measure).key; }
const char* measure_name(Measure measure) { return kTexts.at(measure).name; }

Measures mean_measures(std::span<const Measures> all) {
  Measures mean;
  for (std::size_t i = 0; i < kMeasures; ++i) {
    const auto defined = [&](const Measures& one) { return one[i].has_value(); };
    if (all.empty() || !std::all_of(all.begin(), all.end(), defined)) continue;
    const auto add = [&](double sum, const Measures& one) { return sum + *one[i]; };
    mean[i] = std::accumulate(all.begin(), all.end(), 0.0, add) / static_cast<double>(all.size());
  }
  return mean;
}

Measures task_measures(const RunResult& result, std::size_t s, std::size_t t) {
  if (s >= result.steps.size() || t >= result.tasks.size()) return {};
  std::size_t first = 0;
  for (std::size_t before = 0; before < t; ++before) first += result.tasks[before].size();
  const std::size_t count = result.tasks[t].size();
  if (first + count > result.steps[s].size()) return {};
  return mean_measures(std::span(result.steps[s]).subspan(first, count));
}

Summary summarise(const RunResult& result) {
  Summary summary;
  const std::size_t tasks = result.tasks.size();
  if (tasks == 0 || result.steps.size() != tasks) return summary;
  std::vector<std::vector<Measures>> r(tasks);
  for (std::size_t s = 0; s < tasks; ++s) {
    for (std::size_t t = 0; t <= s; ++t) r[s].push_back(task_measures(result, s, t));
  }
  summary.average = mean_measures(r.back());
  summary.classes = mean_measures(result.steps.back());
  std::vector<Measures> lost(tasks - 1);
  for (std::size_t t = 0; t + 1 < tasks; ++t) {
    for (std::size_t i = 0; i < kMeasures; ++i) lost[t][i] = forgotten(r, t, i);
  }
  summary.forgetting = mean_measures(lost);
  return summary;
}

Json result_json(const RunResult& result) {
  const Setting& setting = result.setting;
  Json steps = Json::array();
  for (const std::vector<Measures>& step : result.steps) {
    Json& list = steps.emplace_back(Json::array());
    for (const Measures& measures : step) list.push_back(json_of(measures));
  }
  Json gallery = Json::array();
  for (const Verdict& verdict : result.gallery) gallery.push_back(json_of(verdict));
  return {{"setting",
           {{"method", setting.method},
            {"backbone", setting.backbone},
            {"m", setting.m},
            {"p", setting.p},
            {"q", setting.q},
            {"seed", setting.seed},
            {"order", setting.order}}},
          {"tasks", result.tasks},
          {"steps", steps},
          {"vectors", result.vectors},
          {"numbers", result.numbers},
          {"parameters", result.parameters},
          {"gflops", result.gflops},
          {"train_seconds", result.train_seconds},
          {"test_seconds", result.test_seconds},
          {"peak_bytes", result.peak_bytes},
          {"gallery", gallery}};
}

Json summary_json(const Summary& summary) {
  return {{"average", json_of(summary.average)},
          {"forgetting", json_of(summary.forgetting)},
          {"classes", json_of(summary.classes)}};
}

std::string json_text(const Json& json, int indent) {
  // Names of files need not be UTF-8.
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const RunResult& result) { return json_text(result_json(result), -1); }

RunResult result_from_json(const std::string& text, const std::string& name) {
  const Reader reader(name);
  try {
    return read_result(reader, Json::parse(text));
  } catch (const Json::exception& error) {
    // The words quote the text, which may be long.
    reader.fail(fmt::format("it cannot be read as JSON ({:.120})", error.what()));
  }
}

}  // namespace contcore
