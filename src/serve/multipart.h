// Forms with files in them: multipart/form-data, from a body that is all there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace contcore {

struct FormPart {
  std::string name;
  std::string filename;    ///< what the client calls it, "" if it does not: never a path to open
  std::string type;        ///< as it came, "" if it did not
  std::string_view bytes;  ///< into the body
};

struct FormLimits {
  std::size_t parts = 1000;
  std::size_t header_bytes = 4 << 10;  ///< of each part
};

/// Whether a Content-Type says multipart/form-data.
bool is_form(std::string_view content_type);

/// The parts in the order they came; a name may come more than once. Throws Error (kInput) for
/// anything that is not a whole and unambiguous form within the limits. The body must outlive the
/// parts.
std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body,
                                 const FormLimits& limits = {});

}  // namespace contcore
