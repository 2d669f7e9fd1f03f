#include "evaluate/results.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "contcore/evaluate.h"
#include "evaluate/aggregate.h"

namespace contcore {
namespace {

using Json = nlohmann::json;

constexpr double kTiny = 1e-12;

Measures only(Measure measure, double value) {
  Measures measures;
  measures[measure] = value;
  return measures;
}

// Task 1 has two classes, tasks 2 and 3 one each. R, counting from 1:
//   .85
//   .90  .70
//   .80  .75  .95
RunResult three_tasks(Measure measure = kImageAuroc) {
  RunResult result;
  result.tasks = {{"a", "b"}, {"c"}, {"d"}};
  for (const std::vector<double>& step :
       {std::vector<double>{.9, .8}, {.94, .86, .7}, {.78, .82, .75, .95}}) {
    auto& measures = result.steps.emplace_back();
    for (const double value : step) measures.push_back(only(measure, value));
  }
  return result;
}

void expect_error(const std::string& words, const std::string& text) {
  try {
    result_from_json(text, "cache/7.json");
    FAIL() << "no error for " << text.substr(0, 200);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    EXPECT_NE(std::string(error.what()).find("cache/7.json: "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

// A mean over classes where one over tasks is meant, or the other way round, a divisor of T instead
// of T − 1, forgetting cut off at 0, or the first step taken instead of the best: each gives other
// numbers here.
TEST(Summarise, GoldenValues) {
  const RunResult result = three_tasks();
  EXPECT_NEAR(*task_measures(result, 0, 0)[kImageAuroc], .85, kTiny);
  EXPECT_NEAR(*task_measures(result, 1, 0)[kImageAuroc], .90, kTiny);
  EXPECT_NEAR(*task_measures(result, 2, 1)[kImageAuroc], .75, kTiny);
  const Summary summary = summarise(result);
  EXPECT_NEAR(*summary.average[kImageAuroc], (.80 + .75 + .95) / 3, kTiny);
  EXPECT_NEAR(*summary.forgetting[kImageAuroc], (.10 - .05) / 2, kTiny);
  EXPECT_NEAR(*summary.classes[kImageAuroc], (.78 + .82 + .75 + .95) / 4, kTiny);
}

TEST(Summarise, ForgettingMayBeNegative) {
  RunResult result;
  result.tasks = {{"a"}, {"b"}};
  result.steps = {{only(kAupro, .5)}, {only(kAupro, .75), only(kAupro, .25)}};
  EXPECT_EQ(summarise(result).forgetting[kAupro], -.25);
  EXPECT_EQ(summarise(result).average[kAupro], .5);
}

// Undefined must never count as zero, and must not spread to what does not need it.
TEST(Summarise, UndefinedStaysUndefined) {
  RunResult result = three_tasks();
  EXPECT_FALSE(summarise(result).average[kPixelAuroc]);
  EXPECT_FALSE(summarise(result).forgetting[kPixelAuroc]);

  result.steps[1][1][kImageAuroc].reset();  // of two classes one
  EXPECT_FALSE(task_measures(result, 1, 0)[kImageAuroc]);
  EXPECT_FALSE(summarise(result).forgetting[kImageAuroc]);
  EXPECT_TRUE(summarise(result).average[kImageAuroc]);

  result = three_tasks();
  result.steps[2][3][kImageAuroc].reset();  // the last task cannot have been forgotten
  EXPECT_NEAR(*summarise(result).forgetting[kImageAuroc], .025, kTiny);
  EXPECT_FALSE(summarise(result).average[kImageAuroc]);
  EXPECT_FALSE(summarise(result).classes[kImageAuroc]);

  result = three_tasks();
  result.steps[2][2][kImageAuroc].reset();
  EXPECT_FALSE(summarise(result).forgetting[kImageAuroc]);
}

TEST(Summarise, OneTaskForgetsNothingDefined) {
  RunResult result;
  result.tasks = {{"a", "b"}};
  result.steps = {{only(kImageAp, .5), only(kImageAp, 1)}};
  EXPECT_EQ(summarise(result).average[kImageAp], .75);
  EXPECT_FALSE(summarise(result).forgetting[kImageAp]);
}

TEST(Summarise, NothingToSummarise) {
  EXPECT_FALSE(summarise({}).average[kImageAuroc]);
  RunResult cut = three_tasks();
  cut.steps.pop_back();
  EXPECT_FALSE(summarise(cut).average[kImageAuroc]);
  EXPECT_FALSE(task_measures(cut, 2, 0)[kImageAuroc]);
  EXPECT_FALSE(task_measures(cut, 0, 1)[kImageAuroc]);
  EXPECT_FALSE(task_measures(cut, 0, 7)[kImageAuroc]);
}

TEST(Measures, NamesAndKeys) {
  EXPECT_STREQ(measure_key(kImageAuroc), "image_auroc");
  EXPECT_STREQ(measure_key(kImageF1), "image_f1");
  EXPECT_STREQ(measure_key(kPixelAp), "pixel_ap");
  EXPECT_STREQ(measure_name(kPixelAuroc), "pixel AUROC");
  EXPECT_STREQ(measure_key(kAupro), "aupro");
  EXPECT_STREQ(measure_name(kAupro), "AUPRO");
}

RunResult hard_numbers() {
  RunResult result = three_tasks();
  const double hard[] = {0.1, 1.0 / 3, std::nextafter(1.0, 0.0), 5e-324, 0, 1, 0.30000000000000004};
  for (std::size_t i = 0; i < kMeasures; ++i) result.steps[2][3][i] = hard[i];
  result.setting = {"contcore",      "/nets/\"r50\"\\new\n.onnx",
                    123456789012345, 0.1 + 0.2,
                    2.0 / 3,         std::numeric_limits<std::uint64_t>::max(),
                    "shuffle:7"};
  result.tasks[0][0] = "größe <b>|</b>";
  result.vectors = 20000;
  result.numbers = std::uint64_t{1} << 63;
  result.parameters = 24900000;
  result.gflops = 9.1234567890123456;
  result.train_seconds = 1.0 / 7;
  result.test_seconds = 1e-7 / 3;
  result.peak_bytes = (std::size_t{1} << 40) + 1;
  Verdict verdict{Verdict::kBorderline, "c", "a,b.png", "crack", true, 0.1f, 3.4e38f, {}, {}, {}};
  result.gallery.push_back(verdict);
  verdict.score = -1e-45f;
  verdict.level = std::numeric_limits<float>::infinity();
  verdict.why = Verdict::kWorst;
  verdict.defect = false;
  result.gallery.push_back(verdict);
  return result;
}

TEST(Json, RoundTripKeepsEveryBit) {
  const RunResult result = hard_numbers();
  const RunResult back = result_from_json(to_json(result), "x");
  EXPECT_EQ(back.tasks, result.tasks);
  ASSERT_EQ(back.steps.size(), result.steps.size());
  for (std::size_t s = 0; s < result.steps.size(); ++s) EXPECT_EQ(back.steps[s], result.steps[s]);
  const Setting &a = back.setting, &b = result.setting;
  EXPECT_EQ(std::tie(a.method, a.backbone, a.m, a.p, a.q, a.seed, a.order),
            std::tie(b.method, b.backbone, b.m, b.p, b.q, b.seed, b.order));
  EXPECT_EQ(std::tie(back.vectors, back.numbers, back.parameters, back.peak_bytes),
            std::tie(result.vectors, result.numbers, result.parameters, result.peak_bytes));
  EXPECT_EQ(std::tie(back.gflops, back.train_seconds, back.test_seconds),
            std::tie(result.gflops, result.train_seconds, result.test_seconds));
  ASSERT_EQ(back.gallery.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Verdict &v = back.gallery[i], &w = result.gallery[i];
    EXPECT_EQ(std::tie(v.why, v.product, v.file, v.kind, v.defect),
              std::tie(w.why, w.product, w.file, w.kind, w.defect));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(v.score), std::bit_cast<std::uint32_t>(w.score));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(v.level), std::bit_cast<std::uint32_t>(w.level));
  }
  EXPECT_EQ(to_json(back), to_json(result));
}

TEST(Json, UndefinedIsNullAndBrokenNamesAreWritten) {
  RunResult result = three_tasks();
  result.tasks[1][0] = "c\xff";
  const Json json = Json::parse(to_json(result));
  EXPECT_TRUE(json["steps"][0][0]["aupro"].is_null());
  EXPECT_FALSE(result_from_json(json.dump(), "x").steps[0][0][kAupro]);
}

TEST(Json, RefusesWhatIsNotAResult) {
  const Json good = Json::parse(to_json(hard_numbers()));
  const auto with = [&](const std::string& pointer, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(pointer)] = value;
    return changed.dump();
  };
  for (const char* text :
       {"", "null", "[]", "7", "{}", "{\"setting\": NaN}", "\xff\xfe", "{\"a\":"}) {
    expect_error("", text);
  }
  expect_error("\"m\"", with("/setting/m", -1));
  expect_error("\"m\"", with("/setting/m", 2.5));
  expect_error("\"q\"", with("/setting/q", 1.5));
  expect_error("\"method\"", with("/setting/method", 3));
  expect_error("image_auroc", with("/steps/0/0/image_auroc", "0.9"));
  expect_error("image_auroc", with("/steps/0/0/image_auroc", 1.1));
  expect_error("steps", with("/steps", Json::array()));
  expect_error("step 0", with("/steps/0", Json::array()));
  expect_error("step 1", with("/steps/1/3", good["steps"][0][0]));
  expect_error("no classes", with("/tasks/0", Json::array()));
  expect_error("no tasks", with("/tasks", Json::array()));
  expect_error("\"why\"", with("/gallery/0/why", "because"));
  expect_error("\"score\"", with("/gallery/0/score", 1e39));
  expect_error("\"score\"", with("/gallery/0/score", nullptr));
  expect_error("\"train_seconds\"", with("/train_seconds", -1));
  expect_error("", "{\"setting\": 1e999}");
}

TEST(Json, IsBounded) {
  const Json good = Json::parse(to_json(three_tasks()));
  Json many = good;
  many["tasks"] = std::vector<std::vector<std::string>>(10001, {"a"});
  expect_error("10001 entries", many.dump());
  many["tasks"] = std::vector<std::vector<std::string>>(3, std::vector<std::string>(5000, "a"));
  expect_error("more than 10000 classes", many.dump());
  expect_error("", std::string(200000, '['));
  expect_error("", "[\"" + std::string(1000000, 'x'));
  try {
    result_from_json("[\"" + std::string(1000000, 'x'), "x");
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 1000u);
  }
}

// Every value replaced by every other kind of value, every key left out, and the text cut short
// anywhere: an Error or a result, never anything else.
TEST(Json, SurvivesEveryChange) {
  const Json good = Json::parse(to_json(hard_numbers()));
  const Json flat = good.flatten();
  const Json others[] = {nullptr, "x", -1, 1e300, 0, true, Json::array(), Json::object()};
  const auto read = [](const std::string& text) {
    try {
      const RunResult result = result_from_json(text, "name");
      summarise(result);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
    }
  };
  for (const auto& [pointer, value] : flat.items()) {
    for (const Json& other : others) {
      Json changed = good;
      changed[Json::json_pointer(pointer)] = other;
      read(changed.dump());
    }
  }
  for (const auto& [key, value] : good.items()) {
    Json changed = good;
    changed.erase(key);
    expect_error(key, changed.dump());
  }
  const std::string text = good.dump();
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(result_from_json(text.substr(0, length), "x"), Error);
  }
}

TEST(Statistic, GoldenValues) {
  const std::vector<std::optional<double>> values = {.2, .4, .4, .4, .5, .5, .7, .9};
  const std::optional<Statistic> found = statistic(values);
  EXPECT_NEAR(found->mean, .5, kTiny);
  EXPECT_NEAR(found->deviation, std::sqrt(.32 / 7), kTiny);  // n − 1, not n
  EXPECT_EQ(found->count, 8u);
  EXPECT_EQ(statistic(std::vector<std::optional<double>>{.3})->deviation, 0);
  EXPECT_FALSE(statistic(std::vector<std::optional<double>>{.3, std::nullopt}));
  EXPECT_FALSE(statistic({}));
}

RunResult run_of(const std::string& method, std::size_t m, std::uint64_t seed, double value,
                 const std::string& order = "alphabetical") {
  RunResult result;
  result.setting.method = method;
  result.setting.m = m;
  result.setting.seed = seed;
  result.setting.order = order;
  result.tasks = {{"a"}, {"b"}};
  result.steps = {{only(kImageAuroc, value)}, {only(kImageAuroc, value), only(kImageAuroc, value)}};
  return result;
}

TEST(Groups, AverageOverSeedsAndOrders) {
  std::vector<RunResult> results = {run_of("x", 10, 0, .5), run_of("y", 10, 0, .1),
                                    run_of("x", 10, 1, .6), run_of("x", 10, 0, .7, "shuffle:1"),
                                    run_of("x", 20, 0, .9)};
  results.push_back(results[0]);  // the same run again is not another
  const std::vector<Group> groups = group_runs(results);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].runs.size(), 3u);
  EXPECT_NEAR(groups[0].average[kImageAuroc]->mean, .6, kTiny);
  EXPECT_NEAR(groups[0].average[kImageAuroc]->deviation, .1, kTiny);
  EXPECT_FALSE(groups[0].average[kPixelAuroc]);
  ASSERT_EQ(groups[0].curve.size(), 2u);
  EXPECT_NEAR(groups[0].curve[0][kImageAuroc]->mean, .6, kTiny);
  // A method's groups stand together, with labels that tell them apart.
  EXPECT_EQ(groups[0].label, "x, m=10");
  EXPECT_EQ(groups[1].label, "x, m=20");
  EXPECT_EQ(groups[2].label, "y");
}

