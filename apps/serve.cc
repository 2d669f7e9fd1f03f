// contcore serve: inspect what comes over HTTP, learn what is called good, show it on a page.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/task_name.h"
#include "commands.h"
#include "common.h"
#include "contcore/error.h"
#include "kept_versions.h"
#include "memory_settings.h"
#include "serve/private_file.h"
#include "serve/service.h"
#include "serve/shifts.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  contcore serve line.ccm                       then open http://127.0.0.1:8080\n"
    "  contcore serve line.ccm --watch camera/       inspects each image that is or appears there\n"
    "  contcore serve line.ccm --address 0.0.0.0 --tokens tokens.txt\n"
    "  contcore serve line.ccm --camera 'Basler-21876543,station=press 4,trigger=Line1'\n"
    "  contcore serve line.ccm --webhook http://mes.example/verdicts --mqtt mqtt://broker.example\n"
    "A token file has lines \"role token [name]\" (roles: inspect, learn, admin) and mode 600; "
    "the\n"
    "variable CONTCORE_TOKENS may hold the same text, CONTCORE_MQTT_PASSWORD the password. Ctrl-C "
    "finishes what was accepted and "
    "saves.\n";

struct ServeCommand {
  ServiceOptions options;
  unsigned port = 8080;
  std::string tokens;
  std::string max_body = fmt::format("{}M", kLargestImage >> 20);
  std::string keep_images = "2G";
  std::string shifts = "06:00,14:00,22:00";
  std::vector<std::string> webhooks;
  std::string webhook_secret;
  std::vector<std::string> brokers;
  std::vector<std::string> cameras;
  std::string mqtt_password;
  MemorySettings settings;
  KeptVersions kept;
  DeviceOption device;
};

[[noreturn]] void refuse_alone(const char* option, const char* partner) {
  throw Error(
      Error::Kind::kUsage,
      fmt::format("{} is of {}, which is not there; give both, or leave it out", option, partner));
}

void check_station_option(const ServiceOptions& options) {
  if (options.station.empty()) return;
  if (const std::string fault = task_name_fault(options.station, "station"); !fault.empty()) {
    throw Error(Error::Kind::kUsage, "--station: " + fault);
  }
  if (options.watch.empty()) refuse_alone("--station", "--watch");
}

void prepare_outputs(ServeCommand& command) {
  OutputOptions& outputs = command.options.outputs;
  for (const std::string& url : command.webhooks) outputs.addresses.push_back(parse_webhook(url));
  for (const std::string& url : command.brokers) outputs.addresses.push_back(parse_mqtt(url));
  if (!command.webhook_secret.empty()) {
    if (command.webhooks.empty()) refuse_alone("--webhook-secret", "--webhook");
    outputs.webhook_secret = read_private_line(command.webhook_secret, "a webhook's secret");
  }
  const char* variable = std::getenv("CONTCORE_MQTT_PASSWORD");
  if (!command.mqtt_password.empty()) {
    if (command.brokers.empty()) refuse_alone("--mqtt-password", "--mqtt");
    outputs.mqtt_password = read_private_line(command.mqtt_password, "a password");
  } else if (variable != nullptr) {
    outputs.mqtt_password = variable;
  }
}

void prepare(ServeCommand& command) {
  ServiceOptions& options = command.options;
  options.port = static_cast<std::uint16_t>(command.port);
  options.http.body = parse_size(command.max_body);
  options.http.bodies = std::max(options.http.bodies, 2 * options.http.body);
  options.retention.image_bytes = parse_size(command.keep_images);
  options.shifts = parse_shifts(command.shifts);
  options.device = command.device.chosen();
  check_station_option(options);
  prepare_outputs(command);
  for (const std::string& camera : command.cameras) {
    options.cameras.push_back(parse_camera(camera));
  }
  options.memory.backbone = command.settings.backbone();
  options.memory.kept = command.kept.limits();
  const std::string& path = options.memory.path;
  if (!std::filesystem::exists(path)) {
    options.memory.settings = command.settings.options();
  } else if (command.settings.named()) {
    command.settings.check(Memory::open(path), path);
  }
  const char* variable = std::getenv("CONTCORE_TOKENS");
  if (!command.tokens.empty()) {
    options.tokens = Tokens::read(command.tokens);
  } else if (variable != nullptr && *variable != '\0') {
    options.tokens = Tokens::parse(variable, "CONTCORE_TOKENS");
  }
  options.version = CONTCORE_VERSION;
  options.note = [](const std::string& text) { note(text); };
}

