// Image files told by the endings of their names.
#pragma once

#include <string>
#include <vector>

namespace contcore {

/// The images in a folder, searched to the bottom, names sorted; perhaps none. Throws Error
/// (kInput) when it cannot be searched.
std::vector<std::string> images_in_folder(const std::string& folder);

}  // namespace contcore
