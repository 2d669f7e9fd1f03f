// What camera/aravis.h says of Aravis, against Aravis' own headers.
#include "camera/aravis.h"

#include <gtest/gtest.h>

#if __has_include(<arv.h>)
#include <arv.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "camera/frame.h"

namespace contcore {
namespace {

// How a value is passed: of an enumeration its number, of a pointer that it is one.
template <typename Value>
struct Passed {
  using Type = std::conditional_t<std::is_pointer_v<Value>, void*, Value>;
};
template <typename Value>
requires std::is_enum_v<Value>
struct Passed<Value> {
  using Type = int;  // that all of Aravis' fit into
  static_assert(sizeof(Value) == sizeof(int));
};

template <typename Function>
struct Form;
template <typename Result, typename... Arguments>
struct Form<Result (*)(Arguments...)> {
  using Type = std::tuple<typename Passed<Arguments>::Type...>;
  using Returned = std::conditional_t<std::is_void_v<Result>, void, typename Passed<Result>::Type>;
};

#define CONTCORE_SAME(result, name, arguments)                                                     \
  static_assert(std::is_same_v<Form<decltype(&::name)>::Type, Form<decltype(Aravis::name)>::Type>, \
                #name);                                                                            \
  static_assert(                                                                                   \
      std::is_same_v<Form<decltype(&::name)>::Returned, Form<decltype(Aravis::name)>::Returned>,   \
      #name);
CONTCORE_ARAVIS(CONTCORE_SAME)

TEST(Aravis, PixelFormatsHaveItsNumbers) {
  const std::pair<std::uint32_t, const char*> formats[] = {
      {ARV_PIXEL_FORMAT_MONO_8, "Mono8"},
      {ARV_PIXEL_FORMAT_MONO_10, "Mono10"},
      {ARV_PIXEL_FORMAT_MONO_10_PACKED, "Mono10Packed"},
      {ARV_PIXEL_FORMAT_MONO_12, "Mono12"},
      {ARV_PIXEL_FORMAT_MONO_12_PACKED, "Mono12Packed"},
      {ARV_PIXEL_FORMAT_MONO_14, "Mono14"},
      {ARV_PIXEL_FORMAT_MONO_16, "Mono16"},
      {ARV_PIXEL_FORMAT_BAYER_GR_8, "BayerGR8"},
      {ARV_PIXEL_FORMAT_BAYER_RG_8, "BayerRG8"},
      {ARV_PIXEL_FORMAT_BAYER_GB_8, "BayerGB8"},
      {ARV_PIXEL_FORMAT_BAYER_BG_8, "BayerBG8"},
      {ARV_PIXEL_FORMAT_BAYER_GR_10, "BayerGR10"},
      {ARV_PIXEL_FORMAT_BAYER_RG_12, "BayerRG12"},
      {ARV_PIXEL_FORMAT_BAYER_GB_16, "BayerGB16"},
      {ARV_PIXEL_FORMAT_BAYER_BG_16, "BayerBG16"},
      {ARV_PIXEL_FORMAT_BAYER_GR_10P, "BayerGR10p"},
      {ARV_PIXEL_FORMAT_BAYER_RG_10P, "BayerRG10p"},
      {ARV_PIXEL_FORMAT_BAYER_GB_12P, "BayerGB12p"},
      {ARV_PIXEL_FORMAT_BAYER_BG_12P, "BayerBG12p"},
      {ARV_PIXEL_FORMAT_BAYER_GR_10_PACKED, "BayerGR10Packed"},
      {ARV_PIXEL_FORMAT_BAYER_BG_12_PACKED, "BayerBG12Packed"},
      {ARV_PIXEL_FORMAT_RGB_8_PACKED, "RGB8"},
      {ARV_PIXEL_FORMAT_BGR_8_PACKED, "BGR8"},
      {ARV_PIXEL_FORMAT_RGBA_8_PACKED, "RGBa8"},
      {ARV_PIXEL_FORMAT_BGRA_8_PACKED, "BGRa8"},
      {ARV_PIXEL_FORMAT_YUV_422_PACKED, "YUV422_8_UYVY"},
      {ARV_PIXEL_FORMAT_YUV_422_YUYV_PACKED, "YUV422_8"}};
  for (const auto& [number, name] : formats) EXPECT_EQ(format_name(number), name);
}

static_assert(kArvBufferSuccess == ARV_BUFFER_STATUS_SUCCESS);
static_assert(kArvPayloadImage == ARV_BUFFER_PAYLOAD_TYPE_IMAGE);
static_assert(kArvPayloadExtendedChunk == ARV_BUFFER_PAYLOAD_TYPE_EXTENDED_CHUNK_DATA);
static_assert(kArvContinuous == ARV_ACQUISITION_MODE_CONTINUOUS);
static_assert(kArvAutoOff == ARV_AUTO_OFF);
static_assert(sizeof(AravisError) == sizeof(GError));
static_assert(offsetof(AravisError, message) == offsetof(GError, message));

}  // namespace
}  // namespace contcore
#else
namespace contcore {
namespace {
TEST(Aravis, IsAsItsHeadersSay) { GTEST_SKIP() << "libaravis-dev is not there to compare with"; }
}  // namespace
}  // namespace contcore
#endif

namespace contcore {
namespace {

TEST(Aravis, HasAllThatIsAskedOfIt) { EXPECT_NE(libaravis().arv_camera_new, nullptr); }

}  // namespace
}  // namespace contcore
