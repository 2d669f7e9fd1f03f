// Cameras that speak GenICam (GigE Vision, USB3 Vision), by Aravis: which there are, and the frames
// of one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "camera/frame.h"

namespace contcore {

/// What is asked of a camera. What is not given stays as the camera has it.
struct CameraSettings {
  std::string id;       ///< as find_cameras() names it, or an address
  std::string station;  ///< that its frames are of
  std::string trigger;  ///< "free", "software", or the line that triggers, such as "Line1"
  std::optional<double> exposure;  ///< microseconds
  std::optional<double> gain;
  std::optional<double> rate;  ///< frames a second, of a camera that runs free
  std::string features;        ///< others of the camera's own: "PixelFormat=Mono8 GammaEnable=0"
};

/// "ID,station=press 4,trigger=Line1,exposure=8000,PixelFormat=Mono8": names with a capital are the
/// camera's own features. The station of one that names none is its id. Throws Error (kUsage).
CameraSettings parse_camera(const std::string& text);

struct CameraInfo {
  std::string id;
  std::string vendor;
  std::string model;
  std::string serial;
  std::string address;
  std::string protocol;  ///< "GigEVision", "USB3Vision", "Fake"
};

/// Those that answer now; takes about a second. Throws Error (kInput) where Aravis is missing.
std::vector<CameraInfo> find_cameras();

/// A camera that is open and sends frames, as long as it lives.
class Camera {
 public:
  struct Caught {
    enum class Kind { kNothing, kFrame, kDamaged } kind = Kind::kNothing;
    Frame frame;      ///< if it is one; of a damaged one the id alone
    std::string why;  ///< it is damaged
  };

  virtual ~Camera() = default;
  /// The next frame; nothing after `patience`. Throws Error (kInput) when the camera is gone.
  virtual Caught next(std::chrono::milliseconds patience) = 0;
  /// Frames that the camera has sent, or would have, and nobody has seen.
  virtual std::uint64_t lost() = 0;
  /// Asks for a frame, from any thread. Throws Error (kInput).
  virtual void trigger() = 0;
  virtual CameraInfo info() const = 0;
};

/// Throws Error (kInput) where Aravis or the camera is missing, somebody else has it, or it cannot
/// do what is asked of it.
std::unique_ptr<Camera> open_camera(const CameraSettings& settings);

}  // namespace contcore
