// Lists of tokens, and headers that claim to bear one. The text up to a byte 0 is the list.
#include "serve/tokens.h"

#include <algorithm>

#include "fuzz.h"

using namespace contcore;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text({data, size});
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string list(input.substr(0, end));
  const std::string header(input.substr(std::min(end + 1, input.size())));
  fuzz::taken([&] {
    const Tokens tokens = Tokens::parse(list, "a list");
    // A list that was read is one that keeps people out.
    fuzz::expect(!tokens.empty() && !tokens.role("") && !tokens.role("Bearer "));
    const auto holder = tokens.holder(header);
    if (!holder) return;
    // Whoever is let in bears what is in the list.
    const std::size_t blank = header.find_last_of(" \t");
    fuzz::expect(blank != header.npos);
    const std::string token = header.substr(blank + 1);
    fuzz::expect(token.empty() || list.find(token) != list.npos);
  });
  return 0;
}
