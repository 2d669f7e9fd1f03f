// Aravis, loaded when a camera is first asked for. Its types and functions are declared here, so
// that it need not be there to build; a test compares them with its own headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

struct _ArvCamera;
struct _ArvDevice;
struct _ArvStream;
struct _ArvBuffer;
struct _GError;
struct _GClosure;

namespace contcore {

/// result, name, arguments
#define CONTCORE_ARAVIS(FUNCTION)                                                                 \
  FUNCTION(void, arv_enable_interface, (const char*))                                             \
  FUNCTION(void, arv_update_device_list, ())                                                      \
  FUNCTION(unsigned, arv_get_n_devices, ())                                                       \
  FUNCTION(const char*, arv_get_device_id, (unsigned))                                            \
  FUNCTION(const char*, arv_get_device_vendor, (unsigned))                                        \
  FUNCTION(const char*, arv_get_device_model, (unsigned))                                         \
  FUNCTION(const char*, arv_get_device_serial_nbr, (unsigned))                                    \
  FUNCTION(const char*, arv_get_device_address, (unsigned))                                       \
  FUNCTION(const char*, arv_get_device_protocol, (unsigned))                                      \
  FUNCTION(_ArvCamera*, arv_camera_new, (const char*, _GError**))                                 \
  FUNCTION(_ArvDevice*, arv_camera_get_device, (_ArvCamera*))                                     \
  FUNCTION(const char*, arv_camera_get_vendor_name, (_ArvCamera*, _GError**))                     \
  FUNCTION(const char*, arv_camera_get_model_name, (_ArvCamera*, _GError**))                      \
  FUNCTION(const char*, arv_camera_get_device_serial_number, (_ArvCamera*, _GError**))            \
  FUNCTION(int, arv_device_set_features_from_string, (_ArvDevice*, const char*, _GError**))       \
  FUNCTION(std::uint32_t, arv_camera_get_pixel_format, (_ArvCamera*, _GError**))                  \
  FUNCTION(void, arv_camera_set_pixel_format, (_ArvCamera*, std::uint32_t, _GError**))            \
  FUNCTION(std::int64_t*, arv_camera_dup_available_pixel_formats,                                 \
           (_ArvCamera*, unsigned*, _GError**))                                                   \
  FUNCTION(void, arv_camera_set_acquisition_mode, (_ArvCamera*, int, _GError**))                  \
  FUNCTION(void, arv_camera_clear_triggers, (_ArvCamera*, _GError**))                             \
  FUNCTION(void, arv_camera_set_trigger, (_ArvCamera*, const char*, _GError**))                   \
  FUNCTION(int, arv_camera_is_software_trigger_supported, (_ArvCamera*, _GError**))               \
  FUNCTION(void, arv_camera_software_trigger, (_ArvCamera*, _GError**))                           \
  FUNCTION(int, arv_camera_is_exposure_auto_available, (_ArvCamera*, _GError**))                  \
  FUNCTION(void, arv_camera_set_exposure_time_auto, (_ArvCamera*, int, _GError**))                \
  FUNCTION(void, arv_camera_get_exposure_time_bounds, (_ArvCamera*, double*, double*, _GError**)) \
  FUNCTION(void, arv_camera_set_exposure_time, (_ArvCamera*, double, _GError**))                  \
  FUNCTION(int, arv_camera_is_gain_auto_available, (_ArvCamera*, _GError**))                      \
  FUNCTION(void, arv_camera_set_gain_auto, (_ArvCamera*, int, _GError**))                         \
  FUNCTION(void, arv_camera_get_gain_bounds, (_ArvCamera*, double*, double*, _GError**))          \
  FUNCTION(void, arv_camera_set_gain, (_ArvCamera*, double, _GError**))                           \
  FUNCTION(void, arv_camera_get_frame_rate_bounds, (_ArvCamera*, double*, double*, _GError**))    \
  FUNCTION(void, arv_camera_set_frame_rate, (_ArvCamera*, double, _GError**))                     \
  FUNCTION(int, arv_camera_is_gv_device, (_ArvCamera*))                                           \
  FUNCTION(std::uint64_t, arv_stream_get_info_uint64_by_name, (_ArvStream*, const char*))         \
  FUNCTION(unsigned, arv_camera_get_payload, (_ArvCamera*, _GError**))                            \
  FUNCTION(_ArvStream*, arv_camera_create_stream,                                                 \
           (_ArvCamera*, void (*)(void*, int, _ArvBuffer*), void*, _GError**))                    \
  FUNCTION(void, arv_camera_start_acquisition, (_ArvCamera*, _GError**))                          \
  FUNCTION(void, arv_camera_stop_acquisition, (_ArvCamera*, _GError**))                           \
  FUNCTION(void, arv_stream_push_buffer, (_ArvStream*, _ArvBuffer*))                              \
  FUNCTION(_ArvBuffer*, arv_stream_timeout_pop_buffer, (_ArvStream*, std::uint64_t))              \
  FUNCTION(void, arv_stream_get_statistics,                                                       \
           (_ArvStream*, std::uint64_t*, std::uint64_t*, std::uint64_t*))                         \
  FUNCTION(_ArvBuffer*, arv_buffer_new_allocate, (std::size_t))                                   \
  FUNCTION(int, arv_buffer_get_status, (_ArvBuffer*))                                             \
  FUNCTION(int, arv_buffer_get_payload_type, (_ArvBuffer*))                                       \
  FUNCTION(std::uint64_t, arv_buffer_get_frame_id, (_ArvBuffer*))                                 \
  FUNCTION(const void*, arv_buffer_get_image_data, (_ArvBuffer*, std::size_t*))                   \
  FUNCTION(std::uint32_t, arv_buffer_get_image_pixel_format, (_ArvBuffer*))                       \
  FUNCTION(int, arv_buffer_get_image_width, (_ArvBuffer*))                                        \
  FUNCTION(int, arv_buffer_get_image_height, (_ArvBuffer*))                                       \
  FUNCTION(void, arv_buffer_get_image_padding, (_ArvBuffer*, int*, int*))                         \
  FUNCTION(unsigned long, g_signal_connect_data,                                                  \
           (void*, const char*, void (*)(), void*, void (*)(void*, _GClosure*), int))             \
  FUNCTION(void, g_object_unref, (void*))                                                         \
  FUNCTION(void, g_error_free, (_GError*))                                                        \
  FUNCTION(void, g_free, (void*))

struct Aravis {
#define CONTCORE_MEMBER(result, name, arguments) result(*name) arguments;
  CONTCORE_ARAVIS(CONTCORE_MEMBER)
#undef CONTCORE_MEMBER
};

/// Throws Error (kInput) where it is not installed.
const Aravis& libaravis();

/// To be held while cameras are searched for or opened: Aravis has one list of them.
std::mutex& aravis_mutex();

// Values of its enumerations.
inline constexpr int kArvBufferSuccess = 0;
inline constexpr int kArvPayloadImage = 1;
inline constexpr int kArvPayloadExtendedChunk = 5;
inline constexpr int kArvContinuous = 0;
inline constexpr int kArvAutoOff = 0;

/// What a GError is.
struct AravisError {
  std::uint32_t domain;
  int code;
  char* message;
};

}  // namespace contcore
