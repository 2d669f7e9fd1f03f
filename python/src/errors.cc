// contcore::Error as Python exceptions, a class for each kind, with the library's messages.
#include <stdexcept>
#include <string>

#include "binding.h"
#include "contcore/error.h"

namespace contcore::python {
namespace py = pybind11;
namespace {

// A message may hold any byte that a file's name has.
py::str text_of(const char* message) {
  return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(
      message, static_cast<py::ssize_t>(std::char_traits<char>::length(message)),
      "backslashreplace"));
}

const char* class_of(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::kUsage:
      return "UsageError";
    case Error::Kind::kInput:
      return "InputError";
    case Error::Kind::kDamaged:
      return "DamagedError";
    case Error::Kind::kCancelled:
      return "Cancelled";
    case Error::Kind::kInternal:
      break;
  }
  return "InternalError";
}

}  // namespace

void bind_errors(py::module_& /*module*/) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      const py::object type = py::module_::import("contcore._errors").attr(class_of(error.kind()));
      PyErr_SetObject(type.ptr(), text_of(error.what()).ptr());
    } catch (const py::cast_error& error) {  // of an option, or of what a method says of itself
      PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const std::length_error&) {  // a vector of more than any memory holds
      PyErr_NoMemory();
    }
  });
}

}  // namespace contcore::python
