#include "base/npy_writer.h"

#include <span>
#include <string>

#include "base/file.h"
#include "base/npy_header.h"

namespace contcore {
namespace {

constexpr std::size_t kHeaderBytes = 128;  // before the numbers, whatever is said there

const char* descr_of(Scalar scalar) {
  return scalar == Scalar::kUint8 ? "|u1" : scalar == Scalar::kFloat16 ? "<f2" : "<f4";
}

}  // namespace

std::size_t NpyWriter::bytes() const { return kHeaderBytes + rows_ * cols_ * bytes_of(scalar_); }

bool NpyWriter::append(VectorView rows) {
  const std::span part(static_cast<const std::byte*>(rows.data), rows.bytes());
  if (!write_at(fd_, part, bytes())) return false;
  rows_ += rows.rows;
  return true;
}

bool NpyWriter::finish() {
  const std::string header = npy_header(descr_of(scalar_), {rows_, cols_}, kHeaderBytes);
  return write_at(fd_, std::as_bytes(std::span(header)), 0);
}

}  // namespace contcore
