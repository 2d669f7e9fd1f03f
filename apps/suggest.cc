#include "suggest.h"

#include <algorithm>
#include <cstddef>

namespace contcore::app {
namespace {

constexpr std::size_t kMostEdits = 2;
constexpr std::size_t kLongest = 64;  // no name of ours is longer

// Letters left out, put in, changed or swapped with the next one (optimal string alignment).
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(const std::string& word, const std::vector<std::string>& names) {
  if (word.empty() || word.size() > kLongest) return "";
  std::string best;
  std::size_t fewest = kMostEdits + 1;
  for (const std::string& name : names) {
    const std::size_t count = word.size() > 2 && name.starts_with(word) ? 1 : edits(word, name);
    if (count < fewest && 2 * count < name.size()) {
      best = name;
      fewest = count;
    }
  }
  return best;
}

}  // namespace contcore::app
