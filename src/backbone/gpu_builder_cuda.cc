#include "backbone/gpu_builder.h"

#include <cstring>
#include <limits>
#include <numeric>

#include "backbone/attributes.h"
#include "backbone/constants.h"
#include "contcore/error.h"

namespace contcore {

using Kind = Step::Kind;
using gpu_kernels::Walk;

// ---- buffers -----------------------------------------------------------------------------------

namespace {

std::size_t whole_lines(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

std::size_t GpuBuilder::add_buffer(std::size_t bytes) {
  GpuSequence::Buffer buffer;
  buffer.life.bytes = whole_lines(bytes);
  sequence_.buffers.push_back(std::move(buffer));
  return sequence_.buffers.size() - 1;
}

std::size_t GpuBuilder::add_constant(std::shared_ptr<const GpuBuffer> block) {
  sequence_.buffers.push_back({});
  sequence_.buffers.back().fixed = std::move(block);
  return sequence_.buffers.size() - 1;
}

std::size_t GpuBuilder::constant_bytes(const void* data, std::size_t bytes) {
  auto block = std::make_shared<GpuBuffer>(gpu_, std::max<std::size_t>(bytes, 1));
  gpu_.upload(block->as<char>(), data, bytes);
  return add_constant(std::move(block));
}

// Padded with zeros to a multiple of `unit`.
std::size_t GpuBuilder::constant_floats(std::vector<float> numbers, std::size_t unit) {
  numbers.resize((numbers.size() + unit - 1) / unit * unit, 0.0f);
  return constant_bytes(numbers.data(), numbers.size() * sizeof(float));
}

// Weights of the graph itself are shared by all programs; others belong to this one.
std::size_t GpuBuilder::shared_or_own(const Step& step, const std::string& key,
                                      const std::function<std::vector<char>()>& make) {
  if (step.shared) return add_constant(shared_.get(key, make));
  const std::vector<char> numbers = make();
  return constant_bytes(numbers.data(), numbers.size());
}

// ---- values and where they lie -----------------------------------------------------------------

GpuBuilder::Place GpuBuilder::new_floats(std::size_t value, Layout layout) {
  return {add_buffer(static_cast<std::size_t>(count(value)) * sizeof(float)), layout};
}

GpuBuilder::Place GpuBuilder::new_bytes(std::size_t value) {
  return {add_buffer(static_cast<std::size_t>(count(value))), last_of(value)};
}

GpuBuilder::Place GpuBuilder::floats(std::size_t value) {
  if (!floats_[value].empty()) return floats_[value].front();
  if (has_bytes(value)) {
    const Place from = *bytes_[value], to = new_floats(value, from.layout);
    const Grid levels = *grid(value);
    call("to floats " + plan_.values[value].name, {from.buffer, to.buffer},
         [=, numbers = count(value)](const Run& run) {
           gpu_kernels::to_floats(run.at<std::uint8_t>(from.buffer), levels.scale,
                                  static_cast<float>(levels.zero), run.at<float>(to.buffer),
                                  numbers * run.images, run.stream());
         });
    set(value, to);
    return to;
  }
  const auto& tensor = plan_.values[value].constant;
  if (!tensor || !tensor->is_float()) {
    throw Error(Error::Kind::kInput, fmt::format("tensor '{}' is not of float numbers where they "
                                                 "are needed",
                                                 plan_.values[value].name));
  }
  set(value, {constant_floats(*tensor->floats), Layout::kPlain});
  return floats_[value].front();
}

GpuBuilder::Place GpuBuilder::in_layout(std::size_t value, Layout layout) {
  const Place original = floats(value);
  for (const Place& version : floats_[value]) {
    if (version.layout == layout) return version;
  }
  const Shape& form = shape(value);
  if (form[1] == 1 || form[2] * form[3] == 1) {  // the same numbers in the same order
    floats_[value].push_back({original.buffer, layout});
    return floats_[value].back();
  }
  const bool fixed = is_fixed(original);
  const Place copy = new_floats(value, layout);
  Track to = track(value, copy), from = track(value, original);
  if (fixed) from.image = 0;
  const Walk all = walk({}, form, {to, from});
  call("reorder " + plan_.values[value].name, {original.buffer, copy.buffer}, [=](const Run& run) {
    gpu_kernels::copy(for_images(all, run.images), run.at<float>(original.buffer),
                      run.at<float>(copy.buffer), run.stream());
  });
  floats_[value].push_back(copy);
  return copy;
}

GpuBuilder::Place GpuBuilder::whole(std::size_t value, Layout layout) {
  const Place from = in_layout(value, layout);
  if (!is_fixed(from)) return from;
  const Place copy = new_floats(value, layout);
  const Walk all = walk({}, shape(value), {track(value, copy), track(value, from)});
  call("repeat " + plan_.values[value].name, {from.buffer, copy.buffer}, [=](const Run& run) {
    gpu_kernels::copy(for_images(all, run.images), run.at<float>(from.buffer),
                      run.at<float>(copy.buffer), run.stream());
  });
  for (Place& version : floats_[value]) {
    if (version.layout == layout) version = copy;
  }
  return copy;
}

GpuBuilder::Place GpuBuilder::bytes(std::size_t value) {
  if (!has_bytes(value)) {
    bytes_[value] = to_bytes(value, floats(value), *grid(value), value);
  }
  return *bytes_[value];
}

// The floats of `value` as codes, which are the value `as` of the same shape.
GpuBuilder::Place GpuBuilder::to_bytes(std::size_t value, const Place& from, const Grid& levels,
                                       std::size_t as) {
  constexpr std::int64_t kFewChannels = 4;
  const Place made = new_bytes(as);
  const Shape& form = shape(value);
  const float factor = 1 / levels.scale, zero = static_cast<float>(levels.zero);
  const std::string name = "to bytes " + plan_.values[as].name;
  if (form.size() == 4 && from.layout == Layout::kPlain && form[1] <= kFewChannels &&
      !is_fixed(from)) {
    call(name, {from.buffer, made.buffer},
         [=, maps = static_cast<int>(form[0]), channels = static_cast<int>(form[1]),
          places = form[2] * form[3]](const Run& run) {
           gpu_kernels::image_to_bytes(run.at<float>(from.buffer), run.images * maps, channels,
                                       places, factor, zero, run.at<std::uint8_t>(made.buffer),
                                       run.stream());
         });
    return made;
  }
  const Walk all = walk({}, form, {track(as, made), track(value, from)});
  call(name, {from.buffer, made.buffer}, [=](const Run& run) {
    gpu_kernels::to_bytes(for_images(all, run.images), run.at<float>(from.buffer), factor, zero,
                          run.at<std::uint8_t>(made.buffer), run.stream());
  });
  return made;
}

void GpuBuilder::quantize(const Step& step) {
  const std::size_t in = step.in[0];
  if (grid(in) == grid(step.out) && has_bytes(in)) {
    bytes_[step.out] = bytes_[in];
    return;
  }
  bytes_[step.out] = to_bytes(in, floats(in), *grid(step.out), step.out);
}

// ---- walks -------------------------------------------------------------------------------------

std::vector<std::int64_t> GpuBuilder::strides_of(const Shape& shape, Layout layout) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  if (layout == Layout::kLast) {
    return {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  }
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

GpuBuilder::Track GpuBuilder::track(std::size_t value, const Place& place) const {
  return {strides_of(shape(value), place.layout), is_fixed(place) ? 0 : count(value)};
}

// In the order in which the result lies; axes that all tensors go along without a jump are one.
gpu_kernels::Walk GpuBuilder::walk(const Node& node, const Shape& sizes,
                                   const std::vector<Track>& tracks) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tracks[0].strides[a] > tracks[0].strides[b];
  });
  Walk made;
  made.dims = 1;
  made.sizes[0] = 1;  // the images
  for (std::size_t t = 0; t < tracks.size(); ++t) made.strides[t][0] = tracks[t].image;
  for (const std::size_t axis : order) {
    if (sizes[axis] == 1) continue;
    made.count *= sizes[axis];
    const int last = made.dims - 1;
    bool joins = last > 0;
    for (std::size_t t = 0; t < tracks.size(); ++t) {
      joins = joins && made.strides[t][last] == tracks[t].strides[axis] * sizes[axis];
    }
    if (!joins && made.dims == Walk::kMost) {
      throw GpuCannot(fmt::format("{}: has too many dimensions for the GPU", node.name));
    }
    const int at = joins ? last : made.dims++;
    made.sizes[at] = joins ? made.sizes[at] * sizes[axis] : sizes[axis];
    for (std::size_t t = 0; t < tracks.size(); ++t) made.strides[t][at] = tracks[t].strides[axis];
  }
  return made;
}

// ---- numbers that move -------------------------------------------------------------------------

void GpuBuilder::reshape(const Step& step) {
  set(step.out, {in_layout(step.in[0], Layout::kPlain).buffer, Layout::kPlain});
}

void GpuBuilder::transpose(const Step& step) {
  const Place from = floats(step.in[0]), to = new_floats(step.out, Layout::kPlain);
  const Track source = track(step.in[0], from);
  Track moved = source;
  for (std::size_t i = 0; i < step.axes.size(); ++i) {
    moved.strides[i] = source.strides[static_cast<std::size_t>(step.axes[i])];
  }
  const Walk all = walk(step.node, shape(step.out), {track(step.out, to), moved});
  call(what(step), {from.buffer, to.buffer}, [=](const Run& run) {
    gpu_kernels::copy(for_images(all, run.images), run.at<float>(from.buffer),
                      run.at<float>(to.buffer), run.stream());
  });
  set(step.out, to);
}

void GpuBuilder::slice(const Step& step) {
  const Place from = floats(step.in[0]), to = new_floats(step.out, from.layout);
  const Track source = track(step.in[0], from);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < step.starts.size(); ++i) begin += step.starts[i] * source.strides[i];
  const Walk all = walk(step.node, shape(step.out), {track(step.out, to), source});
  call(what(step), {from.buffer, to.buffer}, [=](const Run& run) {
    gpu_kernels::copy(for_images(all, run.images), run.at<float>(from.buffer) + begin,
                      run.at<float>(to.buffer), run.stream());
  });
  set(step.out, to);
}

