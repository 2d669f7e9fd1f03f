// Safetensors files.
#include "base/safetensors.h"

#include "fuzz.h"
#include "mended.h"

using namespace contcore;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::MemoryFile file;
  fuzz::taken([&] {
    const Safetensors tensors(file.holding(fuzz::mended({data, size})), "a file");
    for (const char* name : {"a", "b", "vectors"}) {
      for (const std::size_t dimensions : {std::size_t{1}, std::size_t{2}}) {
        fuzz::taken([&] {
          Safetensors::Shape shape;
          float sum = 0;
          for (const float value : tensors.floats(name, dimensions, shape)) sum += value;
          volatile float kept = sum;
          (void)kept;
        });
      }
      fuzz::taken([&] {
        Safetensors::Shape shape;
        fuzz::expect(tensors.ints(name, shape).size() == shape.rows);
      });
    }
  });
  return 0;
}
