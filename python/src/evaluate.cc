// Measures, schedules, data sets, and evaluation, also of methods that are written in Python.
#include "contcore/evaluate.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "binding.h"
#include "call.h"
#include "contcore/dataset.h"
#include "contcore/method.h"
#include "contcore/metrics.h"
#include "contcore/schedule.h"
#include "lock.h"

namespace contcore::python {
namespace {

// ---- measures ----------------------------------------------------------------------------------

using RankTuple = std::tuple<std::optional<double>, std::optional<double>, std::optional<double>>;

RankTuple tuple_of(const Ranking& ranking) { return {ranking.auroc, ranking.ap, ranking.f1_max}; }

RankTuple rank_scores(const py::buffer& good, const py::buffer& defect, std::size_t threads) {
  const std::vector<float> a = floats_of(good);
  const std::vector<float> b = floats_of(defect);
  return tuple_of(call({threads, {}}, py::none(),
                       [&](Compute& compute, const Progress&) { return rank(a, b, compute); }));
}

Map map_of(const py::buffer& buffer) {
  const Array array(buffer, 2);
  if (array.kind() != 'f') throw py::type_error("a map must be of float32");
  const auto* values = static_cast<const float*>(array.data());
  Map map{array.size(1), array.size(0), {}};
  map.values.assign(values, values + map.width * map.height);
  return map;
}

struct Pixels {
  PixelScores scores;
  ObjectLock lock;
};

void add_pixels(Pixels& pixels, const py::buffer& map, const std::optional<py::buffer>& mask) {
  const Map values = map_of(map);
  Mask defect;
  if (mask) {
    const Array array(*mask, 2);
    if (array.kind() != 'B') throw py::type_error("a mask must be of uint8");
    const auto* bytes = static_cast<const std::uint8_t*>(array.data());
    defect = {array.size(1), array.size(0), {}};
    defect.values.assign(bytes, bytes + defect.width * defect.height);
  }
  unlocked([&] {
    pixels.lock.change([&] {
      if (mask) {
        pixels.scores.add(values, defect);
      } else {
        pixels.scores.add(values);
      }
    });
  });
}

py::object anomaly_map_of(const py::buffer& distances, std::size_t height, std::size_t width) {
  const Map given = map_of(distances);
  const PatchGrid grid{given.width, given.height, width, height};
  Map map = unlocked([&] { return anomaly_map(given.values, grid); });
  return to_numpy(std::move(map.values), map.width);
}

// ---- data sets ---------------------------------------------------------------------------------

py::object text_of(const std::string& bytes) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<py::ssize_t>(bytes.size())));
}

std::string bytes_of_text(const py::handle& text) {
  const auto bytes = py::reinterpret_steal<py::bytes>(PyUnicode_EncodeFSDefault(text.ptr()));
  if (!bytes) throw py::error_already_set();
  return bytes;
}

py::list texts_of(const std::vector<std::string>& all) {
  py::list list;
  for (const std::string& one : all) list.append(text_of(one));
  return list;
}

py::dict dataset_dict(const Dataset& dataset) {
  py::list products;
  for (const Product& product : dataset.products) {
    py::list test;
    for (const TestImage& image : product.test) {
      test.append(py::make_tuple(text_of(image.file), text_of(image.kind), image.defect,
                                 text_of(image.mask)));
    }
    products.append(py::make_tuple(text_of(product.name), texts_of(product.train), test,
                                   product.masks, text_of(product.folder)));
  }
  py::dict facts;
  facts["name"] = text_of(dataset.name);
  facts["layout"] = dataset.layout;
  facts["products"] = products;
  facts["notes"] = texts_of(dataset.notes);
  return facts;
}

Dataset dataset_of(const py::dict& facts) {
  Dataset dataset;
  dataset.name = bytes_of_text(facts["name"]);
  dataset.layout = facts["layout"].cast<std::string>();
  for (const py::handle one : facts["products"]) {
    const auto given = one.cast<py::tuple>();
    Product& product = dataset.products.emplace_back();
    product.name = bytes_of_text(given[0]);
    for (const py::handle file : given[1]) product.train.push_back(bytes_of_text(file));
    for (const py::handle image : given[2]) {
      const auto parts = image.cast<py::tuple>();
      product.test.push_back({bytes_of_text(parts[0]), bytes_of_text(parts[1]),
                              parts[2].cast<bool>(), bytes_of_text(parts[3])});
    }
    product.masks = given[3].cast<bool>();
    product.folder = bytes_of_text(given[4]);
  }
  return dataset;
}

