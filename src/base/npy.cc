#include "contcore/npy.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/file_system.h"
#include "base/npy_header.h"
#include "base/refuse.h"
#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kMostCols = 65536;
constexpr std::size_t kMostDimensions = 64;       // more than NumPy itself allows
constexpr std::size_t kLongestHeader = 1u << 20;  // real ones have some hundred bytes

// ---- Reading -----------------------------------------------------------------------------------

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// Text from a file, made fit for a message.
std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string out;
  for (const char c : text.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? out + "..." : out;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return shape.size() == 1 ? fmt::format("({},)", shape[0])
                           : fmt::format("({})", fmt::join(shape, ", "));
}

// Parses the one Python dict that a header is, and nothing else of Python.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Header parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::uint64_t>> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = parse_string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = parse_descr();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = parse_bool();
      } else if (key == "shape" && !shape) {
        shape = parse_shape();
      } else {
        malformed(fmt::format("key '{}' is unknown or there twice", printable(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) malformed("there is more after the closing brace");
    if (!descr || !fortran_order || !shape) {
      malformed("one of 'descr', 'fortran_order' and 'shape' is missing");
    }
    return {std::move(*descr), *fortran_order, std::move(*shape)};
  }

 private:
  [[noreturn]] void malformed(const std::string& what) const {
    refuse(
        path_,
        fmt::format("the .npy header is damaged ({}); save the array again with numpy.save", what));
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  bool accept(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) malformed(fmt::format("no '{}' at byte {} of the header", wanted, at_));
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::string parse_string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      malformed(fmt::format("no quoted text at byte {} of the header", at_));
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) malformed("a quote is never closed");
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    if (content.find('\\') != content.npos) malformed("a quoted text holds a backslash");
    at_ = end + 1;
    return std::string(content);
  }

  std::string parse_descr() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      refuse(path_, "holds records of several fields; save one field as an array of numpy.float32");
    }
    return parse_string();
  }

  bool parse_bool() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    malformed("'fortran_order' is neither True nor False");
  }

  std::vector<std::uint64_t> parse_shape() {
    std::vector<std::uint64_t> shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == kMostDimensions) malformed("'shape' has too many dimensions");
      shape.push_back(parse_number());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::uint64_t parse_number() {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    skip_space();
    const std::size_t start = at_;
    std::uint64_t number = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (number > (kMost - digit) / 10) malformed("'shape' holds a number beyond 64 bits");
      number = number * 10 + digit;
    }
    if (at_ == start) malformed("'shape' holds something that is not a whole number");
    return number;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

struct Preamble {
  std::string_view header;
  std::size_t data_offset;
};

Preamble find_header(std::string_view file, const std::string& path) {
  if (file.substr(0, kMagic.size()) != kMagic) {
    refuse(path, "is not an .npy file; save the vectors with numpy.save");
  }
  constexpr std::string_view kCut = "is cut short within the .npy header; copy or save it again";
  const auto byte = [&](std::size_t i) -> std::size_t {
    if (i >= file.size()) refuse(path, std::string(kCut));
    return static_cast<unsigned char>(file[i]);
  };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) {
    refuse(path, fmt::format(".npy version {}.{} is unknown; save the array with numpy.save",
                             version, byte(7)));
  }
  std::size_t length = byte(8) | byte(9) << 8;
  std::size_t start = 10;
  if (version > 1) {
    length |= byte(10) << 16 | byte(11) << 24;
    start = 12;
  }
  if (length > file.size() - std::min(start, file.size())) refuse(path, std::string(kCut));
  if (length > kLongestHeader) {
    refuse(path, fmt::format("the .npy header claims {} bytes, which no array needs; save it again "
                             "with numpy.save",
                             length));
  }
  return {file.substr(start, length), start + length};
}

Scalar scalar_of(const std::string& descr, const std::string& path) {
  if (descr == "<f4") return Scalar::kFloat32;
  if (descr == "<f2") return Scalar::kFloat16;
  if (descr == "|u1" || descr == "<u1") return Scalar::kUint8;
  if (descr == ">f4" || descr == ">f2") {
    refuse(path,
           fmt::format("the numbers are big endian ('{}'); convert with .astype('<f4')", descr));
  }
  refuse(path, fmt::format("the numbers have type '{}', not float32, float16 or uint8; convert "
                           "with .astype(numpy.float32)",
                           printable(descr)));
}

void check_shape(const Header& header, const std::string& path) {
  const auto& shape = header.shape;
  if (shape.size() != 2) {
    refuse(path,
           fmt::format("the array has shape {}, but one vector in each row is needed; reshape "
                       "it to two dimensions, such as .reshape(-1, dimension)",
                       shape_text(shape)));
  }
  if (header.fortran_order) {
    refuse(path, "is in Fortran order; save it with numpy.ascontiguousarray");
  }
  if (shape[0] == 0 || shape[1] == 0) {
    refuse(path, fmt::format("holds no vectors (shape {}); give at least one row and one column",
                             shape_text(shape)));
  }
  if (shape[1] > kMostCols) {
    refuse(path, fmt::format("the vectors have {} dimensions, more than the limit of {}; the array "
                             "should have one vector in each row",
                             shape[1], kMostCols));
  }
}

