// Image files told by the endings of their names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace contcore {

/// Whether a file of that name would be taken for an image: by its ending, hidden ones never.
bool is_image_name(const std::string& name);

/// Whether it would be a picture of a format that is not read, such as HEIC.
bool is_unread_picture(const std::string& name);

/// The images in a folder, searched to the bottom, names sorted; perhaps none. Throws Error
/// (kInput) when it cannot be searched.
/// Pictures of formats that are not read go to `unread`, if it is given.
std::vector<std::string> images_in_folder(const std::string& folder,
                                          std::vector<std::string>* unread = nullptr);

/// The first names of some, and how many more there are.
std::string joined(const std::vector<std::string>& names, std::size_t most);

}  // namespace contcore
