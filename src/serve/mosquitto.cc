#include "serve/mosquitto.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr char kMosquittoLibrary[] = "libmosquitto.so.1";

void* or_refuse_mqtt(void* found) {
  if (found != nullptr) return found;
  const char* reason = dlerror();
  throw Error(Error::Kind::kInput,
              fmt::format("{} cannot be loaded, without which nothing is sent by MQTT: {}; install "
                          "it: apt-get install libmosquitto1",
                          kMosquittoLibrary, reason != nullptr ? reason : "no reason is known"));
}

Mosquitto load_mosquitto() {
  void* library = or_refuse_mqtt(dlopen(kMosquittoLibrary, RTLD_LAZY | RTLD_LOCAL));
  const auto find = [&]<typename Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(or_refuse_mqtt(dlsym(library, name)));
  };
  Mosquitto mosquitto{};
  find(mosquitto.lib_init, "mosquitto_lib_init");
  find(mosquitto.make, "mosquitto_new");
  find(mosquitto.destroy, "mosquitto_destroy");
  find(mosquitto.int_option, "mosquitto_int_option");
  find(mosquitto.will_set, "mosquitto_will_set");
  find(mosquitto.username_pw_set, "mosquitto_username_pw_set");
  find(mosquitto.tls_opts_set, "mosquitto_tls_opts_set");
  find(mosquitto.connect_bind_async, "mosquitto_connect_bind_async");
  find(mosquitto.disconnect, "mosquitto_disconnect");
  find(mosquitto.publish, "mosquitto_publish");
  find(mosquitto.loop_read, "mosquitto_loop_read");
  find(mosquitto.loop_write, "mosquitto_loop_write");
  find(mosquitto.loop_misc, "mosquitto_loop_misc");
  find(mosquitto.socket, "mosquitto_socket");
  find(mosquitto.want_write, "mosquitto_want_write");
  find(mosquitto.connect_v5_callback_set, "mosquitto_connect_v5_callback_set");
  find(mosquitto.publish_v5_callback_set, "mosquitto_publish_v5_callback_set");
  find(mosquitto.strerror, "mosquitto_strerror");
  find(mosquitto.connack_string, "mosquitto_connack_string");
  find(mosquitto.reason_string, "mosquitto_reason_string");
  mosquitto.lib_init();
  return mosquitto;
}

}  // namespace

const Mosquitto& libmosquitto() {
  static const Mosquitto mosquitto = load_mosquitto();
  return mosquitto;
}

}  // namespace contcore
