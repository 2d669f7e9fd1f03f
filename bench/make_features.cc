// contcore_features OUT.npy ROWS [SEED]: a file of generated features of any size, made in blocks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "contcore/compute.h"
#include "coreset/synthetic.h"

int main(int argc, char** argv) {
  using namespace contcore;
  constexpr std::size_t kDimension = 1024;
  if (argc < 3) {
    fmt::print(stderr, "usage: contcore_features OUT.npy ROWS [SEED]\n");
    return 2;
  }
  const std::size_t rows = std::strtoull(argv[2], nullptr, 10);
  Compute compute;
  const SyntheticFeatures product(kDimension, argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  std::FILE* file = std::fopen(argv[1], "wb");
  if (file == nullptr) {
    fmt::print(stderr, "{}: cannot be created\n", argv[1]);
    return 3;
  }
  std::string header = fmt::format(
      "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, kDimension);
  header.resize(117, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size());
  start += '\0';
  bool good = std::fwrite((start + header).data(), 1, 128, file) == 128;
  constexpr std::size_t kTogether = 64 * SyntheticFeatures::kBlock;
  Vectors some(std::min(rows, kTogether), kDimension);
  for (std::size_t first = 0; first < rows && good; first += kTogether) {
    const std::size_t n = std::min(kTogether, rows - first);
    const std::size_t blocks = (n + SyntheticFeatures::kBlock - 1) / SyntheticFeatures::kBlock;
    compute.threads().run(blocks, [&](std::size_t b, std::size_t) {
      const std::size_t at = b * SyntheticFeatures::kBlock;
      product.make_block(first / SyntheticFeatures::kBlock + b,
                         std::min(SyntheticFeatures::kBlock, n - at), some.row(at));
    });
    good = std::fwrite(some.data(), kDimension * sizeof(float), n, file) == n;
  }
  if (std::fclose(file) != 0 || !good) {
    fmt::print(stderr, "{}: cannot be written; is the disk full?\n", argv[1]);
    return 3;
  }
  return 0;
}
