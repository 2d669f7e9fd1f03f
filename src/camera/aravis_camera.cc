// Cameras by Aravis. In: what is asked of one. Out: its frames. Throws when it is gone; whoever has
// it opens it again.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <thread>

#include "base/utf8.h"
#include "camera/aravis.h"
#include "camera/camera.h"
#include "contcore/error.h"

namespace contcore {
namespace {

// Frames that wait while the one before is taken, as many as fit.
constexpr unsigned kMostBuffers = 64;
constexpr unsigned kFewestBuffers = 3;
// Until a camera that was told to begin waits for its trigger.
constexpr std::chrono::milliseconds kArming{200};
constexpr int kMostStreams = 50;
constexpr std::chrono::milliseconds kHearing{30};
constexpr std::chrono::seconds kSearchedLately{1};
constexpr std::uint64_t kMostIgnored = 20;  // packets, before the first frame
constexpr std::size_t kBufferBytes = std::size_t{256} << 20;
constexpr char kMadeUp[] = "Fake_";
constexpr std::size_t kLargestPayload = std::size_t{1} << 30;
// GigE Vision's older frame ids have 16 bits, and no 0.
constexpr std::uint64_t kShortIds = 65535;
constexpr std::uint64_t kIdsAroundTheEnd = 8192;

std::string text_of(const char* text) { return text != nullptr ? printable(text) : ""; }

// What Aravis says of a call that failed.
class Fault {
 public:
  Fault() = default;
  ~Fault() {
    if (error_ != nullptr) libaravis().g_error_free(error_);
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;

  operator _GError**() { return &error_; }
  bool is_one() const { return error_ != nullptr; }
  std::string text() const {
    return error_ == nullptr ? "no reason is known"
                             : text_of(reinterpret_cast<const AravisError*>(error_)->message);
  }

 private:
  _GError* error_ = nullptr;
};

struct Unref {
  template <typename Object>
  void operator()(Object* object) const {
    libaravis().g_object_unref(object);
  }
};

bool is_address(const std::string& id) {
  return id.starts_with(kMadeUp) || id.find_first_not_of("0123456789.") == std::string::npos;
}

// Whether a camera of that name does. With Aravis' mutex held. Those who look for others at the
// same time share the search.
bool answers(const std::string& id) {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point searched;
  const Aravis& arv = libaravis();
  if (searched == Clock::time_point() || Clock::now() - searched > kSearchedLately) {
    arv.arv_update_device_list();
    searched = Clock::now();
  }
  for (unsigned i = 0; i < arv.arv_get_n_devices(); ++i) {
    for (const char* name : {arv.arv_get_device_id(i), arv.arv_get_device_address(i),
                             arv.arv_get_device_serial_nbr(i)}) {
      if (name != nullptr && id == name) return true;
    }
  }
  return false;
}

class AravisCamera : public Camera {
 public:
  explicit AravisCamera(const CameraSettings& settings);
  ~AravisCamera() override;

  Caught next(std::chrono::milliseconds patience) override;
  std::uint64_t lost() override;
  void trigger() override;
  CameraInfo info() const override { return info_; }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Error::Kind::kInput, fmt::format("camera {}: {}", id_, what));
  }
  // Calls arv_camera_…(camera, arguments..., error).
  template <typename Result, typename... Parameters, typename... Arguments>
  Result ask(const char* what, Result (*function)(Parameters...), Arguments... arguments) const {
    Fault fault;
    if constexpr (std::is_void_v<Result>) {
      function(camera_.get(), arguments..., fault);
      if (fault.is_one()) refuse(fmt::format("{}: {}", what, fault.text()));
    } else {
      const Result result = function(camera_.get(), arguments..., fault);
      if (fault.is_one()) refuse(fmt::format("{}: {}", what, fault.text()));
      return result;
    }
  }
  void open();
  void describe();
  void set(const CameraSettings& settings);
  void set_trigger(const std::string& trigger);
  void set_number(const char* what, double value,
                  void (*bounds)(_ArvCamera*, double*, double*, _GError**),
                  void (*change)(_ArvCamera*, double, _GError**));
  void choose_format(bool named);
  void open_stream();
  void start();
  std::uint64_t without_room() const;
  std::uint64_t ignored() const;
  bool takes_none() const;
  void note_id(std::uint64_t id);
  Caught read(_ArvBuffer* buffer);