// ---- a method written in Python ----------------------------------------------------------------

py::dict images_dict(const MethodImages& images) {
  py::list grids, sizes, seen;
  for (const PatchGrid& grid : images.grids) {
    grids.append(py::make_tuple(grid.rows, grid.columns));
    sizes.append(py::make_tuple(grid.height, grid.width));
  }
  for (const SeenPart& part : images.seen) {
    seen.append(py::make_tuple(part.left, part.top, part.right, part.bottom));
  }
  const VectorView& patches = images.patches;
  const bool bytes = patches.scalar == Scalar::kUint8;
  // Python may keep the array after the call: the features stay as long as it does.
  OwnedArray array;
  array.owner = std::const_pointer_cast<void>(images.owner);
  array.data = const_cast<void*>(patches.data);
  array.item = contcore::bytes_of(patches.scalar);
  array.format = bytes ? "B" : "f";
  array.shape = {static_cast<py::ssize_t>(patches.rows), static_cast<py::ssize_t>(patches.cols)};
  py::object vectors = to_numpy(std::move(array));
  vectors.attr("setflags")(py::arg("write") = false);  // it is the cache's file
  py::dict facts;
  facts["product"] = text_of(images.product);
  facts["task"] = images.task;
  facts["files"] = texts_of(images.files);
  facts["grids"] = grids;
  facts["sizes"] = sizes;
  facts["seen"] = seen;
  facts["vectors"] = vectors;
  return facts;
}

// `object` has name, learn(task, list of dicts) and score(dict), which gives a score and a map or
// None for each image: python/contcore/_evaluate.py sees to that.
class PythonMethod : public OutsideMethod {
 public:
  explicit PythonMethod(py::object object) : object_(std::move(object)) {}

  std::string name() const override {
    const WithGil gil;
    return object_.attr("name").cast<std::string>();
  }

  void learn(std::size_t task, const std::vector<MethodImages>& classes,
             const Progress& progress) override {
    if (!progress(0)) throw Error(Error::Kind::kCancelled, "stopped");
    {
      const WithGil gil;
      py::list all;
      for (const MethodImages& images : classes) all.append(images_dict(images));
      object_.attr("learn")(task, all);
    }
    progress(1);
  }

  std::vector<MethodScore> score(const MethodImages& images) override {
    const WithGil gil;
    std::vector<MethodScore> answers;
    for (const py::handle answer : object_.attr("score")(images_dict(images))) {
      const auto parts = answer.cast<py::tuple>();
      MethodScore& given = answers.emplace_back();
      given.score = parts[0].cast<float>();
      if (!parts[1].is_none()) given.map = map_of(parts[1].cast<py::buffer>());
    }
    return answers;
  }

  std::size_t vectors() const override { return count("vectors"); }
  std::uint64_t numbers() const override { return count("numbers"); }

 private:
  std::size_t count(const char* what) const {
    const WithGil gil;
    return object_.attr(what).cast<std::size_t>();
  }

  py::object object_;
};

// ---- evaluation --------------------------------------------------------------------------------

EvaluationOptions options_of(const py::dict& given) {
  EvaluationOptions options;
  for (const py::handle dataset : given["datasets"]) {
    options.datasets.push_back(dataset_of(dataset.cast<py::dict>()));
  }
  const auto text = [&](const char* name, std::string& value) {
    if (given.contains(name)) value = bytes_of_text(given[name]);
  };
  text("schedule", options.schedule);
  text("order", options.order);
  text("backbone", options.backbone);
  text("cache", options.cache);
  if (given.contains("classes")) {
    for (const py::handle name : given["classes"]) options.classes.push_back(bytes_of_text(name));
  }
  if (given.contains("layers")) {
    options.layers = given["layers"].cast<std::vector<std::string>>();
  }
  if (given.contains("dimension")) options.dimension = given["dimension"].cast<std::size_t>();
  if (given.contains("precision")) {
    options.precision = parse_precision(given["precision"].cast<std::string>());
  }
  if (given.contains("score")) options.score = parse_score(given["score"].cast<std::string>());
  if (given.contains("fresh")) options.fresh = given["fresh"].cast<bool>();
  if (given.contains("cache_limit")) {
    options.cache_limit = given["cache_limit"].cast<std::size_t>();
  }
  const auto word_of = [&](const char* name) {
    return given.contains(name) ? given[name].cast<std::string>() : std::string();
  };
  options.geometry = Geometry::parse(
      {word_of("resize"), word_of("crop"), word_of("tile"), word_of("overlap")}, options.geometry);
  return options;
}

