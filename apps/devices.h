// What there is to compute on, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace contcore::app {

/// "cpu (16 threads), cuda:0 (NVIDIA H200, 140 GiB)", or why there is no GPU.
std::string devices_text();

/// The same as a list; a GPU that cannot be used is not in it.
nlohmann::json devices_json();

}  // namespace contcore::app
