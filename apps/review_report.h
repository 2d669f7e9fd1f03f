// What learning asks before it begins: in words, as JSON, and as a picture.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "contcore/review.h"

namespace contcore::app {

/// Which images, for whom, and where the picture goes.
struct ReviewPlace {
  std::string task;
  const std::vector<std::string>& files;  ///< that the review's numbers are of
  std::string sheet;  ///< the picture's file, which is then always written; empty: none was named
  std::string otherwise;  ///< where it goes then, if there are remarks; empty: nowhere
};

/// Says on stderr what is questionable, and writes the picture.
void report_review(const Review& review, const ReviewPlace& place);

/// Remarks that are made before any image is read.
void note_remarks(const std::vector<Remark>& remarks, const std::vector<std::string>& files);

/// Throws Error (kInput) if there are any.
void refuse_if_any(const std::vector<Remark>& remarks);

nlohmann::json review_json(const Review& review, const std::vector<std::string>& files);

}  // namespace contcore::app
