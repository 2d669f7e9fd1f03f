// Continual anomaly detection judged as the paper judges it: a method learns a schedule of tasks
// and is measured on all of them after each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/dataset.h"
#include "contcore/extractor.h"
#include "contcore/image.h"
#include "contcore/progress.h"
#include "contcore/ranks.h"
#include "contcore/schedule.h"
#include "contcore/score.h"

namespace contcore {

class OutsideMethod;  // contcore/method.h

enum Measure {
  kImageAuroc,
  kImageAp,
  kImageF1,
  kPixelAuroc,
  kPixelAp,
  kPixelF1,
  kAupro,
  kMeasures,
};
/// "image_auroc", …, "aupro"; and for people: "image AUROC", …, "AUPRO".
const char* measure_key(Measure measure);
const char* measure_name(Measure measure);

/// Parts of 1, not percent; nothing where a measure is undefined: no defects, or no masks, or a
/// method without maps.
using Measures = std::array<std::optional<double>, kMeasures>;

/// What a run is of. Two runs with the same setting give the same result.
struct Setting {
  std::string method;
  std::string backbone;  ///< as it was asked for
  std::size_t m = 20000;
  double p = 0.01;
  double q = 0.75;
  std::uint64_t seed = 0;
  std::string order;  ///< of the classes, as it was asked for
};

/// One test image after the last task, for the gallery.
struct Verdict {
  enum Why { kBest, kWorst, kBorderline };
  Why why = kBest;
  std::string product;
  std::string file;  ///< from the data set's folder on
  std::string kind;  ///< "good", or the defect's name
  bool defect = false;
  float score = 0;
  float level = 0;  ///< the class's threshold of largest F1: above is called a defect
  Image image;      ///< as the backbone saw it
  Image heat;       ///< the same with the heat over it
  Image mask;       ///< white where the defect is; empty when there is none
};

struct RunResult {
  Setting setting;
  /// Names of the classes of each task.
  std::vector<std::vector<std::string>> tasks;
  /// steps[s][c]: class c (in the order of the tasks) after task s; only classes of tasks up to s.
  std::vector<std::vector<Measures>> steps;

  std::size_t vectors = 0;       ///< held at the end
  std::uint64_t numbers = 0;     ///< that the method holds at the end: floats, or bytes
  std::uint64_t parameters = 0;  ///< of the backbone
  double gflops = 0;             ///< of the backbone, for one image
  double train_seconds = 0;      ///< images to features and learning, all tasks
  double test_seconds = 0;       ///< image to score and map, for one image
  std::size_t peak_bytes = 0;    ///< the most that the process took during the run
  std::vector<Verdict> gallery;
};

/// R_{s,t}: the mean over the classes of task t after task s, for each measure; nothing if it is
/// undefined for one of them. s, t count from 0.
Measures task_measures(const RunResult& result, std::size_t s, std::size_t t);

struct Summary {
  Measures average;     ///< R_T: the mean over the tasks after the last
  Measures forgetting;  ///< FM: the mean over all tasks but the last of max_s (R_{s,t} − R_{T,t})
  Measures classes;     ///< the mean over the classes after the last task
};
Summary summarise(const RunResult& result);

/// The methods there are, the paper's first.
struct MethodInfo {
  std::string name;
  std::string about;
  bool online = false;  ///< one image at a time: p is 0.1 unless given
  bool maps = true;     ///< has pixel maps
};
const std::vector<MethodInfo>& methods();

struct EvaluationOptions {
  std::vector<Dataset> datasets;
  std::string schedule;              ///< contcore/schedule.h; empty: one class after the other
  std::string order;                 ///< the same; empty: alphabetical
  std::vector<std::string> classes;  ///< only these; empty: all
  std::string backbone;              ///< as in DetectorOptions
  std::vector<std::string> layers;
  Geometry geometry{Geometry::Resize::kSquare, 256, 224};
  Precision precision = Precision::kFloat;
  std::size_t dimension = 1024;
  Score score = Score::kPatch;
  std::string cache;                                ///< folder; empty: none
  std::size_t cache_limit = std::size_t{64} << 30;  ///< bytes
  Notice notice;                                    ///< as in ExtractorOptions
  bool fresh = false;  ///< do not take results of earlier runs from the cache
};

/// A data set with a schedule and a backbone, that methods can be run on. Features are extracted
/// once, into the cache.
class Evaluation {
 public:
  /// Throws Error (kUsage, kInput) when the schedule does not fit the classes or a class is
  /// missing.
  explicit Evaluation(const EvaluationOptions& options);
  ~Evaluation();
  Evaluation(Evaluation&&) noexcept;

  const Schedule& schedule() const;
  /// In the order of the schedule.
  const std::vector<Product>& products() const;

  /// Runs one method. Setting's backbone and order are filled in. Throws Error: kUsage for an
  /// unknown method or parameters out of range, kInput for an image that cannot be read, a mask
  /// that is missing or of another size; kCancelled. `from_cache` says whether the result is of an
  /// earlier run.
  RunResult run(const Setting& setting, Compute& compute, const Progress& progress = {},
                bool* from_cache = nullptr);

  /// The same on several ranks, each of which must call it: all of them learn, share out the
  /// classes to measure, and have the same result, that of one process but for times and peak
  /// memory. The first rank alone looks for the result in its cache, and keeps it there. An error
  /// of one rank is thrown on all; kInput too where they have different data sets or backbones.
  RunResult run(const Setting& setting, Compute& compute, Ranks& ranks,
                const Progress& progress = {}, bool* from_cache = nullptr);

  /// The same with a method of your own (contcore/method.h). Setting's method is filled in too; m,
  /// p, q and seed are recorded, and not used. Its results are not kept in the cache, nor taken
  /// from there. Throws what the method throws, and Error: kUsage for a name or an answer that
  /// cannot be used; the others as above.
  RunResult run(OutsideMethod& method, const Setting& setting, Compute& compute,
                const Progress& progress = {});

  struct State;  // for the analyses

 private:
  std::unique_ptr<State> state_;
};

/// A result as JSON without its pictures, and back. Throws Error (kInput) naming `name`.
std::string to_json(const RunResult& result);
RunResult result_from_json(const std::string& text, const std::string& name);

struct ReportOptions {
  std::string title;     ///< such as "mvtec, 10-1x5"
  std::string dataset;   ///< names of the data sets joined by '>'
  std::string schedule;  ///< as it was asked for
  std::string command;   ///< that makes this report
};

/// Leaves index.html (one page, no network), results.json, results.csv, results.md, the tables in
/// LaTeX (tables.tex for a paper, results.tex to compile) and figures/*.svg in the folder. Files
/// are named from the data set's folder on, backbones without theirs. Results that differ in one of
/// m, p, q or backbone alone are drawn as a sweep; those that differ in the seed or the order alone
/// are averaged, with the deviation. The paper's figures for the same data set, schedule and method
/// stand beside ours.
void write_report(const std::string& folder, const std::vector<RunResult>& results,
                  const ReportOptions& options);

}  // namespace contcore
