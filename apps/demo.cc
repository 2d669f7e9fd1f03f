// contcore demo: products that are made up, learned one after another in a memory too small for
// all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/utf8.h"
#include "commands.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "contcore/metrics.h"
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
constexpr std::size_t kCapacity = 1200;
constexpr ProductCounts kCounts{60, 15, 24};
constexpr std::uint64_t kSeed = 1;

struct DemoCommand {
  std::string report = "demo-report";
  std::string backbone;
  std::size_t threads = 0;
};

// What one product's test images gave.
struct Result {
  double auroc = 0;
  std::size_t false_alarms = 0;
  std::size_t good = 0;
  std::size_t found = 0;
  std::size_t defects = 0;
};

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
  options.map = static_cast<bool>(each);
  detector.inspect(files, options, compute, [&](Detector::Inspected& item) {
    if (!item.error.empty()) throw Error(Error::Kind::kInternal, item.error);
    const bool defect = kind_of(item.file) != "good";
    (defect ? defects : good).push_back(item.seen.score);
    ++(defect ? result.defects : result.good);
    if (item.seen.rejected) ++(defect ? result.found : result.false_alarms);
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

std::string table(const std::vector<std::string>& names, const Matrix& steps) {
  std::string html = "<table><tr><th>image AUROC, %</th>";
  for (const std::string& name : names) html += fmt::format("<th>{}</th>", name);
  html += "<th>mean</th></tr>";
  for (std::size_t s = 0; s < steps.size(); ++s) {
    html += fmt::format("<tr><td>after {}</td>", names[s]);
    for (std::size_t t = 0; t < names.size(); ++t) {
      if (t > s) {
        html += "<td></td>";
        continue;
      }
      const double percent = 100 * steps[s][t].auroc;
      // From red at chance to green when perfect.
      html += fmt::format("<td style='background:hsl({:.0f} 60% 50% / .35)'>{:.1f}</td>",
                          std::clamp((percent - 50) * 2.4, 0.0, 120.0), percent);
    }
    html += fmt::format("<td>{:.1f}</td></tr>", 100 * average(steps[s]));
  }
  return html + "</table>";
}

std::string gallery(const std::vector<Picture>& pictures) {
  std::string html;
  std::string product;
  for (const Picture& picture : pictures) {
    if (picture.product != product) {
      html += fmt::format("{}<h3>{}</h3><div class='row'>", product.empty() ? "" : "</div>",
                          picture.product);
      product = picture.product;
    }
    html += fmt::format("<figure><img src='{}' alt='{} of {}'><figcaption>{}</figcaption></figure>",
                        picture.file, picture.kind, picture.product, picture.kind);
  }
  return html + (product.empty() ? "" : "</div>");
}

std::string page(const std::vector<std::string>& names, const Matrix& steps,
                 const std::vector<Picture>& pictures, const Detector& detector) {
  const Memory& memory = detector.memory();
  std::string html =
      "<!doctype html><html lang='en'><meta charset='utf-8'>"
      "<meta name='viewport' content='width=device-width'><title>contcore demo</title>"
      "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;"
      "padding:0 1rem;color-scheme:light dark}td,th{padding:.3rem .8rem;text-align:left}"
      "table{border-collapse:collapse}.row{display:flex;flex-wrap:wrap;gap:.8rem}"
      "figure{margin:0}img{width:17rem;max-width:100%;display:block}"
      "figcaption{font-size:.9rem}</style><h1>contcore demo</h1>";
  html += fmt::format(
      "<p>{} made-up products, learned one after another into one memory of {} vectors; together "
      "they bring more than it has room for. After each step every product learned so far is "
      "inspected. Backbone: {}.</p>",
      names.size(), memory.capacity(), backbone_text(detector.memory().source));
  html += "<h2>What it knows after each step</h2>" + table(names, steps);
  html += fmt::format(
      "<p>Forgetting (mean loss since each product was known best): {:.1f} points. Certificate: no "
      "patch ever learned is farther than {:.3g} from the memory.</p>",
      100 * forgetting(steps), memory.certificate());
  html +=
      "<h2>The verdicts at the end</h2><table><tr><th>product</th><th>vectors</th>"
      "<th>defects found</th><th>good images rejected</th></tr>";
  const std::vector<TaskState> states = memory.states();
  for (std::size_t t = 0; t < names.size(); ++t) {
    const Result& result = steps.back()[t];
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{} of {}</td><td>{} of {}</td></tr>",
                        names[t], states[t].vectors, result.found, result.defects,
                        result.false_alarms, result.good);
  }
  html +=
      "</table><h2>What it sees</h2><p>Heat where a patch is far from all that was learned; "
      "outlined, what lies above the threshold; below, score / threshold.</p>";
  return html + gallery(pictures) + "</html>\n";
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
  Compute compute(command.threads);
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
        const std::string file = fmt::format("heatmaps/{}_{}.png", names[t], kind);
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
  fmt::print("\nforgetting {:.1f} points; certificate {:.4g}; {:.0f} s in all\n",
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
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
