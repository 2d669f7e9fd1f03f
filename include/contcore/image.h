// Images: read, brought into the shape the backbone sees, and shown with what was found in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "contcore/score.h"

namespace contcore {

/// An 8-bit RGB image, row after row, three bytes a pixel.
struct Image {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> rgb;
};

/// Bounds on what is decoded: a small file may claim a large image.
struct ImageLimits {
  std::size_t bytes = std::size_t{256} << 20;
  std::size_t pixels = std::size_t{100} << 20;
};

/// Decodes PNG, JPEG, BMP, TIFF, WebP, PGM and PPM, told by their bytes and not by their names;
/// gray becomes RGB, alpha is dropped, 16 bits become 8, EXIF orientation is applied, colour
/// profiles are ignored (more in docs/inspecting.md). Throws Error (kInput) naming the file, the
/// reason and the remedy, also for a file that is cut short; the limits are checked against the
/// header before a pixel is decoded. May be called from several threads at once.
Image read_image(const std::string& path, const ImageLimits& limits = {});
Image decode_image(std::span<const std::uint8_t> bytes, const std::string& name,
                   const ImageLimits& limits = {});

/// Writes a PNG or JPEG, by the name's ending (.png, .jpg, .jpeg); whole or not at all. Throws
/// Error (kInput).
void write_image(const std::string& path, const Image& image);
std::vector<std::uint8_t> encode_png(const Image& image);

/// Pixels that neighbouring tiles have in common, unless others are asked for.
inline constexpr std::size_t kTileOverlap = 128;

/// A geometry in words; empty: not given.
struct GeometryText {
  std::string resize = {};   ///< "256" or "short:256"; of tiles "100%"
  std::string crop = {};     ///< "224" or "none"
  std::string tile = {};     ///< "384" or "none"
  std::string overlap = {};  ///< "128"
};

/// How an image is brought to the backbone: resized (an area average if a side shrinks, bilinear
/// otherwise), then cropped in its centre, or cut into tiles that overlap.
struct Geometry {
  enum class Resize {
    kSquare,   ///< to resize × resize, whatever the shape
    kShort,    ///< the short side to `resize`, the shape kept (the long side rounded)
    kPercent,  ///< both sides to `resize` hundredths of what they are: with tiles, and only there
  };
  Resize mode = Resize::kSquare;
  std::size_t resize = 256;
  std::size_t crop = 0;     ///< side of the square cut from the centre, at most `resize`; 0: none
  std::size_t tile = 0;     ///< side of a tile; 0: the image is seen at once
  std::size_t overlap = 0;  ///< pixels that neighbouring tiles have in common, at most half a tile

  bool operator==(const Geometry&) const = default;

  /// "256" or "short:256", "224" or "none", sizes from 32 to 4096; throws Error (kUsage) with an
  /// example. And back.
  static Geometry parse(const std::string& resize, const std::string& crop);
  /// The same with tiles. What is not given is as in `usual`, and as it must be where tiles are
  /// given: the image as large as it is, without a crop, tiles that overlap by kTileOverlap.
  static Geometry parse(const GeometryText& given, const Geometry& usual);
  std::string resize_text() const;
  std::string crop_text() const;     ///< "224" or "none"
  std::string tile_text() const;     ///< "384" or "none"
  std::string overlap_text() const;  ///< "128"; "none" without tiles
};

/// What the backbone is given: 3 × height × width float32, channel after channel, RGB with
/// ImageNet's mean and deviation taken out, and where in the original image that is.
struct NetworkInput {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<float> chw;
  /// The part of the original image that is seen, in its pixels (the whole image without a crop).
  double left = 0, top = 0, right = 0, bottom = 0;
  std::size_t tile = 0;  ///< side of the tiles in which it is seen; 0: at once
};

/// Of tiles the whole image, as if they were one. Throws Error (kUsage) for a geometry that `parse`
/// would not give, Error (kInput) for an image so long that it would have over 16 million pixels
/// with its shape kept, or over 100 million in tiles.
NetworkInput prepare(const Image& image, const Geometry& geometry);

/// The picture that the backbone is given, to look at.
Image picture(const NetworkInput& input);

/// One value for each pixel, row after row.
struct Map {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<float> values;
};

/// The anomaly map in the pixels the backbone saw: the grid of patch distances, bilinearly
/// (half-pixel centres) to width × height, smoothed by a Gaussian of σ = 4 at a short side of 224
/// (of a tile, where there are tiles), in proportion elsewhere. The Gaussian reaches 4 σ and sees
/// the map mirrored at its borders (d c b a | a b c d), as SciPy's gaussian_filter does. Throws
/// Error (kInternal) when the patches are not the grid's, or there are none.
Map anomaly_map(std::span<const float> patches, const PatchGrid& grid);

/// That map in the pixels of the original image of width × height, bilinearly. Pixels the backbone
/// did not see (whose centres lie outside the crop) are 0.
Map to_original(const Map& map, const NetworkInput& input, std::size_t width, std::size_t height);

/// A connected part of a map that lies above a level; pixels that touch at a corner belong
/// together.
struct Region {
  std::size_t x = 0;  ///< of its box: the left column, the upper row
  std::size_t y = 0;
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t area = 0;  ///< pixels
  float score = 0;       ///< the largest value in it

  bool operator==(const Region&) const = default;
};

/// All of them, the largest score first, of equals the one that begins first. No NaN is above a
/// level. Throws Error (kInternal) for a map whose values are not its pixels.
std::vector<Region> regions_above(const Map& map, float level);

/// A region of the map that the backbone's input has, in the pixels of the original image of
/// width × height: the box of the pixels it touches, and its area in proportion.
Region to_original(const Region& region, const NetworkInput& input, std::size_t width,
                   std::size_t height);

/// What a person looks at: the image, the heat over it, the outline of what lies above `level`, and
/// below the image a bar, green, red or amber, with the caption (ASCII; in several lines if it
/// must). `map` is in the image's pixels. The picture is of a screen's size: an image with a side
/// of more than 1280 pixels is shrunk to that, and one less than 320 pixels wide is enlarged, at
/// most ninefold, and then given a margin, so that the caption can be read.
struct Overlay {
  float low = 0;          ///< map value shown as cold (no colour)
  float high = 1;         ///< map value shown as hottest
  float level = 1;        ///< what lies above is outlined
  std::string caption;    ///< such as "DEFECT  score 3.21  threshold 2.10"
  bool rejected = false;  ///< a red bar, or a green one
  bool judged = true;     ///< false: no verdict, and the bar is gray
  bool unknown = false;   ///< no known product: an amber bar
};
Image draw_overlay(const Image& image, const Map& map, const Overlay& overlay);

/// The same in layers to lay over the image, as PNG files with transparency: the heat from `low` to
/// `high`, and the outline of what lies above `level`.
std::vector<std::uint8_t> heat_png(const Map& map, float low, float high);
std::vector<std::uint8_t> outline_png(const Map& map, float level);

/// Pictures side by side, each with its caption (ASCII) below, to look at together.
struct SheetPicture {
  Image image;
  std::vector<std::string> caption;  ///< a line each, shortened in the middle where too long
  bool marked = false;               ///< framed in red
};
Image contact_sheet(const std::string& title, const std::vector<SheetPicture>& pictures);

}  // namespace contcore