void run(ServeCommand& command) {
  prepare(command);
  check_writable(command.options.memory.path);
  Service service(command.options);
  print_result(fmt::format("contcore: listening on http://{}:{}\n", command.options.address,
                           service.port()));
  while (!stop_asked()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  note("stopping: what was accepted is finished, then the memory is saved");
  try {
    service.stop();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("the memory was not saved: {} (what was acknowledged "
                                          "since the last save is in its journal)",
                                          error.what()));
  }
}

}  // namespace

void add_serve(CLI::App& app) {
  auto command = std::make_shared<ServeCommand>();
  ServiceOptions& options = command->options;
  CLI::App* sub = app.add_subcommand("serve", "Inspect and learn over HTTP, with a page");
  sub->add_option("memory", options.memory.path, "The memory's file; made if it is not there")
      ->required()
      ->type_name("MEMORY.ccm");
  sub->add_option("--address", options.address, "Address to listen on")
      ->capture_default_str()
      ->type_name("ADDRESS");
  sub->add_option("--port", command->port, "Port to listen on; 0: any that is free")
      ->capture_default_str()
      ->check(CLI::Range(0U, 65535U))
      ->type_name("PORT");
  sub->add_option("--tokens", command->tokens, "File of tokens and their roles")
      ->check(some_text())
      ->type_name("FILE");
  sub->add_option("--watch", options.watch, "Folder whose images are inspected, each once")
      ->check(some_text())
      ->type_name("DIR");
  sub->add_option("--station", options.station, "Station that the watched folder's images are of")
      ->check(some_text())
      ->type_name("NAME");
  sub->add_option("--camera", command->cameras,
                  "GenICam camera whose frames are inspected, for a station; may be repeated")
      ->allow_extra_args(false)
      ->type_name("ID,station=NAME,…");
  sub->add_option("--shifts", command->shifts, "When shifts begin, by this machine's clock")
      ->capture_default_str()
      ->type_name("HH:MM,…");
  sub->add_option("--webhook", command->webhooks, "Where each verdict is POSTed; may be repeated")
      ->allow_extra_args(false)
      ->type_name("URL");
  sub->add_option("--webhook-secret", command->webhook_secret,
                  "File of the secret that webhooks are signed with")
      ->check(some_text())
      ->type_name("FILE");
  sub->add_option(
         "--mqtt", command->brokers,
         "Broker that each verdict is published to, and the topics' prefix; may be repeated")
      ->allow_extra_args(false)
      ->type_name("URL");
  sub->add_option("--mqtt-password", command->mqtt_password, "File of the password for it")
      ->check(some_text())
      ->type_name("FILE");
  sub->add_option("--output-queue", options.outputs.queue,
                  "Verdicts that may wait for each of them; beyond, the oldest are dropped")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000000}))
      ->type_name("N");
  sub->add_option("--false-alarms", options.false_alarms, "Rate of thresholds that nobody has set")
      ->capture_default_str()
      ->check(CLI::Range(1e-6, 1 - 1e-6))
      ->type_name("RATE");
  sub->add_option("--strangers", options.strangers,
                  "Part of the good images that may be called unknown; 0: none is")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1 - 1e-6))
      ->type_name("RATE");
  sub->add_option("--queue", options.queue, "Inspections that may wait; beyond: 503")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000}))
      ->type_name("N");
  sub->add_option("--rate", options.rate, "Requests a second for each client; 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("N");
  sub->add_option("--max-body", command->max_body, "Largest image that is taken")
      ->capture_default_str()
      ->type_name("SIZE");
  sub->add_option("--keep-inspections", options.retention.inspections, "Inspections to keep")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000000}))
      ->type_name("N");
  sub->add_option("--keep-images", command->keep_images, "Bytes of their images to keep")
      ->capture_default_str()
      ->type_name("SIZE");
  sub->add_option("--threads", options.threads,
                  "Images inspected at once (default: one for each core)")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1024}))
      ->type_name("T");
  command->device.add_to(*sub);
  command->settings.add_to(*sub);
  command->kept.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command, sub] {
    check_paper(*sub);
    run(*command);
  });
}

}  // namespace contcore::app
