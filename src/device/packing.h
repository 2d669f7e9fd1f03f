// Numbers, text and vectors as the bytes that ranks say to each other. All ranks are of one program
// on one kind of machine, so numbers go as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "contcore/error.h"
#include "contcore/ranks.h"
#include "contcore/vectors.h"

namespace contcore {

class Packer {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes(&value, sizeof(T));
  }
  template <typename T>
  void put_all(std::span<const T> values) {
    put<std::uint64_t>(values.size());
    put_bytes(values.data(), values.size_bytes());
  }
  template <typename T>
  void put_all(const std::vector<T>& values) {
    put_all(std::span<const T>(values));
  }
  void put_text(const std::string& text) { put_all(std::span(text.data(), text.size())); }
  /// Its numbers alone.
  void put_rows(VectorView rows) { put_bytes(rows.data, rows.bytes()); }

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  void put_bytes(const void* data, std::size_t n);
  std::vector<std::uint8_t> bytes_;
};

/// Reads what a Packer wrote, in the same order. Throws Error (kInternal) where there is not as
/// much.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> get_all() {
    const auto n = get<std::uint64_t>();
    if (n > rest_.size() / sizeof(T)) refuse();
    std::vector<T> values(static_cast<std::size_t>(n));
    if (n > 0)
      std::memcpy(values.data(), take(values.size() * sizeof(T)), values.size() * sizeof(T));
    return values;
  }
  std::string get_text() {
    const std::vector<char> text = get_all<char>();
    return {text.begin(), text.end()};
  }
  /// The next rows of `to`, from `first` on.
  void get_rows(Vectors& to, std::size_t first, std::size_t n) {
    if (n == 0) return;
    const std::size_t bytes = n * to.cols() * bytes_of(to.scalar());
    to.set_rows(first, {take(bytes), n, to.cols(), to.scalar()});
  }

  bool empty() const { return rest_.empty(); }

 private:
  [[noreturn]] static void refuse() {
    throw Error(Error::Kind::kInternal, "the ranks do not understand each other");
  }
  const std::uint8_t* take(std::size_t n) {
    if (n > rest_.size()) refuse();
    const std::uint8_t* at = rest_.data();
    rest_ = rest_.subspan(n);
    return at;
  }
  std::span<const std::uint8_t> rest_;
};

/// What all ranks have, in order of rank; without ranks it is what is here.
template <typename T>
std::vector<T> all_of(Ranks* ranks, std::vector<T> mine) {
  if (ranks == nullptr) return mine;
  Packer packer;
  packer.put_all(mine);
  std::vector<T> all;
  for (const Ranks::Bytes& said : ranks->all_gather(packer.bytes())) {
    const std::vector<T> theirs = Unpacker(said).get_all<T>();
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

}  // namespace contcore
