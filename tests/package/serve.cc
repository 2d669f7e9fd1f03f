// A program of another project: serve FOLDER starts a service for a new memory there, and stops it.
#include <contcore/service.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "serve FOLDER\n"), 2;
  contcore::ServeOptions options;
  options.memory = std::string(argv[1]) + "/line.ccm";
  options.settings.backbone = "builtin";
  options.port = 0;
  contcore::RunningService service(options);
  const int port = service.port();
  service.stop();
  std::printf("served on port %d\n", port);
  return port != 0 ? 0 : 1;
}
