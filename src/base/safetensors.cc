#include "base/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/refuse.h"
#include "base/sha256.h"
#include "contcore/error.h"

static_assert(std::endian::native == std::endian::little, "files are little endian");

namespace contcore {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMostHeader = std::size_t{64} << 20;
constexpr std::size_t kMostBytes = std::size_t{1} << 40;
constexpr std::size_t kHashDigits = 64;
constexpr char kChecksum[] = "sha256";

std::string zeros() { return std::string(kHashDigits, '0'); }
std::string mark(const std::string& digits) {
  return fmt::format("\"{}\":\"{}\"", kChecksum, digits);
}

std::string header_of(const std::map<std::string, std::string>& metadata,
                      const std::vector<TensorView>& tensors) {
  Json header = Json::object();
  header["__metadata__"] = metadata;
  header["__metadata__"][kChecksum] = zeros();
  std::size_t at = 0;
  for (const TensorView& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Bytes of a number of a type that is known here; 0 of another.
std::size_t number_bytes(const std::string& dtype) {
  return dtype == "F32" || dtype == "I32" ? 4 : dtype == "U8" ? 1 : 0;
}

std::size_t size_of(std::size_t size, const std::vector<std::size_t>& shape, std::size_t most) {
  for (const std::size_t n : shape) {
    if (n != 0 && size > most / n) return std::numeric_limits<std::size_t>::max();
    size *= n;
  }
  return size;
}

}  // namespace

std::string write_safetensors(const std::string& path,
                              const std::map<std::string, std::string>& metadata,
                              std::vector<TensorView> tensors,
                              const std::function<void(const std::string&)>& check) {
  // Bytes last, so that the others begin at a multiple of 4.
  std::stable_partition(tensors.begin(), tensors.end(),
                        [](const TensorView& one) { return one.dtype != "U8"; });
  std::string header = header_of(metadata, tensors);
  const std::uint64_t length = header.size();
  if (length > kMostHeader) {
    refuse(path,
           fmt::format("cannot be written: its text has {} bytes, more than the {} that would "
                       "be read again",
                       length, kMostHeader));
  }
  std::vector<std::span<const std::byte>> parts;
  parts.push_back(std::as_bytes(std::span(&length, 1)));
  parts.push_back(std::as_bytes(std::span(header)));
  for (const TensorView& tensor : tensors) parts.push_back(tensor.bytes);
  const std::string digits = sha256(parts);
  header.replace(header.find(mark(zeros())), mark(zeros()).size(), mark(digits));
  write_whole(path, parts, check);
  return digits;
}

Safetensors::Safetensors(const std::string& path, const std::string& kind)
    : path_(path), bytes_(read_whole(path, kind, kMostBytes)) {
  parse(kind);
  verify();
}

void Safetensors::parse(const std::string& kind) {
  const auto not_ours = [&] {
    throw Error(Error::Kind::kInput, fmt::format("{}: this is not {}", path_, kind));
  };
  std::uint64_t length = 0;
  if (bytes_.size() < kLengthBytes + 2) not_ours();
  std::memcpy(&length, bytes_.data(), kLengthBytes);
  if (bytes_[kLengthBytes] != '{' || length > kMostHeader) not_ours();
  if (length > bytes_.size() - kLengthBytes) refuse_damaged(path_, "it is cut short");
  data_ = kLengthBytes + static_cast<std::size_t>(length);
  const Json header =
      Json::parse(bytes_.begin() + kLengthBytes,
                  bytes_.begin() + static_cast<std::ptrdiff_t>(data_), nullptr, false);
  if (!header.is_object()) refuse_damaged(path_, "its header cannot be read");
  const std::size_t room = bytes_.size() - data_;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) refuse_damaged(path_, "its header cannot be read");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) refuse_damaged(path_, "its header cannot be read");
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    Tensor tensor;
    try {
      tensor.dtype = entry.at("dtype").get<std::string>();
      for (const Json& n : entry.at("shape").get_ref<const Json::array_t&>()) {
        tensor.shape.push_back(n.get_ref<const Json::number_unsigned_t&>());
      }
      const Json& offsets = entry.at("data_offsets");
      tensor.begin = offsets.at(0).get_ref<const Json::number_unsigned_t&>();
      tensor.end = offsets.at(1).get_ref<const Json::number_unsigned_t&>();
    } catch (const Json::exception&) {
      refuse_damaged(path_, fmt::format("its header says nothing sensible of '{}'", name));
    }
    if (tensor.begin > tensor.end || tensor.end > room) {
      refuse_damaged(path_, "it is cut short, or its header is wrong");
    }
    const std::size_t number = number_bytes(tensor.dtype);
    if (number != 0 && size_of(number, tensor.shape, room) != tensor.end - tensor.begin) {
      refuse_damaged(path_, fmt::format("the size of '{}' does not fit its shape", name));
    }
    tensors_[name] = std::move(tensor);
  }
  check_places(room);
}

