#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/base64.h"
#include "contcore/error.h"
#include "contcore/evaluate.h"
#include "evaluate/charts.h"
#include "evaluate/text.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr char kHostile[] = "<script>alert(1)</script> & \"q\" 'x' | a,b";

// A folder that is gone after the test.
class Folder {
 public:
  Folder() : path_(fs::path(testing::TempDir()) / ("report_" + name())) { fs::remove_all(path_); }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  std::string text(const std::string& file) const {
    std::ifstream stream(path_ / file, std::ios::binary);
    EXPECT_TRUE(stream) << file;
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  static std::string name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  fs::path path_;
};

Image gray(std::size_t side) {
  return {side, side, std::vector<std::uint8_t>(side * side * 3, 90)};
}

Verdict verdict_of(float score, float level, bool defect) {
  Verdict verdict;
  verdict.product = kHostile;
  verdict.file = "dir/\"><img src=http://x>.png";
  verdict.kind = defect ? kHostile : "good";
  verdict.defect = defect;
  verdict.score = score;
  verdict.level = level;
  return verdict;
}

// Tasks of the given sizes; classes are called c0, c1, …
RunResult run_of(const std::string& method, const std::vector<std::size_t>& sizes, double value,
                 bool maps = true) {
  RunResult result;
  result.setting.method = method;
  result.setting.backbone = "nets/r50.onnx";
  std::size_t classes = 0;
  for (const std::size_t size : sizes) {
    auto& task = result.tasks.emplace_back();
    while (task.size() < size) task.push_back(fmt::format("c{}", classes++));
    auto& step = result.steps.emplace_back(classes);
    for (Measures& measures : step) {
      for (std::size_t i = 0; i < (maps ? kMeasures : kPixelAuroc); ++i) {
        measures[i] = value - 0.001 * static_cast<double>(i) -
                      0.01 * static_cast<double>(result.steps.size());
      }
    }
  }
  return result;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Every tag that is opened is closed, in order: text that breaks out of its place would upset that.
void expect_balanced(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != html.npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    ASSERT_NE(end, html.npos);
    std::string tag = html.substr(at + 1, end - at - 1);
    if (tag[0] == '!' || tag.back() == '/') continue;
    const bool closing = tag[0] == '/';
    tag = tag.substr(closing, tag.find(' ') - (closing ? 1 : 0));
    if (tag == "meta" || tag == "br" || tag == "img") continue;
    if (!closing) {
      open.push_back(tag);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    ASSERT_EQ(open.back(), tag) << "at " << html.substr(at < 200 ? 0 : at - 200, 300);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

// Nothing is fetched from anywhere, and nothing is run.
void expect_self_contained(const std::string& html) {
  for (const char* word :
       {"http://", "https://", "<script", "<link", "@import", "url(", "srcset"}) {
    // A file's name may hold any text; what is quoted there is escaped.
    EXPECT_EQ(count(html, word), word == std::string("http://") ? count(html, "=http://x&gt;") : 0)
        << word;
  }
  EXPECT_EQ(count(html, " src=\""), count(html, " src=\"data:image/"));
  EXPECT_EQ(count(html, "href=\""), count(html, "href=\"#"));
  EXPECT_EQ(count(html, ">nan") + count(html, ">-nan") + count(html, ">inf"), 0u);
}

// Braces pair up, no row has another number of columns than its table, and nothing stands there
// that LaTeX takes for a comment, a sum or a place below the line.
void expect_latex(const std::string& text) {
  int depth = 0;
  std::size_t columns = 0, tables = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("\\begin{tabular}")) columns = 0, ++tables;
    if (line.starts_with('%')) continue;
    std::size_t cells = 1, spanned = 0;
    bool sums = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      ASSERT_TRUE(static_cast<unsigned char>(c) >= 32) << line;
      if (c == '\\') {
        if (line.compare(i, 13, "\\multicolumn{") == 0) {
          spanned += static_cast<std::size_t>(line[i + 13] - '1');
        }
        ++i;
        continue;
      }
      depth += (c == '{') - (c == '}');
      ASSERT_GE(depth, 0) << line;
      sums ^= c == '$';
      if (c == '&') ++cells;
      ASSERT_TRUE(std::string("#%~^").find(c) == std::string::npos) << line;
      ASSERT_TRUE(c != '_' || sums) << line;
    }
    if (!line.ends_with(" \\\\")) continue;
    if (columns == 0) columns = cells + spanned;
    EXPECT_EQ(cells + spanned, columns) << line;
  }
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(tables, 2u);
}

// RFC 4180.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows = {{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      if (quoted && i + 1 < text.size() && text[i + 1] == '"') {
        rows.back().back() += text[++i];
      } else {
        quoted = !quoted;
      }
    } else if (!quoted && c == ',') {
      rows.back().push_back("");
    } else if (!quoted && c == '\r') {
      EXPECT_EQ(text[++i], '\n');
      rows.push_back({""});
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();
  return rows;
}

