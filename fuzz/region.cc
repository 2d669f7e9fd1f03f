// Regions of interest, as JSON: sides of an image in the first two bytes, the text behind them.
#include "contcore/region_of_interest.h"

#include "fuzz.h"

using namespace contcore;

namespace {

// From left to right, apart from each other, none empty.
void check_rows(const RegionRows& rows, std::size_t width, std::size_t height) {
  fuzz::expect(rows.size() == height);
  for (const auto& row : rows) {
    std::size_t last = 0;
    for (const PixelRun& run : row) {
      fuzz::expect(run.begin < run.end && run.end <= width);
      fuzz::expect(&run == row.data() || run.begin > last);
      last = run.end;
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  const std::size_t width = fuzz::take(input) + std::size_t{1};
  const std::size_t height = fuzz::take(input) + std::size_t{1};
  RegionOfInterest region;
  if (!fuzz::taken([&] { region = parse_region(std::string(fuzz::text(input))); })) return 0;
  fuzz::expect(parse_region(region_text(region)) == region);
  fuzz::taken([&] { check_region(region); });
  fuzz::taken([&] { check_rows(region_rows(region, width, height), width, height); });
  fits_region(region, width, height);
  return 0;
}
