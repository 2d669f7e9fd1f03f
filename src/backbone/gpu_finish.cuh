// What follows a sum, on the device.
#pragma once

#include <cuda_runtime.h>

#include "backbone/gpu_kernels.h"
#include "backbone/plan.h"

namespace contcore::gpu_kernels {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Whether a function is done where the sum is made.
__host__ __device__ inline bool is_simple(int kind) {
  return kind == static_cast<int>(Unary::Kind::kRelu) ||
         kind == static_cast<int>(Unary::Kind::kClip) ||
         kind == static_cast<int>(Unary::Kind::kLinear);
}

__device__ inline float apply_simple(const Operation& op, float x) {
  if (op.kind == static_cast<int>(Unary::Kind::kClip)) return fminf(fmaxf(x, op.alpha), op.beta);
  if (op.kind == static_cast<int>(Unary::Kind::kRelu)) return x > 0 ? x : __fmul_rn(op.alpha, x);
  return __fadd_rn(__fmul_rn(op.alpha, x), op.beta);
}

// Functions that take much code, which is there once.
template <typename Number>
__device__ __noinline__ Number apply_rare(const Operation op, Number x) {
  using Kind = Unary::Kind;
  switch (static_cast<Kind>(op.kind)) {
    case Kind::kSigmoid:
      return sigmoid(x);
    case Kind::kSwish:
      return x * sigmoid(op.alpha * x);
    case Kind::kHardSwish:
      return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
    case Kind::kTanh:
      return tanhf(x);
    case Kind::kGelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case Kind::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case Kind::kSqrt:
      return x > 0 ? sqrtf(x) : x < 0 ? nanf("") : 0.0f;
    case Kind::kExp:
      return expf(x);
    case Kind::kLog:
      return logf(x);
    case Kind::kAbs:
      return fabsf(x);
    case Kind::kElu:
      return x > 0 ? x : op.alpha * expm1f(x);
    case Kind::kPower:
      return op.alpha * (op.beta == 2.0f    ? x * x
                         : op.beta == 1.0f  ? x
                         : op.beta == -1.0f ? 1.0f / x
                                            : powf(x, op.beta));
    case Kind::kRound:
      return rintf(x);
    default:
      return x;
  }
}

// The number at `at` of the result, of column c, before it becomes a byte. `kAll`: with functions
// that are not simple.
template <bool kAll = true>
__device__ inline float finished(const Finish& how, float x, int c, std::int64_t at) {
  if (how.bias != nullptr) x = __fadd_rn(x, how.bias[c]);
  if (how.factor != nullptr) x = __fmul_rn(x, how.factor[c]);
  for (int i = 0; i < how.count; ++i) {
    const Operation& op = how.operations[i];
    if (op.kind == Operation::kAddFloats) {
      x = __fadd_rn(x, static_cast<const float*>(how.other)[at]);
    } else if (op.kind == Operation::kAddBytes) {
      const float code = static_cast<const std::uint8_t*>(how.other)[at];
      x = __fmaf_rn(__fsub_rn(code, op.beta), op.alpha, x);
    } else if (!kAll || is_simple(op.kind)) {
      x = apply_simple(op, x);
    } else {
      x = apply_rare(op, x);
    }
  }
  return __fmul_rn(x, how.last);
}

// The nearest byte, of two the even one. The bounds are whole numbers, so that it is all the same
// whether they come before or after the rounding.
__device__ inline std::uint8_t to_byte(float x, float zero) {
  const float bounded = fminf(fmaxf(__fadd_rn(x, zero), 0.0f), 255.0f);
  return static_cast<std::uint8_t>(__float2int_rn(bounded));
}

}  // namespace contcore::gpu_kernels
