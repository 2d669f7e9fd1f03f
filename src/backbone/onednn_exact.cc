// Convolutions of bytes on a machine without instructions for their sums: the sums in floats, and
// yet the same bits.
//
// In: codes and signed codes, held as floats. A sum of products is a whole number, and exact in
// floats in whatever order it is added up, as long as no part of it exceeds 2^24. How far parts of
// it can go is known from the weights. Where that is too far, the weights are taken apart as 16 ·
// high + low, and two such sums are put together with one rounding: that of the whole number to a
// float, which the integer kernels make too. Out: what they make, since backbone_kernels::finish()
// does what follows the sum as they do it. Fails (false): functions that are not rounded alike
// everywhere.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backbone/kernels.h"
#include "backbone/onednn_builder.h"

namespace contcore {
namespace {

using backbone_kernels::Finish;

constexpr std::int64_t kExact = std::int64_t{1} << 24;  // up to here floats hold all whole numbers
constexpr int kHigh = 16;

// Whether every part of every channel's sum is exact, in any order, for codes 0 … 255 less `zero`.
bool sums_are_exact(const std::vector<float>& weights, std::size_t channels, std::int64_t zero) {
  const std::size_t each = weights.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    std::int64_t up = 0, down = 0;  // the sums of positive and of negative weights
    for (std::size_t i = c * each; i < (c + 1) * each; ++i) {
      const auto w = static_cast<std::int64_t>(weights[i]);
      (w > 0 ? up : down) += std::abs(w);
    }
    const std::int64_t above = 255 - zero;
    if (std::max(up * above + down * zero, up * zero + down * above) > kExact) return false;
  }
  return true;
}

// The step's functions in the words of the kernel; nothing if there is one it does not have.
std::optional<std::vector<Finish::Op>> finish_ops(const std::vector<PostOp>& post_ops, float unit,
                                                  const std::optional<Grid>& other_bytes) {
  using OpKind = Finish::Op::Kind;
  constexpr float kLargest = std::numeric_limits<float>::infinity();
  std::vector<Finish::Op> ops;
  for (const PostOp& op : post_ops) {
    if (!op.unary) {
      ops.push_back(other_bytes ? Finish::Op{OpKind::kAddBytes, other_bytes->scale * unit,
                                             static_cast<float>(other_bytes->zero)}
                                : Finish::Op{OpKind::kAddFloats, 0, 0});
    } else if (op.unary->kind == Unary::Kind::kRelu && op.unary->alpha == 0) {
      ops.push_back({OpKind::kClip, 0, kLargest});
    } else if (op.unary->kind == Unary::Kind::kClip) {
      ops.push_back({OpKind::kClip, op.unary->alpha * unit, op.unary->beta * unit});
    } else {
      return std::nullopt;
    }
  }
  return ops;
}

}  // namespace

// The codes less their zero point: whole numbers.
OneDnnBuilder::Place OneDnnBuilder::codes_as_floats(std::size_t value, const Desc& desc) {
  const Place codes = bytes_in_layout(value, with_type(desc, kByte));
  dnnl::primitive_attr attributes;
  if (grid(value)->zero != 0) attributes.set_zero_points(DNNL_ARG_SRC, 0, {grid(value)->zero});
  const Place made = block(desc, step_);
  reorder(codes, made, "codes of " + plan_.values[value].name, attributes);
  return made;
}

OneDnnBuilder::Place OneDnnBuilder::sums_of(const Step& step, const Convolution& description,
                                            const Place& source, const std::vector<float>& weights,
                                            const char* part) {
  const Desc to = description.weights_desc();
  std::string key;
  if (step.shared) {
    const void* which = &step.weights.codes->numbers;
    key.assign(reinterpret_cast<const char*>(&which), sizeof which);
    key.append(reinterpret_cast<const char*>(&to.data), sizeof to.data);
    key += part;
  }
  const Place packed = pack_weights(weights, plain_layout(grouped_shape(step)), to, key, {}, 1, 0);
  const Place sums = block(description.dst_desc(), step_);
  call(dnnl::convolution_forward(description), description,
       {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, sums}},
       what(step) + part + " " + description.impl_info_str());
  return sums;
}

