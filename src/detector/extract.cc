// In: image files. Out: an .npy file of their patch vectors, and where in it each image is. Fails
// as contcore/extract.h says; nothing is left behind then.
#include "contcore/extract.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>

#include "base/file.h"
#include "base/npy_writer.h"
#include "base/rows.h"
#include "contcore/error.h"
#include "detector/extract_images.h"

namespace contcore {
namespace {

ExtractedImage place_of(const std::string& file, const Patches& patches, std::size_t first) {
  return {file,
          first,
          patches.vectors.rows(),
          patches.grid_width,
          patches.grid_height,
          patches.input.left,
          patches.input.top,
          patches.input.right,
          patches.input.bottom,
          patches.image_width,
          patches.image_height};
}

}  // namespace

ExtractReport extract_to_npy(const Extractor& extractor, const std::vector<std::string>& files,
                             const std::string& out, bool strict, Compute& compute,
                             const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  ExtractReport report;
  write_streamed(out, [&](int fd) {
    const Scalar scalar = extractor.byte_scale() ? Scalar::kUint8 : Scalar::kFloat32;
    NpyWriter writer(fd, extractor.embedding().dimension, scalar);
    const auto take = [&](std::size_t i, Extracted& image) {
      if (!image.patches) {
        if (strict) throw Error(Error::Kind::kInput, image.error);
        report.skipped.push_back({files[i], image.error});
        return;
      }
      report.images.push_back(place_of(files[i], *image.patches, writer.rows()));
      if (!writer.append(image.patches->vectors.view())) fail_to_write(out, errno);
    };
    extract_images(extractor, ImageFiles(files), 0, files.size(), false, compute, progress, take);
    if (report.images.empty()) {
      throw Error(
          Error::Kind::kInput,
          fmt::format("none of {} images can be used: {}", files.size(),
                      report.skipped.empty() ? "there are none" : report.skipped[0].reason));
    }
    if (!writer.finish()) fail_to_write(out, errno);
    report.rows = writer.rows();
    contcore::report(progress, 1);
  });
  extractor.release();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace contcore
