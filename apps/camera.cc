// contcore camera: which cameras there are, and images from one.
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>

#include "camera/camera.h"
#include "commands.h"
#include "common.h"
#include "contcore/error.h"
#include "contcore/image.h"
#include "picture_places.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Examples: what answers; forty images to learn from, the camera being triggered by its input\n"
    "  contcore camera\n"
    "  contcore camera Basler-21876543,trigger=Line1,exposure=8000 --out good/ --count 40\n"
    "Settings after the camera's name: trigger (free, software, or a line of the camera), "
    "exposure\n"
    "(µs), gain, rate (a second), and features of the camera's own, such as PixelFormat=Mono8.\n"
    "Fake_1 is a camera that Aravis makes up.\n";

struct CameraCommand {
  std::string camera;
  std::string out;
  std::size_t count = 1;
  double wait = 10;
  bool json = false;
};

void list_cameras(bool json) {
  const std::vector<CameraInfo> cameras = find_cameras();
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const CameraInfo& camera : cameras) {
      list.push_back({{"id", camera.id},
                      {"vendor", camera.vendor},
                      {"model", camera.model},
                      {"serial", camera.serial},
                      {"address", camera.address},
                      {"protocol", camera.protocol}});
    }
    return print_result(json_line({{"cameras", list}}));
  }
  if (cameras.empty()) {
    return note(
        "no camera answers; is it powered, in this network, and may this user open it (USB)?");
  }
  for (const CameraInfo& camera : cameras) {
    print_result(fmt::format("{}  {} {}, serial {}, {} {}\n", camera.id, camera.vendor,
                             camera.model, camera.serial, camera.protocol, camera.address));
  }
}

// The time of day, so that no image takes another's place.
std::string image_name(std::uint64_t frame) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &utc);
  return fmt::format("{}.{:03}Z-{}.png", text, milliseconds, frame);
}

// Why it is no image; empty: it is written to the folder, and its name is among `files`.
std::string keep(const Camera::Caught& caught, const std::string& folder, nlohmann::json& files) {
  if (caught.kind == Camera::Caught::Kind::kDamaged) return caught.why;
  Image image;
  try {
    image = image_of(caught.frame);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    return error.what();
  }
  const std::string path = std::filesystem::path(folder) / image_name(caught.frame.id);
  write_image(path, image);
  files.push_back(path);
  return "";
}

void take_image(Camera& camera, const CameraCommand& command, bool ask, nlohmann::json& files) {
  if (ask) camera.trigger();
  const Stopwatch watch;
  for (;;) {
    stop_if_asked();
    const Camera::Caught caught = camera.next(std::chrono::milliseconds(100));
    if (caught.kind != Camera::Caught::Kind::kNothing) {
      const std::string why = keep(caught, command.out, files);
      if (why.empty()) return;
      note(fmt::format("left out: frame {}: {}", caught.frame.id, why));
      if (ask) camera.trigger();
    }
    if (watch.seconds() > command.wait) {
      throw Error(Error::Kind::kInput,
                  fmt::format("camera {}: no frame came within {:g} s; is it triggered (--wait "
                              "waits longer)?",
                              camera.info().id, command.wait));
    }
  }
}

void run(const CameraCommand& command) {
  if (command.camera.empty()) {
    if (!command.out.empty()) {
      throw Error(Error::Kind::kUsage, "--out: name the camera (contcore camera lists them)");
    }
    return list_cameras(command.json);
  }
  if (command.out.empty()) {
    throw Error(Error::Kind::kUsage, "say where its images go: --out FOLDER");
  }
  const CameraSettings settings = parse_camera(command.camera);
  const bool ask = settings.trigger == "software";
  const std::unique_ptr<Camera> camera = open_camera(settings);
  make_folder(command.out);
  nlohmann::json files = nlohmann::json::array();
  {
    ProgressLine progress(fmt::format("taking {}", counted(command.count, "image")));
    for (std::size_t i = 0; i < command.count; ++i) {
      take_image(*camera, command, ask, files);
      progress.update(static_cast<double>(i + 1) / static_cast<double>(command.count));
    }
  }
  const CameraInfo info = camera->info();
  if (command.json) {
    return print_result(json_line({{"camera", info.id},
                                   {"vendor", info.vendor},
                                   {"model", info.model},
                                   {"serial", info.serial},
                                   {"lost", camera->lost()},
                                   {"files", files}}));
  }
  print_result(fmt::format("{} of {} {} in {}\n", counted(command.count, "image"), info.vendor,
                           info.model, command.out));
}

}  // namespace

void add_camera(CLI::App& app) {
  auto command = std::make_shared<CameraCommand>();
  CLI::App* sub = app.add_subcommand("camera", "List GenICam cameras, or take images with one");
  sub->add_option("camera", command->camera,
                  "The camera that takes images; without it all are listed")
      ->type_name("ID,…");
  sub->add_option("--out", command->out, "Folder for its images (PNG)")->type_name("DIR");
  sub->add_option("--count", command->count, "Images to take")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000000}))
      ->type_name("N");
  sub->add_option("--wait", command->wait, "Seconds to wait for each")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1e6))
      ->type_name("S");
  sub->add_flag("--json", command->json, "Print JSON");
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