TEST(Report, HostileNamesStayText) {
  const Folder folder;
  std::vector<RunResult> results = {run_of(kHostile, {1, 1}, .9), run_of("b\xff\x01", {1, 1}, .8)};
  for (RunResult& result : results) {
    result.tasks[0][0] = kHostile;
    result.setting.order = kHostile;
    result.setting.backbone = kHostile;
    result.gallery = {verdict_of(2, 1, true)};
    result.gallery[0].image = result.gallery[0].heat = result.gallery[0].mask = gray(8);
  }
  results.push_back(results[0]);
  results.back().setting.backbone = "another|\"><b>";
  results.back().setting.m = 5;
  results.push_back(results[0]);
  results.back().setting.m = 5;
  write_report(folder.path(), results, {kHostile, kHostile, kHostile, kHostile});
  const std::string html = folder.text("index.html");
  expect_balanced(html);
  expect_self_contained(html);
  EXPECT_NE(html.find("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;q&quot; &#39;x&#39;"),
            html.npos);
  EXPECT_EQ(html.find('\xff'), html.npos);
  EXPECT_EQ(html.find('\x01'), html.npos);

  expect_latex(folder.text("tables.tex"));
  for (const auto& entry : fs::directory_iterator(folder.path() + "/figures")) {
    const std::string svg = folder.text("figures/" + entry.path().filename().string());
    EXPECT_TRUE(svg.starts_with("<?xml ")) << entry.path();
    expect_balanced(svg.substr(svg.find("<svg")));
    EXPECT_EQ(svg.find("<script"), svg.npos);
  }

  const auto rows = parse_csv(folder.text("results.csv"));
  for (const auto& row : rows) EXPECT_EQ(row.size(), 17u);
  EXPECT_EQ(rows[1][9], kHostile);

  // Every row of a Markdown table has the columns of its head.
  std::istringstream lines(folder.text("results.md"));
  std::size_t columns = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t bars = count(line, "|") - count(line, "\\|");
    if (!line.starts_with('|')) {
      columns = 0;
    } else if (columns == 0) {
      columns = bars;
    } else {
      EXPECT_EQ(bars, columns) << line;
    }
    EXPECT_EQ(line.starts_with("    ") ? std::string::npos : line.find("<script"),
              std::string::npos);
  }
}

TEST(Report, ShowsUndefinedAsADashNeverAsZero) {
  const Folder folder;
  const std::vector<RunResult> results = {run_of("flat", {2}, .9, false)};
  write_report(folder.path(), results, {"toys", "toys", "2", ""});
  const std::string html = folder.text("index.html");
  expect_balanced(html);
  expect_self_contained(html);
  EXPECT_NE(html.find("<td>-</td>"), html.npos);
  EXPECT_EQ(html.find("<td>0.0</td>"), html.npos);
  EXPECT_EQ(html.find("Task by task"), html.npos);  // one task makes no curve
  EXPECT_EQ(html.find("paper:"), html.npos);
  EXPECT_EQ(html.find("Verdicts"), html.npos);
  EXPECT_NE(folder.text("results.md").find("| 89.0 | - | - | - | 88.9 | 88.8 | - | - | - |"),
            std::string::npos);
  const auto rows = parse_csv(folder.text("results.csv"));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2][13], "");
}

