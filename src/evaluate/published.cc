#include "evaluate/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace contcore {
namespace {

constexpr double X = std::numeric_limits<double>::infinity();  // not printed

// In percent: image AUROC, pixel AUROC, the forgetting of both, image AP and its forgetting, AUPRO
// and its forgetting.
struct Line {
  const char* dataset;
  const char* schedule;
  const char* method;
  double image, pixel, image_fm, pixel_fm, ap, ap_fm, aupro, aupro_fm;
};

// UniAD's pixel AUROC on VisA 11-1 is printed as 792.1 and left out.
// clang-format off
constexpr Line kLines[] = {
    {"mvtec", "1x15", "uniad", 77.4, X, 22.9, X, X, X, X, X},
    {"mvtec", "1x15", "dne", 87.3, X, 5.3, X, 75.9, 10.2, X, X},
    {"mvtec", "1x15", "ucad", 93.0, 83.3, 1.0, -0.6, 95.3, 0.0, 87.6, -0.8},
    {"mvtec", "1x15", "iuf", 71.8, 79.2, 5.1, 6.6, 84.1, 2.0, 78.7, 6.8},
    {"mvtec", "1x15", "cdad", 76.0, 89.8, 10.2, 5.7, 86.3, 8.2, 68.5, 22.1},
    {"mvtec", "1x15", "contcore", 98.8, 97.4, 0.1, 0.2, 99.3, 0.3, 99.3, 0.3},
    {"mvtec", "3x5", "uniad", 81.3, 88.7, 7.4, 10.6, X, X, X, X},
    {"mvtec", "3x5", "uniad-ewc", 79.6, 89.0, 9.5, 10.1, X, X, X, X},
    {"mvtec", "3x5", "uniad-si", 81.9, 88.5, 7.0, 10.8, X, X, X, X},
    {"mvtec", "3x5", "uniad-mas", 81.5, 89.0, 7.2, 10.2, X, X, X, X},
    {"mvtec", "3x5", "uniad-lvt", 80.4, 88.6, 8.6, 10.6, X, X, X, X},
    {"mvtec", "3x5", "dne", 84.3, X, 1.75, X, 76.4, 4.4, X, X},
    {"mvtec", "3x5", "ucad", 84.8, 90.1, 10.3, 9.2, 93.1, 2.0, 71.1, 7.5},
    {"mvtec", "3x5", "iuf", 84.2, 91.1, 10.0, 8.4, 91.1, 2.9, 72.9, 5.8},
    {"mvtec", "3x5", "cdad", 89.1, 92.2, 3.7, 4.7, 95.8, 1.9, 83.8, 4.1},
    {"mvtec", "3x5", "contcore", 98.2, 96.9, 0.6, 0.5, 99.3, 0.2, 96.3, 0.2},
    {"mvtec", "10-1x5", "uniad", 76.6, 82.3, 21.1, 17.3, X, X, X, X},
    {"mvtec", "10-1x5", "uniad-ewc", 89.6, 93.8, 5.4, 3.6, X, X, X, X},
    {"mvtec", "10-1x5", "uniad-si", 77.2, 81.6, 20.2, 18.2, X, X, X, X},
    {"mvtec", "10-1x5", "uniad-mas", 77.9, 82.0, 19.5, 17.7, X, X, X, X},
    {"mvtec", "10-1x5", "uniad-lvt", 78.2, 88.3, 19.1, 16.1, X, X, X, X},
    {"mvtec", "10-1x5", "dne", 79.2, X, 0.4, X, 71.4, 9.8, X, X},
    {"mvtec", "10-1x5", "ucad", 91.2, 94.0, 6.3, 3.0, 95.5, 0.1, 80.8, 1.2},
    {"mvtec", "10-1x5", "iuf", 94.2, 95.1, 3.2, 1.0, 95.3, 0.2, 84.3, 2.4},
    {"mvtec", "10-1x5", "cdad", 94.9, 95.7, 1.0, 0.7, 98.4, 0.0, 89.2, 1.2},
    {"mvtec", "10-1x5", "contcore", 98.9, 96.4, 0.5, 0.5, 99.7, 0.0, 99.7, 0.0},
    {"mvtec", "10-5", "uniad", 86.7, 91.5, 14.9, 10.6, X, X, X, X},
    {"mvtec", "10-5", "uniad-ewc", 90.5, 93.6, 7.3, 4.2, X, X, X, X},
    {"mvtec", "10-5", "uniad-si", 84.1, 88.3, 20.2, 17.0, X, X, X, X},
    {"mvtec", "10-5", "uniad-mas", 86.8, 91.0, 14.9, 11.6, X, X, X, X},
    {"mvtec", "10-5", "uniad-lvt", 87.1, 90.6, 14.1, 12.3, X, X, X, X},
    {"mvtec", "10-5", "dne", 82.8, X, 2.1, X, 77.0, 2.6, X, X},
    {"mvtec", "10-5", "ucad", 88.7, 93.1, 5.2, 3.7, 95.0, 1.0, 80.7, 2.9},
    {"mvtec", "10-5", "iuf", 92.2, 94.4, 9.3, 4.3, 95.4, 1.9, 85.0, 3.2},
    {"mvtec", "10-5", "cdad", 94.2, 95.3, 2.1, 2.4, 98.3, 0.6, 88.9, 2.6},
    {"mvtec", "10-5", "contcore", 97.7, 96.6, 0.5, 0.5, 99.5, 0.1, 96.0, 0.2},
    {"mvtec", "14-1", "uniad", 85.7, 89.6, 18.3, 13.3, X, X, X, X},
    {"mvtec", "14-1", "uniad-ewc", 92.8, 95.4, 4.1, 1.9, X, X, X, X},
    {"mvtec", "14-1", "uniad-si", 85.7, 89.5, 18.4, 13.4, X, X, X, X},
    {"mvtec", "14-1", "uniad-mas", 85.8, 89.6, 18.1, 13.3, X, X, X, X},
    {"mvtec", "14-1", "uniad-lvt", 80.4, 86.0, 29.1, 20.6, X, X, X, X},
    {"mvtec", "14-1", "dne", 79.2, X, 0.1, X, 76.0, 1.9, X, X},
    {"mvtec", "14-1", "ucad", 93.8, 95.7, 1.8, 0.3, 95.8, 0.3, 86.3, 1.2},
    {"mvtec", "14-1", "iuf", 96.0, 96.3, 1.0, 0.6, 97.8, 0.3, 88.6, 0.6},
    {"mvtec", "14-1", "cdad", 96.4, 96.6, -0.6, -0.04, 98.4, 0.1, 89.8, 0.5},
    {"mvtec", "14-1", "contcore", 98.3, 97.3, 0.0, 0.1, 99.4, 0.0, 96.5, 0.0},
    {"visa", "1x12", "uniad", 63.9, X, 29.7, X, X, X, X, X},
    {"visa", "1x12", "dne", 55.2, X, 11.4, X, 65.1, 11.6, X, X},
    {"visa", "1x12", "ucad", 78.1, 76.9, 0.0, 0.6, 81.7, 0.0, 80.0, 0.5},
    {"visa", "1x12", "iuf", 64.7, 83.6, 3.9, 5.0, 88.8, 1.2, 83.3, 4.7},
    {"visa", "1x12", "cdad", 78.5, 97.3, 11.1, 6.0, 67.6, 14.0, 59.0, 17.0},
    {"visa", "1x12", "contcore", 93.7, 97.2, 0.7, 0.6, 96.5, 0.1, 96.5, 0.1},
    {"visa", "8-1x4", "uniad", 72.2, 90.8, 16.6, 9.2, X, X, X, X},
    {"visa", "8-1x4", "uniad-ewc", 72.3, 92.3, 16.5, 7.3, X, X, X, X},
    {"visa", "8-1x4", "uniad-si", 69.8, 88.5, 19.8, 12.0, X, X, X, X},
    {"visa", "8-1x4", "uniad-mas", 72.1, 90.6, 16.7, 9.4, X, X, X, X},
    {"visa", "8-1x4", "uniad-lvt", 70.8, 94.4, 18.3, 8.4, X, X, X, X},
    {"visa", "8-1x4", "dne", 58.6, X, 10.2, X, 66.1, 1.3, X, X},
    {"visa", "8-1x4", "ucad", 78.8, 93.5, 10.4, 5.4, 82.9, 2.2, 70.5, 9.8},
    {"visa", "8-1x4", "iuf", 79.8, 95.0, 9.8, 6.8, 83.0, 6.9, 57.0, 24.0},
    {"visa", "8-1x4", "cdad", 83.4, 95.8, 3.8, 1.5, 84.7, 1.8, 77.7, 1.7},
    {"visa", "8-1x4", "contcore", 96.3, 97.2, 0.7, 0.5, 94.1, 1.8, 94.1, 1.8},
    {"visa", "8-4", "uniad", 78.1, 94.0, 14.7, 8.4, X, X, X, X},
    {"visa", "8-4", "uniad-ewc", 80.5, 95.4, 10.0, 5.3, X, X, X, X},
    {"visa", "8-4", "uniad-si", 69.8, 88.5, 9.2, 8.3, X, X, X, X},
    {"visa", "8-4", "uniad-mas", 72.1, 90.6, 14.1, 8.4, X, X, X, X},
    {"visa", "8-4", "uniad-lvt", 70.8, 91.4, 13.4, 8.1, X, X, X, X},
    {"visa", "8-4", "dne", 64.1, X, 6.1, X, 67.3, 9.8, X, X},
    {"visa", "8-4", "ucad", 79.9, 94.2, 8.9, 4.8, 83.2, 5.2, 72.4, 7.5},
    {"visa", "8-4", "iuf", 80.1, 95.4, 9.8, 6.8, 83.4, 7.5, 63.9, 20.8},
    {"visa", "8-4", "cdad", 85.3, 97.1, 1.4, 0.3, 85.3, 3.1, 78.9, 1.6},
    {"visa", "8-4", "contcore", 93.8, 96.5, 1.2, 0.8, 96.7, 0.4, 96.7, 0.4},
    {"visa", "11-1", "uniad", 75.0, X, 22.4, 11.4, X, X, X, X},
    {"visa", "11-1", "uniad-ewc", 78.7, 95.4, 14.9, 4.8, X, X, X, X},
    {"visa", "11-1", "uniad-si", 78.1, 92.0, 16.9, 11.5, X, X, X, X},
    {"visa", "11-1", "uniad-mas", 75.4, 91.8, 21.5, 11.9, X, X, X, X},
    {"visa", "11-1", "uniad-lvt", 77.5, 92.3, 17.3, 10.9, X, X, X, X},
    {"visa", "11-1", "dne", 68.8, X, 1.9, X, 70.8, 1.6, X, X},
    {"visa", "11-1", "ucad", 85.9, 94.5, 2.7, 0.6, 88.1, 0.3, 80.4, 2.0},
    {"visa", "11-1", "iuf", 87.3, 97.6, 2.4, 1.8, 91.6, -0.0, 82.0, 1.0},
    {"visa", "11-1", "cdad", 88.3, 97.2, -1.3, -0.1, 89.4, -0.8, 81.6, -0.2},
    {"visa", "11-1", "contcore", 96.1, 97.7, 0.4, -0.0, 94.8, 0.6, 94.8, 0.6},
    {"mvtec>visa", "mvtec>visa", "iuf", 82.4, 92.5, 11.1, 4.9, X, X, X, X},
    {"mvtec>visa", "mvtec>visa", "cdad", 90.0, 94.9, 4.7, 1.8, X, X, X, X},
    {"mvtec>visa", "mvtec>visa", "contcore", 94.3, 96.6, 0.6, 0.3, X, X, X, X},
    {"visa>mvtec", "visa>mvtec", "iuf", 74.3, 89.7, 16.7, 5.5, X, X, X, X},
    {"visa>mvtec", "visa>mvtec", "cdad", 84.2, 94.1, 6.9, 3.5, X, X, X, X},
    {"visa>mvtec", "visa>mvtec", "contcore", 94.0, 96.7, 2.1, 0.7, X, X, X, X},
    {"real", "1x30", "contcore", 90.2, 97.5, 1.7, 0.6, 85.1, 1.7, 96.6, 0.6},
    {"real", "5x6", "contcore", 90.2, 97.7, 1.4, 0.3, 85.0, 1.6, 96.8, 0.3},
    {"real", "10x3", "contcore", 90.3, 97.6, 0.9, 0.1, 85.0, 1.1, 96.7, 0.1},
    {"real", "10-20", "contcore", 89.9, 97.5, -0.3, -0.1, 84.6, -0.1, 96.6, -0.1},
    {"real", "20-10", "contcore", 90.4, 97.3, -0.2, -0.3, 85.0, -0.4, 96.4, -0.4},
    {"real", "25-1x5", "contcore", 89.6, 96.9, 0.4, 0.1, 83.0, 0.3, 95.8, 0.1},
    {"real", "25-5", "contcore", 89.8, 96.9, -0.2, -0.4, 83.8, -0.3, 95.8, -0.4},
    {"real", "none", "uniad", 83.0, 97.3, X, X, 80.9, X, 86.7, X},
    {"real", "none", "patchcore", 89.4, X, X, X, X, X, X, X},
    {"mvtec", "all", "dne", 82.6, X, 1.9, X, X, X, X, X},
    {"mvtec", "all", "ucad", 90.3, 91.2, 4.9, 3.1, X, X, X, X},
    {"mvtec", "all", "iuf", 87.7, 91.2, 5.7, 4.2, X, X, X, X},
    {"mvtec", "all", "cdad", 90.1, 93.9, 3.3, 2.7, X, X, X, X},
    {"mvtec", "all", "patchcore-oracle", 98.4, 97.2, 0.0, 0.0, X, X, X, X},
    {"mvtec", "all", "patchcore-oracle-online", 91.2, 90.1, 0.0, 0.0, X, X, X, X},
    {"mvtec", "all", "reservoir", 92.2, 96.5, 1.4, 0.3, X, X, X, X},
    {"mvtec", "all", "herding", 90.1, 96.3, 2.0, 0.6, X, X, X, X},
    {"mvtec", "all", "contcore", 98.4, 96.9, 0.3, 0.3, X, X, X, X},
    {"mvtec", "all", "dne-online", 69.1, X, 1.3, X, X, X, X, X},
    {"mvtec", "all", "ucad-online", 84.2, 76.2, -1.1, 0.3, X, X, X, X},
    {"mvtec", "all", "iuf-online", 71.0, 80.5, 0.4, 0.1, X, X, X, X},
    {"mvtec", "all", "cdad-online", 66.2, 80.4, 2.0, 0.1, X, X, X, X},
    {"mvtec", "all", "contcore-online", 97.2, 96.7, 1.5, 0.9, X, X, X, X},
    {"visa", "all", "dne", 61.7, X, 7.4, X, X, X, X, X},
    {"visa", "all", "ucad", 80.7, 89.8, 5.5, 2.9, X, X, X, X},
    {"visa", "all", "iuf", 78.0, 92.9, 6.5, 5.1, X, X, X, X},
    {"visa", "all", "cdad", 83.9, 96.9, 3.8, 1.9, X, X, X, X},
    {"visa", "all", "patchcore-oracle", 95.1, 97.6, -0.1, 0.0, X, X, X, X},
    {"visa", "all", "patchcore-oracle-online", 77.9, 85.2, 0.0, -0.3, X, X, X, X},
    {"visa", "all", "contcore", 95.0, 97.2, 0.8, 0.5, X, X, X, X},
    {"visa", "all", "dne-online", 65.0, X, 3.1, X, X, X, X, X},
    {"visa", "all", "ucad-online", 74.6, 75.8, 0.1, 0.4, X, X, X, X},
    {"visa", "all", "iuf-online", 60.3, 85.0, 0.9, 1.7, X, X, X, X},
    {"visa", "all", "cdad-online", 58.9, 87.5, 0.2, 0.3, X, X, X, X},
    {"visa", "all", "contcore-online", 94.1, 97.2, 1.3, 0.8, X, X, X, X},
};
// clang-format on

struct Name {
  const char* method;
  const char* name;
  const char* backbone;
  bool memory;  // of m vectors
};

constexpr Name kNames[] = {
    {"contcore", "ContCore", "WideResNet-50", true},
    {"patchcore-oracle", "PatchCore Oracle", "WideResNet-50", true},
    {"patchcore", "PatchCore, one class", "", false},
    {"reservoir", "Reservoir", "WideResNet-50", true},
    {"herding", "Herding", "WideResNet-50", true},
    {"uniad", "UniAD", "", false},
    {"uniad-ewc", "UniAD + EWC", "", false},
    {"uniad-si", "UniAD + SI", "", false},
    {"uniad-mas", "UniAD + MAS", "", false},
    {"uniad-lvt", "UniAD + LVT", "", false},
    {"dne", "DNE", "ViT-B/16", false},
    {"ucad", "UCAD", "ViT + SAM", false},
    {"iuf", "IUF", "EfficientNet", false},
    {"cdad", "CDAD", "Stable Diffusion 1.5", false},
};

struct Data {
  const char* dataset;
  std::size_t classes;
  std::size_t m;
};

constexpr Data kData[] = {{"mvtec", 15, 20000}, {"visa", 12, 40000}, {"real", 30, 250000}};

// The data set's name in the table above, or nothing.
std::string known_dataset(std::string text, const std::string& schedule,
                          const std::vector<std::size_t>& task_sizes) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const bool mvtec = text.find("mvtec") != text.npos;
  const bool visa = text.find("visa") != text.npos;
  if (mvtec && visa && schedule.find('>') != schedule.npos) {
    if (task_sizes == std::vector<std::size_t>{15, 12}) return "mvtec>visa";
    if (task_sizes == std::vector<std::size_t>{12, 15}) return "visa>mvtec";
  }
  const std::size_t classes = std::accumulate(task_sizes.begin(), task_sizes.end(), std::size_t{0});
  std::string found;
  for (const Data& data : kData) {
    if (text.find(data.dataset) == text.npos) continue;
    // A name that fits two data sets says nothing.
    if (!found.empty() || data.classes != classes) return "";
    found = data.dataset;
  }
  return found;
}

