#include "evaluate/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <system_error>

#include "base/refuse.h"
#include "base/rows.h"
#include "base/sha256.h"
#include "contcore/error.h"
#include "coreset/points.h"
#include "device/packing.h"

namespace contcore {
namespace {

using Files = std::vector<std::string>;

std::string name_in(const Product& product, const std::string& file) {
  return std::filesystem::path(file).lexically_relative(product.folder).string();
}

// Name and size of a file, and what stands in its middle.
std::string description(const Product& product, const std::string& file) {
  if (file.empty()) return "";
  constexpr std::uintmax_t kLookedAt = 4096;
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error) refuse(file, error.message());
  std::string some(std::min(bytes, kLookedAt), '\0');
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>((bytes - some.size()) / 2));
  in.read(some.data(), static_cast<std::streamsize>(some.size()));
  const std::span<const std::byte> part = std::as_bytes(std::span(some));
  return fmt::format("{} {} {}", name_in(product, file), bytes, sha256({&part, 1}));
}

// What all ranks must have alike; where the data set lies is each one's own business.
std::string description(const Evaluation::State& parts) {
  std::string text = parts.extractor.backbone().hash() + "\n";
  for (const Product& product : parts.products) {
    text += product.name + "\n";
    for (const std::string& file : product.train) text += description(product, file) + "\n";
    for (const TestImage& image : product.test) {
      text += fmt::format("{} {} {} {}\n", description(product, image.file), image.kind,
                          image.defect, description(product, image.mask));
    }
  }
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  return sha256({&part, 1});
}

// The lists of images that no rank has the features of.
std::vector<Files> missing_everywhere(const Evaluation::State& parts, Ranks& ranks) {
  std::vector<Files> lists;
  for (const Product& product : parts.products) {
    lists.push_back(product.train);
    lists.push_back(test_files(product));
  }
  std::vector<std::uint8_t> here;
  do_on_all(&ranks, [&] {
    for (const Files& files : lists)
      here.push_back(parts.cache.has(parts.extractor, files) ? 1 : 0);
  });
  const std::vector<std::uint8_t> all = all_of(&ranks, here);
  std::vector<Files> missing;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    bool found = lists[i].empty();
    for (std::size_t r = 0; r < ranks.size(); ++r) found = found || all[r * lists.size() + i] != 0;
    if (!found) missing.push_back(std::move(lists[i]));
  }
  return missing;
}

}  // namespace

std::vector<std::size_t> share_out(const std::vector<std::size_t>& sizes,
                                   std::vector<std::size_t>& loads) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  std::vector<std::size_t> ranks(sizes.size());
  for (const std::size_t piece : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    ranks[piece] = static_cast<std::size_t>(least - loads.begin());
    *least += sizes[piece];
  }
  return ranks;
}

std::vector<std::size_t> share_classes(const Evaluation::State& parts, std::size_t ranks) {
  std::vector<std::size_t> loads(ranks);
  std::vector<std::size_t> owners;
  for (const std::vector<std::size_t>& task : parts.schedule) {
    std::vector<std::size_t> images;
    for (const std::size_t c : task) images.push_back(parts.products[c].test.size());
    const std::vector<std::size_t> own = share_out(images, loads);
    owners.insert(owners.end(), own.begin(), own.end());
  }
  return owners;
}

void check_same_parts(const Evaluation::State& parts, Ranks& ranks) {
  std::string mine;
  do_on_all(&ranks, [&] { mine = description(parts); });
  Packer packer;
  packer.put_text(mine);
  const std::vector<Ranks::Bytes> all = ranks.all_gather(packer.bytes());
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw RanksError(Error::Kind::kInput,
                     fmt::format("rank {} has another data set or another backbone than rank 0; "
                                 "put both where all machines see them under the same name",
                                 r));
  }
}

void share_features(const Evaluation::State& parts, Ranks& ranks, Compute& compute,
                    const Progress& progress) {
  if (parts.options.cache.empty()) return;
  const std::vector<Files> missing = missing_everywhere(parts, ranks);
  std::vector<std::size_t> sizes;
  for (const Files& files : missing) sizes.push_back(files.size());
  std::vector<std::size_t> loads(ranks.size());
  const std::vector<std::size_t> owners = share_out(sizes, loads);
  const auto total = static_cast<double>(loads[ranks.rank()]);
  do_on_all(&ranks, [&] {
    double done = 0;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      if (owners[i] != ranks.rank()) continue;
      const auto images = static_cast<double>(sizes[i]);
      parts.cache.get(parts.extractor, missing[i], compute,
                      part_of(progress, done / total, (done + images) / total));
      done += images;
    }
  });
  parts.cache.look_again();
}

}  // namespace contcore