TEST(Report, CsvAndJsonKeepEveryBit) {
  const Folder folder;
  std::vector<RunResult> results = {run_of("a", {2, 1}, 1.0 / 3), run_of("b", {2, 1}, .7)};
  results[1].setting.seed = std::numeric_limits<std::uint64_t>::max();
  write_report(folder.path(), results, {"t", "d", "2-1", "contcore evaluate d"});
  const auto rows = parse_csv(folder.text("results.csv"));
  ASSERT_EQ(rows.size(), 1u + 2 * (2 + 3));
  EXPECT_EQ(rows[0],
            (std::vector<std::string>{"method", "backbone", "m", "p", "q", "seed", "order", "step",
                                      "task", "class", "image_auroc", "image_ap", "image_f1",
                                      "pixel_auroc", "pixel_ap", "pixel_f1", "aupro"}));
  // The last row is class c2 of task 2 after step 2 of the second run.
  EXPECT_EQ(rows.back()[5], "18446744073709551615");
  EXPECT_EQ(std::vector(rows.back().begin() + 7, rows.back().begin() + 10),
            (std::vector<std::string>{"2", "2", "c2"}));
  for (std::size_t i = 0; i < kMeasures; ++i) {
    EXPECT_EQ(std::strtod(rows[5][10 + i].c_str(), nullptr), *results[0].steps[1][2][i]);
  }

  const auto json = nlohmann::json::parse(folder.text("results.json"));
  EXPECT_EQ(json["title"], "t");
  EXPECT_EQ(json["dataset"], "d");
  EXPECT_EQ(json["schedule"], "2-1");
  EXPECT_EQ(json["command"], "contcore evaluate d");
  ASSERT_EQ(json["runs"].size(), 2u);
  const RunResult back = result_from_json(json["runs"][0].dump(), "results.json");
  EXPECT_EQ(back.steps, results[0].steps);
  EXPECT_EQ(json["runs"][0]["summary"]["average"]["image_auroc"].get<double>(),
            *summarise(results[0]).average[kImageAuroc]);
  EXPECT_EQ(json["runs"][0]["summary"]["forgetting"]["aupro"].get<double>(),
            *summarise(results[0]).forgetting[kAupro]);
}

TEST(Report, AveragesSeedsAndMarksTheBest) {
  const Folder folder;
  std::vector<RunResult> results = {run_of("a", {1, 1}, .92), run_of("a", {1, 1}, .94),
                                    run_of("b", {1, 1}, .90)};
  results[1].setting.seed = 1;
  write_report(folder.path(), results, {"t", "d", "1x2", ""});
  const std::string html = folder.text("index.html");
  expect_balanced(html);
  EXPECT_NE(html.find("<td><strong>91.0</strong> <small>± 1.4</small></td>"), html.npos);
  EXPECT_NE(html.find("<td>88.0</td>"), html.npos);
  EXPECT_NE(html.find("2 runs"), html.npos);
  EXPECT_NE(folder.text("results.md").find("**91.0 ± 1.4**"), std::string::npos);
  // Both forget the same: both are best.
  EXPECT_NE(html.find("<strong>1.0</strong>"), html.npos);
  EXPECT_EQ(html.find("One setting varied"), html.npos);
}

TEST(Report, TablesForAPaper) {
  const Folder folder;
  std::vector<RunResult> results = {run_of("a_b", {1, 1}, .92), run_of("a_b", {1, 1}, .94),
                                    run_of("b", {1, 1}, .90, false)};
  results[1].setting.seed = 1;
  write_report(folder.path(), results, {"t", "d", "1x2", ""});
  const std::string tables = folder.text("tables.tex");
  expect_latex(tables);
  EXPECT_NE(tables.find("a\\_b & r50.onnx, m=20,000"), tables.npos) << tables;
  EXPECT_NE(tables.find(" & \\textbf{91.0} $\\pm$ 1.4 & "), tables.npos) << tables;
  EXPECT_NE(tables.find(" & 88.0 & -- & "), tables.npos) << tables;
  EXPECT_NE(tables.find("\nc1 & 91.0 $\\pm$ 1.4 / "), tables.npos) << tables;
  const std::string whole = folder.text("results.tex");
  EXPECT_NE(whole.find("\\usepackage{booktabs}"), whole.npos);
  EXPECT_NE(whole.find("\\input{tables}"), whole.npos);
}

// A chart's file says what its lines are, without the page.
TEST(Report, FiguresAreFilesOfTheirOwn) {
  const Folder folder;
  std::vector<RunResult> results = {run_of("first", {1, 1}, .92), run_of("second", {1, 1}, .9)};
  results.push_back(results[0]);
  results.back().setting.m = 500;
  write_report(folder.path(), results, {"t", "d", "1x2", ""});
  const std::string curve = folder.text("figures/image_auroc.svg");
  EXPECT_NE(curve.find("xmlns=\"http://www.w3.org/2000/svg\""), curve.npos);
  EXPECT_NE(curve.find(">second</text>"), curve.npos);
  EXPECT_NE(curve.find("<title>image AUROC</title>"), curve.npos);
  EXPECT_NE(folder.text("figures/sweep_m_1.svg").find(">500</text>"), std::string::npos);
  EXPECT_NE(folder.text("index.html").find("One setting varied"), std::string::npos);
}

