// OpenCV as it is used here: in the calling thread, and without a word of its own.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#pragma GCC diagnostic pop

#include <cstdint>

#include "contcore/image.h"

namespace contcore {

/// To be called before anything of OpenCV's. Images are worked on inside threads of our own, so
/// OpenCV must start none; that, and what it prints, are settings of the process.
void settle_opencv();

/// The pixels as OpenCV sees them (in the order RGB); nothing is copied.
inline cv::Mat pixels_of(Image& image) {
  return {static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3, image.rgb.data()};
}
/// To be read only: OpenCV has no view that says so.
inline cv::Mat pixels_of(const Image& image) {
  return {static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3,
          const_cast<std::uint8_t*>(image.rgb.data())};
}

inline cv::Mat pixels_of(Map& map) {
  return {static_cast<int>(map.height), static_cast<int>(map.width), CV_32F, map.values.data()};
}

inline cv::Mat pixels_of(const Map& map) {
  return {static_cast<int>(map.height), static_cast<int>(map.width), CV_32F,
          const_cast<float*>(map.values.data())};
}

/// An image of that size, black.
Image blank_image(std::size_t width, std::size_t height);

/// Throws Error (kInternal) if the image is empty, is larger than anything that is read, or does
/// not have its size's number of bytes.
void check_image(const Image& image);
void check_map(const Map& map);

}  // namespace contcore
