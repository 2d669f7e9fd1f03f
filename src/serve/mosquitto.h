// libmosquitto, loaded when something is first sent by MQTT.
#pragma once

#include <mosquitto.h>

namespace contcore {

/// The functions of libmosquitto that are used, without the "mosquitto_" of their names.
struct Mosquitto {
  decltype(&mosquitto_lib_init) lib_init;
  decltype(&mosquitto_new) make;
  decltype(&mosquitto_destroy) destroy;
  decltype(&mosquitto_int_option) int_option;
  decltype(&mosquitto_will_set) will_set;
  decltype(&mosquitto_username_pw_set) username_pw_set;
  decltype(&mosquitto_tls_opts_set) tls_opts_set;
  decltype(&mosquitto_connect_bind_async) connect_bind_async;
  decltype(&mosquitto_disconnect) disconnect;
  decltype(&mosquitto_publish) publish;
  decltype(&mosquitto_loop_read) loop_read;
  decltype(&mosquitto_loop_write) loop_write;
  decltype(&mosquitto_loop_misc) loop_misc;
  decltype(&mosquitto_socket) socket;
  decltype(&mosquitto_want_write) want_write;
  decltype(&mosquitto_connect_v5_callback_set) connect_v5_callback_set;
  decltype(&mosquitto_publish_v5_callback_set) publish_v5_callback_set;
  decltype(&mosquitto_strerror) strerror;
  decltype(&mosquitto_connack_string) connack_string;
  decltype(&mosquitto_reason_string) reason_string;
};

/// Throws Error (kInput) where it is not installed.
const Mosquitto& libmosquitto();

}  // namespace contcore
