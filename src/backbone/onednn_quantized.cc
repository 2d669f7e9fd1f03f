// Values as bytes: rounding to them and back, and convolutions of bytes with signed bytes.
//
// An integer convolution sums codes · codes in 32 bits, exactly. What is left is done on floats in
// the same pass: the scales, the bias, functions, the other summand, and rounding to the levels of
// the result.
#include <cstring>

#include "backbone/attributes.h"
#include "backbone/onednn_builder.h"

namespace contcore {
namespace {

// Without AVX-512's VNNI, oneDNN 2.6 adds pairs of products in 16 bits, where they saturate: wrong,
// without a word. Such a machine takes the same sums in floats. (Where VNNI comes with AVX2 alone,
// it has not been tried, and floats are right too.)
bool sums_in_32_bits() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
      return true;
    default:
      return false;
  }
}

}  // namespace

// ---- floats to bytes and back ------------------------------------------------------------------

OneDnnBuilder::Place OneDnnBuilder::to_bytes(const Place& from, const Desc& desc,
                                             const Grid& levels, std::size_t value) {
  dnnl::primitive_attr attributes;
  attributes.set_output_scales(0, {1 / levels.scale});
  if (levels.zero != 0) attributes.set_zero_points(DNNL_ARG_DST, 0, {levels.zero});
  const Place made = block(desc, last_use_[value]);
  reorder(from, made, "to bytes " + plan_.values[value].name, attributes);
  return made;
}

OneDnnBuilder::Place OneDnnBuilder::from_bytes(std::size_t value) {
  const Place from = bytes_[value].front();
  const Grid& levels = *grid(value);
  dnnl::primitive_attr attributes;
  attributes.set_output_scales(0, {levels.scale});
  if (levels.zero != 0) attributes.set_zero_points(DNNL_ARG_SRC, 0, {levels.zero});
  const Place made = block(with_type(from.desc, kFloat), last_use_[value]);
  reorder(from, made, "to floats " + plan_.values[value].name, attributes);
  return made;
}

OneDnnBuilder::Place OneDnnBuilder::bytes_in_layout(std::size_t value, const Desc& desc) {
  if (bytes_[value].empty()) {
    bytes_[value].push_back(to_bytes(place(value), desc, *grid(value), value));
  }
  for (const Place& version : bytes_[value]) {
    if (same_layout(version.desc, desc)) return version;
  }
  const Place copy = block(desc, last_use_[value]);
  reorder(bytes_[value].front(), copy, plan_.values[value].name);
  bytes_[value].push_back(copy);
  return copy;
}

void OneDnnBuilder::quantize(const Step& step) {
  const std::size_t in = step.in[0];
  if (grid(in) == grid(step.out) && has_bytes(in)) return set_bytes(step.out, bytes_[in].front());
  const Shape& form = shape(step.out);
  // Channels last, as integer convolutions take them.
  const Desc desc =
      form.size() == 4 ? Desc(form, kByte, memory::format_tag::nhwc) : plain_layout(form, kByte);
  set_bytes(step.out, to_bytes(place(in), desc, *grid(step.out), step.out));
}

// ---- convolutions ------------------------------------------------------------------------------

OneDnnBuilder::Place OneDnnBuilder::pack_codes(const Step& step, const Desc& to) {
  const std::vector<std::int8_t>& codes = step.weights.codes->numbers;
  const auto fill = [&](float* target) {
    std::vector<std::int8_t> numbers = codes;  // oneDNN takes no pointer to constants
    memory source(plain_layout(grouped_shape(step), memory::data_type::s8), sequence_.engine,
                  numbers.data());
    memory result(to, sequence_.engine, target);
    dnnl::reorder(source, result).execute(sequence_.stream, source, result);
    sequence_.stream.wait();
  };
  if (step.shared) {
    const void* which = &codes;
    std::string key(reinterpret_cast<const char*>(&which), sizeof which);
    key.append(reinterpret_cast<const char*>(&to.data), sizeof to.data);
    return constant_block(weights_.get(key, to.get_size(), fill), to);
  }
  auto block = std::make_shared<Vectors>(1, to.get_size() / sizeof(float) + 1);
  fill(block->data());
  return constant_block(block, to);
}

// Where the result is bytes and the other summand too, that is added in place; where it is floats,
// as a second source. A result of floats is added to floats in place.
bool OneDnnBuilder::integer_conv(const Step& step) {
  const auto added = summand(step);
  const auto after = after_sums(plan_, step, added && has_bytes(*added));
  if (!after) return false;
  if (!sums_in_32_bits()) return float_sums_conv(step, *after);
  const std::size_t in = step.in[0];
  const auto& levels = grid(step.out);
  const auto& other = after->other;
  const Shape& out = shape(step.out);
  const Desc second_desc(out, kFloat, memory::format_tag::nhwc);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_output_scales(1 << 1, after->factor);
  if (grid(in)->zero != 0) attributes.set_zero_points(DNNL_ARG_SRC, 0, {grid(in)->zero});
  if (levels && levels->zero != 0) attributes.set_zero_points(DNNL_ARG_DST, 0, {levels->zero});
  dnnl::post_ops operations;
  int second_at = 0;
  for (const PostOp& op : step.post_ops) {
    if (op.unary) {
      const bool clip = op.unary->kind == Unary::Kind::kClip;
      operations.append_eltwise(1.0f, algorithm_of(op.unary->kind),
                                clip ? op.unary->alpha * after->unit : op.unary->alpha,
                                clip ? op.unary->beta * after->unit : op.unary->beta);
    } else if (after->second) {
      second_at = operations.len();
      operations.append_binary(dnnl::algorithm::binary_add, second_desc);
    } else if (after->other_bytes) {
      operations.append_sum(grid(*other)->scale * after->unit, grid(*other)->zero, kByte);
    } else {
      operations.append_sum(1.0f);
    }
  }
  if (after->last) {
    operations.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, *after->last, 0);
  }
  attributes.set_post_ops(operations);

  const Dims holes = {step.dilations[0] - 1, step.dilations[1] - 1};
  const Desc bias_desc(Dims{out[1]}, kFloat, memory::format_tag::a);
  std::optional<Convolution> found;
  try {
    const dnnl::convolution_forward::desc operation(
        kInference, dnnl::algorithm::convolution_direct, any_layout(shape(in), kByte),
        any_layout(grouped_shape(step), memory::data_type::s8), bias_desc,
        any_layout(out, levels ? kByte : kFloat), step.strides, holes, step.pads_begin,
        step.pads_end);
    found.emplace(operation, attributes, sequence_.engine);
  } catch (const dnnl::error&) {
    return false;
  }
  if (is_reference(*found)) return false;
  std::vector<std::pair<int, Place>> places = {
      {DNNL_ARG_SRC, bytes_in_layout(in, found->src_desc())},
      {DNNL_ARG_WEIGHTS, pack_codes(step, found->weights_desc())},
      {DNNL_ARG_BIAS, constant_vector(after->bias)}};
  if (after->second) {
    places.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(second_at) | DNNL_ARG_SRC_1,
                        in_layout(*other, second_desc));
  }
  const Place target = after->other_bytes
                           ? sum_target(*other, bytes_in_layout(*other, found->dst_desc()), step)
                       : other && !after->second ? sum_target(*other, found->dst_desc(), step)
                                                 : allocate(found->dst_desc(), step.out);
  places.emplace_back(DNNL_ARG_DST, target);
  call(dnnl::convolution_forward(*found), *found, std::move(places),
       what(step) + " " + found->impl_info_str());
  levels ? set_bytes(step.out, target) : set(step.out, target);
  return true;
}

}  // namespace contcore
