// The ways data sets are laid out on disk, and what reading each of them has in common.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "contcore/dataset.h"

namespace contcore {

/// What is there by its names alone.
bool looks_like_mvtec(const std::filesystem::path& root);
bool looks_like_visa(const std::filesystem::path& root);
bool looks_like_real_iad(const std::filesystem::path& root);         ///< with the lists inside
bool looks_like_real_iad_images(const std::filesystem::path& root);  ///< with the lists beside

/// Fill products and notes, in any order. Throw Error (kInput) as open_dataset says.
void read_mvtec(const std::filesystem::path& root, Dataset& dataset);
void read_visa(const std::filesystem::path& root, Dataset& dataset);
void read_real_iad(const std::filesystem::path& root, Dataset& dataset);

/// Folders are asked about far more often than something is wrong with them: unreadable is no.
bool is_folder(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);

/// The path as it was given, but from the root and without "." and ".." in it: links keep their
/// names.
std::filesystem::path whole_path(const std::filesystem::path& folder);

/// Folders, or regular files with the ending, right inside a folder, sorted; hidden ones left out.
std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder);
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                            const std::string& ending);

/// Files that the data set's own list names, which may be anything: their paths, and how many of
/// them are not there.
class ListedFiles {
 public:
  ListedFiles(std::string list, std::filesystem::path folder)
      : list_(std::move(list)), folder_(std::move(folder)) {}

  /// The path of the file. Throws Error (kInput) naming the list and the place in it for a name
  /// that leads out of the folder or is none.
  std::string add(const std::string& name, const std::string& place);

  /// Throws Error (kInput) naming the first file that is not there and how many are not.
  void check() const;

 private:
  std::string list_;
  std::filesystem::path folder_;
  std::string first_missing_;
  std::size_t missing_ = 0;
  std::size_t count_ = 0;
};

}  // namespace contcore
