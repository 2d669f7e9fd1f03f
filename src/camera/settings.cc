// A camera as it is written on the command line. In: "ID,name=value,...". Out: what is asked of it.
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/task_name.h"
#include "base/utf8.h"
#include "camera/camera.h"
#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kLongestCamera = 2000;
constexpr double kMostAsked = 1e9;

[[noreturn]] void refuse_camera(const std::string& what) {
  throw Error(Error::Kind::kUsage,
              fmt::format("camera: {}; write it like \"Basler-21876543,station=press 4,"
                          "trigger=Line1,exposure=8000\"",
                          what));
}

double number_in(std::string_view name, std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !(value >= 0 && value <= kMostAsked)) {
    refuse_camera(fmt::format("{}={} is no number from 0 to {:g}", name, text, kMostAsked));
  }
  return value;
}

// They are handed on with spaces between them.
void add_feature(CameraSettings& settings, std::string_view name, std::string_view value) {
  if (value.empty() || value.find_first_of(" \t\"'=") != value.npos ||
      name.find_first_of(" \t\"'") != name.npos) {
    refuse_camera(fmt::format("'{}={}' is no feature and value without spaces", name, value));
  }
  if (!settings.features.empty()) settings.features += ' ';
  settings.features += fmt::format("{}={}", name, value);
}

void take_setting(CameraSettings& settings, std::string_view name, std::string_view value) {
  if (name == "station") {
    settings.station = value;
  } else if (name == "trigger") {
    if (value.empty()) refuse_camera("trigger is free, software or a line of the camera");
    settings.trigger = value;
  } else if (name == "exposure") {
    settings.exposure = number_in(name, value);
  } else if (name == "gain") {
    settings.gain = number_in(name, value);
  } else if (name == "rate") {
    settings.rate = number_in(name, value);
  } else if (!name.empty() && name[0] >= 'A' && name[0] <= 'Z') {
    add_feature(settings, name, value);
  } else {
    refuse_camera(
        fmt::format("there is no setting '{}' (station, trigger, exposure in µs, gain, "
                    "rate, or a feature of the camera's own)",
                    name));
  }
}

}  // namespace

CameraSettings parse_camera(const std::string& text) {
  if (text.size() > kLongestCamera || !is_utf8(text)) refuse_camera("it is too long, or no text");
  std::string_view rest = text;
  const auto cut = [&rest] {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    return part;
  };
  CameraSettings settings;
  settings.id = cut();
  if (settings.id.empty() || settings.id.find('=') != std::string::npos) {
    refuse_camera("which camera it is comes first (contcore camera lists them)");
  }
  while (!rest.empty()) {
    const std::string_view part = cut();
    const std::size_t equals = part.find('=');
    if (equals == part.npos) refuse_camera(fmt::format("'{}' has no value", part));
    take_setting(settings, part.substr(0, equals), part.substr(equals + 1));
  }
  if (settings.station.empty()) settings.station = settings.id;
  if (const std::string fault = task_name_fault(settings.station, "station"); !fault.empty()) {
    refuse_camera(fault);
  }
  if (settings.trigger.empty()) settings.trigger = "free";
  if (settings.rate && settings.trigger != "free") {
    refuse_camera("a camera that is triggered has no rate of its own");
  }
  return settings;
}

}  // namespace contcore
