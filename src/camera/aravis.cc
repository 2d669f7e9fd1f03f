#include "camera/aravis.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr char kAravisLibrary[] = "libaravis-0.8.so.0";

void* or_refuse_aravis(void* found) {
  if (found != nullptr) return found;
  const char* reason = dlerror();
  throw Error(Error::Kind::kInput,
              fmt::format("{} cannot be loaded, without which there are no cameras: {}; install "
                          "it: apt-get install libaravis-0.8-0",
                          kAravisLibrary, reason != nullptr ? reason : "no reason is known"));
}

Aravis load_aravis() {
  // Functions of GLib are found through it as well.
  void* library = or_refuse_aravis(dlopen(kAravisLibrary, RTLD_LAZY | RTLD_LOCAL));
  Aravis aravis{};
#define CONTCORE_FIND(result, name, arguments) \
  aravis.name = reinterpret_cast<decltype(aravis.name)>(or_refuse_aravis(dlsym(library, #name)));
  CONTCORE_ARAVIS(CONTCORE_FIND)
#undef CONTCORE_FIND
  return aravis;
}

}  // namespace

const Aravis& libaravis() {
  static const Aravis aravis = load_aravis();
  return aravis;
}

std::mutex& aravis_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace contcore
