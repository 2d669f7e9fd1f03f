// Images to patch vectors, and the detector.
#include "contcore/detector.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "binding.h"
#include "call.h"
#include "contcore/extract.h"
#include "memory.h"

namespace contcore::python {
namespace {

// ---- options -----------------------------------------------------------------------------------

// What is not given is as the library has it.
template <typename T>
void set(const py::dict& given, const char* name, T& value) {
  if (given.contains(name)) value = given[name].cast<T>();
}

std::optional<std::string> word(const py::dict& given, const char* name) {
  if (!given.contains(name)) return {};
  return given[name].cast<std::string>();
}

// What the library has to say goes to Python's logging.
Notice to_log() {
  return [](const std::string& what) {
    const WithGil gil;
    py::module_::import("logging").attr("getLogger")("contcore").attr("info")(what);
  };
}

void set_extractor(const py::dict& given, ExtractorOptions& options) {
  set(given, "backbone", options.backbone);
  set(given, "layers", options.layers);
  set(given, "dimension", options.dimension);
  if (const auto text = word(given, "precision")) options.precision = parse_precision(*text);
  const auto text = [&](const char* name) { return word(given, name).value_or(""); };
  options.geometry = Geometry::parse({text("resize"), text("crop"), text("tile"), text("overlap")},
                                     options.geometry);
  options.notice = to_log();
}

DetectorOptions detector_options(const py::dict& given) {
  DetectorOptions options = given.contains("paper") && given["paper"].cast<bool>()
                                ? DetectorOptions::paper()
                                : DetectorOptions();
  set_extractor(given, options);
  if (given.contains("memory")) options.capacity = 0;
  set(given, "memory", options.memory);
  set(given, "capacity", options.capacity);
  if (const auto rule = word(given, "consolidate")) {
    options.consolidate.rule = Consolidate::parse(*rule);
  }
  set(given, "q", options.consolidate.q);
  if (const auto score = word(given, "score")) options.score = parse_score(*score);
  return options;
}

// ---- images ------------------------------------------------------------------------------------

// What was given to look at: files (their names as bytes), or arrays.
class Images {
 public:
  explicit Images(const py::list& given) {
    for (const py::handle one : given) {
      if (py::isinstance<py::bytes>(one)) {
        files_.push_back(one.cast<std::string>());
      } else {
        arrays_.emplace_back(py::reinterpret_borrow<py::buffer>(one));
      }
    }
    if (!files_.empty() && !arrays_.empty()) {
      throw py::type_error("either files or images are needed, not both");
    }
  }

  bool are_files() const { return arrays_.empty(); }
  const std::vector<std::string>& files() const { return files_; }
  ImageSource source() const {
    return {arrays_.size(), [this](std::size_t i) { return arrays_[i].image(); },
            [](std::size_t i) { return "image " + std::to_string(i); }};
  }

 private:
  std::vector<std::string> files_;
  std::deque<ImageArray> arrays_;
};

// A file's name as Python has it.
py::object name_of(const std::string& file) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeFSDefaultAndSize(file.data(), static_cast<py::ssize_t>(file.size())));
}

py::list skipped_list(const std::vector<SkippedImage>& skipped) {
  py::list list;
  for (const SkippedImage& image : skipped) {
    list.append(py::make_tuple(name_of(image.file), name_of(image.reason)));
  }
  return list;
}

// ---- the extractor -----------------------------------------------------------------------------

py::dict patches_dict(Patches patches) {
  py::dict facts;
  facts["grid"] = py::make_tuple(patches.grid_height, patches.grid_width);
  facts["seen"] = py::make_tuple(patches.input.left, patches.input.top, patches.input.right,
                                 patches.input.bottom);
  facts["size"] = py::make_tuple(patches.image_height, patches.image_width);
  facts["input"] = py::make_tuple(patches.input.height, patches.input.width);
  facts["vectors"] = to_numpy(std::move(patches.vectors));
  return facts;
}

std::unique_ptr<Extractor> make_extractor(const py::dict& given) {
  ExtractorOptions options;
  set_extractor(given, options);
  network_runs();
  return unlocked([&] { return std::make_unique<Extractor>(options); });
}

