// Sampling, search and comparing, on any vectors.
#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "arrays.h"
#include "binding.h"
#include "call.h"
#include "contcore/compare.h"
#include "contcore/greedy.h"
#include "contcore/nearest.h"
#include "contcore/samplers.h"
#include "lock.h"

namespace contcore::python {
namespace {

py::tuple result_of(GreedyResult result) {
  py::list stages;
  for (const GreedyStage& stage : result.stages) {
    stages.append(py::make_tuple(stage.name, stage.settled));
  }
  return py::make_tuple(to_numpy(std::move(result.picks)), to_numpy(std::move(result.radii)),
                        result.covering_radius, py::tuple(stages), result.full_distances);
}

GreedyOptions greedy_options(std::size_t count, const std::string& start, std::size_t start_index,
                             std::uint64_t seed, std::size_t memory_limit) {
  GreedyOptions options;
  options.count = count;
  options.start = start == "index"    ? GreedyOptions::Start::kIndex
                  : start == "random" ? GreedyOptions::Start::kRandom
                                      : GreedyOptions::Start::kMean;
  options.start_index = start_index;
  options.seed = seed;
  options.memory_limit = memory_limit;
  return options;
}

py::tuple sample_greedily(const py::buffer& points, const std::optional<py::buffer>& base,
                          std::size_t count, const std::string& start, std::size_t start_index,
                          std::uint64_t seed, std::size_t memory_limit, const Where& where,
                          const py::object& progress) {
  const VectorArray from(points);
  const auto on = base ? std::make_unique<VectorArray>(*base) : nullptr;
  GreedyOptions options = greedy_options(count, start, start_index, seed, memory_limit);
  return result_of(call(where, progress, [&](Compute& compute, Progress told) {
    options.progress = std::move(told);
    return greedy_sample(from.view(), on ? on->view() : VectorView(), options, compute);
  }));
}

py::tuple sample_as_patchcore(const py::buffer& points, std::size_t count, std::uint64_t seed,
                              std::size_t memory_limit, const Where& where,
                              const py::object& progress) {
  const VectorArray from(points);
  GreedyOptions options = greedy_options(count, "mean", 0, seed, memory_limit);
  return result_of(call(where, progress, [&](Compute& compute, Progress told) {
    options.progress = std::move(told);
    return patchcore_sample(from.view(), options, compute);
  }));
}

py::object sample_by_herding(const py::buffer& points, std::size_t count, const Where& where,
                             const py::object& progress) {
  const VectorArray from(points);
  return to_numpy(call(where, progress, [&](Compute& compute, const Progress& told) {
    return herding_sample(from.view(), count, compute, told);
  }));
}

// An index and the arrays its vectors lie in, which it does not copy.
class Index {
 public:
  Index(const py::buffer& vectors, const Where& where) {
    arrays_.emplace_back(vectors);
    call(where, py::none(), [&](Compute& compute, const Progress&) {
      index_ = std::make_unique<NearestIndex>(arrays_.back().view(), compute, "vectors");
    });
  }

  std::size_t size() {
    return unlocked([&] { return lock_.read([&] { return index_->size(); }); });
  }
  std::size_t dimension() const { return arrays_.front().view().cols; }

  std::int64_t add(const py::buffer& vectors, const Where& where) {
    auto more = std::make_unique<VectorArray>(vectors);
    return call(where, py::none(), [&](Compute& compute, const Progress&) {
      return lock_.change([&] {
        const std::int64_t first = index_->add(more->view(), compute, "vectors");
        added_.push_back(std::move(more));
        return first;
      });
    });
  }

  void drop(const py::buffer& ids) {
    const std::vector<std::int64_t> all = numbers_of(ids);
    unlocked([&] { lock_.change([&] { index_->drop(all); }); });
  }

  py::tuple search(const py::buffer& queries, std::size_t k, const Where& where,
                   const py::object& progress) {
    const VectorArray asked(queries);
    NearestResult found = call(where, progress, [&](Compute& compute, const Progress& told) {
      return lock_.read([&] { return index_->search(asked.view(), k, compute, "queries", told); });
    });
    return py::make_tuple(to_numpy(std::move(found.distances), k),
                          to_numpy(std::move(found.ids), k), found.exact);
  }

 private:
  ObjectLock lock_;
  std::deque<VectorArray> arrays_;
  std::vector<std::unique_ptr<VectorArray>> added_;
  std::unique_ptr<NearestIndex> index_;
};

py::tuple cover_of(const py::buffer& covered, const py::buffer& by, const Where& where,
                   const py::object& progress) {
  const VectorArray a(covered), b(by);
  const Cover found = call(where, progress, [&](Compute& compute, const Progress& told) {
    return cover(a.view(), b.view(), compute, told);
  });
  return py::make_tuple(found.largest, found.average);
}

float hausdorff_of(const py::buffer& one, const py::buffer& other, const Where& where,
                   const py::object& progress) {
  const VectorArray a(one), b(other);
  return call(where, progress, [&](Compute& compute, const Progress& told) {
    return hausdorff(a.view(), b.view(), compute, told);
  });
}

double sliced_wasserstein_of(const py::buffer& one, const py::buffer& other, std::size_t directions,
                             std::uint64_t seed, const Where& where, const py::object& progress) {
  const VectorArray a(one), b(other);
  return call(where, progress, [&](Compute& compute, const Progress& told) {
    return sliced_wasserstein(a.view(), b.view(), directions, seed, compute, told);
  });
}

}  // namespace

void bind_coreset(py::module_& module) {
  module.def("cores", cores_allowed);
  module.def("gpus", [] {
    Gpus found;
    {
      const py::gil_scoped_release others;
      found = known_gpus();
    }
    py::list list;
    for (const GpuInfo& gpu : found.all) {
      list.append(py::make_tuple(gpu.device.text(), gpu.name, gpu.memory,
                                 std::to_string(gpu.major) + "." + std::to_string(gpu.minor)));
    }
    return list;
  });
  module.def("greedy_sample", sample_greedily);
  module.def("patchcore_sample", sample_as_patchcore);
  module.def("herding_sample", sample_by_herding);
  module.def("random_sample", [](std::size_t rows, std::size_t count, std::uint64_t seed) {
    return to_numpy(random_sample(rows, count, seed));
  });
  py::class_<Reservoir>(module, "Reservoir")
      .def(py::init<std::size_t, std::uint64_t>())
      .def("offer", &Reservoir::offer)
      .def("held", [](const Reservoir& reservoir) {
        return to_numpy(std::vector<std::int64_t>(reservoir.held()));
      });
  py::class_<Index>(module, "NearestIndex")
      .def(py::init<const py::buffer&, const Where&>())
      .def("size", &Index::size)
      .def("dimension", &Index::dimension)
      .def("add", &Index::add)
      .def("drop", &Index::drop)
      .def("search", &Index::search);
  module.def("cover", cover_of);
  module.def("hausdorff", hausdorff_of);
  module.def("sliced_wasserstein", sliced_wasserstein_of);
  module.def("overlap", [](const py::buffer& a, const py::buffer& b) {
    return overlap(numbers_of(a), numbers_of(b));
  });
}

}  // namespace contcore::python
