// Least significant digit first: three passes of 11 bits, each of which counts the digits and then
// deals the words out by them. A pass keeps the order of equal digits, so there is but one result,
// however the words are split among threads.
#include "base/radix.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

namespace contcore {
namespace {

constexpr int kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
constexpr std::size_t kLeastPart = std::size_t{1} << 16;  // fewer words are not worth a thread

using Counts = std::array<std::size_t, kDigits>;

std::size_t digit(std::uint64_t word, int shift) { return (word >> shift) & (kDigits - 1); }
std::size_t digit(std::uint32_t word, int shift) { return (word >> shift) & (kDigits - 1); }

std::span<const std::uint64_t> part_of(std::span<const std::uint64_t> words, std::size_t part,
                                       std::size_t parts) {
  const std::size_t step = (words.size() + parts - 1) / parts;
  const std::size_t begin = std::min(words.size(), part * step);
  return words.subspan(begin, std::min(step, words.size() - begin));
}

// From how many words a part has of each digit to where it puts the first of them. Returns false
// when all have the same digit, and there is nothing to do.
bool counts_to_places(std::vector<Counts>& parts, std::size_t words) {
  std::size_t place = 0;
  for (std::size_t d = 0; d < kDigits; ++d) {
    const std::size_t before = place;
    for (Counts& part : parts) {
      const std::size_t count = part[d];
      part[d] = place;
      place += count;
    }
    if (place - before == words) return false;
  }
  return true;
}

// Returns whether the words are in `to` now; otherwise they are in order where they were.
bool deal_out(std::span<const std::uint64_t> from, std::uint64_t* to, int shift,
              std::vector<Counts>& parts, Threads& threads) {
  threads.run(parts.size(), [&](std::size_t p, std::size_t) {
    parts[p].fill(0);
    for (const std::uint64_t word : part_of(from, p, parts.size())) ++parts[p][digit(word, shift)];
  });
  if (!counts_to_places(parts, from.size())) return false;
  threads.run(parts.size(), [&](std::size_t p, std::size_t) {
    Counts& place = parts[p];
    for (const std::uint64_t word : part_of(from, p, parts.size())) {
      to[place[digit(word, shift)]++] = word;
    }
  });
  return true;
}

}  // namespace

void sort_by_upper_half(std::vector<std::uint64_t>& words, Threads& threads) {
  std::vector<Counts> parts(std::min(threads.count(), words.size() / kLeastPart + 1));
  std::vector<std::uint64_t> other(words.size());
  for (int shift = 32; shift < 64; shift += kDigitBits) {
    if (deal_out(words, other.data(), shift, parts, threads)) words.swap(other);
  }
}

void sort_small(std::span<std::uint32_t> words, std::span<std::uint32_t> other) {
  constexpr int kPasses = (32 + kDigitBits - 1) / kDigitBits;
  std::array<std::array<std::uint32_t, kDigits>, kPasses> places{};
  for (const std::uint32_t word : words) {
    for (int pass = 0; pass < kPasses; ++pass) {
      ++places[static_cast<std::size_t>(pass)][digit(word, pass * kDigitBits)];
    }
  }
  const std::span<std::uint32_t> home = words;
  for (int pass = 0; pass < kPasses && !words.empty(); ++pass) {
    auto& place = places[static_cast<std::size_t>(pass)];
    const int shift = pass * kDigitBits;
    if (place[digit(words[0], shift)] == words.size()) continue;
    std::exclusive_scan(place.begin(), place.end(), place.begin(), std::uint32_t{0});
    for (const std::uint32_t word : words) other[place[digit(word, shift)]++] = word;
    std::swap(words, other);
  }
  if (words.data() != home.data()) std::copy(words.begin(), words.end(), home.begin());
}

}  // namespace contcore
