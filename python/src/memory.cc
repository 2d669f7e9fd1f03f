// The continual memory, on any vectors.
#include "memory.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "arrays.h"
#include "binding.h"
#include "call.h"

namespace contcore::python {
namespace {

template <typename Work>
auto read(const MemoryRef& memory, const Work& work) {
  return unlocked([&] { return memory->lock().read([&] { return work(memory->get()); }); });
}

template <typename Work>
auto change(const MemoryRef& memory, const Work& work) {
  return unlocked(
      [&] { return memory->lock().change([&] { return work(memory->get_to_change()); }); });
}

MemoryRef make(std::size_t dimension, std::size_t capacity, const std::string& rule, double q,
               bool bytes) {
  return own(Memory(dimension, capacity, Consolidate{Consolidate::parse(rule), q},
                    bytes ? Scalar::kUint8 : Scalar::kFloat32));
}

void learn(const MemoryRef& memory, const py::buffer& features, const std::string& task, double p,
           std::uint64_t images, std::size_t memory_limit, bool online, const Where& where,
           const py::object& progress) {
  const VectorArray given(features);
  LearnHow how;
  how.task = task;
  how.p = p;
  how.images = images;
  how.memory_limit = memory_limit;
  call(where, progress, [&](Compute& compute, Progress told) {
    how.progress = std::move(told);
    memory->lock().change([&] {
      Memory& learner = memory->get_to_change();
      if (online) {
        learner.learn_online(given.view(), how, compute);
      } else {
        learner.learn(given.view(), how, compute);
      }
    });
  });
}

py::object distances(const MemoryRef& memory, const py::buffer& patches, const Where& where) {
  const VectorArray given(patches);
  return to_numpy(call(where, py::none(), [&](Compute& compute, const Progress& told) {
    return memory->lock().read(
        [&] { return memory->get().distances(given.view(), compute, told); });
  }));
}

MemoryRef shrink(const MemoryRef& memory, std::size_t count, const Where& where) {
  return call(where, py::none(), [&](Compute& compute, const Progress&) {
    return memory->lock().read([&] { return own(memory->get().shrink(count, compute)); });
  });
}

MemoryRef merge(const MemoryRef& a, const MemoryRef& b, std::size_t capacity, const Where& where) {
  // One after the other: both at once could wait for each other.
  return call(where, py::none(), [&](Compute& compute, const Progress&) {
    const Memory one = a->lock().read([&] { return a->get().copy(); });
    return b->lock().read([&] { return own(Memory::merge(one, b->get(), capacity, compute)); });
  });
}

// A task's record, how it fares and its threshold, side by side.
struct TaskFacts {
  TaskRecord record;
  TaskState state;
  KnownDefects defects;
  std::optional<Threshold> threshold;
};

py::list tasks(const MemoryRef& memory, double false_alarms) {
  const auto all = read(memory, [&](const Memory& m) {
    std::vector<TaskFacts> facts;
    const std::vector<TaskState> states = m.states();
    for (std::size_t t = 0; t < states.size(); ++t) {
      facts.push_back({m.tasks()[t], states[t], m.known_defects(t), m.threshold(t, false_alarms)});
    }
    return facts;
  });
  py::list list;
  for (const TaskFacts& task : all) {
    py::dict facts;
    facts["name"] = task.record.name;
    facts["images"] = task.record.images;
    facts["patches"] = task.record.patches;
    facts["picked"] = task.record.picked;
    facts["vectors"] = task.state.vectors;
    facts["epsilon"] = task.record.epsilon;
    facts["epsilon_hat"] = task.record.epsilon_hat;
    facts["certificate"] = task.state.certificate;
    facts["why"] = task.state.why;
    facts["learned"] = task.record.learned;
    facts["calibrated"] = task.state.calibrated;
    facts["drift"] = task.state.drift();
    facts["known_defects"] = task.defects.images;
    facts["threshold"] = py::none();
    if (task.threshold) facts["threshold"] = task.threshold->score;
    facts["threshold_by_hand"] = task.threshold && task.threshold->by_hand;
    facts["region"] = py::none();
    if (task.record.region) {
      facts["region"] = py::module_::import("json").attr("loads")(region_text(*task.record.region));
    }
    list.append(facts);
  }
  return list;
}

void set_threshold(const MemoryRef& memory, const std::string& task, std::optional<float> score,
                   std::optional<double> false_alarms) {
  change(memory, [&](Memory& m) { m.set_threshold(task, {score, false_alarms}); });
}

}  // namespace

void bind_memory(py::module_& module) {
  py::class_<MemoryPlace, MemoryRef>(module, "Memory")
      .def(py::init(&make))
      .def("learn", learn)
      .def("distances", distances)
      .def("shrink", shrink)
      .def_static("merge", merge)
      .def("tasks", tasks)
      .def("set_threshold", set_threshold)
      .def("rename_task",
           [](const MemoryRef& memory, const std::string& from, const std::string& to) {
             change(memory, [&](Memory& m) { m.rename_task(from, to); });
           })
      .def("without_task",
           [](const MemoryRef& memory, const std::string& task) {
             return read(memory, [&](const Memory& m) { return own(m.without_task(task)); });
           })
      .def("copy",
           [](const MemoryRef& memory) {
             return read(memory, [](const Memory& m) { return own(m.copy()); });
           })
      .def("size",
           [](const MemoryRef& memory) {
             return read(memory, [](const Memory& m) { return m.size(); });
           })
      .def("dimension",
           [](const MemoryRef& memory) {
             return read(memory, [](const Memory& m) { return m.dimension(); });
           })
      .def("capacity",
           [](const MemoryRef& memory) {
             return read(memory, [](const Memory& m) { return m.capacity(); });
           })
      .def("is_bytes",
           [](const MemoryRef& memory) {
             return read(memory, [](const Memory& m) { return m.scalar() == Scalar::kUint8; });
           })
      .def("consolidation",
           [](const MemoryRef& memory) {
             return read(memory, [](const Memory& m) {
               return std::make_pair(std::string(m.consolidation().name()), m.consolidation().q);
             });
           })
      .def("certificate",
           [](const MemoryRef& memory) {
             return read(memory, [](const Memory& m) { return m.certificate(); });
           })
      .def("vectors",
           [](const MemoryRef& memory) {
             return to_numpy(read(memory, [](const Memory& m) { return m.vectors(); }));
           })
      .def("origins",
           [](const MemoryRef& memory) {
             return to_numpy(read(memory, [](const Memory& m) { return m.origins(); }));
           })
      .def("radii",
           [](const MemoryRef& memory) {
             return to_numpy(read(memory, [](const Memory& m) { return m.radii(); }));
           })
      .def("source",
           [](const MemoryRef& memory) {
             return read(memory, [](const Memory& m) { return m.source; });
           })
      .def("set_source",
           [](const MemoryRef& memory, const std::map<std::string, std::string>& source) {
             change(memory, [&](Memory& m) { m.source = source; });
           })
      .def("save",
           [](const MemoryRef& memory, const std::string& path) {
             return read(memory, [&](const Memory& m) { return m.save(path); });
           })
      .def_static("open", [](const std::string& path) {
        return unlocked([&] { return own(Memory::open(path)); });
      });
}

}  // namespace contcore::python