void GpuBuilder::concat(const Step& step) {
  const bool codes = grid(step.out) && std::all_of(step.in.begin(), step.in.end(),
                                                   [this](std::size_t v) { return has_bytes(v); });
  Place to;
  if (codes) {
    to = new_bytes(step.out);
  } else {
    const bool last = shape(step.out).size() == 4 && floats(step.in[0]).layout == Layout::kLast;
    to = new_floats(step.out, last ? Layout::kLast : Layout::kPlain);
  }
  const Track target = track(step.out, to);
  const auto axis = static_cast<std::size_t>(step.axes[0]);
  std::int64_t begin = 0;
  for (const std::size_t value : step.in) {
    const Place from = codes ? *bytes_[value] : floats(value);
    const Walk all = walk(step.node, shape(value), {target, track(value, from)});
    call(what(step), {from.buffer, to.buffer}, [=](const Run& run) {
      const Walk each = for_images(all, run.images);
      if (codes) {
        gpu_kernels::copy(each, run.at<std::uint8_t>(from.buffer),
                          run.at<std::uint8_t>(to.buffer) + begin, run.stream());
      } else {
        gpu_kernels::copy(each, run.at<float>(from.buffer), run.at<float>(to.buffer) + begin,
                          run.stream());
      }
    });
    begin += shape(value)[axis] * target.strides[axis];
  }
  codes ? void(bytes_[step.out] = to) : set(step.out, to);
}

