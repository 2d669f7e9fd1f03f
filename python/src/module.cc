// contcore._contcore: the library for the Python files around it.
#include "arrays.h"
#include "binding.h"
#include "call.h"

PYBIND11_MODULE(_contcore, module) {
  namespace bound = contcore::python;
  module.attr("version") = CONTCORE_VERSION;
  pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function(bound::end_calls));
  bound::bind_errors(module);
  bound::bind_arrays(module);
  bound::bind_coreset(module);
  bound::bind_memory(module);
  bound::bind_detector(module);
  bound::bind_evaluate(module);
}