py::dict extract_one(const Extractor& extractor, const py::buffer& pixels, const Where& where) {
  const ImageArray array(pixels);
  network_runs();
  return patches_dict(call(where, py::none(), [&](Compute& compute, const Progress&) {
    return extractor.extract(array.image(), compute);
  }));
}

py::dict extract_files_to(const Extractor& extractor, const py::list& images,
                          const std::string& out, bool strict, const Where& where,
                          const py::object& progress) {
  const Images given(images);
  network_runs();
  const ExtractReport report = call(where, progress, [&](Compute& compute, const Progress& told) {
    return extract_to_npy(extractor, given.files(), out, strict, compute, told);
  });
  py::list places;
  for (const ExtractedImage& image : report.images) {
    places.append(py::make_tuple(name_of(image.file), image.first, image.rows,
                                 py::make_tuple(image.grid_height, image.grid_width),
                                 py::make_tuple(image.left, image.top, image.right, image.bottom),
                                 py::make_tuple(image.image_height, image.image_width)));
  }
  py::dict facts;
  facts["rows"] = report.rows;
  facts["images"] = places;
  facts["skipped"] = skipped_list(report.skipped);
  return facts;
}

// ---- the detector ------------------------------------------------------------------------------

class DetectorPlace : public MemoryPlace {
 public:
  explicit DetectorPlace(Detector detector) : detector_(std::move(detector)) {}
  /// One that cannot be used here, and says why whenever it is.
  explicit DetectorPlace(std::string why) : why_(std::move(why)) {}

  const Memory& get() override { return detector().memory(); }
  Memory& get_to_change() override {
    throw Error(Error::Kind::kUsage,
                "this is a detector's memory; teach the detector, or change a copy()");
  }
  Detector& detector() {
    if (detector_) return *detector_;
    throw Error(Error::Kind::kUsage, why_);
  }
  void close() { detector_.reset(); }

 private:
  std::optional<Detector> detector_;
  std::string why_ = "this detector is closed; open it again";
};

using DetectorRef = std::shared_ptr<DetectorPlace>;

template <typename Work>
auto read(const DetectorRef& place, const Work& work) {
  return unlocked([&] { return place->lock().read([&] { return work(place->detector()); }); });
}

template <typename Work>
auto change(const DetectorRef& place, const Work& work) {
  return unlocked([&] { return place->lock().change([&] { return work(place->detector()); }); });
}

DetectorRef make(const py::dict& given) {
  const DetectorOptions options = detector_options(given);
  network_runs();
  return unlocked([&] { return std::make_shared<DetectorPlace>(Detector(options)); });
}

DetectorRef open(const std::string& path, const std::string& backbone, const Where& where) {
  network_runs();
  return unlocked([&] {
    return std::make_shared<DetectorPlace>(Detector::open(path, backbone, nullptr, where.device));
  });
}

DetectorRef open_to_learn(const std::string& path, const py::dict& given,
                          const std::string& backbone, std::optional<std::size_t> versions,
                          const Where& where) {
  const DetectorOptions options = detector_options(given);
  HistoryLimits kept;
  kept.by_default = !versions;
  if (versions) kept.versions = *versions;
  network_runs();
  return unlocked([&] {
    return std::make_shared<DetectorPlace>(Detector::open_to_learn(
        path, [&] { return options; }, backbone, nullptr, kept, where.device));
  });
}

DetectorRef of_memory(const MemoryRef& memory, const std::string& backbone) {
  network_runs();
  return unlocked([&] {
    Memory copy = memory->lock().read([&] { return memory->get().copy(); });
    return std::make_shared<DetectorPlace>(Detector(std::move(copy), backbone));
  });
}

// A pool's worker that fails while it unpickles takes its task along, and who waits for the answer
// waits for ever: what cannot be used is to say so when it is used.
DetectorRef unpickled(const MemoryRef& memory, const std::string& backbone) {
  try {
    network_runs();
  } catch (const Error& error) {
    return std::make_shared<DetectorPlace>(std::string(error.what()));
  }
  return of_memory(memory, backbone);
}