// The curve is the mean over tasks so far: with the classes' mean, step 2 would be .8333.
TEST(Groups, CurveIsTheMeanOverTasks) {
  const std::vector<RunResult> results = {three_tasks()};
  const std::vector<Group> groups = group_runs(results);
  ASSERT_EQ(groups[0].curve.size(), 3u);
  EXPECT_NEAR(groups[0].curve[0][kImageAuroc]->mean, .85, kTiny);
  EXPECT_NEAR(groups[0].curve[1][kImageAuroc]->mean, .80, kTiny);
  EXPECT_NEAR(groups[0].curve[2][kImageAuroc]->mean, 2.5 / 3, kTiny);
}

// With the classes in another order, a class keeps its own values; two of one name are two.
TEST(Groups, ClassesAreFoundInEveryOrder) {
  RunResult first = run_of("x", 10, 0, .5), second = run_of("x", 10, 0, .5, "b,a");
  first.steps[1] = {only(kImageAuroc, .1), only(kImageAuroc, .9)};
  second.tasks = {{"b"}, {"a"}};
  second.steps[1] = {only(kImageAuroc, .7), only(kImageAuroc, .3)};
  const std::vector<RunResult> results = {first, second};
  const std::vector<Group> groups = group_runs(results);
  EXPECT_NEAR(class_statistics(groups[0], {"a", 0})[kImageAuroc]->mean, .2, kTiny);
  EXPECT_NEAR(class_statistics(groups[0], {"b", 0})[kImageAuroc]->mean, .8, kTiny);
  EXPECT_FALSE(class_statistics(groups[0], {"c", 0})[kImageAuroc]);

  RunResult twins = first;
  twins.tasks = {{"a"}, {"a"}};
  EXPECT_EQ(class_keys(twins), (std::vector<ClassKey>{{"a", 0}, {"a", 1}}));
  const std::vector<RunResult> twice = {twins};
  EXPECT_EQ(class_statistics(group_runs(twice)[0], {"a", 1})[kImageAuroc]->mean, .9);
}