// A report is passed on: where its maker keeps things is in none of its files.
TEST(Report, TellsNoFolders) {
  const Folder folder;
  std::vector<RunResult> results(2, run_of("a", {1, 1}, .92));
  results[0].setting.backbone = "/home/anna/nets/r50.onnx";
  results[1].setting.backbone = "/home/anna/other/r50.onnx";
  write_report(folder.path(), results, {"t", "d", "1x2", "contcore evaluate d"});
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (!entry.is_regular_file()) continue;
    const std::string text = folder.text(fs::relative(entry.path(), folder.path()).string());
    EXPECT_EQ(text.find("anna"), text.npos) << entry.path();
  }
}

TEST(ReportText, WordsOfACommandWithoutFolders) {
  for (const auto& [word, shown] : std::vector<std::pair<std::string, std::string>>{
           {"/home/anna/mvtec", "mvtec"},
           {"/home/anna/mvtec/", "mvtec"},
           {"../../anna/mvtec", "mvtec"},
           {"~anna/mvtec", "mvtec"},
           {"data/mvtec,/data/visa", "data/mvtec,visa"},
           {"--cache=/home/anna/c", "--cache=c"},
           {"backbone=/a/b.onnx,builtin", "backbone=b.onnx,builtin"},
           {"/a/mvtec>visa", "mvtec>visa"},
           {"--schedule", "--schedule"},
           {"10-1x5", "10-1x5"},
           {"", ""},
           {"/", ""},
       }) {
    EXPECT_EQ(without_folders(word), shown) << word;
  }
}

TEST(ReportText, Latex) {
  EXPECT_EQ(escape_latex("50% of $5_a & {b}#"), "50\\% of \\$5\\_a \\& \\{b\\}\\#");
  EXPECT_EQ(escape_latex("a--b\\c\n"), "a-{}-b\\textbackslash{}c ");
  EXPECT_EQ(escape_latex("m=20,000,,-"), "m=20,000,{},-");
  EXPECT_EQ(escape_latex("[x]*"), "{[}x]{*}");
  EXPECT_EQ(escape_latex("Gerät ± 1"), "Gerät ± 1");
  EXPECT_EQ(escape_latex("瓶\xff\u2028😀"), "U+74F6U+FFFDU+2028U+1F600");
}

TEST(Report, DrawsSweeps) {
  const Folder folder;
  std::vector<RunResult> results(2, run_of("a", {1, 1}, .92));
  results[1].setting.m = 500;
  write_report(folder.path(), results, {"t", "d", "1x2", ""});
  const std::string html = folder.text("index.html");
  expect_balanced(html);
  EXPECT_NE(html.find("<h2>One setting varied</h2>"), html.npos);
  EXPECT_LT(html.find(">500</text>"), html.find(">20,000</text>"));
}

TEST(Report, PutsThePaperBesideOurs) {
  const Folder folder;
  const std::vector<RunResult> results = {run_of("contcore", {10, 1, 1, 1, 1, 1}, .98),
                                          run_of("reservoir", {10, 1, 1, 1, 1, 1}, .9),
                                          run_of("random", {10, 1, 1, 1, 1, 1}, .9)};
  write_report(folder.path(), results, {"mvtec, 10-1x5", "mvtec", "10-1x5", ""});
  expect_balanced(folder.text("index.html"));
  const std::string text = folder.text("results.md");
  EXPECT_NE(text.find("| paper: ContCore | WideResNet-50, m=20,000 | 98.9 | 96.4 | 0.5 | 0.5 |"),
            text.npos);
  EXPECT_NE(text.find("| paper: Reservoir | WideResNet-50, m=20,000; mean over its schedules"),
            text.npos);
  EXPECT_EQ(count(text, "paper:"), 2u);
  EXPECT_NE(folder.text("index.html").find("paper: CDAD"), std::string::npos);
}

TEST(Report, GalleryTellsRightFromWrong) {
  const Folder folder;
  std::vector<RunResult> results = {run_of("a", {1, 1}, .9)};
  const float none = std::numeric_limits<float>::infinity();
  results[0].gallery = {verdict_of(2, 1, true), verdict_of(1, 2, true), verdict_of(2, 1, false),
                        verdict_of(1, 1, false), verdict_of(1, none, true)};
  results[0].gallery[0].image = gray(3000);  // shown small
  results[0].gallery[0].heat = gray(10);
  write_report(folder.path(), results, {"t", "d", "1x2", ""});
  const std::string html = folder.text("index.html");
  expect_balanced(html);
  expect_self_contained(html);
  EXPECT_EQ(count(html, "✓ right"), 2u);  // at the level is not above it
  EXPECT_EQ(count(html, "✗ wrong"), 3u);
  EXPECT_EQ(count(html, "<img "), 2u);
  EXPECT_EQ(count(html, "no mask"), 1u);
  EXPECT_NE(html.find("width=\"448\" height=\"448\""), html.npos);
  EXPECT_NE(html.find("level -"), html.npos);
}

