#include "base/task_name.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/utf8.h"

namespace contcore {
namespace {

constexpr std::size_t kLongestTaskName = 200;

bool is_blank(utf8proc_int32_t c) {
  constexpr utf8proc_int32_t kBrailleBlank = 0x2800;
  return utf8proc_category(c) == UTF8PROC_CATEGORY_ZS || c == kBrailleBlank;
}

bool is_hidden(utf8proc_int32_t c) {
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CN:  // not a character yet
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return utf8proc_get_property(c)->ignorable != 0;
  }
}

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

bool is_nfc(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(made, &std::free);
  return length >= 0 && text == std::string_view(reinterpret_cast<const char*>(made),
                                                 static_cast<std::size_t>(length));
}

}  // namespace

std::string task_name_fault(std::string_view name, std::string_view what) {
  if (name.empty()) return fmt::format("a {} needs a name", what);
  if (name.size() > kLongestTaskName) {
    return fmt::format("a {}'s name has at most {} bytes; this one has {}", what, kLongestTaskName,
                       name.size());
  }
  if (!is_utf8(name)) return fmt::format("the {}'s name is not UTF-8; give it another", what);
  utf8proc_int32_t first = -1;
  utf8proc_int32_t c = -1;
  for (std::size_t at = 0; at < name.size();) {
    at += static_cast<std::size_t>(
        utf8proc_iterate(bytes_of(name) + at, static_cast<utf8proc_ssize_t>(name.size() - at), &c));
    if (first < 0) first = c;
    if (is_hidden(c)) {
      return fmt::format(
          "the {}'s name has a character that cannot be seen (U+{:04X}); leave it out", what, c);
    }
  }
  if (is_blank(first) || is_blank(c)) {
    return fmt::format("the {}'s name begins or ends with a blank; leave it out", what);
  }
  if (name == "." || name == "..") {
    return fmt::format("a {} cannot be called \".\" or \"..\"; give it another name", what);
  }
  if (!is_nfc(name)) {
    return fmt::format(
        "the {}'s name has letters and accents apart that have a character of their own; write it "
        "in the form NFC",
        what);
  }
  return "";
}

}  // namespace contcore
