// contcore demo: products that are made up, learned one after another in a memory too small for
// all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/utf8.h"
#include "commands.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "contcore/metrics.h"
#include "evaluate/report_style.h"
#include "products/products.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

namespace fs = std::filesystem;

constexpr char kFooter[] =
    "Example:\n"
    "  contcore demo --report /tmp/demo\n"
    "Leaves REPORT/index.html, the pictures, the products and the memory (REPORT/demo.ccm).\n";

constexpr std::size_t kProducts = 5;
constexpr std::size_t kCapacity = 4000;
constexpr ProductCounts kCounts{100, 15, 24, Placing::kFixture};
constexpr std::uint64_t kSeed = 1;
constexpr double kFalseAlarmRate = 0.01;

struct DemoCommand {
  std::string report = "demo-report";
  std::string backbone;
  std::size_t threads = 0;
  DeviceOption device;
};

// What one product's test images gave. An image that is not called good is stopped.
struct Result {
  double auroc = 0;
  std::size_t false_alarms = 0;
  std::size_t good = 0;
  std::size_t found = 0;
  std::size_t defects = 0;

  Result& operator+=(const Result& other) {
    false_alarms += other.false_alarms;
    good += other.good;
    found += other.found;
    defects += other.defects;
    return *this;
  }
};

// What the page has beyond a report's: its tables fit on a telephone, so they need no box to
// scroll.
constexpr char kDemoStyle[] =
    "th[scope=row],thead th:first-child{text-align:left}th{white-space:normal}"
    ".pictures{display:grid;gap:.8rem;"
    "grid-template-columns:repeat(auto-fill,minmax(min(16rem,45%),1fr))}"
    ".pictures img{width:100%;height:auto;display:block;border-radius:4px}";

using Matrix = std::vector<std::vector<Result>>;  // [step][product]

struct Picture {
  std::string product;
  std::string kind;
  std::string file;  // beside the page
};

std::string kind_of(const std::string& file) { return fs::path(file).parent_path().filename(); }

Result inspect(const Detector& detector, const std::vector<std::string>& files, Compute& compute,
               const std::function<void(const Detector::Inspected&)>& each) {
  Result result;
  std::vector<float> good;
  std::vector<float> defects;
  InspectOptions options;
  options.false_alarms = kFalseAlarmRate;
  options.map = static_cast<bool>(each);
  detector.inspect(files, options, compute, [&](Detector::Inspected& item) {
    if (!item.error.empty()) throw Error(Error::Kind::kInternal, item.error);
    const bool defect = kind_of(item.file) != "good";
    (defect ? defects : good).push_back(item.seen.score);
    ++(defect ? result.defects : result.good);
    if (verdict(item.seen) != std::string_view("good")) {
      ++(defect ? result.found : result.false_alarms);
    }
    if (each) each(item);
    return !stop_asked();
  });
  stop_if_asked();
  result.auroc = rank(good, defects, compute).auroc.value_or(std::nan(""));
  return result;
}

// The mean loss of the products before the last since they were best.
double forgetting(const Matrix& steps) {
  const std::size_t last = steps.size() - 1;
  if (last == 0) return 0;
  double sum = 0;
  for (std::size_t t = 0; t < last; ++t) {
    double best = 0;
    for (std::size_t s = t; s < last; ++s) best = std::max(best, steps[s][t].auroc);
    sum += best - steps[last][t].auroc;
  }
  return sum / static_cast<double>(last);
}

double average(const std::vector<Result>& row) {
  double sum = 0;
  for (const Result& result : row) sum += result.auroc;
  return sum / static_cast<double>(row.size());
}

Result total(const std::vector<Result>& row) {
  Result sum;
  for (const Result& result : row) sum += result;
  return sum;
}

// As a person would write it: "woven cloth".
std::string shown_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

void print_row(const std::vector<std::string>& names, const std::vector<Result>& row,
               const Detector& detector) {
  std::string line = fmt::format("{:<22}", "after " + names[row.size() - 1]);
  for (std::size_t t = 0; t < names.size(); ++t) {
    line += t < row.size() ? fmt::format("{:>9.1f}", 100 * row[t].auroc) : fmt::format("{:>9}", "");
  }
  fmt::print("{} {:>8.1f} {:>5}/{}\n", line, 100 * average(row), detector.memory().size(),
             detector.memory().capacity());
  std::fflush(stdout);
}