std::optional<double> part_of_1(double percent) {
  if (percent == X) return std::nullopt;
  return percent / 100;
}

void name_method(Published& line, std::size_t m) {
  constexpr std::string_view kOnline = "-online";
  std::string method = line.method;
  const bool online = method.ends_with(kOnline);
  if (online) method.resize(method.size() - kOnline.size());
  for (const Name& name : kNames) {
    if (name.method != method) continue;
    line.name = std::string(name.name) + (online ? ", online" : "");
    line.backbone = name.backbone;
    line.m = name.memory ? m : 0;
  }
}

Published published_line(const Line& line) {
  Published out;
  out.method = line.method;
  out.schedule = line.schedule;
  std::size_t m = 0;
  for (const Data& data : kData) m = std::string_view(line.dataset) == data.dataset ? data.m : m;
  name_method(out, m);
  out.average[kImageAuroc] = part_of_1(line.image);
  out.average[kPixelAuroc] = part_of_1(line.pixel);
  out.average[kImageAp] = part_of_1(line.ap);
  out.average[kAupro] = part_of_1(line.aupro);
  out.forgetting[kImageAuroc] = part_of_1(line.image_fm);
  out.forgetting[kPixelAuroc] = part_of_1(line.pixel_fm);
  out.forgetting[kImageAp] = part_of_1(line.ap_fm);
  out.forgetting[kAupro] = part_of_1(line.aupro_fm);
  return out;
}

}  // namespace

