// In: images. Out: their patches, in order. One that cannot be read is given on with the reason;
// stops when progress says so.
#include "detector/extract_images.h"

#include <atomic>

#include "base/file.h"
#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/image.h"
#include "detector/in_order.h"
#include "device/one_each.h"

namespace contcore {
namespace {

Extracted extract_image(const Extractor& extractor, const ImageList& images, std::size_t i,
                        bool keep_bytes, const SharedRegion& region, Compute& compute) {
  Extracted result;
  try {
    const Image image = keep_bytes ? images.load(i, result.bytes) : images.load(i);
    result.patches =
        about_image(images.name(i), [&] { return extractor.extract(image, compute, region); });
    result.look = look_at(image, region);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    result.error = error.what();
  }
  return result;
}

}  // namespace

Image ImageFiles::load(std::size_t i) const { return read_image(files_[i]); }

std::vector<std::uint8_t> ImageFiles::bytes(std::size_t i) const {
  return read_whole(files_[i], "an image", ImageLimits().bytes);
}

Image ImageFiles::load(std::size_t i, std::vector<std::uint8_t>& bytes) const {
  bytes = this->bytes(i);
  return decode_image(bytes, files_[i]);
}

Image ImagesInMemory::load(std::size_t i) const {
  return about_image(name(i), [&] { return source_.load(i); });
}

std::vector<std::uint8_t> ImagesInMemory::bytes(std::size_t i) const {
  std::vector<std::uint8_t> bytes;
  load(i, bytes);
  return bytes;
}

Image ImagesInMemory::load(std::size_t i, std::vector<std::uint8_t>& bytes) const {
  Image image = load(i);
  bytes = about_image(name(i), [&] { return encode_png(image); });
  return image;
}

void extract_images(const Extractor& extractor, const ImageList& images, std::size_t first,
                    std::size_t n, bool keep_bytes, Compute& compute, const Progress& progress,
                    const std::function<void(std::size_t, Extracted&)>& use,
                    const SharedRegion& region) {
  if (extractor.geometry().tile != 0) {
    for (std::size_t i = first; i < first + n; ++i) {
      report(progress, part_done(i, images.count()));
      Extracted image = extract_image(extractor, images, i, keep_bytes, region, compute);
      use(i, image);
    }
    return;
  }
  std::atomic<std::size_t> done = first;
  OneEach alone(compute);
  run_in_order<Extracted>(
      compute, n, kMostImagesAhead,
      [&](std::size_t i, std::size_t worker) {
        // Worker 0 is the calling thread, the only one to report from.
        if (worker == 0 && progress &&
            !progress(static_cast<double>(done) / static_cast<double>(images.count()))) {
          throw Error(Error::Kind::kCancelled, "stopped");
        }
        return extract_image(extractor, images, first + i, keep_bytes, region, alone[worker]);
      },
      [&](std::size_t i, Extracted& image) {
        use(first + i, image);
        ++done;
      });
}

}  // namespace contcore