// ---- the slow way ------------------------------------------------------------------------------

namespace {

// The node's inputs in order: constants as they are, the others from the GPU in each run.
struct HostInput {
  std::optional<Tensor> constant;
  Shape shape;
  bool missing = false;
  std::size_t buffer = 0;
};

void evaluate_there(const Node& node, std::int64_t opset, const std::vector<HostInput>& inputs,
                    const GpuSequence::Run& run, std::size_t to) {
  for (int image = 0; image < run.images; ++image) {
    std::vector<Tensor> tensors(inputs.size());
    std::vector<const Tensor*> views(inputs.size(), nullptr);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].missing) continue;
      views[i] = inputs[i].constant ? &*inputs[i].constant : &tensors[i];
      if (inputs[i].constant) continue;
      std::vector<float> numbers(static_cast<std::size_t>(count_of(node, inputs[i].shape)));
      run.gpu.download(
          numbers.data(),
          run.at<float>(inputs[i].buffer) + static_cast<std::size_t>(image) * numbers.size(),
          numbers.size() * sizeof(float));
      tensors[i] = Tensor::of(inputs[i].shape, std::move(numbers));
    }
    const Tensor result = evaluate(node, opset, views).front();
    run.gpu.upload(run.at<float>(to) + static_cast<std::size_t>(image) * result.size(),
                   result.floats->data(), result.size() * sizeof(float));
  }
}

}  // namespace