// The arrays follow each other without gaps to the end of the file.
void Safetensors::check_places(std::size_t room) const {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (const auto& [name, tensor] : tensors_) places.emplace_back(tensor.begin, tensor.end);
  std::sort(places.begin(), places.end());
  std::size_t at = 0;
  for (const auto& [begin, end] : places) {
    if (begin != at) refuse_damaged(path_, "its arrays do not follow each other");
    at = end;
  }
  if (at != room) refuse_damaged(path_, "it is longer than its header says");
}

void Safetensors::verify() const {
  const auto found = metadata_.find(kChecksum);
  if (found == metadata_.end()) refuse_damaged(path_, "it has no checksum");
  const std::string written = mark(found->second);
  std::string header(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(data_));
  const std::size_t at = header.find(written);
  if (found->second.size() != kHashDigits || at == std::string::npos) {
    refuse_damaged(path_, "its checksum cannot be read");
  }
  header.replace(at, written.size(), mark(zeros()));
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(header)),
                                              std::as_bytes(std::span(bytes_).subspan(data_))};
  if (sha256(parts) != found->second) refuse_damaged(path_, "its checksum does not match");
}

const Safetensors::Tensor& Safetensors::find(const std::string& name, const std::string& dtype,
                                             std::size_t dimensions, Shape& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse_damaged(path_, fmt::format("'{}' is missing", name));
  const Tensor& tensor = found->second;
  // Numbers of 4 bytes begin at a multiple of that, so that they can be looked at in place.
  const bool in_place = dtype == "U8" || (data_ + tensor.begin) % 4 == 0;
  if (tensor.dtype != dtype || tensor.shape.size() != dimensions || !in_place) {
    refuse_damaged(path_, fmt::format("'{}' has another type or shape", name));
  }
  shape.rows = tensor.shape[0];
  shape.cols = dimensions > 1 ? tensor.shape[1] : 1;
  return tensor;
}

std::span<const float> Safetensors::floats(const std::string& name, std::size_t dimensions,
                                           Shape& shape) const {
  const Tensor& tensor = find(name, "F32", dimensions, shape);
  return {reinterpret_cast<const float*>(bytes_.data() + data_ + tensor.begin),
          (tensor.end - tensor.begin) / 4};
}

std::span<const std::int32_t> Safetensors::ints(const std::string& name, Shape& shape) const {
  const Tensor& tensor = find(name, "I32", 1, shape);
  return {reinterpret_cast<const std::int32_t*>(bytes_.data() + data_ + tensor.begin),
          (tensor.end - tensor.begin) / 4};
}

std::span<const std::uint8_t> Safetensors::bytes(const std::string& name, Shape& shape) const {
  const Tensor& tensor = find(name, "U8", 2, shape);
  return {bytes_.data() + data_ + tensor.begin, tensor.end - tensor.begin};
}

bool Safetensors::has(const std::string& name) const { return tensors_.contains(name); }

bool Safetensors::has(const std::string& name, const std::string& dtype) const {
  const auto found = tensors_.find(name);
  return found != tensors_.end() && found->second.dtype == dtype;
}

}  // namespace contcore
