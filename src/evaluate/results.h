// Means of measures, and results as JSON values.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "contcore/evaluate.h"

namespace contcore {

/// Of each measure; nothing where one of them is undefined or there are none.
Measures mean_measures(std::span<const Measures> all);

nlohmann::ordered_json result_json(const RunResult& result);
nlohmann::ordered_json summary_json(const Summary& summary);

/// indent −1: in one line.
std::string json_text(const nlohmann::ordered_json& json, int indent);

}  // namespace contcore
