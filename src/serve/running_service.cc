#include "contcore/service.h"
#include "serve/service.h"

namespace contcore {
namespace {

ServiceOptions options_of(const ServeOptions& given) {
  ServiceOptions options;
  options.memory.path = given.memory;
  options.memory.backbone = given.backbone;
  options.memory.settings = given.settings;
  options.http.body = kLargestImage;
  options.version = CONTCORE_VERSION;
  options.address = given.address;
  options.port = given.port;
  options.device = given.device;
  if (!given.tokens.empty()) options.tokens = Tokens::read(given.tokens);
  return options;
}

}  // namespace

class RunningService::State {
 public:
  explicit State(const ServeOptions& options) : service(options_of(options)) {}

  Service service;
};

RunningService::RunningService(const ServeOptions& options)
    : state_(std::make_unique<State>(options)) {}
RunningService::~RunningService() = default;
void RunningService::stop() { state_->service.stop(); }
std::uint16_t RunningService::port() const { return state_->service.port(); }

}  // namespace contcore
