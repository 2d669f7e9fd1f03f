#include "device/gpu.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "contcore/compute.h"
#include "contcore/error.h"

namespace contcore {
namespace {

TEST(GpuTest, CopiesThereAndBack) {
  Compute compute(1, Device{0});
  Gpu& gpu = *compute.gpu();
  std::vector<int> numbers(1000), back(1000, -1);
  std::iota(numbers.begin(), numbers.end(), 0);
  GpuBuffer buffer(gpu, numbers.size() * sizeof(int));
  gpu.upload(buffer.as<int>(), numbers.data(), buffer.bytes());
  gpu.download(back.data(), buffer.as<int>(), buffer.bytes());
  EXPECT_EQ(back, numbers);
  gpu.fill(buffer.as<int>(), 0, buffer.bytes());
  gpu.download(back.data(), buffer.as<int>(), buffer.bytes());
  EXPECT_EQ(back, std::vector<int>(1000, 0));
}

TEST(GpuTest, TooMuchMemoryIsSaidAndWorkGoesOn) {
  Compute compute(1, Device{0});
  Gpu& gpu = *compute.gpu();
  EXPECT_THROW(GpuBuffer(gpu, std::size_t{1} << 50), GpuMemoryError);
  GpuBuffer buffer(gpu, 1 << 20);
  gpu.fill(buffer.as<char>(), 1, buffer.bytes());
  gpu.wait();
}

TEST(GpuTest, AGpuThatIsNotThereIsRefused) {
  EXPECT_THROW(Device::parse("cuda:99"), Error);
  Compute compute(1, Device{99});
  EXPECT_THROW(compute.gpu(), Error);
}

}  // namespace
}  // namespace contcore
