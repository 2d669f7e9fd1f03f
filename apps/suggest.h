// The name that a mistyped one was meant to be.
#pragma once

#include <string>
#include <vector>

namespace contcore::app {

/// The nearest of some names: one that begins with the word, or that at most two letters left out,
/// put in, changed or swapped make of it, yet not most of them. Empty when none is near.
std::string nearest_name(const std::string& word, const std::vector<std::string>& names);

}  // namespace contcore::app
