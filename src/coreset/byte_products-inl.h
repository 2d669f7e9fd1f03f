// Products of bytes in each lane, for the kernels that sum them: included once for each target,
// behind hwy/foreach_target.h.
#if defined(CONTCORE_BYTE_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CONTCORE_BYTE_PRODUCTS_INL_H
#undef CONTCORE_BYTE_PRODUCTS_INL_H
#else
#define CONTCORE_BYTE_PRODUCTS_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace contcore::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::CappedTag<float, 16>;
using I = hn::RebindToSigned<F>;
using W = hn::Vec<I>;  // in each lane a sum, or four bytes
constexpr F f;
constexpr I i32;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(f));
constexpr int kVectors = kLanes >= 16 ? 4 : kLanes == 8 ? 2 : 1;  // registers side by side

// sum + a·b in each lane, a of four unsigned bytes, b of four signed ones.
HWY_INLINE W add_byte_products(W sum, W a, W b) {
#if HWY_TARGET == HWY_AVX3  // the intrinsic would ask for the whole function to be compiled for it
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
#elif HWY_TARGET == HWY_AVX2  // through 16 bits: pairs of such products do not fit into them
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(a.raw, _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(b.raw, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a.raw, 8), _mm256_srai_epi16(b.raw, 8));
  return W{_mm256_add_epi32(sum.raw, _mm256_add_epi32(even, odd))};
#else
  const W low = hn::Set(i32, 255);
  sum = hn::Add(sum, hn::Mul(hn::And(a, low), hn::ShiftRight<24>(hn::ShiftLeft<24>(b))));
  sum = hn::Add(
      sum, hn::Mul(hn::And(hn::ShiftRight<8>(a), low), hn::ShiftRight<24>(hn::ShiftLeft<16>(b))));
  sum = hn::Add(
      sum, hn::Mul(hn::And(hn::ShiftRight<16>(a), low), hn::ShiftRight<24>(hn::ShiftLeft<8>(b))));
  return hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<24>(a), low), hn::ShiftRight<24>(b)));
#endif
}

HWY_INLINE W load_four(const void* bytes) {
  return hn::LoadU(i32, static_cast<const int32_t*>(bytes));
}

}  // namespace
}  // namespace contcore::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if HWY_ARCH_X86  // machines with AVX-512 but without its byte products run what is for AVX2
namespace contcore::kernels {
namespace {

bool lacks_products() {
  static const bool products = __builtin_cpu_supports("avx512vnni") != 0;
  return !products && (hwy::SupportedTargets() & HWY_AVX3) != 0;
}

}  // namespace
}  // namespace contcore::kernels
#define CONTCORE_BYTES(name) (lacks_products() ? &N_AVX2::name : HWY_DYNAMIC_DISPATCH(name))
#else
#define CONTCORE_BYTES(name) HWY_DYNAMIC_DISPATCH(name)
#endif
#endif  // HWY_ONCE
#endif  // for each target
