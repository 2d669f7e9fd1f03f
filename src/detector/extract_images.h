// Images to patch vectors, several at a time: files, and what a program holds itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/error.h"
#include "contcore/extractor.h"
#include "contcore/image_source.h"
#include "contcore/progress.h"
#include "detector/image_look.h"

namespace contcore {

/// Does the work; what it says against an image begins with the image's name.
template <typename Work>
auto about_image(const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    const std::string what = error.what();
    throw Error(error.kind(), what.starts_with(name + ":") ? what : name + ": " + what);
  }
}

/// Images wherever they come from. May be read from several threads at once.
class ImageList {
 public:
  virtual ~ImageList() = default;
  virtual std::size_t count() const = 0;
  virtual std::string name(std::size_t i) const = 0;
  /// Throws Error (kInput) that begins with its name.
  virtual Image load(std::size_t i) const = 0;
  /// The same, and the bytes that a lesson keeps of it.
  virtual Image load(std::size_t i, std::vector<std::uint8_t>& bytes) const = 0;
  /// These alone.
  virtual std::vector<std::uint8_t> bytes(std::size_t i) const = 0;
};

/// Files; a lesson keeps their bytes. Refers to the names.
class ImageFiles : public ImageList {
 public:
  explicit ImageFiles(const std::vector<std::string>& files) : files_(files) {}
  std::size_t count() const override { return files_.size(); }
  std::string name(std::size_t i) const override { return files_[i]; }
  Image load(std::size_t i) const override;
  Image load(std::size_t i, std::vector<std::uint8_t>& bytes) const override;
  std::vector<std::uint8_t> bytes(std::size_t i) const override;

 private:
  const std::vector<std::string>& files_;
};

/// What is not files; a lesson keeps PNGs of it. Refers to the source.
class ImagesInMemory : public ImageList {
 public:
  explicit ImagesInMemory(const ImageSource& source) : source_(source) {}
  std::size_t count() const override { return source_.count; }
  std::string name(std::size_t i) const override { return source_.name(i); }
  Image load(std::size_t i) const override;
  Image load(std::size_t i, std::vector<std::uint8_t>& bytes) const override;
  std::vector<std::uint8_t> bytes(std::size_t i) const override;

 private:
  const ImageSource& source_;
};

/// What an image gave: its patches, or why it has none.
struct Extracted {
  std::optional<Patches> patches;
  std::vector<std::uint8_t> bytes;  ///< that a lesson keeps, where they are asked for
  std::string error;
  ImageLook look;
};

/// Images that may wait for a slower one before them.
inline constexpr std::size_t kMostImagesAhead = 32;

/// Calls use(i, extracted) for images [first, first + n) in order; they are extracted in parallel,
/// but those in tiles one after the other, each by all threads: such an image takes much memory.
/// An image that cannot be read, or not be seen through the region, is for `use` to deal with.
/// Throws Error (kCancelled).
void extract_images(const Extractor& extractor, const ImageList& images, std::size_t first,
                    std::size_t n, bool keep_bytes, Compute& compute, const Progress& progress,
                    const std::function<void(std::size_t, Extracted&)>& use,
                    const SharedRegion& region = {});

}  // namespace contcore