py::dict report_of(const LearnReport& report, const std::vector<Remark>& found) {
  py::list remarks;
  for (const std::vector<Remark>* list : {&found, &report.review.remarks}) {
    for (const Remark& remark : *list) {
      remarks.append(py::make_tuple(remark.kind, name_of(remark.text), remark.images));
    }
  }
  py::list strangest;
  for (const StrangeImage& image : report.review.strangest) {
    strangest.append(py::make_tuple(image.image, image.score, image.usual));
  }
  py::dict facts;
  facts["learned"] = report.learned;
  facts["different"] = report.different;
  facts["patches"] = report.patches;
  facts["skipped"] = skipped_list(report.skipped);
  facts["remarks"] = remarks;
  facts["strangest"] = strangest;
  facts["extract_seconds"] = report.extract_seconds;
  facts["sample_seconds"] = report.sample_seconds;
  facts["on_disk"] = report.on_disk;
  return facts;
}

void refuse_any(const std::vector<Remark>& remarks) {
  if (!remarks.empty()) throw Error(Error::Kind::kInput, "nothing is learned: " + remarks[0].text);
}

// Of its text; empty: the whole image.
SharedRegion region_of(const std::string& text) {
  if (text.empty()) return {};
  RegionOfInterest region = parse_region(text);
  check_region(region);
  return std::make_shared<const RegionOfInterest>(std::move(region));
}

// As the command does it: of a data set with a split the good images alone.
py::dict learn(const DetectorRef& place, const py::list& images, const std::string& task, double p,
               const std::string& region, bool online, bool strict, double false_alarms,
               std::size_t memory_limit, const std::string& who, const Where& where,
               const py::object& progress) {
  const Images given(images);
  LearnOptions options;
  options.task = task;
  options.region = region_of(region);
  options.p = p;
  options.online = online;
  options.strict = strict;
  options.false_alarms = false_alarms;
  options.memory_limit = memory_limit;
  options.who = who;
  network_runs();
  FoundImages found;
  const LearnReport report = call(where, progress, [&](Compute& compute, Progress told) {
    options.progress = std::move(told);
    if (given.are_files()) found = find_good_images(given.files());
    if (strict) refuse_any(found.remarks);
    return place->lock().change([&] {
      return given.are_files() ? place->detector().learn(found.files, options, compute)
                               : place->detector().learn(given.source(), options, compute);
    });
  });
  py::dict facts = report_of(report, found.remarks);
  py::list names;
  for (const std::string& file : found.files) names.append(name_of(file));
  const ImageSource source = given.source();
  for (std::size_t i = 0; i < source.count; ++i) names.append(source.name(i));
  facts["files"] = names;
  return facts;
}

void learn_online(const DetectorRef& place, const py::buffer& pixels, const std::string& task,
                  double p, const std::string& region, const std::string& who, const Where& where) {
  const ImageArray array(pixels);
  LearnOptions options;
  options.task = task;
  options.region = region_of(region);
  options.p = p;
  options.who = who;
  network_runs();
  call(where, py::none(), [&](Compute& compute, const Progress&) {
    const Image image = array.image();
    place->lock().change([&] { place->detector().learn_online(image, options, compute); });
  });
}

using Box = std::array<double, 4>;

void learn_defect(const DetectorRef& place, const py::buffer& pixels, const std::string& task,
                  const std::optional<Box>& box, const std::optional<py::buffer>& mask_pixels,
                  const Where& where) {
  const ImageArray array(pixels);
  const auto mask_array = mask_pixels ? std::make_unique<ImageArray>(*mask_pixels) : nullptr;
  network_runs();
  call(where, py::none(), [&](Compute& compute, const Progress&) {
    const Image image = array.image();
    const Image mask = mask_array ? mask_array->image() : Image();
    DefectMark mark;
    if (box) mark.box = DefectBox{(*box)[0], (*box)[1], (*box)[2], (*box)[3]};
    if (mask_array) mark.mask = &mask;
    place->lock().change([&] { place->detector().learn_defect(image, mark, task, compute); });
  });
}

