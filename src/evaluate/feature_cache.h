// Features of sets of images, kept on disk so that they are extracted once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/npy.h"
#include "contcore/progress.h"
#include "contcore/score.h"

namespace contcore {

/// Where the patches of one image lie.
struct ImagePlace {
  std::size_t end = 0;  ///< the row behind its last patch
  std::size_t grid_width = 0;
  std::size_t grid_height = 0;
  NetworkInput input;  ///< without its pixels
  std::size_t image_width = 0;
  std::size_t image_height = 0;

  PatchGrid grid() const {
    return {grid_width, grid_height, input.width, input.height, input.tile};
  }
};

/// The patches of a list of images, one after the other.
struct ImageFeatures {
  NpyVectors vectors;
  std::vector<ImagePlace> images;
  double seconds = 0;  ///< it took to extract them
  File read{-1};       ///< locked, so that nobody makes room with it; not open without a file

  VectorView of_image(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : images[i - 1].end;
    return vectors.view().part(begin, images[i].end - begin);
  }
};

/// A folder with KEY.npy (the vectors) and KEY.json (the places) for each list of images. A key is
/// of everything the features depend on: backbone, layers, preprocessing, dimension, the scale of
/// bytes, and name, size and time of each file. What was used longest ago, and is not in use, goes
/// when the folder outgrows its limit; without a folder files are nameless, and gone with this
/// object; of a list that alone exceeds the limit the file is nameless too, and gone after use.
/// While it is written it is KEY.part-…, which counts toward the limit; what a killed run leaves of
/// that kind is removed by the next. Several processes, on any machines, may use one folder at once
/// (evaluate/leftovers.h): two that extract the same write files of their own, and the first to
/// finish gives its one the name.
class FeatureCache {
 public:
  /// Throws Error (kInput) if the folder cannot be made.
  FeatureCache(std::string folder, std::size_t limit);

  /// Throws Error: kInput for an image that cannot be read or a full disk, kCancelled.
  std::shared_ptr<const ImageFeatures> get(const Extractor& extractor,
                                           const std::vector<std::string>& files, Compute& compute,
                                           const Progress& progress) const;

  /// Whether `get` would find it.
  bool has(const Extractor& extractor, const std::vector<std::string>& files) const;

  /// To be called when other machines have written into the folder: NFS goes on believing for a
  /// while that a file is not there, unless the folder is read again.
  void look_again() const;

  /// What the features of these files depend on, as a name. Throws Error (kInput) for a file that
  /// is not there.
  static std::string key(const Extractor& extractor, const std::vector<std::string>& files);
  /// Name, size and time of a file, which tell whether it has changed. Throws as key() does.
  static std::string state_of(const std::string& file);

 private:
  std::shared_ptr<const ImageFeatures> open(const std::string& key) const;
  /// For so many more, which are in the file `own`.
  void make_room(std::size_t bytes, const std::string& own) const;

  std::string folder_;
  std::size_t limit_;
  mutable std::map<std::string, std::shared_ptr<const ImageFeatures>> nameless_;  // by key
};

}  // namespace contcore
