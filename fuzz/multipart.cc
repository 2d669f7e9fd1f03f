// Forms: a Content-Type in the first line, the body behind it.
#include "serve/multipart.h"

#include <algorithm>

#include "fuzz.h"

using namespace contcore;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text({data, size});
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string type(input.substr(0, line));
  // On the heap and of its exact length, so that a byte too far is seen.
  const std::string body(input.substr(std::min(line + 1, input.size())));
  FormLimits limits;
  limits.parts = 5;
  limits.header_bytes = 200;
  is_form(type);
  fuzz::taken([&] {
    const auto parts = parse_form(type, body, limits);
    fuzz::expect(is_form(type) && parts.size() <= limits.parts);
    const char* last = body.data();
    for (const FormPart& part : parts) {
      fuzz::expect(part.bytes.data() >= last);
      last = part.bytes.data() + part.bytes.size();
      fuzz::expect(last <= body.data() + body.size());
      fuzz::expect(part.filename.find('\n') == std::string::npos);
    }
  });
  return 0;
}
