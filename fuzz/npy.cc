// NumPy files of vectors.
#include "contcore/npy.h"

#include <vector>

#include "fuzz.h"

using namespace contcore;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::MemoryFile file;
  fuzz::taken([&] {
    const NpyVectors vectors(file.holding({data, size}));
    const VectorView view = vectors.view();
    std::vector<float> scratch(view.cols);
    float sum = 0;
    for (std::size_t i = 0; i < view.rows; ++i) {
      const float* row = view.row(i, scratch.data());
      for (std::size_t j = 0; j < view.cols; ++j) sum += row[j];
    }
    volatile float kept = sum;
    (void)kept;
  });
  return 0;
}
