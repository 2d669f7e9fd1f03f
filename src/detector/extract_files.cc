// In: names of image files. Out: their patches, in order. A file that cannot be read is given on
// with the reason; stops when progress says so.
#include "detector/extract_files.h"

#include <atomic>

#include "base/file.h"
#include "contcore/error.h"
#include "contcore/image.h"
#include "detector/in_order.h"

namespace contcore {
namespace {

Extracted extract_file(const Extractor& extractor, const std::string& file) {
  Compute one(1);
  Extracted image;
  try {
    image.bytes = read_whole(file, "an image", ImageLimits().bytes);
    const Image read = decode_image(image.bytes, file);
    image.look = look_at(read);
    image.patches = about_file(file, [&] { return extractor.extract(read, one); });
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    image.error = error.what();
  }
  return image;
}

}  // namespace

void extract_files(const Extractor& extractor, const std::vector<std::string>& files,
                   std::size_t first, std::size_t n, Compute& compute, const Progress& progress,
                   const std::function<void(std::size_t, Extracted&)>& use) {
  std::atomic<std::size_t> done = first;
  run_in_order<Extracted>(
      compute, n, kMostImagesAhead,
      [&](std::size_t i, std::size_t worker) {
        // Worker 0 is the calling thread, the only one to report from.
        if (worker == 0 && progress &&
            !progress(static_cast<double>(done) / static_cast<double>(files.size()))) {
          throw Error(Error::Kind::kCancelled, "stopped");
        }
        return extract_file(extractor, files[first + i]);
      },
      [&](std::size_t i, Extracted& image) {
        use(first + i, image);
        ++done;
      });
}

}  // namespace contcore
