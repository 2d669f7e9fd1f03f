// Where the pictures and maps of images go.
#pragma once

#include <string>
#include <vector>

namespace contcore::app {

/// For each image a JPEG's place under `folder`, in the folders that the images have below the one
/// they share, named after the image: part.png becomes part.jpg. Where two images would come to the
/// same place they keep their endings (part.png.jpg), so that no two share one unless they are the
/// same file. Throws Error (kUsage) if a place lies among the images.
std::vector<std::string> picture_places(const std::string& folder,
                                        const std::vector<std::string>& images);

/// For each image a .npy file's place, behind its whole name: part.png.npy.
std::vector<std::string> map_places(const std::string& folder,
                                    const std::vector<std::string>& images);

/// Makes a folder, or that which a file goes to. Throws Error (kInput) naming it.
void make_folder(const std::string& folder);
void make_folder_of(const std::string& file);

}  // namespace contcore::app
