// Products made by computation, with and without defects: something to learn and inspect where no
// pictures are at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "contcore/image.h"
#include "contcore/progress.h"

namespace contcore {

struct ProductImage {
  Image image;
  std::vector<std::uint8_t>
      mask;  ///< width × height, 255 where the defect is; empty for a good one
  bool defective = false;
  std::string kind;  ///< of the defect; "good" without one
};

/// The products there are.
std::vector<std::string> product_names();

/// The kinds of defect a product can have. Throws Error (kUsage) for a product that is not there.
std::vector<std::string> product_defects(const std::string& name);

/// How a piece lies under the camera: as it comes (a gear turned any way), or in a fixture that
/// lets it turn by a few degrees at most.
enum class Placing { kFree, kFixture };

/// The index-th piece of a product, 256 × 256: each lies a little differently, under another light.
/// With a defect it is the same piece, under the same light, with the same noise, but for the
/// defect. The same arguments give the same pixels. Throws Error (kUsage) for what is not there.
ProductImage make_product(const std::string& name, std::size_t index, const std::string& defect,
                          std::uint64_t seed, Placing placing = Placing::kFree);

struct ProductCounts {
  std::size_t train = 60;
  std::size_t test_good = 20;
  std::size_t test_defective = 40;  ///< of all kinds together, in turn
  Placing placing = Placing::kFree;
};

/// Writes products as a data set in MVTec's layout: FOLDER/NAME/train/good/000.png,
/// FOLDER/NAME/test/KIND/000.png and FOLDER/NAME/ground_truth/KIND/000_mask.png. No piece appears
/// twice. Files already there are replaced. Throws Error (kInput) naming what cannot be written.
void write_products(const std::string& folder, const std::vector<std::string>& names,
                    const ProductCounts& counts, std::uint64_t seed, const Progress& progress = {});

}  // namespace contcore
