// Memories, byte by byte, with the checksum made right.
#include "fuzz.h"
#include "mended.h"
#include "use_memory.h"

using namespace contcore;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::MemoryFile file;
  fuzz::taken([&] {
    fuzz::use(Memory::open(file.holding(fuzz::mended({data, size}))), size % 16 == 0);
  });
  return 0;
}
