#include "memory_settings.h"

#include <fmt/format.h>

#include "common.h"
#include "contcore/error.h"

namespace contcore::app {

void MemorySettings::add_to(CLI::App& command) {
  const DetectorOptions usual;
  images_.add_to(command, "New memory: ", ". Known memory: where its backbone is now");
  command
      .add_option("--score", score_,
                  fmt::format("New memory: an image's score is the largest value of its anomaly "
                              "map, or the largest distance of a patch (default: {})",
                              score_name(usual.score)))
      ->check(CLI::IsMember({"map", "patch"}))
      ->type_name("map|patch");
  auto* bytes = command
                    .add_option("--memory", memory_,
                                fmt::format("New memory: most bytes of its vectors, such as 8M "
                                            "(default: {}M)",
                                            usual.memory >> 20))
                    ->check(size_text())
                    ->type_name("SIZE");
  command.add_option("--capacity", capacity_, "New memory: the same in vectors, m")
      ->check(whole_number(1))
      ->excludes(bytes)
      ->type_name("M");
  command
      .add_option("--consolidate", consolidate_,
                  "New memory: share gives every task an equal part of it, paper samples again "
                  "from all (default: share)")
      ->check(CLI::IsMember({"share", "paper"}))
      ->type_name("RULE");
  command
      .add_option("--q", q_,
                  "New memory, paper's rule: part kept by nearest neighbours alone (default: 0.75)")
      ->type_name("q");
  command.add_flag("--paper", paper_,
                   "New memory: all as in the paper: its rule, float, 1024 numbers, resized to "
                   "256, cropped to 224, the largest patch, 20000 vectors");
}

bool MemorySettings::named() const {
  return paper_ || images_.dimension || capacity_ || q_ ||
         !(images_.layers + images_.precision + images_.resize + images_.crop + images_.tile +
           images_.overlap + score_ + memory_ + consolidate_)
              .empty();
}

const std::vector<std::string>& MemorySettings::names() {
  static const std::vector<std::string> all = {
      "--backbone", "--layers", "--precision", "--dimension", "--resize",      "--crop", "--tile",
      "--overlap",  "--score",  "--memory",    "--capacity",  "--consolidate", "--q",    "--paper"};
  return all;
}

DetectorOptions MemorySettings::options() const {
  DetectorOptions options = paper_ ? DetectorOptions::paper() : DetectorOptions();
  images_.set(options);
  if (!score_.empty()) options.score = parse_score(score_);
  if (!memory_.empty()) {
    options.memory = parse_size(memory_);
    options.capacity = 0;
  }
  if (capacity_) options.capacity = *capacity_;
  if (!consolidate_.empty()) options.consolidate.rule = Consolidate::parse(consolidate_);
  if (q_ && options.consolidate.rule != Consolidate::Rule::kPaper) {
    throw Error(Error::Kind::kUsage,
                "--q has no effect without the paper's rule; add --consolidate paper, or leave it "
                "out");
  }
  if (q_) options.consolidate.q = *q_;
  capacity_of(options);  // is there room for one?
  return options;
}

void MemorySettings::check(const Memory& memory, const std::string& name) const {
  const auto same = [&](const std::string& option, const std::string& asked,
                        const std::string& has) {
    if (asked.empty() || asked == has) return;
    throw Error(Error::Kind::kInput,
                fmt::format("{}: was made with {} {}, not {}{}; leave {} out, or learn into a new "
                            "memory",
                            name, option, has, asked, paper_ ? ", which --paper asks for" : "",
                            paper_ ? "--paper" : "the option"));
  };
  const auto said = [&](const std::string& key) {
    const auto found = memory.source.find(key);
    return found == memory.source.end() ? std::string() : found->second;
  };
  const auto or_none = [&](const std::string& key) {
    return memory.source.contains(key) ? said(key) : "none";
  };
  const DetectorOptions papers = DetectorOptions::paper();
  const auto or_papers = [&](const std::string& asked, const std::string& of_paper) {
    return asked.empty() && paper_ ? of_paper : asked;
  };
  same("--precision", or_papers(images_.precision, "float"),
       memory.scalar() == Scalar::kUint8 ? "8bit" : "float");
  const GeometryText geometry{or_papers(images_.resize, papers.geometry.resize_text()),
                              or_papers(images_.crop, papers.geometry.crop_text()),
                              or_papers(images_.tile, "none"), images_.overlap};
  same("--tile", geometry.tile, or_none("tile"));
  same("--overlap", geometry.overlap, or_none("overlap"));
  if (!(geometry.resize + geometry.crop).empty()) {
    const Geometry has = Geometry::parse(
        {said("resize"), said("crop"), or_none("tile"), or_none("overlap")}, Geometry{});
    const Geometry asked = Geometry::parse(geometry, has);
    same("--resize", asked.resize_text(), said("resize"));
    same("--crop", asked.crop_text(), said("crop"));
  }
  same("--layers", images_.layers, said("layers"));
  same("--score", or_papers(score_, score_name(papers.score)), score_name(score_of(memory.source)));
  const std::size_t dimension = images_.dimension ? *images_.dimension
                                : paper_          ? papers.dimension
                                                  : memory.dimension();
  same("--dimension", fmt::format("{}", dimension), fmt::format("{}", memory.dimension()));
  const std::size_t each = memory.dimension() * bytes_of(memory.scalar());
  if (!memory_.empty() && parse_size(memory_) / each != memory.capacity()) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: has room for {} vectors ({:.1f} MiB), not {}; leave --memory out, "
                            "or learn into a new memory",
                            name, memory.capacity(),
                            static_cast<double>(memory.capacity() * each) / (1 << 20), memory_));
  }
  if (capacity_) {
    same("--capacity", fmt::format("{}", *capacity_), fmt::format("{}", memory.capacity()));
  }
  const Consolidate& has = memory.consolidation();
  same("--consolidate", or_papers(consolidate_, "paper"), has.name());
  if (q_ && has.rule != Consolidate::Rule::kPaper) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: is consolidated by {}, which has no q; leave --q out", name, has.name()));
  }
  if (q_) same("--q", fmt::format("{}", *q_), fmt::format("{}", has.q));
}

}  // namespace contcore::app