// What was seen in one image; Python makes an Inspection of it.
py::dict seen_dict(Detector::Inspected& item, const std::vector<std::string>& tasks) {
  py::dict facts;
  facts["file"] = name_of(item.file);
  facts["seconds"] = item.seconds;
  facts["error"] = item.error.empty() ? py::object(py::none()) : name_of(item.error);
  if (!item.error.empty()) return facts;
  Inspection& seen = item.seen;
  const auto name = [&](const std::optional<std::size_t>& task) {
    return task && *task < tasks.size() ? py::object(py::str(tasks[*task])) : py::none();
  };
  facts["verdict"] = verdict(seen);
  facts["score"] = seen.score;
  facts["threshold"] = py::none();
  facts["false_alarms"] = py::none();
  if (seen.threshold) facts["threshold"] = seen.threshold->score;
  if (seen.threshold && !seen.threshold->by_hand) {
    facts["false_alarms"] = seen.threshold->false_alarms;
  }
  facts["product"] = name(seen.task);
  facts["resembles"] = name(seen.resembles);
  facts["reason"] = seen.reason;
  facts["stranger"] = seen.stranger;
  facts["level"] = seen.level;
  facts["peak"] = py::make_tuple(seen.peak_x, seen.peak_y);
  py::list regions;
  for (const Region& r : seen.regions) {
    regions.append(py::make_tuple(r.x, r.y, r.width, r.height, r.area, r.score));
  }
  facts["regions"] = regions;
  facts["map"] = py::none();
  if (!seen.map.values.empty()) {
    facts["map"] = to_numpy(std::move(seen.map.values), seen.map.width);
  }
  facts["image"] = to_numpy(std::move(item.image));
  return facts;
}

py::list inspect(const DetectorRef& place, const py::list& images, const std::string& task,
                 double false_alarms, double strangers, bool map, const Where& where) {
  const Images given(images);
  const InspectOptions options{false_alarms, strangers, task, map};
  network_runs();
  std::vector<std::string> tasks;
  std::vector<Detector::Inspected> all;
  call(where, py::none(), [&](Compute& compute, const Progress&) {
    place->lock().read([&] {
      const Detector& detector = place->detector();
      for (const TaskRecord& record : detector.memory().tasks()) tasks.push_back(record.name);
      const auto keep = [&](Detector::Inspected& item) {
        all.push_back(std::move(item));
        return true;
      };
      if (given.are_files()) {
        detector.inspect(given.files(), options, compute, keep);
      } else {
        detector.inspect(given.source(), options, compute, keep);
      }
    });
  });
  py::list list;
  for (Detector::Inspected& item : all) list.append(seen_dict(item, tasks));
  return list;
}

py::object draw(const py::buffer& pixels, const py::buffer& map, float score,
                const std::optional<float>& threshold, float level, const std::string& verdict) {
  const ImageArray image(pixels);
  const Array values(map, 2);
  if (values.kind() != 'f') throw py::type_error("a map must be of float32");
  Inspection seen;
  seen.score = score;
  if (threshold) seen.threshold.emplace().score = *threshold;
  seen.unknown = verdict == "unknown";
  seen.rejected = seen.unknown || verdict == "defect";
  seen.level = level;
  seen.map.height = values.size(0);
  seen.map.width = values.size(1);
  const auto* numbers = static_cast<const float*>(values.data());
  seen.map.values.assign(numbers, numbers + seen.map.height * seen.map.width);
  Image drawn = image.image();
  if (seen.map.width != drawn.width || seen.map.height != drawn.height) {
    throw Error(Error::Kind::kUsage, "the map is not of the image's size");
  }
  return to_numpy(unlocked([&] { return draw_inspection(drawn, seen); }));
}

