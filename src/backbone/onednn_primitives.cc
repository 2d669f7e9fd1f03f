// The other steps, each as one primitive.
#include "backbone/attributes.h"
#include "backbone/onednn_builder.h"

namespace contcore {

using Kind = Step::Kind;

void OneDnnBuilder::pool(const Step& step) {
  const bool whole = grid(step.out) && has_bytes(step.in[0]);
  const Place source = whole ? bytes_[step.in[0]].front() : dense(step.in[0]);
  const auto algorithm = step.kind == Kind::kMaxPool ? dnnl::algorithm::pooling_max
                         : step.count_padding        ? dnnl::algorithm::pooling_avg_include_padding
                                                     : dnnl::algorithm::pooling_avg_exclude_padding;
  const Shape& in = shape(step.in[0]);
  const Shape& out = shape(step.out);
  Dims pads_end = step.pads_end;
  for (std::size_t i = 0; i < 2; ++i) {  // a partial last window reaches beyond the padding
    const std::int64_t reach = (step.kernel[i] - 1) * step.dilations[i] + 1;
    const std::int64_t end = (out[i + 2] - 1) * step.strides[i] + reach;
    pads_end[i] = std::max(pads_end[i], end - in[i + 2] - step.pads_begin[i]);
  }
  const Dims holes = {step.dilations[0] - 1, step.dilations[1] - 1};
  const dnnl::pooling_v2_forward::desc operation(
      kInference, algorithm, source.desc, any_layout(out, source.desc.data_type()), step.strides,
      step.kernel, holes, step.pads_begin, pads_end);
  const dnnl::pooling_v2_forward::primitive_desc description(operation, attributes_of({}),
                                                             sequence_.engine);
  const Place target = allocate(description.dst_desc(), step.out);
  call(dnnl::pooling_v2_forward(description), description,
       {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}},
       what(step) + " " + description.impl_info_str());
  whole ? set_bytes(step.out, target) : set(step.out, target);
}

// Batch norm with mean 0 and variance 1: what is left is the scale and the shift.
void OneDnnBuilder::affine(const Step& step) {
  const Place source = dense(step.in[0]);
  auto flags =
      dnnl::normalization_flags::use_global_stats | dnnl::normalization_flags::use_scale_shift;
  if (!step.post_ops.empty()) flags = flags | dnnl::normalization_flags::fuse_norm_relu;
  const dnnl::batch_normalization_forward::desc operation(kInference, source.desc, 0.0f, flags);
  const dnnl::batch_normalization_forward::primitive_desc description(operation, attributes_of({}),
                                                                      sequence_.engine);
  const std::size_t channels = step.scale.size();
  std::vector<float> both = step.scale;
  both.insert(both.end(), step.bias.begin(), step.bias.end());
  Place parameters = constant_vector(both);
  parameters.desc = plain_layout({2, static_cast<std::int64_t>(channels)});
  const Place target = in_place_or_allocate(source, description.dst_desc(), step.out);
  call(dnnl::batch_normalization_forward(description), description,
       {{DNNL_ARG_SRC, source},
        {DNNL_ARG_MEAN, constant_vector(std::vector<float>(channels, 0.0f))},
        {DNNL_ARG_VARIANCE, constant_vector(std::vector<float>(channels, 1.0f))},
        {DNNL_ARG_SCALE_SHIFT, parameters},
        {DNNL_ARG_DST, target}},
       what(step) + " " + description.impl_info_str());
  set(step.out, target);
}

void OneDnnBuilder::unary(const Step& step) {
  Place source = dense(step.in[0]);
  if (step.post_ops.empty()) return set(step.out, source);
  Place target = in_place_or_allocate(source, source.desc, step.out);
  for (const PostOp& op : step.post_ops) {
    const dnnl::eltwise_forward::desc operation(kInference, algorithm_of(op.unary->kind),
                                                source.desc, op.unary->alpha, op.unary->beta);
    const dnnl::eltwise_forward::primitive_desc description(operation, attributes_of({}),
                                                            sequence_.engine);
    call(dnnl::eltwise_forward(description), description,
         {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}},
         what(step) + " " + description.impl_info_str());
    source = target;
  }
  set(step.out, target);
}

void OneDnnBuilder::binary(const Step& step) {
  const Place left = dense(step.in[0]);
  const Shape& out = shape(step.out);
  Shape form = shape(step.in[1]);
  form.insert(form.begin(), out.size() - form.size(), 1);
  Place right = dense(step.in[1]);
  if (form != shape(step.in[1])) right = reshaped_place(plain(step.in[1]), form);
  if (form == out && !same_layout(left.desc, right.desc)) {
    right = in_layout(step.in[1], left.desc);
  }
  const dnnl::binary::desc operation(algorithm_of(step.combine), left.desc, right.desc, left.desc);
  const dnnl::binary::primitive_desc description(operation, attributes_of(step.post_ops),
                                                 sequence_.engine);
  const Place target = step.in[0] == step.in[1] ? allocate(left.desc, step.out)
                                                : in_place_or_allocate(left, left.desc, step.out);
  call(dnnl::binary(description), description,
       {{DNNL_ARG_SRC_0, left}, {DNNL_ARG_SRC_1, right}, {DNNL_ARG_DST, target}},
       what(step) + " " + description.impl_info_str());
  set(step.out, target);
}

