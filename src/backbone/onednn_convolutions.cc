// The two choices that matter for speed: which convolution, and where the parts of a concatenation
// go.
#include <cstring>

#include "backbone/attributes.h"
#include "backbone/onednn_builder.h"

namespace contcore {

using Kind = Step::Kind;

Convolution OneDnnBuilder::describe(const Step& step, dnnl::algorithm algorithm, const Desc& from,
                                    const Desc& to, const char* kind) const {
  const Dims holes = {step.dilations[0] - 1, step.dilations[1] - 1};
  const Desc bias(Dims{step.weights.shape[0]}, kFloat, memory::format_tag::a);
  const dnnl::convolution_forward::desc operation(
      kInference, algorithm, from, any_layout(grouped_shape(step)), bias, to, step.strides, holes,
      step.pads_begin, step.pads_end);
  Convolution found(operation, attributes_of(step.post_ops), sequence_.engine);
  // The search goes on from `operation`, which it does not own: here and nowhere else.
  while (std::strstr(found.impl_info_str(), kind) == nullptr) {
    if (!found.next_impl()) throw dnnl::error(dnnl_unimplemented, "no such convolution");
  }
  return found;
}

// Winograd's way for 3 x 3 kernels, on tiles of 2 x 2: 16 multiplications instead of 36, and as
// exact as the direct way (tiles of 4 x 4 would not be). Where it was measured to pay for the
// reordering around it (oneDNN 2.6, AVX-512: 1.3 to 2 times as fast); nothing elsewhere, or where
// oneDNN does not have it. The choice must not depend on a measurement here and now: results would
// differ from run to run.
std::optional<Convolution> OneDnnBuilder::winograd(const Step& step) const {
  const Dims ones = {1, 1};
  if (step.group != 1 || step.kernel != Dims{3, 3} || step.strides != ones ||
      step.dilations != ones) {
    return std::nullopt;
  }
  const auto [least, most] = std::minmax(step.weights.shape[0], step.weights.shape[1]);
  const std::int64_t places = shape(step.out)[2] * shape(step.out)[3];
  const bool narrow = most <= 128 && (least >= 64 || (least >= 32 && places <= 40 * 40));
  const bool wide = least >= 512 && places <= 16 * 16;
  if (places > 80 * 80 || !(narrow || wide)) return std::nullopt;
  try {
    return describe(step, dnnl::algorithm::convolution_winograd, any_layout(shape(step.in[0])),
                    any_layout(shape(step.out)), "wino_2x3");
  } catch (const dnnl::error&) {  // none for this shape
  }
  return std::nullopt;
}

// Left to itself oneDNN lays maps out channels last. In blocks of channels its convolutions are no
// faster, but concatenations cost nothing (plan_regions): the layout for networks made of them.
bool OneDnnBuilder::prefers_blocks() const {
  std::size_t convolutions = 0, concatenations = 0;
  for (const Step& step : plan_.steps) {
    if (step.kind == Kind::kConv) ++convolutions;
    if (step.kind == Kind::kConcat && fits_blocks(step.out)) ++concatenations;
  }
  return 4 * concatenations > convolutions && dnnl::get_effective_cpu_isa() >= kBlockIsa;
}

Convolution OneDnnBuilder::choose(const Step& step) {
  const auto direct = dnnl::algorithm::convolution_direct;
  if (auto found = winograd(step)) return *found;
  if (blocks_ && step.kernel == Dims{1, 1} && step.group == 1 && fits_blocks(step.in[0]) &&
      fits_blocks(step.out)) {
    return describe(step, direct, block_layout(shape(step.in[0])), block_layout(shape(step.out)));
  }
  const Desc from = any_layout(shape(step.in[0]));
  Convolution found = describe(step, direct, from, any_layout(shape(step.out)));
  const auto other = summand(step);
  if (!other || !is_dense(place(*other).desc) ||
      same_layout(place(*other).desc, found.dst_desc())) {
    return found;
  }
  try {  // the other summand's layout, if it costs no speed
    Convolution matching = describe(step, direct, from, place(*other).desc);
    if (!is_reference(matching)) return matching;
  } catch (const dnnl::error&) {
  }
  return found;
}

void OneDnnBuilder::conv(const Step& step) {
  if (integer_conv(step)) return;
  if (step.post_ops.size() > 1 && step.post_ops[0].unary && !step.post_ops[1].unary) {
    bounded_conv(step);
  } else {
    float_conv(step);
  }
  if (!grid(step.out)) return;
  const Place made = place(step.out);
  set_bytes(step.out, to_bytes(made, with_type(made.desc, kByte), *grid(step.out), step.out));
  places_[step.out].clear();
}

// A function before the sum is what integer convolutions are joined with; not all float ones take
// it.
void OneDnnBuilder::bounded_conv(const Step& step) {
  Step first = step;
  first.post_ops = {step.post_ops[0]};
  float_conv(first);
  Step sum;
  sum.kind = Kind::kBinary;
  sum.node = step.node;
  sum.in = {step.out, step.post_ops[1].other};
  sum.out = step.out;
  sum.post_ops.assign(step.post_ops.begin() + 2, step.post_ops.end());
  binary(sum);
}

void OneDnnBuilder::float_conv(const Step& step) {
  const Convolution description = choose(step);
  const Place source = in_layout(step.in[0], description.src_desc());
  const Desc to = description.weights_desc();
  const auto channels = static_cast<std::size_t>(step.weights.shape[0]);
  const Place weights =
      pack_weights(*step.weights.floats, plain_layout(grouped_shape(step)), to, key_of(step, to),
                   step.scale, step.weights.size() / channels, 0);
  std::vector<float> numbers = step.bias;
  numbers.resize(channels, 0.0f);
  const Place bias = constant_vector(numbers);
  const auto other = summand(step);
  const Place target = other ? sum_target(*other, description.dst_desc(), step)
                             : allocate(description.dst_desc(), step.out);
  call(dnnl::convolution_forward(description), description,
       {{DNNL_ARG_SRC, source},
        {DNNL_ARG_WEIGHTS, weights},
        {DNNL_ARG_BIAS, bias},
        {DNNL_ARG_DST, target}},
       what(step) + " " + description.impl_info_str());
  set(step.out, target);
}

// ---- concatenations ----------------------------------------------------------------------------

// In blocks of 16 channels, one image's maps stand one after the other: a concatenation is a buffer
// into whose parts its inputs are written when they are made. Each of DenseNet's is the beginning
// of a longer one, so the longest (the last) is looked at first, and the others are found to lie in
// it already.
void OneDnnBuilder::plan_regions() {
  for (std::size_t i = plan_.steps.size(); i-- > 0;) {
    const Step& step = plan_.steps[i];
    if (step.kind != Kind::kConcat || step.axes[0] != 1 || !fits_blocks(step.out) ||
        !std::all_of(step.in.begin(), step.in.end(),
                     [this](std::size_t value) { return fits_blocks(value); })) {
      continue;
    }
    const auto whole = regions_.find(step.out);
    const std::size_t root = whole == regions_.end() ? step.out : whole->second.root;
    std::size_t offset = whole == regions_.end() ? 0 : whole->second.offset;
    if (const auto found = contiguous_region(step); found && whole == regions_.end()) {
      regions_[step.out] = *found;
      continue;
    }
    regions_[step.out] = {root, offset};
    for (const std::size_t value : step.in) {
      // What lies elsewhere, or is no step's result, is copied when the concatenation is made.
      if (!plan_.values[value].constant && value != plan_.input) {
        regions_.emplace(value, Region{root, offset});
      }
      offset += static_cast<std::size_t>(count_of(step.node, shape(value)));
    }
  }
}

// Where a concatenation's inputs lie, if that is one after the other already.
std::optional<OneDnnBuilder::Region> OneDnnBuilder::contiguous_region(const Step& step) const {
  const auto first = regions_.find(step.in[0]);
  if (first == regions_.end()) return std::nullopt;
  std::size_t offset = first->second.offset;
  for (const std::size_t value : step.in) {
    const auto region = regions_.find(value);
    if (region == regions_.end() || region->second.root != first->second.root ||
        region->second.offset != offset) {
      return std::nullopt;
    }
    offset += static_cast<std::size_t>(count_of(step.node, shape(value)));
  }
  return first->second;
}

OneDnnBuilder::Place OneDnnBuilder::region_place(const Region& region, const Shape& form) {
  const auto known = root_buffers_.find(region.root);
  std::size_t buffer = known == root_buffers_.end() ? 0 : known->second;
  if (known == root_buffers_.end()) {
    buffer = block(block_layout(shape(region.root)), 0).buffer;
    root_buffers_[region.root] = buffer;
    for (const auto& [value, other] : regions_) {
      if (other.root == region.root) {
        buffer_last_[buffer] = std::max(buffer_last_[buffer], last_use_[value]);
      }
    }
  }
  return {block_layout(form), buffer, region.offset};
}

// Memory for a value: its part of a concatenation, if it has the right layout, or a block of its
// own.
OneDnnBuilder::Place OneDnnBuilder::allocate(const Desc& desc, std::size_t value) {
  const auto region = regions_.find(value);
  if (region != regions_.end() && same_layout(desc, block_layout(shape(value)))) {
    return region_place(region->second, shape(value));
  }
  return block(desc, last_use_[value]);
}

void OneDnnBuilder::concat(const Step& step) {
  if (const auto region = regions_.find(step.out); region != regions_.end()) {
    const Place whole = region_place(region->second, shape(step.out));
    Region part = region->second;
    for (const std::size_t value : step.in) {
      const Place now = place(value);
      const Place target = region_place(part, shape(value));
      const bool there =
          std::any_of(places_[value].begin(), places_[value].end(), [&](const Place& version) {
            return version.buffer == target.buffer && version.offset == target.offset &&
                   same_layout(version.desc, target.desc);
          });
      if (!there) {
        reorder(now, target, "into " + what(step));
        places_[value].push_back(target);
      }
      part.offset += static_cast<std::size_t>(count_of(step.node, shape(value)));
    }
    return set(step.out, whole);
  }
  const bool whole = grid(step.out) && have_bytes(step.in);
  std::vector<Desc> descs;
  std::vector<std::pair<int, Place>> places;
  for (std::size_t i = 0; i < step.in.size(); ++i) {
    const Place source = whole ? bytes_[step.in[i]].front() : dense(step.in[i]);
    descs.push_back(source.desc);
    places.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), source);
  }
  const dnnl::concat::primitive_desc description(static_cast<int>(step.axes[0]), descs,
                                                 sequence_.engine, attributes_of({}));
  const Place target = allocate(description.dst_desc(), step.out);
  places.emplace_back(DNNL_ARG_DST, target);
  call(dnnl::concat(description), description, std::move(places),
       what(step) + " " + description.impl_info_str());
  whole ? set_bytes(step.out, target) : set(step.out, target);
}

}  // namespace contcore