py::bytes png_of(const py::buffer& pixels) {
  const ImageArray image(pixels);
  const std::vector<std::uint8_t> bytes = unlocked([&] { return encode_png(image.image()); });
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ---- lessons -----------------------------------------------------------------------------------

py::list lessons_list(const DetectorRef& place) {
  py::list list;
  for (const TaughtLesson& lesson :
       read(place, [](const Detector& detector) { return detector.lessons(); })) {
    py::dict facts;
    facts["id"] = lesson.id;
    facts["kind"] = lesson.kind;
    facts["task"] = lesson.task;
    facts["images"] = lesson.images;
    facts["time"] = lesson.time;
    facts["who"] = lesson.who;
    facts["taken"] = lesson.taken;
    facts["exact"] = lesson.exact;
    facts["why"] = lesson.why;
    list.append(facts);
  }
  return list;
}

py::list versions_list(const DetectorRef& place) {
  py::list list;
  for (const MemoryVersion& version :
       read(place, [](const Detector& detector) { return detector.versions(); })) {
    py::dict facts;
    facts["id"] = version.id;
    facts["time"] = version.time;
    facts["lessons"] = version.lessons;
    facts["tasks"] = version.tasks;
    facts["vectors"] = version.vectors;
    facts["bytes"] = version.bytes;
    facts["current"] = version.current;
    list.append(facts);
  }
  return list;
}

py::tuple forget(const DetectorRef& place, const std::vector<std::uint64_t>& lessons,
                 const std::vector<std::string>& tasks, bool exact, const Where& where,
                 const py::object& progress) {
  network_runs();
  const Forgotten result = call(where, progress, [&](Compute& compute, const Progress& told) {
    return place->lock().change([&] {
      return place->detector().forget({lessons, tasks, exact}, compute, told);
    });
  });
  return py::make_tuple(result.lessons, result.exact, result.note);
}

}  // namespace

void bind_detector(py::module_& module) {
  py::class_<Extractor>(module, "Extractor")
      .def(py::init(&make_extractor))
      .def("extract", extract_one)
      .def("extract_to", extract_files_to)
      .def("source", &Extractor::source)
      .def("dimension", [](const Extractor& e) { return e.embedding().dimension; })
      .def("precision", [](const Extractor& e) { return precision_word(e.precision()); });
  py::class_<DetectorPlace, MemoryPlace, DetectorRef>(module, "Detector")
      .def(py::init(&make))
      .def_static("open", open)
      .def_static("open_to_learn", open_to_learn)
      .def_static("of_memory", of_memory)
      .def_static("unpickled", unpickled)
      .def("learn_images", learn)
      .def("learn_one", learn_online)
      .def("learn_defect", learn_defect)
      .def("inspect", inspect)
      .def("extract",
           [](const DetectorRef& place, const py::buffer& pixels, const Where& where) {
             const ImageArray array(pixels);
             network_runs();
             return patches_dict(call(where, py::none(), [&](Compute& compute, const Progress&) {
               return place->lock().read(
                   [&] { return place->detector().extractor().extract(array.image(), compute); });
             }));
           })
      .def("is_new",
           [](const DetectorRef& place) {
             return read(place, [](const Detector& detector) { return detector.is_new(); });
           })
      .def("save_as",
           [](const DetectorRef& place, const std::string& path) {
             change(place, [&](const Detector& detector) { detector.save(path); });
           })
      .def("shrink_to",
           [](const DetectorRef& place, std::size_t count, const Where& where) {
             call(where, py::none(), [&](Compute& compute, const Progress&) {
               place->lock().change([&] { place->detector().shrink(count, compute); });
             });
           })
      .def("close",
           [](const DetectorRef& place) {
             unlocked([&] { place->lock().change([&] { place->close(); }); });
           })
      .def("lessons", lessons_list)
      .def("versions", versions_list)
      .def("forget", forget)
      .def("restore",
           [](const DetectorRef& place, std::uint64_t version) {
             change(place, [&](Detector& detector) { detector.restore(version); });
           })
      .def("rename", [](const DetectorRef& place, const std::string& from, const std::string& to) {
        change(place, [&](Detector& detector) { detector.rename_task(from, to); });
      });
  module.def("find_images", [](const std::vector<std::string>& paths) {
    py::list names;
    for (const std::string& file : unlocked([&] { return find_images(paths); })) {
      names.append(name_of(file));
    }
    return names;
  });
  module.def("read_region", [](const std::string& path) {
    return unlocked([&] { return region_text(*read_region(path)); });
  });
  module.def("read_image", [](const std::string& path) {
    return to_numpy(unlocked([&] { return read_image(path); }));
  });
  module.def("write_image", [](const std::string& path, const py::buffer& pixels) {
    const ImageArray array(pixels);
    unlocked([&] { write_image(path, array.image()); });
  });
  module.def("draw", draw);
  module.def("png", png_of);
}

}  // namespace contcore::python
