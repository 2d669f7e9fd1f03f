#include "evaluate/result_packing.h"

#include <cstdint>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::uint64_t kMostPixels = ImageLimits{}.pixels;

void put_image(Packer& packer, const Image& image) {
  packer.put<std::uint64_t>(image.width);
  packer.put<std::uint64_t>(image.height);
  packer.put_all(image.rgb);
}

Image get_image(Unpacker& from) {
  const auto width = from.get<std::uint64_t>();
  const auto height = from.get<std::uint64_t>();
  Image image{width, height, from.get_all<std::uint8_t>()};
  if (width > kMostPixels || height > kMostPixels || image.rgb.size() != 3 * width * height) {
    throw Error(Error::Kind::kInternal, "a picture of another rank has not its size");
  }
  return image;
}

}  // namespace

void put_measures(Packer& packer, const Measures& measures) {
  for (const std::optional<double>& measure : measures) {
    packer.put<std::uint8_t>(measure ? 1 : 0);
    packer.put<double>(measure.value_or(0));
  }
}

Measures get_measures(Unpacker& from) {
  Measures measures;
  for (std::optional<double>& measure : measures) {
    const bool defined = from.get<std::uint8_t>() != 0;
    const auto value = from.get<double>();
    if (defined) measure = value;
  }
  return measures;
}

void put_pictures(Packer& packer, const Verdict& verdict) {
  for (const Image* image : {&verdict.image, &verdict.heat, &verdict.mask}) {
    put_image(packer, *image);
  }
}

void get_pictures(Unpacker& from, Verdict& verdict) {
  for (Image* image : {&verdict.image, &verdict.heat, &verdict.mask}) *image = get_image(from);
}

void put_result(Packer& packer, const RunResult& result) {
  packer.put_text(to_json(result));
  for (const Verdict& verdict : result.gallery) put_pictures(packer, verdict);
}

RunResult get_result(Unpacker& from) {
  RunResult result = result_from_json(from.get_text(), "a result of another rank");
  for (Verdict& verdict : result.gallery) get_pictures(from, verdict);
  return result;
}

}  // namespace contcore
