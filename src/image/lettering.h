// Text in a picture.
#pragma once

#include <string_view>

#include "contcore/image.h"

namespace contcore {

/// White letters of one size; printable ASCII.
class Lettering {
 public:
  /// Capitals are 22 · scale pixels high, rounded.
  explicit Lettering(double scale);

  int height() const { return height_; }  ///< of a capital
  int width(std::string_view text) const;

  /// The text begins at the column x and stands on the row `baseline`, or hangs below it a little.
  /// What lies outside the image is left out.
  void draw(std::string_view text, int x, int baseline, Image& image) const;

 private:
  double advance(char c) const;
  double above(double y) const;

  int height_;
  double thickness_;  // of a stroke
  double across_;     // pixels for a unit of the font
  double small_;      // the height of small letters, whole pixels: their tops are sharp then
};

}  // namespace contcore
