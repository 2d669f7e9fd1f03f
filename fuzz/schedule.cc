// Schedules and orders of classes.
#include "contcore/schedule.h"

#include <algorithm>

#include "fuzz.h"

using namespace contcore;

namespace {

void check_all_once(std::vector<std::size_t> seen, std::size_t count) {
  std::sort(seen.begin(), seen.end());
  fuzz::expect(seen.size() == count);
  for (std::size_t i = 0; i < count; ++i) fuzz::expect(seen[i] == i);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  const std::uint8_t how = fuzz::take(input);
  const std::string text(fuzz::text(input));
  const std::size_t first = how % 16 + 1;
  const bool two = how >= 128;
  fuzz::taken([&] {
    const std::vector<std::string> names =
        two ? std::vector<std::string>{"mvtec", "visa"} : std::vector<std::string>{"mvtec"};
    const std::vector<std::size_t> sizes =
        two ? std::vector<std::size_t>{first, 3} : std::vector<std::size_t>{first};
    std::vector<std::size_t> seen;
    for (const auto& task : parse_schedule(text, names, sizes)) {
      fuzz::expect(!task.empty());
      seen.insert(seen.end(), task.begin(), task.end());
    }
    check_all_once(seen, two ? first + 3 : first);
  });
  fuzz::taken([&] { check_all_once(class_order(text, {"bottle", "cable", "screw"}), 3); });
  return 0;
}
