#include "arrays.h"

#include <cstring>
#include <string>

#include "contcore/error.h"

namespace contcore::python {
namespace {

template <typename T>
struct Format;
template <>
struct Format<float> {
  static constexpr const char* kText = "f";
};
template <>
struct Format<std::int64_t> {
  static constexpr const char* kText = "l";
};
template <>
struct Format<std::int32_t> {
  static constexpr const char* kText = "i";
};
template <>
struct Format<std::uint8_t> {
  static constexpr const char* kText = "B";
};

std::vector<py::ssize_t> shape_of(std::initializer_list<std::size_t> sizes) {
  std::vector<py::ssize_t> shape;
  for (const std::size_t size : sizes) shape.push_back(static_cast<py::ssize_t>(size));
  return shape;
}

template <typename T>
OwnedArray owned(std::vector<T> values, std::vector<py::ssize_t> shape) {
  auto holder = std::make_shared<std::vector<T>>(std::move(values));
  T* const data = holder->data();
  return {std::move(holder), data, sizeof(T), Format<T>::kText, std::move(shape)};
}

template <typename T>
OwnedArray table(std::vector<T> values, std::size_t cols) {
  const std::size_t rows = cols == 0 ? 0 : values.size() / cols;
  return owned(std::move(values), shape_of({rows, cols}));
}

template <typename T>
std::vector<T> list_of(const py::buffer& buffer, const char* what) {
  const Array array(buffer, 1);
  const char kind = array.kind();
  const bool right = std::is_same_v<T, float> ? kind == 'f' : kind == 'l' || kind == 'q';
  if (!right) throw py::type_error(what);
  std::vector<T> values(array.size(0));
  if (!values.empty()) std::memcpy(values.data(), array.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

Array::Array(const py::buffer& buffer, py::ssize_t dimensions) : info_(buffer.request()) {
  if (info_.ndim != dimensions) {
    throw py::type_error("an array of " + std::to_string(dimensions) +
                         " dimensions is needed, not " + std::to_string(info_.ndim));
  }
  py::ssize_t stride = info_.itemsize;
  for (py::ssize_t axis = info_.ndim; axis-- > 0;) {
    const auto i = static_cast<std::size_t>(axis);
    if (info_.shape[i] > 1 && info_.size > 0 && info_.strides[i] != stride) {
      throw py::type_error("a C-contiguous array is needed");
    }
    stride *= info_.shape[i];
  }
}

VectorArray::VectorArray(const py::buffer& buffer) : array_(buffer, 2) {
  Scalar scalar = Scalar::kFloat32;
  switch (array_.kind()) {
    case 'f':
      break;
    case 'e':
      scalar = Scalar::kFloat16;
      break;
    case 'B':
      scalar = Scalar::kUint8;
      break;
    default:
      throw py::type_error("vectors must be of float32, float16 or uint8");
  }
  view_ = VectorView(array_.data(), array_.size(0), array_.size(1), scalar);
}

std::vector<float> floats_of(const py::buffer& buffer) {
  return list_of<float>(buffer, "an array of float32 is needed");
}

std::vector<std::int64_t> numbers_of(const py::buffer& buffer) {
  return list_of<std::int64_t>(buffer, "an array of int64 is needed");
}

ImageArray::ImageArray(const py::buffer& buffer) : array_(buffer, 3) {
  if (array_.kind() != 'B' || array_.size(2) != 3) {
    throw py::type_error("an image must be height × width × 3 of uint8");
  }
  const std::size_t pixels = array_.size(0) * array_.size(1);
  if (pixels == 0 || pixels > ImageLimits().pixels) {
    throw Error(Error::Kind::kInput, "an image of " + std::to_string(array_.size(1)) + " × " +
                                         std::to_string(array_.size(0)) +
                                         " pixels cannot be used; 1 to " +
                                         std::to_string(ImageLimits().pixels) + " can");
  }
}

Image ImageArray::image() const {
  Image image;
  image.height = array_.size(0);
  image.width = array_.size(1);
  const auto* bytes = static_cast<const std::uint8_t*>(array_.data());
  image.rgb.assign(bytes, bytes + image.height * image.width * 3);
  return image;
}

void bind_arrays(py::module_& module) {
  py::class_<OwnedArray>(module, "OwnedArray", py::buffer_protocol())
      .def_buffer([](OwnedArray& array) {
        std::vector<py::ssize_t> strides(array.shape.size());
        auto stride = static_cast<py::ssize_t>(array.item);
        for (std::size_t axis = array.shape.size(); axis-- > 0;) {
          strides[axis] = stride;
          stride *= array.shape[axis];
        }
        return py::buffer_info(array.data, static_cast<py::ssize_t>(array.item), array.format,
                               static_cast<py::ssize_t>(array.shape.size()), array.shape, strides);
      });
}

py::object to_numpy(OwnedArray array) {
  return py::module_::import("numpy").attr("asarray")(py::cast(std::move(array)));
}

py::object to_numpy(std::vector<float> values) {
  const std::size_t n = values.size();
  return to_numpy(owned(std::move(values), shape_of({n})));
}

py::object to_numpy(std::vector<float> values, std::size_t cols) {
  return to_numpy(table(std::move(values), cols));
}

py::object to_numpy(std::vector<std::int64_t> values) {
  const std::size_t n = values.size();
  return to_numpy(owned(std::move(values), shape_of({n})));
}

py::object to_numpy(std::vector<std::int64_t> values, std::size_t cols) {
  return to_numpy(table(std::move(values), cols));
}

py::object to_numpy(std::vector<std::int32_t> values) {
  const std::size_t n = values.size();
  return to_numpy(owned(std::move(values), shape_of({n})));
}

py::object to_numpy(Vectors vectors) {
  auto holder = std::make_shared<Vectors>(std::move(vectors));
  const std::vector<py::ssize_t> shape = shape_of({holder->rows(), holder->cols()});
  if (holder->scalar() == Scalar::kUint8) {
    std::uint8_t* const data = holder->byte_data();
    return to_numpy(OwnedArray{std::move(holder), data, 1, "B", shape});
  }
  float* const data = holder->data();
  return to_numpy(OwnedArray{std::move(holder), data, sizeof(float), "f", shape});
}

py::object to_numpy(Image image) {
  const std::vector<py::ssize_t> shape = shape_of({image.height, image.width, 3});
  return to_numpy(owned(std::move(image.rgb), shape));
}

}  // namespace contcore::python
