// Where verdicts are sent, for machines and in words. In: the outputs as they are. Out: JSON,
// metrics, warnings.
#include <fmt/format.h>

#include "serve/api_common.h"
#include "serve/outputs.h"

namespace contcore {

Json outputs_json(Outputs& outputs) {
  Json list = Json::array();
  for (const OutputState& output : outputs.states()) {
    list.push_back({{"name", output.name},
                    {"up", output.up},
                    {"waiting", output.waiting},
                    {"delivered", output.delivered},
                    {"dropped", output.dropped},
                    {"failures", output.failures},
                    {"error", output.error}});
  }
  return list;
}

void warn_of_outputs(Outputs& outputs, Json& warnings) {
  for (const OutputState& output : outputs.states()) {
    if (!output.up) {
      warnings.push_back(
          fmt::format("{} does not take verdicts: {}; it is tried again, and {} wait", output.name,
                      output.error, output.waiting));
    }
    if (!output.drops.empty()) {
      warnings.push_back(fmt::format("{}: {}", output.name, output.drops));
    }
  }
}

void show_outputs(Outputs& outputs, Metrics& metrics) {
  for (const OutputState& output : outputs.states()) {
    const MetricLabels name = {{"output", output.name}};
    metrics.gauge("contcore_output_up", "1 unless the last attempt failed", name)
        .set(output.up ? 1 : 0);
    metrics.gauge("contcore_output_waiting", "Verdicts that wait for an output", name)
        .set(static_cast<double>(output.waiting));
    metrics.counter("contcore_output_delivered_total", "Verdicts that an output took", name)
        .add(output.delivered);
    metrics
        .counter("contcore_output_dropped_total", "Verdicts that an output refused or never saw",
                 name)
        .add(output.dropped);
    metrics.counter("contcore_output_failures_total", "Attempts that failed", name)
        .add(output.failures);
  }
}

}  // namespace contcore
