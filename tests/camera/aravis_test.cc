// What camera/aravis.h says of Aravis, against Aravis' own headers.
#include "camera/aravis.h"

#include <gtest/gtest.h>

#if __has_include(<arv.h>)
#include <arv.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

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

static_assert(kArvBufferSuccess == ARV_BUFFER_STATUS_SUCCESS);
static_assert(kArvPayloadImage == ARV_BUFFER_PAYLOAD_TYPE_IMAGE);
static_assert(kArvPayloadExtendedChunk == ARV_BUFFER_PAYLOAD_TYPE_EXTENDED_CHUNK_DATA);
static_assert(kArvPayloadMultipart == ARV_BUFFER_PAYLOAD_TYPE_MULTIPART);
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
