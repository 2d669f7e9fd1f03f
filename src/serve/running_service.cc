#include "contcore/service.h"
#include "serve/service.h"

namespace contcore {
namespace {

ServiceOptions options_of(const ServeOptions& given) {
  ServiceOptions options;
  options.line = {given.memory, given.backbone, given.settings};
  options.address = given.address;
  options.port = given.port;
  if (!given.tokens.empty()) options.tokens = Tokens::read(given.tokens);
  return options;
}

}  // namespace

class RunningService::Work {
 public:
  explicit Work(const ServeOptions& options) : service(options_of(options)) {}

  Service service;
};

RunningService::RunningService(const ServeOptions& options)
    : work_(std::make_unique<Work>(options)) {}
RunningService::~RunningService() = default;
void RunningService::stop() { work_->service.stop(); }
std::uint16_t RunningService::port() const { return work_->service.port(); }

}  // namespace contcore
