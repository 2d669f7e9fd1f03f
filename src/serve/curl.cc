#include "serve/curl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <string_view>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr char kLibrary[] = "libcurl.so.4";

void* or_refuse(void* found) {
  if (found != nullptr) return found;
  const char* reason = dlerror();
  throw Error(Error::Kind::kInput,
              fmt::format("{} cannot be loaded, without which nothing is sent over HTTP: {}; "
                          "install it: apt-get install libcurl4",
                          kLibrary, reason != nullptr ? reason : "no reason is known"));
}

Curl load() {
  void* library = or_refuse(dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL));
  const auto find = [&]<typename Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(or_refuse(dlsym(library, name)));
  };
  Curl curl{};
  find(curl.global_init, "curl_global_init");
  find(curl.free, "curl_free");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_reset, "curl_easy_reset");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_perform, "curl_easy_perform");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_header, "curl_easy_header");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  find(curl.url, "curl_url");
  find(curl.url_cleanup, "curl_url_cleanup");
  find(curl.url_get, "curl_url_get");
  find(curl.url_set, "curl_url_set");
  return curl;
}

}  // namespace

const Curl& libcurl() {
  static const Curl curl = load();
  return curl;
}

void HeaderLines::add(const std::string& line) {
  curl_slist* longer = libcurl().slist_append(list_, line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  list_ = longer;
}

std::optional<double> retry_after(CURL* handle) {
  curl_header* header = nullptr;
  if (libcurl().easy_header(handle, "Retry-After", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
    return {};
  const std::string_view text = header->value;
  unsigned seconds = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || rest != text.data() + text.size()) return {};
  return std::max(0.1, static_cast<double>(seconds));
}

}  // namespace contcore