TEST(Sweeps, AreOfOneParameterAlone) {
  std::vector<RunResult> results = {run_of("x", 1000, 0, .5), run_of("x", 200, 0, .4),
                                    run_of("y", 200, 0, .4), run_of("x", 5, 0, .3)};
  results[3].setting.q = .5;  // differs in two from every other
  EXPECT_TRUE(find_sweeps(group_runs({results[0], results[2], results[3]})).empty());

  std::vector<Group> groups = group_runs(results);
  std::vector<Sweep> sweeps = find_sweeps(groups);
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0].parameter, kM);
  // By value, not as text, and without the value of another q.
  EXPECT_EQ(sweeps[0].values, (std::vector<std::string>{"200", "1,000"}));
  ASSERT_EQ(sweeps[0].lines.size(), 1u);
  EXPECT_EQ(sweeps[0].lines[0].label, "x");
  EXPECT_EQ(sweeps[0].lines[0].groups[0]->setting.m, 200u);

  // Another method joins with one of its own values; a gap where the first has none.
  results.push_back(run_of("y", 400, 0, .4));
  results.push_back(run_of("x", 200, 1, .4));  // a seed is no parameter
  groups = group_runs(results);
  sweeps = find_sweeps(groups);
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0].values, (std::vector<std::string>{"200", "400", "1,000"}));
  ASSERT_EQ(sweeps[0].lines.size(), 2u);
  EXPECT_EQ(sweeps[0].lines[0].groups[1], nullptr);
  EXPECT_EQ(sweeps[0].lines[1].groups[1]->setting.m, 400u);
  EXPECT_EQ(sweeps[0].lines[1].groups[2], nullptr);
}

TEST(Sweeps, OfEveryParameter) {
  std::vector<RunResult> results(3, run_of("x", 10, 0, .5));
  results[1].setting.backbone = "nets/r18.onnx";
  results[2].setting.p = .5;
  const std::vector<Group> groups = group_runs(results);
  const std::vector<Sweep> sweeps = find_sweeps(groups);
  ASSERT_EQ(sweeps.size(), 2u);
  EXPECT_EQ(sweeps[0].parameter, kP);
  EXPECT_EQ(sweeps[0].values, (std::vector<std::string>{"0.01", "0.5"}));
  EXPECT_EQ(sweeps[1].parameter, kBackbone);
  EXPECT_EQ(sweeps[1].values[1], "r18.onnx");
}

}  // namespace
}  // namespace contcore
