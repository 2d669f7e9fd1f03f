#include "image/opencv.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sched.h>
#include <unistd.h>

#include <exception>
#include <mutex>
#include <opencv2/core/utils/logger.hpp>
#include <thread>

#include "contcore/error.h"

namespace contcore {
namespace {

// OpenCV counts rows, columns and offsets in int.
constexpr std::size_t kLongestDrawn = std::size_t{1} << 20;
constexpr std::size_t kMostDrawn = std::size_t{1} << 29;

int say_nothing(int, const char*, const char*, const char*, int, void*) { return 0; }

// A thread may have a table of open files of its own (Linux), and in it an error output that leads
// nowhere. The others are left out of it: a lock would otherwise be held until the thread is gone
// altogether, which is a moment after it was joined.
void silence_this_thread() {
  constexpr unsigned kAll = ~0U;
  if (::close_range(STDERR_FILENO + 1, kAll, CLOSE_RANGE_UNSHARE) != 0 &&
      ::unshare(CLONE_FILES) != 0) {
    return;
  }
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
}

}  // namespace

void settle_opencv() {
  static std::once_flag once;
  std::call_once(once, [] {
    cv::setNumThreads(1);
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    cv::redirectError(say_nothing);
  });
}

void quietly(const std::function<void()>& work) {
  std::exception_ptr failure;
  std::thread([&] {
    silence_this_thread();
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

Image blank_image(std::size_t width, std::size_t height) {
  Image image{width, height, {}};
  image.rgb.resize(width * height * 3);
  return image;
}

void check_image(const Image& image) {
  if (image.width == 0 || image.height == 0 || image.width > kLongestDrawn ||
      image.height > kLongestDrawn || image.width > kMostDrawn / image.height ||
      image.rgb.size() != image.width * image.height * 3) {
    throw Error(Error::Kind::kInternal, fmt::format("an image of {} × {} pixels with {} bytes",
                                                    image.width, image.height, image.rgb.size()));
  }
}

void check_map(const Map& map) {
  if (map.width == 0 || map.height == 0 || map.width > kMostDrawn / map.height ||
      map.values.size() != map.width * map.height) {
    throw Error(Error::Kind::kInternal, fmt::format("a map of {} × {} pixels with {} values",
                                                    map.width, map.height, map.values.size()));
  }
}

}  // namespace contcore
