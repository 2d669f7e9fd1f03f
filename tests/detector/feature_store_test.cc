#include "detector/feature_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <vector>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kDimension = 64;

// Row i is i, i + 1/2, …: recognisable wherever it ends up.
std::vector<float> rows(std::size_t first, std::size_t count) {
  std::vector<float> values(count * kDimension);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(first + i / kDimension) + 0.5F * static_cast<float>(i % 2);
  }
  return values;
}

void check(FeatureStore& store, std::size_t count) {
  const VectorView view = store.view();
  ASSERT_EQ(view.rows, count);
  ASSERT_EQ(view.cols, kDimension);
  std::vector<float> scratch(kDimension);
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = view.row(i, scratch.data());
    ASSERT_EQ(row[0], static_cast<float>(i));
    ASSERT_EQ(row[kDimension - 1], static_cast<float>(i) + 0.5F);
  }
}

TEST(FeatureStore, HoldsTheSameInMemoryAndOnDisk) {
  for (const std::size_t memory : {std::size_t{0}, std::size_t{100000}, std::size_t{10} << 20}) {
    FeatureStore store(kDimension, memory);
    std::size_t count = 0;
    for (const std::size_t n : {1U, 7U, 300U, 1U, 2000U}) {
      store.append({rows(count, n).data(), n, kDimension});
      count += n;
      check(store, count);
    }
    EXPECT_EQ(store.on_disk(), count * kDimension * 4 > memory);
  }
}

TEST(FeatureStore, NamesTheFolderThatCannotBeWritten) {
  ::setenv("TMPDIR", "/nowhere/at/all", 1);
  FeatureStore store(kDimension, 0);
  const std::vector<float> some = rows(0, 100);
  try {
    store.append({some.data(), 100, kDimension});
    ADD_FAILURE() << "wrote to a folder that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all"), std::string::npos);
  }
  ::unsetenv("TMPDIR");
}

TEST(FeatureStore, SaysWhenTheDiskIsFull) {
  FeatureStore store(kDimension, 0);
  store.append({rows(0, 64).data(), 64, kDimension});
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{64 * kDimension * 4, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<float> more = rows(64, 64);
  EXPECT_THROW(store.append({more.data(), 64, kDimension}), Error);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  check(store, 64);
}

}  // namespace
}  // namespace contcore
