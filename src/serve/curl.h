// libcurl, loaded when something is first sent by it: it brings eighteen libraries with it, for
// which nothing else is to wait.
#pragma once

#include <curl/curl.h>

#include <optional>
#include <string>

namespace contcore {

/// The functions of libcurl that are used, without the "curl_" of their names.
struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_free) free;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_header) easy_header;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_url) url;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_url_get) url_get;
  decltype(&curl_url_set) url_set;
};

/// Throws Error (kInput) where it is not installed.
const Curl& libcurl();

/// The header lines of a request.
class HeaderLines {
 public:
  HeaderLines() = default;
  ~HeaderLines() { libcurl().slist_free_all(list_); }
  HeaderLines(const HeaderLines&) = delete;
  HeaderLines& operator=(const HeaderLines&) = delete;

  void add(const std::string& line);
  curl_slist* list() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

/// Seconds that an answer asks to wait; nothing if it does not, or gives a date.
std::optional<double> retry_after(CURL* handle);

}  // namespace contcore