void print_header(const std::vector<std::string>& names) {
  std::string line = fmt::format("{:<22}", "image AUROC, %");
  for (const std::string& name : names) line += fmt::format("{:>9.8}", name);
  fmt::print("\n{} {:>8} {:>9}\n", line, "mean", "vectors");
}

// From red at chance to green when perfect.
std::string auroc_cell(double auroc) {
  const double percent = 100 * auroc;
  return fmt::format("<td style=\"background:hsl({:.0f} 60% 50% / .35)\">{:.1f}</td>",
                     std::clamp((percent - 50) * 2.4, 0.0, 120.0), percent);
}

// A row for each product and a column for each step: that fits on a telephone.
std::string table(const std::vector<std::string>& names, const Matrix& steps) {
  std::string html =
      "<table><caption>image AUROC in %, after so many products</caption>"
      "<thead><tr><th scope=\"col\">product</th>";
  for (std::size_t s = 0; s < steps.size(); ++s) {
    html += fmt::format("<th scope=\"col\">{}</th>", s + 1);
  }
  html += "</tr></thead>\n<tbody>";
  for (std::size_t t = 0; t < names.size(); ++t) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", shown_name(names[t]));
    for (std::size_t s = 0; s < steps.size(); ++s) {
      html += t > s ? "<td></td>" : auroc_cell(steps[s][t].auroc);
    }
    html += "</tr>\n";
  }
  html += "</tbody>\n<tfoot><tr><th scope=\"row\">mean</th>";
  for (const std::vector<Result>& row : steps) {
    html += fmt::format("<td>{:.1f}</td>", 100 * average(row));
  }
  return html + "</tr></tfoot></table>\n";
}

std::string verdict_cells(const Result& result) {
  return fmt::format("<td>{} of {}</td><td>{} of {}</td>", result.found, result.defects,
                     result.false_alarms, result.good);
}

std::string verdicts(const std::vector<std::string>& names, const std::vector<Result>& row,
                     const Memory& memory) {
  std::string html =
      "<table><thead><tr><th scope=\"col\">product</th><th scope=\"col\">vectors</th>"
      "<th scope=\"col\">defects found</th><th scope=\"col\">good parts stopped</th></tr></thead>\n"
      "<tbody>";
  const std::vector<TaskState> states = memory.states();
  for (std::size_t t = 0; t < names.size(); ++t) {
    html += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td>{}</tr>\n", shown_name(names[t]),
                        states[t].vectors, verdict_cells(row[t]));
  }
  return html + fmt::format(
                    "</tbody>\n<tfoot><tr><th scope=\"row\">all</th><td>{}</td>{}</tr>"
                    "</tfoot></table>\n",
                    memory.size(), verdict_cells(total(row)));
}

std::string gallery(const std::vector<Picture>& pictures) {
  std::string html;
  std::string product;
  for (const Picture& picture : pictures) {
    const std::string name = shown_name(picture.product);
    const std::string kind = shown_name(picture.kind);
    if (picture.product != product) {
      html += fmt::format("{}<h3>{}</h3>\n<div class=\"pictures\">",
                          product.empty() ? "" : "</div>\n", name);
      product = picture.product;
    }
    html += fmt::format(
        "<figure><img src=\"{}\" alt=\"{}: {}\" loading=\"lazy\"><figcaption>{}</figcaption>"
        "</figure>\n",
        picture.file, name, kind, kind);
  }
  return html + (product.empty() ? "" : "</div>\n");
}

std::string page(const std::vector<std::string>& names, const Matrix& steps,
                 const std::vector<Picture>& pictures, const Detector& detector) {
  const Memory& memory = detector.memory();
  const Result all = total(steps.back());
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>contcore demo</title>\n"
      "<style>{}{}</style></head>\n<body><main><h1>contcore demo</h1>\n",
      kStyle, kDemoStyle);
  html += fmt::format(
      "<p>{} made-up products, learned one after another from {} good images each into one memory "
      "of {} vectors; together they bring more than it has room for. After each step every product "
      "learned so far is inspected. At the end <strong>{} of {} defects</strong> are found and "
      "<strong>{} of {} good parts</strong> stopped, with thresholds for a false-alarm rate of "
      "{:.0f} %. Backbone: {}.</p>\n",
      names.size(), kCounts.train, memory.capacity(), all.found, all.defects, all.false_alarms,
      all.good, 100 * kFalseAlarmRate, backbone_text(detector.memory().source));
  html += "<h2>What it knows after each step</h2>\n" + table(names, steps);
  html += fmt::format(
      "<p class=\"note\">Forgetting (mean loss since each product was known best): {:.1f} points. "
      "Certificate: no patch ever learned is farther than {:.3g} from the memory.</p>\n",
      100 * forgetting(steps), memory.certificate());
  html += "<h2>The verdicts at the end</h2>\n" + verdicts(names, steps.back(), memory);
  html +=
      "<h2>What it sees</h2>\n<p class=\"note\">The first test image of each kind. Heat, and an "
      "outline around it, where a part is farther from all that was learned than the threshold; "
      "below, score / threshold.</p>\n";
  return html + gallery(pictures) + "</main></body></html>\n";
}

