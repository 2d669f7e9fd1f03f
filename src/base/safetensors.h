// Safetensors files: named arrays and text, with a checksum over all of it.
//
//   8 bytes       length h of the header, little endian
//   h bytes       JSON: {"__metadata__": {"key": "text", …, "sha256": "…"},
//                        "name": {"dtype": "F32", "shape": [n, d], "data_offsets": [begin, end]},
//                        …}
//                 padded with spaces to a multiple of 8
//   the arrays    one after the other, little endian, row after row
//
// The checksum is that of the whole file with its own 64 digits being zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace contcore {

/// An array to be written. Owns nothing.
struct TensorView {
  std::string name;
  std::string dtype;  ///< "F32", "I32" or "U8"
  std::vector<std::size_t> shape;
  std::span<const std::byte> bytes;

  TensorView(std::string n, std::vector<std::size_t> s, std::span<const float> values)
      : name(std::move(n)), dtype("F32"), shape(std::move(s)), bytes(std::as_bytes(values)) {}
  TensorView(std::string n, std::vector<std::size_t> s, std::span<const std::int32_t> values)
      : name(std::move(n)), dtype("I32"), shape(std::move(s)), bytes(std::as_bytes(values)) {}
  TensorView(std::string n, std::vector<std::size_t> s, std::span<const std::uint8_t> values)
      : name(std::move(n)), dtype("U8"), shape(std::move(s)), bytes(std::as_bytes(values)) {}
};

/// Writes a file whole or not at all, and returns its checksum; `check` as write_whole() has it.
/// Throws Error (kInput) naming the file and the reason; also, before a byte is written, for more
/// text than would be read again.
std::string write_safetensors(const std::string& path,
                              const std::map<std::string, std::string>& metadata,
                              std::vector<TensorView> tensors,
                              const std::function<void(const std::string&)>& check = {});

/// A file that was read, whole and found sound.
class Safetensors {
 public:
  /// Throws Error: kInput if it cannot be read or is no safetensors file, kDamaged if it is cut
  /// short or does not have the checksum it says. The header is believed only as far as the file's
  /// size bears it out. `kind` is what the caller needs, such as "a memory".
  Safetensors(const std::string& path, const std::string& kind);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// An array by its name; throws Error (kDamaged) if it is missing or not of that type and number
  /// of dimensions.
  struct Shape {
    std::size_t rows = 0;
    std::size_t cols = 1;
  };
  std::span<const float> floats(const std::string& name, std::size_t dimensions,
                                Shape& shape) const;
  std::span<const std::uint8_t> bytes(const std::string& name, Shape& shape) const;  ///< of two
  /// Whether it is there; of that type.
  bool has(const std::string& name) const;
  bool has(const std::string& name, const std::string& dtype) const;
  std::span<const std::int32_t> ints(const std::string& name, Shape& shape) const;

 private:
  struct Tensor {
    std::string dtype;
    std::vector<std::size_t> shape;
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  const Tensor& find(const std::string& name, const std::string& dtype, std::size_t dimensions,
                     Shape& shape) const;
  void parse(const std::string& kind);
  void check_places(std::size_t room) const;
  void verify() const;

  std::string path_;
  std::vector<std::uint8_t> bytes_;
  std::size_t data_ = 0;  // where the arrays begin
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace contcore
