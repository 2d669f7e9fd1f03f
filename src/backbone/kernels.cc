#include "backbone/kernels.h"

#include <cmath>

// As in coreset/kernels.cc: targets with a fused multiply-add, and the plain baseline.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backbone/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace contcore::backbone_kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// a · b + c, rounded once.
template <typename D, typename V>
HWY_INLINE V fused(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hn::MulAdd(a, b, c);
#else
  HWY_ALIGN float x[hn::MaxLanes(D())], y[hn::MaxLanes(D())], z[hn::MaxLanes(D())];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, z);
#endif
}

// The numbers at `at` and behind it, of channel c and those behind it.
template <typename D>
HWY_INLINE auto finished(D d, const Finish& how, const float* low, const float* high,
                         const void* other, std::size_t at, std::size_t c) {
  auto x = hn::LoadU(d, low + at);
  if (high != nullptr) x = fused(d, hn::Set(d, 16.0f), hn::LoadU(d, high + at), x);
  x = hn::Mul(hn::Add(x, hn::LoadU(d, how.bias.data() + c)), hn::LoadU(d, how.factor.data() + c));
  for (const Finish::Op& op : how.ops) {
    switch (op.kind) {
      case Finish::Op::Kind::kClip:
        x = hn::Min(hn::Max(x, hn::Set(d, op.alpha)), hn::Set(d, op.beta));
        break;
      case Finish::Op::Kind::kAddFloats:
        x = hn::Add(x, hn::LoadU(d, static_cast<const float*>(other) + at));
        break;
      case Finish::Op::Kind::kAddBytes: {
        const hn::Rebind<std::uint8_t, D> b;
        const hn::Rebind<std::int32_t, D> i;
        const auto codes = hn::LoadU(b, static_cast<const std::uint8_t*>(other) + at);
        const auto y = hn::Sub(hn::ConvertTo(d, hn::PromoteTo(i, codes)), hn::Set(d, op.beta));
        x = fused(d, y, hn::Set(d, op.alpha), x);
        break;
      }
    }
  }
  return hn::Mul(x, hn::Set(d, how.last));
}

template <typename D>
HWY_INLINE void store(D d, const Finish& how, const float* low, const float* high,
                      const void* other, std::size_t at, std::size_t c, float* floats,
                      std::uint8_t* bytes) {
  const auto x = finished(d, how, low, high, other, at, c);
  if (bytes == nullptr) return hn::StoreU(x, d, floats + at);
  const hn::Rebind<std::uint8_t, D> b;
  const auto code = hn::Add(x, hn::Set(d, how.zero));
  const auto bounded = hn::Min(hn::Max(code, hn::Zero(d)), hn::Set(d, 255.0f));
  hn::StoreU(hn::DemoteTo(b, hn::NearestInt(bounded)), b, bytes + at);
}

void FinishPlaces(const Finish& how, const float* low, const float* high, const void* other,
                  std::size_t places, float* floats, std::uint8_t* bytes) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  const std::size_t channels = how.bias.size();
  for (std::size_t p = 0; p < places; ++p) {
    std::size_t c = 0;
    for (; c + hn::Lanes(d) <= channels; c += hn::Lanes(d)) {
      store(d, how, low, high, other, p * channels + c, c, floats, bytes);
    }
    for (; c < channels; ++c) {
      store(one, how, low, high, other, p * channels + c, c, floats, bytes);
    }
  }
}

}  // namespace
}  // namespace contcore::backbone_kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace contcore::backbone_kernels {

HWY_EXPORT(FinishPlaces);

void finish(const Finish& how, const float* low, const float* high, const void* other,
            std::size_t places, float* floats, std::uint8_t* bytes) {
  HWY_DYNAMIC_DISPATCH(FinishPlaces)(how, low, high, other, places, floats, bytes);
}

}  // namespace contcore::backbone_kernels
#endif  // HWY_ONCE