Setting setting_of(const py::dict& given) {
  Setting setting;
  if (given.contains("method")) setting.method = given["method"].cast<std::string>();
  setting.m = given["m"].cast<std::size_t>();
  setting.p = given["p"].cast<double>();
  setting.q = given["q"].cast<double>();
  setting.seed = given["seed"].cast<std::uint64_t>();
  return setting;
}

struct HeldEvaluation {
  explicit HeldEvaluation(const EvaluationOptions& options)
      : geometry(options.geometry), evaluation(options) {}
  Geometry geometry;
  Evaluation evaluation;
  ObjectLock lock;
};

std::unique_ptr<HeldEvaluation> make_evaluation(const py::dict& given) {
  const EvaluationOptions options = options_of(given);
  network_runs();
  return unlocked([&] { return std::make_unique<HeldEvaluation>(options); });
}

RunResult run(HeldEvaluation& held, const py::dict& given, const py::object& method,
              const Where& where, const py::object& progress) {
  const Setting setting = setting_of(given);
  network_runs();
  if (method.is_none()) {
    return call(where, progress, [&](Compute& compute, const Progress& told) {
      return held.lock.change([&] { return held.evaluation.run(setting, compute, told); });
    });
  }
  PythonMethod outside(method);
  return call(where, progress, [&](Compute& compute, const Progress& told) {
    return held.lock.change([&] { return held.evaluation.run(outside, setting, compute, told); });
  });
}

py::dict measures_dict(const Measures& measures) {
  py::dict facts;
  for (std::size_t i = 0; i < kMeasures; ++i) {
    facts[measure_key(static_cast<Measure>(i))] = measures[i];
  }
  return facts;
}

py::tuple summary_of(const RunResult& result) {
  const Summary summary = summarise(result);
  return py::make_tuple(measures_dict(summary.average), measures_dict(summary.forgetting),
                        measures_dict(summary.classes));
}

void report(const std::string& folder, const std::vector<RunResult>& results,
            const std::string& title, const std::string& dataset, const std::string& schedule,
            const std::string& command) {
  unlocked([&] { write_report(folder, results, {title, dataset, schedule, command}); });
}

}  // namespace

void bind_evaluate(py::module_& module) {
  module.def("rank", rank_scores);
  py::class_<Pixels>(module, "PixelScores")
      .def(py::init<>())
      .def("add", add_pixels)
      .def("measure", [](Pixels& pixels, std::size_t threads) {
        const auto measured =
            call({threads, {}}, py::none(), [&](Compute& compute, const Progress&) {
              return pixels.lock.read([&] { return pixels.scores.measure(compute); });
            });
        return std::make_pair(tuple_of(measured.pixels), measured.aupro);
      });
  module.def("anomaly_map", anomaly_map_of);
  module.def("parse_schedule", &parse_schedule);
  module.def("class_order", &class_order);
  module.def("open_dataset", [](const std::string& root, const std::string& layout) {
    return dataset_dict(unlocked([&] { return open_dataset(root, layout); }));
  });
  module.def("methods", [] {
    py::list all;
    for (const MethodInfo& info : methods()) {
      all.append(py::make_tuple(info.name, info.about, info.online, info.maps));
    }
    return all;
  });
  py::class_<RunResult>(module, "RunResult")
      .def("json", [](const RunResult& result) { return to_json(result); })
      .def_static("of_json", &result_from_json)
      .def("summary", summary_of);
  py::class_<HeldEvaluation>(module, "Evaluation")
      .def(py::init(&make_evaluation))
      .def("run", run)
      .def("schedule", [](const HeldEvaluation& held) { return held.evaluation.schedule(); })
      .def("products",
           [](const HeldEvaluation& held) {
             py::list names;
             for (const Product& product : held.evaluation.products()) {
               names.append(text_of(product.name));
             }
             return names;
           })
      .def("pixels", [](const HeldEvaluation& held, const std::string& file) {
        return to_numpy(
            unlocked([&] { return picture(prepare(read_image(file), held.geometry)); }));
      });
  module.def("write_report", report);
}

}  // namespace contcore::python
