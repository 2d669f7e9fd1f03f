// Arrays in and out, by the buffer protocol: no copies, and no dependence on NumPy's binary
// interface, so that one build serves NumPy 1 and 2.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "contcore/image.h"
#include "contcore/vectors.h"

namespace contcore::python {

namespace py = pybind11;

/// An array that was handed in, held in place as long as this is there. Made and destroyed with the
/// GIL, read without.
class Array {
 public:
  /// Throws TypeError unless it is C-contiguous and of `dimensions` dimensions.
  Array(const py::buffer& buffer, py::ssize_t dimensions);

  std::size_t size(std::size_t axis) const { return static_cast<std::size_t>(info_.shape[axis]); }
  const void* data() const { return info_.ptr; }
  char kind() const { return info_.format.empty() ? 'B' : info_.format.back(); }

 private:
  py::buffer_info info_;
};

/// Vectors: two dimensions of float32, float16 or bytes. Throws TypeError for others.
class VectorArray {
 public:
  explicit VectorArray(const py::buffer& buffer);
  VectorView view() const { return view_; }

 private:
  Array array_;
  VectorView view_;
};

/// Numbers of one dimension. Throws TypeError for others.
std::vector<float> floats_of(const py::buffer& buffer);
std::vector<std::int64_t> numbers_of(const py::buffer& buffer);

/// Pixels: height × width × 3 bytes, within the bounds of ImageLimits. Throws TypeError for others,
/// Error (kInput) for too many.
class ImageArray {
 public:
  explicit ImageArray(const py::buffer& buffer);
  Image image() const;

 private:
  Array array_;
};

/// What a NumPy array is made of: memory and its owner.
struct OwnedArray {
  std::shared_ptr<void> owner;
  void* data = nullptr;
  std::size_t item = 1;
  const char* format = "B";
  std::vector<py::ssize_t> shape;
};
void bind_arrays(py::module_& module);

/// As a NumPy array, without a copy.
py::object to_numpy(OwnedArray array);
py::object to_numpy(std::vector<float> values);
py::object to_numpy(std::vector<float> values, std::size_t cols);
py::object to_numpy(std::vector<std::int64_t> values);
py::object to_numpy(std::vector<std::int64_t> values, std::size_t cols);
py::object to_numpy(std::vector<std::int32_t> values);
py::object to_numpy(Vectors vectors);
py::object to_numpy(Image image);

}  // namespace contcore::python