// The file must hold what the header promises to the byte.
VectorView vectors_in(std::string_view file, const std::string& path) {
  const Preamble preamble = find_header(file, path);
  const Header header = HeaderParser(preamble.header, path).parse();
  const Scalar scalar = scalar_of(header.descr, path);
  check_shape(header, path);

  const std::size_t width = bytes_of(scalar);
  const std::uint64_t rows = header.shape[0];
  const std::uint64_t cols = header.shape[1];
  const std::size_t there = file.size() - preamble.data_offset;
  const std::uint64_t row_bytes = cols * width;
  if (rows > std::numeric_limits<std::uint64_t>::max() / row_bytes) {
    refuse(path, fmt::format("is cut short: the header promises {} rows of {} bytes, there are {} "
                             "bytes of data; copy or save it again",
                             rows, row_bytes, there));
  }
  const std::uint64_t promised = rows * row_bytes;
  if (promised != there) {
    refuse(path, fmt::format("{}: the header promises {} bytes of data (shape {}), there are {}; "
                             "copy or save it again",
                             there < promised ? "is cut short" : "is longer than it should be",
                             promised, shape_text(header.shape), there));
  }
  if (preamble.data_offset % width != 0) {
    refuse(path, fmt::format("the data start at byte {}, which is not a multiple of {}; save the "
                             "array again with numpy.save",
                             preamble.data_offset, width));
  }
  return {file.data() + preamble.data_offset, rows, cols, scalar};
}

// ---- Writing -----------------------------------------------------------------------------------

void write_array(const std::string& path, std::string_view descr,
                 const std::vector<std::uint64_t>& shape, const void* values, std::size_t bytes) {
  const std::string header = npy_header(descr, shape);
  const std::array parts = {std::as_bytes(std::span(header)),
                            std::span(static_cast<const std::byte*>(values), bytes)};
  write_whole(path, parts);
}

std::vector<std::uint64_t> shape_of(const std::string& path, std::size_t values, std::size_t cols) {
  if (cols == 0 || values % cols != 0) {
    throw Error(Error::Kind::kUsage,
                fmt::format("{}: {} values do not make rows of {}", path, values, cols));
  }
  return {values / cols, cols};
}

}  // namespace

std::string npy_header(std::string_view descr, const std::vector<std::uint64_t>& shape,
                       std::size_t alignment) {
  constexpr std::size_t kStart = 10;
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr,
                                 shape_text(shape));
  const std::size_t unpadded = kStart + dict.size() + 1;
  dict.append((alignment - unpadded % alignment) % alignment, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00'};
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8 & 0xff);
  return header + dict;
}

NpyVectors::NpyVectors(const std::string& path) {
  const OpenFile open = open_regular(path, "an .npy file (numpy.save makes one)");
  bytes_ = open.bytes;
  mapped_ = file_system().map(open.file.fd(), bytes_);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    refuse(path, fmt::format("cannot be mapped into memory: {}", std::strerror(errno)));
  }
  try {
    view_ = vectors_in({static_cast<const char*>(mapped_), bytes_}, path);
  } catch (...) {
    ::munmap(mapped_, bytes_);
    throw;
  }
}

NpyVectors::~NpyVectors() {
  if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
}

NpyVectors::NpyVectors(NpyVectors&& other) noexcept
    : mapped_(std::exchange(other.mapped_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      view_(std::exchange(other.view_, {})) {}

NpyVectors& NpyVectors::operator=(NpyVectors&& other) noexcept {
  NpyVectors taken(std::move(other));
  std::swap(mapped_, taken.mapped_);
  std::swap(bytes_, taken.bytes_);
  std::swap(view_, taken.view_);
  return *this;
}

void write_npy(const std::string& path, std::span<const float> values) {
  write_array(path, "<f4", {values.size()}, values.data(), values.size_bytes());
}

void write_npy(const std::string& path, std::span<const std::int64_t> values) {
  write_array(path, "<i8", {values.size()}, values.data(), values.size_bytes());
}

void write_npy(const std::string& path, std::span<const float> values, std::size_t cols) {
  write_array(path, "<f4", shape_of(path, values.size(), cols), values.data(), values.size_bytes());
}

void write_npy(const std::string& path, std::span<const std::int64_t> values, std::size_t cols) {
  write_array(path, "<i8", shape_of(path, values.size(), cols), values.data(), values.size_bytes());
}

void write_npy(const std::string& path, std::span<const std::uint8_t> values, std::size_t cols) {
  write_array(path, "|u1", shape_of(path, values.size(), cols), values.data(), values.size_bytes());
}

}  // namespace contcore
