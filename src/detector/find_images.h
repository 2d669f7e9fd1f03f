// Image files told by the endings of their names.
#pragma once

#include <string>
#include <vector>

namespace contcore {

/// Whether a file of that name would be taken for an image: by its ending, hidden ones never.
bool is_image_name(const std::string& name);

/// The images in a folder, searched to the bottom, names sorted; perhaps none. Throws Error
/// (kInput) when it cannot be searched.
std::vector<std::string> images_in_folder(const std::string& folder);

}  // namespace contcore