  const Aravis& arv_ = libaravis();
  const std::string id_;
  CameraInfo info_;
  std::mutex control_;  // of calls that change the camera
  std::atomic<bool> gone_ = false;
  std::unique_ptr<_ArvCamera, Unref> camera_;
  std::unique_ptr<_ArvStream, Unref> stream_;  // goes before the camera
  bool seen_ = false;                          // a frame
  std::uint64_t last_ = 0;                     // its id
  std::uint64_t gaps_ = 0;                     // ids that never came
  std::uint64_t damaged_ = 0;                  // frames since the last whole one
  std::uint64_t before_ = 0;                   // without_room() when it began
  std::uint64_t ignored_before_ = 0;           // ignored() then
  std::size_t payload_ = 0;                    // bytes of a frame, at most
};

AravisCamera::AravisCamera(const CameraSettings& settings) : id_(settings.id) {
  open();
  describe();
  set(settings);
  choose_format(settings.features.find("PixelFormat=") != std::string::npos);
  start();
  if (settings.trigger == "software") std::this_thread::sleep_for(kArming);
}

AravisCamera::~AravisCamera() {
  // One that is gone would be asked, and waited for, several times.
  if (!gone_ && stream_) {
    Fault fault;
    arv_.arv_camera_stop_acquisition(camera_.get(), fault);
  }
  stream_.reset();
  camera_.reset();  // its threads end here, before what they note
}

void AravisCamera::open() {
  const std::lock_guard<std::mutex> lock(aravis_mutex());
  if (id_.starts_with(kMadeUp)) arv_.arv_enable_interface("Fake");
  // Of a name that it does not know Aravis would ask the network's name servers, however long that
  // takes.
  if (!is_address(id_) && !answers(id_)) {
    refuse("it is not found (contcore camera lists those that answer)");
  }
  Fault fault;
  camera_.reset(arv_.arv_camera_new(id_.c_str(), fault));
  if (!camera_) refuse(fault.text());
  void (*const lose)(void*, void*) = [](void* /*device*/, void* gone) {
    static_cast<std::atomic<bool>*>(gone)->store(true);
  };
  arv_.g_signal_connect_data(arv_.arv_camera_get_device(camera_.get()), "control-lost",
                             reinterpret_cast<void (*)()>(lose), &gone_, nullptr, 0);
}

void AravisCamera::describe() {
  const auto said = [&](const char* (*function)(_ArvCamera*, _GError**)) {
    Fault fault;
    return text_of(function(camera_.get(), fault));
  };
  info_.id = id_;
  info_.vendor = said(arv_.arv_camera_get_vendor_name);
  info_.model = said(arv_.arv_camera_get_model_name);
  info_.serial = said(arv_.arv_camera_get_device_serial_number);
}

void AravisCamera::set(const CameraSettings& settings) {
  ask("AcquisitionMode", arv_.arv_camera_set_acquisition_mode, kArvContinuous);
  if (!settings.features.empty()) {
    Fault fault;
    arv_.arv_device_set_features_from_string(arv_.arv_camera_get_device(camera_.get()),
                                             settings.features.c_str(), fault);
    if (fault.is_one()) refuse(fmt::format("{}: {}", settings.features, fault.text()));
  }
  set_trigger(settings.trigger);
  if (settings.exposure) {
    if (ask("ExposureAuto", arv_.arv_camera_is_exposure_auto_available) != 0) {
      ask("ExposureAuto", arv_.arv_camera_set_exposure_time_auto, kArvAutoOff);
    }
    set_number("exposure in µs", *settings.exposure, arv_.arv_camera_get_exposure_time_bounds,
               arv_.arv_camera_set_exposure_time);
  }
  if (settings.gain) {
    if (ask("GainAuto", arv_.arv_camera_is_gain_auto_available) != 0) {
      ask("GainAuto", arv_.arv_camera_set_gain_auto, kArvAutoOff);
    }
    set_number("gain", *settings.gain, arv_.arv_camera_get_gain_bounds, arv_.arv_camera_set_gain);
  }
  if (settings.rate) {
    set_number("rate", *settings.rate, arv_.arv_camera_get_frame_rate_bounds,
               arv_.arv_camera_set_frame_rate);
  }
}

void AravisCamera::set_trigger(const std::string& trigger) {
  if (trigger == "free") {
    Fault none;  // a camera without triggers is free
    arv_.arv_camera_clear_triggers(camera_.get(), none);
    return;
  }
  const bool software = trigger == "software";
  if (software && id_.starts_with(kMadeUp)) {
    refuse("it is made up, and runs free; leave the trigger out");
  }
  if (software && ask("trigger", arv_.arv_camera_is_software_trigger_supported) == 0) {
    refuse("it cannot be triggered by software; name one of its lines, such as trigger=Line1");
  }
  ask("trigger", arv_.arv_camera_set_trigger, software ? "Software" : trigger.c_str());
}

void AravisCamera::set_number(const char* what, double value,
                              void (*bounds)(_ArvCamera*, double*, double*, _GError**),
                              void (*change)(_ArvCamera*, double, _GError**)) {
  double least = 0;
  double most = 0;
  ask(what, bounds, &least, &most);
  if (value < least || value > most) {
    refuse(fmt::format("{} is from {:g} to {:g}, not {:g}", what, least, most, value));
  }
  ask(what, change, value);
}

// The one it has, if it can be read; else the first of its own that can, in colour if there is one.
void AravisCamera::choose_format(bool named) {
  const std::uint32_t now = ask("PixelFormat", arv_.arv_camera_get_pixel_format);
  if (is_known_format(now)) return;
  if (named) refuse(format_name(now) + " cannot be read; leave PixelFormat out");
  unsigned count = 0;
  std::int64_t* const formats =
      ask("PixelFormat", arv_.arv_camera_dup_available_pixel_formats, &count);
  const std::vector<std::int64_t> has(formats, formats + (formats != nullptr ? count : 0));
  arv_.g_free(formats);
  std::string names;
  std::uint32_t gray = 0;
  for (const std::int64_t format : has) {
    const auto number = static_cast<std::uint32_t>(format);
    if (is_known_format(number) && !format_name(number).starts_with("Mono")) {
      return ask("PixelFormat", arv_.arv_camera_set_pixel_format, number);
    }
    if (gray == 0 && is_known_format(number)) gray = number;
    names += (names.empty() ? "" : ", ") + format_name(number);
  }
  if (gray != 0) return ask("PixelFormat", arv_.arv_camera_set_pixel_format, gray);
  refuse(fmt::format("none of its pixel formats can be read ({})", names));
}

// As root Aravis takes a raw socket, which hears everybody's packets until its filter is there, and
// the first that it hears is taken for the camera's: whose frames then all come too late. Before
// there are buffers and the camera has begun, what is heard counts as without room.
void AravisCamera::open_stream() {
  for (int i = 0; i < kMostStreams; ++i) {
    stream_.reset();
    stream_.reset(ask("stream", arv_.arv_camera_create_stream, nullptr, nullptr));
    if (!stream_) refuse("it gives no stream");
    if (id_.starts_with(kMadeUp)) return;
    std::this_thread::sleep_for(kHearing);
    if (without_room() == 0) return;
  }
}

void AravisCamera::start() {
  payload_ = ask("PayloadSize", arv_.arv_camera_get_payload);
  if (payload_ == 0 || payload_ > kLargestPayload) {
    refuse(fmt::format("a frame of {} bytes cannot be taken", payload_));
  }
  open_stream();
  const auto fitting =
      static_cast<unsigned>(std::min<std::size_t>(kBufferBytes / payload_, kMostBuffers));
  for (unsigned i = 0; i < std::max(fitting, kFewestBuffers); ++i) {
    arv_.arv_stream_push_buffer(stream_.get(), arv_.arv_buffer_new_allocate(payload_));
  }
  before_ = without_room();
  if (arv_.arv_camera_is_gv_device(camera_.get()) != 0) ignored_before_ = ignored();
  ask("AcquisitionStart", arv_.arv_camera_start_acquisition);
}

Camera::Caught AravisCamera::next(std::chrono::milliseconds patience) {
  const auto microseconds = static_cast<std::uint64_t>(patience.count()) * 1000;
  _ArvBuffer* const buffer = arv_.arv_stream_timeout_pop_buffer(stream_.get(), microseconds);
  if (buffer == nullptr) {
    if (gone_) refuse("it does not answer any more");
    if (takes_none()) refuse("what it sends is taken for too late; it is opened again");
    return {};
  }
  Caught caught;
  try {
    caught = read(buffer);
    if (caught.kind == Caught::Kind::kDamaged) ++damaged_;
  } catch (...) {
    arv_.arv_stream_push_buffer(stream_.get(), buffer);
    throw;
  }
  arv_.arv_stream_push_buffer(stream_.get(), buffer);
  return caught;
}

// Of a whole frame: one whose head is missing has the id of another. Those that came damaged in
// between are not lost.
void AravisCamera::note_id(std::uint64_t id) {
  if (seen_) {
    std::uint64_t passed = 0;
    if (id > last_) {
      passed = id - last_ - 1;
    } else if (last_ <= kShortIds && last_ > kShortIds - kIdsAroundTheEnd && id != 0 &&
               id < kIdsAroundTheEnd) {
      passed = kShortIds - last_ + id - 1;
    }
    gaps_ += passed - std::min(passed, damaged_);
  }
  damaged_ = 0;
  seen_ = true;
  last_ = id;
}

Camera::Caught AravisCamera::read(_ArvBuffer* buffer) {
  constexpr const char* kFaults[] = {"",
                                     "it was given up",
                                     "parts of it did not come in time",
                                     "parts of it are missing",
                                     "its parts are numbered wrongly",
                                     "it is larger than the camera said",
                                     "it is not whole",
                                     "it was broken off"};
  Caught caught;
  caught.kind = Caught::Kind::kDamaged;
  Frame& frame = caught.frame;
  frame.id = arv_.arv_buffer_get_frame_id(buffer);
  const int status = arv_.arv_buffer_get_status(buffer);
  if (status != kArvBufferSuccess) {
    const bool known = status > 0 && static_cast<std::size_t>(status) < std::size(kFaults);
    caught.why = known ? kFaults[status] : "it could not be received";
    return caught;
  }
  const int payload = arv_.arv_buffer_get_payload_type(buffer);
  if (payload != kArvPayloadImage && payload != kArvPayloadExtendedChunk) {
    caught.why = fmt::format("it is no image but a payload of kind {}", payload);
    return caught;
  }
  std::size_t bytes = 0;
  const auto* data =
      static_cast<const std::uint8_t*>(arv_.arv_buffer_get_image_data(buffer, &bytes));
  int padding = 0;
  int rows = 0;
  arv_.arv_buffer_get_image_padding(buffer, &padding, &rows);
  const int width = arv_.arv_buffer_get_image_width(buffer);
  const int height = arv_.arv_buffer_get_image_height(buffer);
  if (data == nullptr || width <= 0 || height <= 0 || padding < 0) {
    caught.why = "it has no pixels";
    return caught;
  }
  if (bytes > payload_) {
    caught.why = "it is larger than the camera said";
    return caught;
  }
  frame.width = static_cast<std::size_t>(width);
  frame.height = static_cast<std::size_t>(height);
  frame.padding = static_cast<std::size_t>(padding);
  frame.format = arv_.arv_buffer_get_image_pixel_format(buffer);
  frame.bytes.assign(data, data + bytes);
  caught.kind = Caught::Kind::kFrame;
  note_id(frame.id);
  return caught;
}

std::uint64_t AravisCamera::without_room() const {
  std::uint64_t whole = 0;
  std::uint64_t failed = 0;
  std::uint64_t without = 0;
  arv_.arv_stream_get_statistics(stream_.get(), &whole, &failed, &without);
  return without;
}

std::uint64_t AravisCamera::ignored() const {
  return arv_.arv_stream_get_info_uint64_by_name(stream_.get(), "n_ignored_packets");
}

// Where open_stream() listened for too short a time.
bool AravisCamera::takes_none() const {
  return !seen_ && arv_.arv_camera_is_gv_device(camera_.get()) != 0 &&
         ignored() > ignored_before_ + kMostIgnored;
}

// A frame for which there was no room leaves a gap in the ids; the one that is made up in this
// process leaves none.
std::uint64_t AravisCamera::lost() {
  return id_.starts_with(kMadeUp) ? without_room() - before_ : gaps_;
}

void AravisCamera::trigger() {
  const std::lock_guard<std::mutex> lock(control_);
  if (gone_) refuse("it does not answer any more");
  ask("TriggerSoftware", arv_.arv_camera_software_trigger);
}

}  // namespace

std::vector<CameraInfo> find_cameras() {
  const Aravis& arv = libaravis();
  const std::lock_guard<std::mutex> lock(aravis_mutex());
  arv.arv_update_device_list();
  std::vector<CameraInfo> cameras;
  for (unsigned i = 0; i < arv.arv_get_n_devices(); ++i) {
    cameras.push_back(
        {text_of(arv.arv_get_device_id(i)), text_of(arv.arv_get_device_vendor(i)),
         text_of(arv.arv_get_device_model(i)), text_of(arv.arv_get_device_serial_nbr(i)),
         text_of(arv.arv_get_device_address(i)), text_of(arv.arv_get_device_protocol(i))});
  }
  return cameras;
}

std::unique_ptr<Camera> open_camera(const CameraSettings& settings) {
  return std::make_unique<AravisCamera>(settings);
}

}  // namespace contcore
