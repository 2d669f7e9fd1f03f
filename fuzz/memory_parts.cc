// Memories whose frame is sound and whose arrays and texts are anything: what the bytes of
// fuzz/memory.cc seldom come to. The input: seven bytes of sizes and kinds, then texts that end at
// a byte 0, then the numbers.
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "mended.h"
#include "use_memory.h"

using namespace contcore;

namespace {

using Json = nlohmann::json;

class File {
 public:
  explicit File(fuzz::Bytes numbers) : numbers_(numbers) {}

  void text(const std::string& name, const std::string& value) {
    header_["__metadata__"][name] = value;
  }

  void array(const std::string& name, const char* type, std::vector<std::size_t> shape) {
    std::size_t count = 1;
    for (const std::size_t n : shape) count *= n;
    const std::size_t begin = data_.size();
    const std::size_t each = type[0] == 'U' ? 1 : 4;
    for (std::size_t i = 0; i < each * count; ++i) data_.push_back(next(type, i % each));
    header_[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }

  std::vector<std::uint8_t> bytes() {
    text("sha256", std::string(64, '0'));
    std::string head = header_.dump(-1, ' ', false, Json::error_handler_t::replace);
    head.resize((head.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = head.size();
    std::vector<std::uint8_t> all(8);
    std::memcpy(all.data(), &length, 8);
    all.insert(all.end(), head.begin(), head.end());
    all.insert(all.end(), data_.begin(), data_.end());
    return fuzz::mended(all);
  }

 private:
  // When the input ends, numbers that are fine anywhere: 1.0 and 0.
  std::uint8_t next(const char* type, std::size_t place) {
    if (!numbers_.empty()) return fuzz::take(numbers_);
    constexpr std::uint8_t kOne[] = {0, 0, 0x80, 0x3f};
    return type[0] == 'F' ? kOne[place] : std::uint8_t{0};
  }

  fuzz::Bytes numbers_;
  Json header_ = Json::object();
  std::vector<std::uint8_t> data_;
};

std::string take_text(fuzz::Bytes& input) {
  std::string text;
  while (!input.empty()) {
    const std::uint8_t c = fuzz::take(input);
    if (c == 0) break;
    text += static_cast<char>(c);
  }
  return text;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  const bool learn = !input.empty() && input[0] >= 240;
  const auto count = [&input] { return static_cast<std::size_t>(fuzz::take(input) % 8); };
  const std::size_t n = count(), d = count(), held = count(), patches = count();
  const std::size_t other_n = count(), other_held = count();
  // Of both versions, of floats or bytes, and with known defects.
  const std::uint8_t kinds = fuzz::take(input);
  const bool former = kinds % 2 == 1;
  const char* numbers = kinds / 2 % 2 == 1 ? "U8" : "F32";
  const std::size_t rows = other_n == 0 ? n : other_n;  // mostly they agree
  const std::size_t more = other_held == 0 ? held : other_held;
  std::map<std::string, std::string> texts;
  for (const char* name : {"capacity", "q", "consolidate", "greedy_order", "tasks"}) {
    texts[name] = take_text(input);
  }
  File parts(input);
  parts.text("format", former ? "contcore memory 1" : "contcore memory 2");
  for (const auto& [name, value] : texts) parts.text(name, value);
  parts.array("origin", "I32", {rows});
  parts.array("calibration.task", "I32", {held});
  if (former) {
    parts.array("calibration.image", "I32", {patches});
    parts.array("calibration.score", "F32", {held});
    parts.array("calibration.patches", "F32", {patches, d});
  } else {
    for (const char* name : {"vectors", "level", "end"}) {
      parts.array(std::string("calibration.") + name, "I32", {held});
    }
    parts.array("calibration.hash", "I32", {2 * held});
    parts.array("calibration.mean_of", "I32", {more});
    parts.array("learned.end", "I32", {held});
    parts.array("learned.limit", "I32", {more});
    parts.array("learned.hash", "I32", {patches});
    parts.array("calibration.scores", "F32", {patches});
    if (kinds / 4 % 2 == 1) {
      parts.array("suspects.image", "I32", {other_n});
      parts.array("suspects.distance", "F32", {other_n});
      parts.array("suspects.value", "F32", {other_n});
      parts.array("suspects.patches", numbers, {other_n, d});
      parts.array("defects.patch_of", "I32", {patches});
      parts.array("defects.image_of", "I32", {held});
      parts.array("defects.image", "I32", {2 * held});
      parts.array("defects.patches", numbers, {patches, d});
    }
    if (kinds / 8 % 2 == 1) parts.array("calibration.strange", "F32", {more});
  }
  parts.array("radius", "F32", {rows});
  parts.array("slack", "F32", {n});
  parts.array("calibration.first", "F32", {more});
  parts.array("vectors", numbers, {n, d});
  parts.array("calibration.means", former ? "F32" : numbers, {former ? held : more, d});
  static fuzz::MemoryFile file;
  const std::vector<std::uint8_t> bytes = parts.bytes();
  fuzz::taken([&] { fuzz::use(Memory::open(file.holding(bytes)), learn); });
  return 0;
}
