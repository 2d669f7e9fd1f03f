// The parts of the extension module, each in a file of its own. Arguments come checked and
// converted by the Python files (python/contcore); here they are taken as they are, and never
// believed where memory is at stake.
#pragma once

#include <pybind11/pybind11.h>

namespace contcore::python {

void bind_errors(pybind11::module_& module);
void bind_coreset(pybind11::module_& module);
void bind_memory(pybind11::module_& module);
void bind_detector(pybind11::module_& module);
void bind_evaluate(pybind11::module_& module);

}  // namespace contcore::python