void GpuBuilder::host(const Step& step) {
  std::vector<HostInput> inputs;
  std::vector<std::size_t> buffers;
  std::size_t next = 0;
  for (const std::string& name : step.node.inputs) {
    HostInput input;
    input.missing = name.empty();
    if (!input.missing) {
      const std::size_t value = step.in[next++];
      input.constant = plan_.values[value].constant;
      input.shape = shape(value);
      if (!input.constant) input.buffer = whole(value, Layout::kPlain).buffer;
      if (!input.constant) buffers.push_back(input.buffer);
    }
    inputs.push_back(std::move(input));
  }
  const Place to = new_floats(step.out, Layout::kPlain);
  buffers.push_back(to.buffer);
  call(what(step) + " host", std::move(buffers),
       [node = step.node, opset = plan_.opset, inputs = std::move(inputs), to](const Run& run) {
         evaluate_there(node, opset, inputs, run, to.buffer);
       });
  sequence_.calls.back().host = true;
  set(step.out, to);
}

// ---- all of it ---------------------------------------------------------------------------------

void GpuBuilder::build(const Step& step) {
  switch (step.kind) {
    case Kind::kConv:
      return conv(step);
    case Kind::kMaxPool:
    case Kind::kMeanPool:
      return pool(step);
    case Kind::kAffine:
      return affine(step);
    case Kind::kUnary:
      return unary(step);
    case Kind::kBinary:
      return binary(step);
    case Kind::kConcat:
      return concat(step);
    case Kind::kMatMul:
      return matmul(step);
    case Kind::kLayerNorm:
      return layer_norm(step);
    case Kind::kSoftmax:
      return softmax(step);
    case Kind::kReshape:
      return reshape(step);
    case Kind::kTranspose:
      return transpose(step);
    case Kind::kSlice:
      return slice(step);
    case Kind::kMean:
      return mean(step);
    case Kind::kQuantize:
      return quantize(step);
    case Kind::kHost:
      return host(step);
  }
}

void GpuBuilder::hand_out(const PlanOutput& output) {
  const Shape& form = shape(output.value);
  const auto dim = [&](std::size_t i) { return static_cast<std::size_t>(form[i]); };
  const bool to_last = form.size() == 4 && !output.channels_last;
  GpuSequence::Output out;
  if (to_last) {
    out.map = {dim(1), dim(2), dim(3), nullptr};
  } else if (form.size() == 4) {
    out.map = {dim(3), dim(1), dim(2), nullptr};
  } else if (form.size() == 3) {
    out.map = {dim(2), output.height, output.width, nullptr};
    out.skip = (dim(1) - output.height * output.width) * dim(2);
  } else {
    out.map = {dim(form.size() - 1), 1, 1, nullptr};
  }
  out.each = static_cast<std::size_t>(count(output.value));
  out.floats = whole(output.value, to_last ? Layout::kLast : Layout::kPlain).buffer;
  sequence_.buffers[out.floats].kept = true;
  if (has_bytes(output.value) && to_last) {
    out.bytes = bytes_[output.value]->buffer;
    out.grid = *grid(output.value);
    sequence_.buffers[*out.bytes].kept = true;
  }
  sequence_.outputs.push_back(out);
}

void GpuBuilder::build(const std::vector<PlanOutput>& outputs) {
  const Shape& in = shape(plan_.input);
  const Place image = new_floats(plan_.input, Layout::kPlain);
  sequence_.image = image.buffer;
  sequence_.image_floats = static_cast<std::size_t>(count(plan_.input));
  if (plan_.channels_last) {  // the image lies channel after channel, whatever the graph calls it
    const Place turned = new_floats(plan_.input, Layout::kPlain);
    const Track source{{3 * in[1] * in[2], in[2], 1, in[1] * in[2]}, count(plan_.input)};
    const Walk all = walk({}, in, {track(plan_.input, turned), source});
    call("the image", {image.buffer, turned.buffer}, [=](const Run& run) {
      gpu_kernels::copy(for_images(all, run.images), run.at<float>(image.buffer),
                        run.at<float>(turned.buffer), run.stream());
    });
    set(plan_.input, turned);
  } else {
    set(plan_.input, image);
  }
  for (const Step& step : plan_.steps) build(step);
  for (const PlanOutput& output : outputs) hand_out(output);
}

}  // namespace contcore