bool OneDnnBuilder::float_sums_conv(const Step& step, const AfterSums& after) {
  const std::size_t in = step.in[0];
  const Grid& from = *grid(in);
  const auto& levels = grid(step.out);
  std::optional<Grid> other_grid;
  if (after.other_bytes) other_grid = grid(*after.other);
  const auto ops = finish_ops(step.post_ops, after.unit, other_grid);
  if (!ops) return false;

  const std::vector<std::int8_t>& codes = step.weights.codes->numbers;
  std::vector<float> low(codes.begin(), codes.end());
  std::vector<float> high;
  if (!sums_are_exact(low, after.bias.size(), from.zero)) {
    high.resize(low.size());
    for (std::size_t i = 0; i < low.size(); ++i) {
      high[i] = std::floor(low[i] / kHigh);
      low[i] -= kHigh * high[i];
    }
    if (!sums_are_exact(low, after.bias.size(), from.zero) ||
        !sums_are_exact(high, after.bias.size(), from.zero)) {
      return false;
    }
  }

  const Shape& out = shape(step.out);
  const Desc source_desc(shape(in), kFloat, memory::format_tag::nhwc);
  const Desc floats_desc(out, kFloat, memory::format_tag::nhwc);
  const Dims holes = {step.dilations[0] - 1, step.dilations[1] - 1};
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::convolution_forward::desc operation(
      kInference, dnnl::algorithm::convolution_direct, source_desc, any_layout(grouped_shape(step)),
      floats_desc, step.strides, holes, step.pads_begin, step.pads_end);
  const Convolution description(operation, attributes, sequence_.engine);
  const Place source = codes_as_floats(in, source_desc);
  std::vector<std::pair<int, Place>> places = {
      {0, sums_of(step, description, source, low, " low")}};
  if (!high.empty()) {
    places.emplace_back(0, sums_of(step, description, source, high, " high"));
  }
  if (after.other) {
    places.emplace_back(0, after.other_bytes
                               ? bytes_in_layout(*after.other, with_type(floats_desc, kByte))
                               : in_layout(*after.other, floats_desc));
  }
  const Place target =
      block(levels ? with_type(floats_desc, kByte) : floats_desc, last_use_[step.out]);
  places.emplace_back(0, target);

  Finish how{after.bias, after.factor, *ops, after.last.value_or(1.0f),
             levels ? static_cast<float>(levels->zero) : 0.0f};
  const auto count = static_cast<std::size_t>(out[0] * out[2] * out[3]);
  const bool two = !high.empty(), adds = after.other.has_value(), bytes = levels.has_value();
  const bool adds_bytes = after.other_bytes;
  const auto run = [how = std::move(how), count, two, adds, adds_bytes,
                    bytes](const std::vector<float*>& pointers) {
    over_openmp(count, [&](std::size_t begin, std::size_t end) {
      const std::size_t at = begin * how.bias.size();
      const float* high_sums = two ? pointers[1] + at : nullptr;
      const void* other = nullptr;
      if (adds) {
        const float* start = pointers[two ? 2 : 1];
        other = adds_bytes
                    ? static_cast<const void*>(reinterpret_cast<const std::uint8_t*>(start) + at)
                    : static_cast<const void*>(start + at);
      }
      float* to = pointers.back();
      backbone_kernels::finish(how, pointers[0] + at, high_sums, other, end - begin,
                               bytes ? nullptr : to + at,
                               bytes ? reinterpret_cast<std::uint8_t*>(to) + at : nullptr);
    });
  };
  sequence_.calls.push_back({what(step) + " finish", {}, run, std::move(places), {}, {}});
  levels ? set_bytes(step.out, target) : set(step.out, target);
  return true;
}

}  // namespace contcore
