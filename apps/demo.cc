// contcore demo: the core at work on generated features, with a page to look at.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "commands.h"
#include "common.h"
#include "contcore/compare.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "contcore/greedy.h"
#include "contcore/nearest.h"
#include "contcore/samplers.h"
#include "contcore/threads.h"
#include "coreset/synthetic.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

constexpr std::size_t kDimension = 1024;
constexpr std::size_t kPatches = 40000;
constexpr std::size_t kPicks = 400;

struct Line {
  std::string name;
  std::string colour;
  std::vector<double> x;
  std::vector<double> y;
};

Vectors gather(const Vectors& from, const std::vector<std::int64_t>& rows, std::size_t count) {
  Vectors out(count, from.cols());
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = from.row(static_cast<std::size_t>(rows[i]));
    std::copy(row, row + from.cols(), out.row(i));
  }
  return out;
}

GreedyResult sample(const Vectors& points, Threads& threads) {
  ProgressLine progress("sampling");
  GreedyOptions options;
  options.count = kPicks;
  options.progress = progress.callback();
  return greedy_sample(points.view(), {}, options, threads);
}

// The plain loop that everyone else runs, on as many points as one has patience for.
double plain_loop_seconds(const Vectors& points, const std::vector<std::int64_t>& picks) {
  const Stopwatch watch;
  std::vector<float> nearest(points.rows(), std::numeric_limits<float>::infinity());
  for (const std::int64_t pick : picks) {
    const float* centre = points.row(static_cast<std::size_t>(pick));
    for (std::size_t i = 0; i < points.rows(); ++i) {
      nearest[i] = std::min(nearest[i], squared_distance(points.row(i), centre, points.cols()));
    }
    stop_if_asked();
  }
  return watch.seconds();
}

std::string chart(const std::vector<Line>& lines) {
  constexpr double kWidth = 760;
  constexpr double kHeight = 320;
  double most = 0;
  double last = 1;
  for (const Line& line : lines) {
    for (const double y : line.y) most = std::max(most, y);
    for (const double x : line.x) last = std::max(last, x);
  }
  std::string svg = fmt::format(
      "<svg viewBox='-60 -10 {} {}' role='img' aria-label='covering radius by memory size'>"
      "<path d='M0 0V{}H{}' fill='none' stroke='currentColor'/>",
      kWidth + 80, kHeight + 60, kHeight, kWidth);
  for (int tick = 0; tick <= 4; ++tick) {
    svg += fmt::format(
        "<text x='-8' y='{:.0f}' text-anchor='end'>{:.1f}</text>"
        "<text x='{:.0f}' y='{}' text-anchor='middle'>{:.0f}</text>",
        kHeight * (1 - tick / 4.0) + 4, most * tick / 4.0, kWidth * tick / 4.0, kHeight + 20,
        last * tick / 4.0);
  }
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>vectors kept</text>", kWidth / 2,
                     kHeight + 42);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    svg += fmt::format("<polyline fill='none' stroke='{}' stroke-width='2.5' points='",
                       lines[i].colour);
    for (std::size_t k = 0; k < lines[i].x.size(); ++k) {
      svg += fmt::format("{:.1f},{:.1f} ", lines[i].x[k] / last * kWidth,
                         kHeight * (1 - lines[i].y[k] / most));
    }
    svg += fmt::format("'/><text x='{}' y='{}' fill='{}'>{}</text>", kWidth - 150, 14 + 20 * i,
                       lines[i].colour, lines[i].name);
  }
  return svg + "</svg>";
}

void write_page(const std::string& folder, const std::string& body) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string path = folder + "/index.html";
  std::ofstream page(path);
  page << "<!doctype html><html lang='en'><meta charset='utf-8'>"
          "<meta name='viewport' content='width=device-width'><title>contcore demo</title>"
          "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;"
          "padding:0 1rem;color-scheme:light dark}svg{width:100%;font-size:13px;fill:currentColor}"
          "td,th{padding:.2rem 1rem .2rem 0;text-align:left}</style>"
       << body << "</html>\n";
  page.close();
  if (!page) {
    throw Error(Error::Kind::kInput, fmt::format("{}: cannot write: {}; name another folder with "
                                                 "--report",
                                                 path, std::strerror(errno)));
  }
}