// How this command was found: by its path in a build folder, by its name once installed.
std::string own_name() {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  if (error || own.parent_path() == "/usr/bin" || own.parent_path() == "/usr/local/bin") {
    return "contcore";
  }
  return fs::relative(own, error).string();
}

void run(const DemoCommand& command) {
  const Stopwatch watch;
  Compute compute(command.threads, command.device.chosen());
  DetectorOptions options;
  options.backbone = command.backbone;
  options.capacity = kCapacity;
  Detector detector(options);
  fmt::print("contcore demo\nbackbone: {}\n", backbone_text(detector.memory().source));
  if (detector.memory().source.at("backbone") == "builtin") {
    fmt::print(
        "  A fixed bank of filters, no trained network: expect less. contcore backbone fetch "
        "resnet50\n  gets one that was trained (it needs npm).\n");
  }
  std::vector<std::string> names = product_names();
  names.resize(std::min(names.size(), kProducts));
  const std::string products = command.report + "/products";
  {
    ProgressLine progress("making products");
    write_products(products, names, kCounts, kSeed, progress.callback());
  }
  print_header(names);
  Matrix steps;
  std::vector<Picture> pictures;
  for (std::size_t s = 0; s < names.size(); ++s) {
    LearnOptions learn;
    learn.task = names[s];
    {
      ProgressLine progress("learning " + names[s]);
      learn.progress = progress.callback();
      detector.learn(find_images({products + "/" + names[s] + "/train/good"}), learn, compute);
    }
    std::vector<Result> row;
    for (std::size_t t = 0; t <= s; ++t) {
      std::vector<std::string> shown;
      const auto show = [&](const Detector::Inspected& item) {
        const std::string kind = kind_of(item.file);
        if (std::count(shown.begin(), shown.end(), kind) > 0) return;
        shown.push_back(kind);
        const std::string file = fmt::format("heatmaps/{}_{}.jpg", names[t], kind);
        fs::create_directories(command.report + "/heatmaps");
        write_image(command.report + "/" + file, draw_inspection(item.image, item.seen));
        pictures.push_back({names[t], kind, file});
      };
      const bool last = s + 1 == names.size();
      row.push_back(inspect(detector, find_images({products + "/" + names[t] + "/test"}), compute,
                            last ? std::function<void(const Detector::Inspected&)>(show)
                                 : std::function<void(const Detector::Inspected&)>()));
    }
    steps.push_back(std::move(row));
    print_row(names, steps.back(), detector);
  }
  detector.save(command.report + "/demo.ccm");
  const std::string html = page(names, steps, pictures, detector);
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(html))};
  write_whole(command.report + "/index.html", parts);
  const Result all = total(steps.back());
  fmt::print("\n{} of {} defects found, {} of {} good parts stopped\n", all.found, all.defects,
             all.false_alarms, all.good);
  fmt::print("forgetting {:.1f} points; certificate {:.4g}; {:.0f} s in all\n",
             100 * forgetting(steps), detector.memory().certificate(), watch.seconds());
  fmt::print("report: {}/index.html\n", printable_name(command.report));
  fmt::print("page:   {} serve {}/demo.ccm, then open http://127.0.0.1:8080\n",
             printable_name(own_name()), printable_name(command.report));
}

}  // namespace

void add_demo(CLI::App& app) {
  auto command = std::make_shared<DemoCommand>();
  CLI::App* sub = app.add_subcommand("demo", "The whole story on generated products");
  sub->add_option("--report", command->report,
                  "Folder for the page it leaves (default: "
                  "demo-report)")
      ->type_name("DIR");
  sub->add_option("--backbone", command->backbone,
                  "An ONNX file, resnet50 or builtin (default: resnet50 if it was fetched)")
      ->type_name("FILE");
  sub->add_option("--threads", command->threads, "Threads to use (default: one for each core)")
      ->check(CLI::Range(0, 1024))
      ->type_name("T");
  command->device.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
