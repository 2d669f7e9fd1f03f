// What a person should be asked before images are learned.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace contcore {

/// One thing that is questionable.
struct Remark {
  /// "split" (a data set of which only the good images are taken), "defects", "masks" (of defects,
  /// or blank), "unread" (files of another format), "strangers" (unlike the others), "learned" (the
  /// task knows them already), "twice" (in the set), "product" (another one that is known),
  /// "unlike" (what the task has learned), "few" (for the rate of false alarms), "threshold" (far
  /// from the other tasks'), "spread" (of the scores), "colour" (some gray, others not).
  std::string kind;
  std::string text;                 ///< in plain words
  std::vector<std::size_t> images;  ///< which of the images, where it is about some of them
};

struct StrangeImage {
  std::size_t image = 0;
  float score = 0;  ///< by a memory of the others
  float usual = 0;  ///< what most of them score
};

struct Review {
  std::size_t images = 0;  ///< that there were
  std::size_t scored = 0;  ///< of these; the others were learned before, or too many
  std::vector<Remark> remarks;
  std::vector<StrangeImage> strangest;  ///< at most ten, the strangest first, whether or not there
                                        ///< is a remark about them
};

/// The images to learn from in files and folders, as find_images(). Of a data set with a split
/// (train/good, test/..., ground_truth/...) those of train/good alone, where a folder above them is
/// given; what is left out is said in the remarks, as are files in formats that are not read.
/// Throws Error (kInput) naming what is missing or empty.
struct FoundImages {
  std::vector<std::string> files;
  std::vector<Remark> remarks;
};
FoundImages find_good_images(const std::vector<std::string>& paths);

}  // namespace contcore