std::vector<std::size_t> sizes_up_to(std::size_t count) {
  std::vector<std::size_t> sizes;
  for (const std::size_t part : {20u, 10u, 5u, 3u, 2u, 1u}) sizes.push_back(count / part);
  return sizes;
}

void run(const std::string& folder, std::size_t thread_count) {
  Threads threads(thread_count);
  fmt::print(
      "contcore demo: {} generated patch features of {} numbers (a stand-in for a product's "
      "good images)\n\n",
      kPatches, kDimension);
  const SyntheticFeatures product(kDimension, 1);
  const SyntheticFeatures other(kDimension, 2);
  const Vectors points = product.make(kPatches, threads);

  const Stopwatch watch;
  const GreedyResult greedy = sample(points, threads);
  const double seconds = watch.seconds();
  const std::vector<std::int64_t> few(greedy.picks.begin(), greedy.picks.begin() + 10);
  const double plain = plain_loop_seconds(points, few) / 10 * kPicks;
  fmt::print("greedy coreset    {} of {} vectors in {:.2f} s; every patch within {:.2f} of one\n",
             greedy.picks.size(), kPatches, seconds, static_cast<double>(greedy.covering_radius));
  fmt::print("the plain loop    {:.1f} s for the same picks on one thread ({:.0f} times as long)\n",
             plain, plain / seconds);

  const std::vector<std::int64_t> random = random_sample(kPatches, kPicks, 1);
  std::vector<Line> lines = {{"greedy", "#2a7de1", {}, {}}, {"random", "#e1572a", {}, {}}};
  for (const std::size_t size : sizes_up_to(kPicks)) {
    for (std::size_t which = 0; which < 2; ++which) {
      const Vectors kept = gather(points, which == 0 ? greedy.picks : random, size);
      lines[which].x.push_back(static_cast<double>(size));
      lines[which].y.push_back(
          static_cast<double>(cover(points.view(), kept.view(), threads).largest));
      stop_if_asked();
    }
  }
  fmt::print("a random memory   of the same size leaves a patch {:.2f} away\n", lines[1].y.back());

  const Vectors memory = gather(points, greedy.picks, greedy.picks.size());
  const NearestIndex index(memory.view(), threads);
  const Vectors strange = other.make(784, threads);
  const NearestResult known = index.search({points.row(0), 784, kDimension}, 1, threads);
  const NearestResult unknown = index.search(strange.view(), 1, threads);
  const float good = *std::max_element(known.distances.begin(), known.distances.end());
  const auto found = std::count_if(unknown.distances.begin(), unknown.distances.end(),
                                   [&](float distance) { return distance > good; });
  fmt::print(
      "nearest neighbour farthest good patch {:.2f}; {} of 784 patches of another product "
      "are farther\n",
      static_cast<double>(good), found);

  std::string stages;
  for (const GreedyStage& stage : greedy.stages) {
    stages += fmt::format(
        "<tr><td>{}</td><td>{:.2f} %</td></tr>", stage.name,
        100.0 * static_cast<double>(stage.settled) / static_cast<double>(kPatches * kPicks));
  }
  write_page(
      folder,
      fmt::format("<h1>contcore demo</h1><p>{} generated patch features, {} kept. Lower is "
                  "better: the distance of the worst-covered patch to the memory.</p>{}"
                  "<h2>How few distances it took</h2><p>Of {} point–centre pairs, settled by "
                  "each stage of the cascade ({:.2f} s in all; the plain loop on one thread "
                  "takes {:.1f} s):</p><table>{}</table>",
                  kPatches, kPicks, chart(lines), kPatches * kPicks, seconds, plain, stages));
  fmt::print("\nreport: {}/index.html\n", folder);
}

}  // namespace

void add_demo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo", "The core at work on generated features");
  const auto folder = std::make_shared<std::string>("demo-report");
  const auto threads = std::make_shared<std::size_t>(0);
  command->add_option("--report", *folder, "Folder for the page it leaves")->capture_default_str();
  command->add_option("--threads", *threads, "Threads to use; 0: one for each core");
  command->footer("Example:\n  contcore demo --report /tmp/demo");
  command->callback([=] { run(*folder, *threads); });
}

}  // namespace contcore::app