void OneDnnBuilder::matmul(const Step& step) {
  if (step.in.size() == 1) return linear(step);
  const Shape& out = shape(step.out);
  Shape left_shape = shape(step.in[0]);
  Shape right_shape = shape(step.in[1]);
  left_shape.insert(left_shape.begin(), out.size() - left_shape.size(), 1);
  right_shape.insert(right_shape.begin(), out.size() - right_shape.size(), 1);
  // Rows in order, though oneDNN would take a transposed matrix as it lies: its way for those
  // rounds differently with another number of threads, this one does not.
  const Place left = reshaped_place(plain(step.in[0]), left_shape);
  const Place right = reshaped_place(plain(step.in[1]), right_shape);
  const dnnl::matmul::desc operation(left.desc, right.desc, plain_layout(out));
  const dnnl::matmul::primitive_desc description(operation, attributes_of(step.post_ops),
                                                 sequence_.engine);
  const auto other = summand(step);
  const Place target =
      other ? sum_target(*other, plain_layout(out), step) : allocate(plain_layout(out), step.out);
  call(dnnl::matmul(description), description,
       {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, target}},
       what(step) + " " + description.impl_info_str());
  set(step.out, target);
}

// Rows times constant weights, as a 1 x 1 convolution of a map one row high, channels last: the
// memory is the same, and so are the kernels, their choice of blocks and the packing of the
// weights.
void OneDnnBuilder::linear(const Step& step) {
  const Shape& out = shape(step.out);
  const std::int64_t inputs = step.weights.shape[0], outputs = step.weights.shape[1];
  const std::int64_t rows = count_of(step.node, out) / outputs;
  const Desc from(Dims{1, inputs, 1, rows}, kFloat, memory::format_tag::nhwc);
  const Desc to(Dims{1, outputs, 1, rows}, kFloat, memory::format_tag::nhwc);
  const Desc form(Dims{outputs, inputs, 1, 1}, kFloat, Dims{1, outputs, 1, 1});
  const Dims ones = {1, 1}, none = {0, 0};
  const Desc bias_desc = plain_layout({outputs});
  const dnnl::convolution_forward::desc operation(kInference, dnnl::algorithm::convolution_direct,
                                                  from, any_layout(form.dims()), bias_desc, to,
                                                  ones, none, none, none);
  const Convolution description(operation, attributes_of(step.post_ops), sequence_.engine);
  const Place source{from, plain(step.in[0]).buffer, plain(step.in[0]).offset};
  const Place weights = pack_weights(*step.weights.floats, form, description.weights_desc(),
                                     key_of(step, description.weights_desc()), step.scale, 0,
                                     static_cast<std::size_t>(outputs));
  std::vector<float> numbers = step.bias;
  numbers.resize(static_cast<std::size_t>(outputs), 0.0f);
  const Place bias = constant_vector(numbers);
  const auto other = summand(step);
  const Place target =
      other ? sum_target(*other, plain_layout(out), step) : allocate(plain_layout(out), step.out);
  call(dnnl::convolution_forward(description), description,
       {{DNNL_ARG_SRC, source},
        {DNNL_ARG_WEIGHTS, weights},
        {DNNL_ARG_BIAS, bias},
        {DNNL_ARG_DST, {to, target.buffer, target.offset}}},
       what(step) + " " + description.impl_info_str());
  set(step.out, target);
}

void OneDnnBuilder::layer_norm(const Step& step) {
  const Shape& out = shape(step.out);
  const Shape rows = {count_of(step.node, out) / out.back(), out.back()};
  const Place source = reshaped_place(plain(step.in[0]), rows);
  const dnnl::layer_normalization_forward::desc operation(
      kInference, source.desc, step.epsilon, dnnl::normalization_flags::use_scale_shift);
  const dnnl::layer_normalization_forward::primitive_desc description(operation, attributes_of({}),
                                                                      sequence_.engine);
  std::vector<float> both = step.scale;
  both.insert(both.end(), step.bias.begin(), step.bias.end());
  Place parameters = constant_vector(both);
  parameters.desc = plain_layout({2, out.back()});
  const Place target = in_place_or_allocate(source, source.desc, step.out);
  call(dnnl::layer_normalization_forward(description), description,
       {{DNNL_ARG_SRC, source}, {DNNL_ARG_SCALE_SHIFT, parameters}, {DNNL_ARG_DST, target}},
       what(step) + " " + description.impl_info_str());
  set(step.out, reshaped_place(target, out));
}

void OneDnnBuilder::softmax(const Step& step) {
  const Place source = plain(step.in[0]);
  const dnnl::softmax_v2_forward::desc operation(kInference, dnnl::algorithm::softmax_accurate,
                                                 source.desc, source.desc,
                                                 static_cast<int>(step.axes[0]));
  const dnnl::softmax_v2_forward::primitive_desc description(operation, attributes_of({}),
                                                             sequence_.engine);
  const Place target = in_place_or_allocate(source, source.desc, step.out);
  call(dnnl::softmax_v2_forward(description), description,
       {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}},
       what(step) + " " + description.impl_info_str());
  set(step.out, target);
}

void OneDnnBuilder::mean(const Step& step) {
  const Place source = plain(step.in[0]);
  const Desc to = plain_layout(shape(step.out));
  const dnnl::reduction::desc operation(dnnl::algorithm::reduction_mean, source.desc, to, 0.0f,
                                        0.0f);
  const dnnl::reduction::primitive_desc description(operation, attributes_of({}), sequence_.engine);
  const Place target = allocate(to, step.out);
  call(dnnl::reduction(description), description, {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}},
       what(step) + " " + description.impl_info_str());
  set(step.out, target);
}

}  // namespace contcore