std::string Published::remark() const {
  if (schedule == "all") return "mean over its schedules of this data set";
  return schedule == "none" ? "not continual" : "";
}

bool Published::repeats_itself() const {
  return average[kAupro] && average[kAupro] == average[kImageAp] &&
         forgetting[kAupro] == forgetting[kImageAp];
}

std::string schedule_of(const std::vector<std::size_t>& task_sizes) {
  std::string text;
  for (std::size_t i = 0, next = 0; i < task_sizes.size(); i = next) {
    while (next < task_sizes.size() && task_sizes[next] == task_sizes[i]) ++next;
    text += fmt::format("{}{}", i == 0 ? "" : "-", task_sizes[i]);
    if (next - i > 1) text += fmt::format("x{}", next - i);
  }
  return text;
}

std::vector<Published> published(const std::string& dataset, const std::string& schedule,
                                 const std::vector<std::size_t>& task_sizes) {
  const std::string known = known_dataset(dataset, schedule, task_sizes);
  if (known.empty()) return {};
  const std::string tasks = known.find('>') == known.npos ? schedule_of(task_sizes) : known;
  std::vector<Published> exact, others;
  for (const Line& line : kLines) {
    if (line.dataset != known) continue;
    if (line.schedule == tasks) {
      exact.push_back(published_line(line));
    } else if (const Published other = published_line(line); !other.remark().empty()) {
      others.push_back(other);
    }
  }
  exact.insert(exact.end(), others.begin(), others.end());
  return exact;
}

std::vector<Published> published_for(const std::string& method,
                                     const std::vector<Published>& lines) {
  // The paper's own rule, or ours beside it.
  constexpr std::string_view kPaper = "-paper";
  std::string theirs = method;
  if (const auto at = theirs.find(kPaper); at != theirs.npos) theirs.erase(at, kPaper.size());
  std::vector<Published> exact, others;
  for (const Published& line : lines) {
    if (line.method == theirs) (line.remark().empty() ? exact : others).push_back(line);
  }
  return exact.empty() ? others : exact;
}

}  // namespace contcore
