#include "contcore/device.h"

#include <gtest/gtest.h>

#include "contcore/compute.h"
#include "contcore/error.h"

namespace contcore {
namespace {

std::string refusal(const std::string& text) {
  try {
    Device::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    return error.what();
  }
  return "";
}

TEST(DeviceTest, TheProcessorIsADevice) {
  EXPECT_EQ(Device::parse("cpu"), Device());
  EXPECT_EQ(Device::parse("cpu").text(), "cpu");
  EXPECT_EQ(Device{1}.text(), "cuda:1");
  Compute compute(1);
  EXPECT_EQ(compute.gpu(), nullptr);
}

TEST(DeviceTest, AutoIsWhatIsThere) {
  const Gpus gpus = find_gpus();
  EXPECT_EQ(Device::parse("auto"), gpus.all.empty() ? Device() : gpus.all.front().device);
  EXPECT_EQ(gpus.all.empty(), !gpus.why_none.empty());
}

TEST(DeviceTest, WordsThatAreNoDeviceAreRefused) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU"}) {
    EXPECT_NE(refusal(text).find("is not a device"), std::string::npos) << text;
  }
}

TEST(DeviceTest, AGpuThatIsNotThereIsRefusedWithTheReasonAndTheRemedy) {
  const std::string text = refusal("cuda:99");
  EXPECT_NE(text.find("cuda:99 cannot be used: "), std::string::npos) << text;
  EXPECT_NE(text.find("--device cpu"), std::string::npos) << text;
  Compute compute(1, Device{99});
  EXPECT_THROW(compute.gpu(), Error);
}

}  // namespace
}  // namespace contcore
