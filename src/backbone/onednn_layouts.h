// Our words in oneDNN's: layouts, functions, what is done after a step.
#pragma once

#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <dnnl.hpp>
#pragma GCC diagnostic pop

#include "backbone/plan.h"

namespace contcore {

using dnnl::memory;
using Desc = memory::desc;
using Dims = memory::dims;
using Convolution = dnnl::convolution_forward::primitive_desc;

constexpr auto kFloat = memory::data_type::f32;
constexpr auto kByte = memory::data_type::u8;
constexpr auto kInference = dnnl::prop_kind::forward_inference;
constexpr std::size_t kForever = std::numeric_limits<std::size_t>::max();

inline Desc any_layout(const Shape& shape, memory::data_type type = kFloat) {
  return {shape, type, memory::format_tag::any};
}

constexpr std::int64_t kBlock = 16;
constexpr auto kBlockIsa = dnnl::cpu_isa::avx512_core;  // with registers of that width

inline Desc block_layout(const Shape& shape) {
  return {shape, kFloat, memory::format_tag::nChw16c};
}

inline Desc plain_layout(const Shape& shape, memory::data_type type = kFloat) {
  const Shape dims = shape.empty() ? Shape{1} : shape;  // oneDNN has no scalars
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return {dims, type, strides};
}

// Whether the memory has neither gaps nor an offset, so that elementwise primitives are at home in
// it.
inline bool is_dense(const Desc& desc) {
  std::size_t count = 1;
  for (int i = 0; i < desc.data.ndims; ++i) {
    count *= static_cast<std::size_t>(desc.data.padded_dims[i]);
  }
  return desc.data.offset0 == 0 &&
         desc.get_size() == count * memory::data_type_size(desc.data_type());
}

// The same layout for numbers of another type.
inline Desc with_type(Desc desc, memory::data_type type) {
  desc.data.data_type = memory::convert_to_c(type);
  return desc;
}

inline bool same_layout(const Desc& a, const Desc& b) {
  return dnnl_memory_desc_equal(&a.data, &b.data) != 0;
}

inline dnnl::algorithm algorithm_of(Unary::Kind kind) {
  using K = Unary::Kind;
  using A = dnnl::algorithm;
  switch (kind) {
    case K::kRelu:
      return A::eltwise_relu;
    case K::kClip:
      return A::eltwise_clip;
    case K::kSigmoid:
      return A::eltwise_logistic;
    case K::kSwish:
      return A::eltwise_swish;
    case K::kHardSwish:
      return A::eltwise_hardswish;
    case K::kTanh:
      return A::eltwise_tanh;
    case K::kGelu:
      return A::eltwise_gelu_erf;
    case K::kGeluTanh:
      return A::eltwise_gelu_tanh;
    case K::kSqrt:
      return A::eltwise_sqrt;
    case K::kExp:
      return A::eltwise_exp;
    case K::kLog:
      return A::eltwise_log;
    case K::kAbs:
      return A::eltwise_abs;
    case K::kElu:
      return A::eltwise_elu;
    case K::kLinear:
      return A::eltwise_linear;
    case K::kPower:
      return A::eltwise_pow;
    case K::kRound:
      return A::eltwise_round;
  }
  return A::undef;
}

inline dnnl::algorithm algorithm_of(Step::Combine combine) {
  using A = dnnl::algorithm;
  switch (combine) {
    case Step::Combine::kAdd:
      return A::binary_add;
    case Step::Combine::kSub:
      return A::binary_sub;
    case Step::Combine::kMul:
      return A::binary_mul;
    case Step::Combine::kDiv:
      return A::binary_div;
    case Step::Combine::kMin:
      return A::binary_min;
    case Step::Combine::kMax:
      return A::binary_max;
  }
  return A::undef;
}

inline dnnl::primitive_attr attributes_of(const std::vector<PostOp>& post_ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops operations;
  for (const PostOp& op : post_ops) {
    if (op.unary) {
      operations.append_eltwise(1.0f, algorithm_of(op.unary->kind), op.unary->alpha,
                                op.unary->beta);
    } else {
      operations.append_sum(1.0f);
    }
  }
  attributes.set_post_ops(operations);
  return attributes;
}

inline Shape grouped_shape(const Step& step) {
  const Shape& form = step.weights.shape;
  if (step.group == 1) return form;
  return {step.group, form[0] / step.group, form[1], form[2], form[3]};
}

inline bool is_reference(const dnnl::primitive_desc& description) {
  return std::strstr(description.impl_info_str(), "ref") != nullptr;
}

inline void check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) throw dnnl::error(status, what);
}

}  // namespace contcore