TEST(Report, SurvivesRunsThatStoppedEarly) {
  const Folder folder;
  std::vector<RunResult> results = {run_of("a", {2, 1}, .9), run_of("b", {2, 1}, .9),
                                    run_of("c", {2, 1}, .9)};
  results[0].steps.clear();
  results[1].steps[1].pop_back();
  results[2].tasks.clear();
  write_report(folder.path(), results, {"", "", "", ""});
  expect_balanced(folder.text("index.html"));
  expect_self_contained(folder.text("index.html"));
}

TEST(Report, RefusesKindly) {
  const Folder folder;
  EXPECT_THROW(write_report(folder.path(), {}, {}), Error);
  const std::vector<RunResult> results = {run_of("a", {1}, .9)};
  write_report(folder.path(), results, {});
  try {
    write_report(folder.path() + "/index.html/sub", results, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    EXPECT_NE(std::string(error.what()).find("index.html/sub"), std::string::npos);
  }
}

TEST(Text, Percent) {
  EXPECT_EQ(percent(std::optional<double>()), "-");
  EXPECT_EQ(percent(0.98949), "98.9");
  EXPECT_EQ(percent(-0.0001), "0.0");
  EXPECT_EQ(percent(-0.006), "-0.6");
  EXPECT_EQ(percent(std::optional(Statistic{.5, .0123, 3})), "50.0 ± 1.2");
  EXPECT_EQ(percent(std::optional(Statistic{.5, 0, 1})), "50.0");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST(Text, Escapes) {
  EXPECT_EQ(escape_html("größe\n"), "größe ");
  EXPECT_EQ(escape_html("\xc3"), "\xef\xbf\xbd");                     // cut short
  EXPECT_EQ(count(escape_html("\xed\xa0\x80"), "\xef\xbf\xbd"), 3u);  // a surrogate
  EXPECT_EQ(count(escape_html("\xc0\xbc"
                              "script"),
                  "\xef\xbf\xbd"),
            2u);  // '<', too long
  EXPECT_EQ(escape_markdown("a|b<c`\\"), "a\\|b&lt;c\\`\\\\");
  EXPECT_EQ(escape_csv("plain"), "plain");
  EXPECT_EQ(escape_csv("a=b+c-d@e"), "a=b+c-d@e");
  EXPECT_EQ(escape_csv(""), "");
  for (const char* name : {"=1+1", "+1", "-1", "@SUM(A1)", "\tx"}) {  // formulas to a spreadsheet
    EXPECT_EQ(escape_csv(name), std::string("'") + name);
  }
  EXPECT_EQ(escape_csv("=HYPERLINK(\"http://x\",1)"), "\"'=HYPERLINK(\"\"http://x\"\",1)\"");
  EXPECT_EQ(escape_csv("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(escape_csv("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(escape_csv("a\nb"), "\"a\nb\"");
  const std::uint8_t bytes[] = {'f', 'o', 'o', 'b', 0xff};
  EXPECT_EQ(base64(std::span(bytes, 0)), "");
  EXPECT_EQ(base64(std::span(bytes, 1)), "Zg==");
  EXPECT_EQ(base64(std::span(bytes, 2)), "Zm8=");
  EXPECT_EQ(base64(std::span(bytes, 3)), "Zm9v");
  EXPECT_EQ(base64(bytes), "Zm9vYv8=");
}

// An axis that does not enclose its values draws them outside, one with too many steps cannot be
// read, and one without any never ends.
TEST(Charts, AxesEncloseTheirValues) {
  for (const double low : {-3.0, 0.0, 0.05, 12.34, 88.8, 99.99, 100.0, 12345.0, 1e9}) {
    for (const double span : {0.0, 1e-9, 0.01, 0.3, 1.0, 7.7, 20.0, 99.0, 54321.0}) {
      const Axis axis = round_axis(low, low + span);
      const double rounding = 1e-6 * axis.step;
      EXPECT_LE(axis.low, low + rounding);
      EXPECT_GE(axis.high, low + span - rounding);
      const double steps = (axis.high - axis.low) / axis.step;
      EXPECT_GT(steps, 1.9) << low << " " << span;
      EXPECT_LT(steps, 8) << low << " " << span;
    }
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(round_axis(nan, nan).high, 1);
  EXPECT_EQ(round_axis(std::numeric_limits<double>::infinity(), 0).high, 1);
  EXPECT_EQ(round_axis(96.2, 98.9).decimals, 0);
  EXPECT_EQ(round_axis(98.2, 98.9).decimals, 1);
}

}  // namespace
}  // namespace contcore
