// What may stand in the store.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "serve/store.h"

namespace contcore {

/// Whether it is a time like "2024-05-31T23:59:59.999Z".
bool is_stored_time(std::string_view text);

/// Each throws Error (kInput) naming what is wrong.
void check_inspection(const StoredInspection& inspection);
void check_map(std::span<const float> patches, std::uint32_t grid_w, std::uint32_t grid_h);
void check_verdict(std::string_view verdict);
void check_feedback(std::string_view label, std::string_view time);
void check_time(std::string_view time);
void check_length(std::string_view text, std::size_t most, std::string_view what);
void check_sample(const TaskSample& sample);

inline constexpr std::size_t kMostTaskBytes = 1000;
inline constexpr std::size_t kMostSourceBytes = 200;
inline constexpr std::size_t kMostReasonBytes = 1000;
inline constexpr std::size_t kMostStoredRegions = 16;
inline constexpr std::size_t kMostStationBytes = 200;
inline constexpr std::size_t kMostTypeBytes = 100;
inline constexpr std::size_t kMostKeyBytes = 1200;
inline constexpr std::size_t kMostValueBytes = 4000;
inline constexpr std::size_t kMostPatches = std::size_t{1} << 22;

}  // namespace contcore
