#include "devices.h"

#include <fmt/format.h>

#include "common.h"
#include "contcore/device.h"
#include "contcore/threads.h"

namespace contcore::app {

std::string devices_text() {
  const Gpus gpus = find_gpus();
  std::string text = fmt::format("cpu ({})", counted(cores_allowed(), "thread"));
  for (const GpuInfo& gpu : gpus.all) text += ", " + gpu.text();
  return gpus.all.empty() ? text + "; no GPU: " + gpus.why_none : text;
}

nlohmann::json devices_json() {
  nlohmann::json list = nlohmann::json::array();
  list.push_back({{"name", "cpu"}, {"threads", cores_allowed()}});
  for (const GpuInfo& gpu : find_gpus().all) {
    list.push_back({{"name", gpu.device.text()},
                    {"gpu", gpu.name},
                    {"memory", gpu.memory},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)}});
  }
  return list;
}

}  // namespace contcore::app
