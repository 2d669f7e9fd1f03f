#include "backbone/onednn_builder.h"

#include "backbone/attributes.h"
#include "backbone/constants.h"
#include "contcore/error.h"

namespace contcore {

using Kind = Step::Kind;

// ---- values and where they lie -----------------------------------------------------------------

OneDnnBuilder::Place OneDnnBuilder::upload(std::size_t value) {
  const auto& tensor = plan_.values[value].constant;
  if (!tensor || !tensor->is_float()) {
    throw Error(Error::Kind::kInput, fmt::format("tensor '{}' is not of float numbers where they "
                                                 "are needed",
                                                 plan_.values[value].name));
  }
  Place place = constant_vector(*tensor->floats);
  place.desc = plain_layout(tensor->shape);
  return place;
}

OneDnnBuilder::Place OneDnnBuilder::in_layout(std::size_t value, const Desc& desc) {
  const Place original = place(value);
  for (const Place& version : places_[value]) {
    if (same_layout(version.desc, desc)) return version;
  }
  const Place copy = block(desc, last_use_[value]);
  reorder(original, copy, plan_.values[value].name);
  places_[value].push_back(copy);
  return copy;
}

// Numbers in the layout a primitive wants. `scale` multiplies runs of `each` numbers in turn (rows
// of a convolution's weights), or columns.
OneDnnBuilder::Place OneDnnBuilder::pack_weights(const std::vector<float>& numbers,
                                                 const Desc& from, const Desc& to,
                                                 const std::string& key,
                                                 const std::vector<float>& scale, std::size_t each,
                                                 std::size_t columns) {
  const auto fill = [&](float* target) {
    std::vector<float> scaled = numbers;
    for (std::size_t i = 0; i < scaled.size() && !scale.empty(); ++i) {
      scaled[i] *= scale[columns > 0 ? i % columns : i / each];
    }
    memory source(from, sequence_.engine, scaled.data());
    memory result(to, sequence_.engine, target);
    dnnl::reorder(source, result).execute(sequence_.stream, source, result);
    sequence_.stream.wait();
  };
  if (!key.empty()) return constant_block(weights_.get(key, to.get_size(), fill), to);
  auto block = std::make_shared<Vectors>(1, to.get_size() / sizeof(float));
  fill(block->data());
  return constant_block(block, to);
}

// Weights of the graph itself are shared: what they are, how scaled and how laid out is their key.
std::string OneDnnBuilder::key_of(const Step& step, const Desc& desc) {
  if (!step.shared) return {};
  const void* numbers = step.weights.floats.get();
  std::string key(reinterpret_cast<const char*>(&numbers), sizeof numbers);
  key.append(reinterpret_cast<const char*>(&desc.data), sizeof desc.data);
  key.append(reinterpret_cast<const char*>(step.scale.data()), step.scale.size() * sizeof(float));
  return key;
}

// Where a step with a sum writes: over the other summand if nobody needs that any more, over a copy
// of it otherwise.
OneDnnBuilder::Place OneDnnBuilder::sum_target(std::size_t other, const Desc& desc,
                                               const Step& step) {
  return sum_target(other, in_layout(other, desc), step);
}

OneDnnBuilder::Place OneDnnBuilder::sum_target(std::size_t other, const Place& now,
                                               const Step& step) {
  const auto shares = [&](const std::vector<Place>& places) {
    return std::any_of(places.begin(), places.end(),
                       [&](const Place& p) { return p.buffer == now.buffer; });
  };
  const bool read = std::any_of(step.in.begin(), step.in.end(), [&](std::size_t value) {
    return shares(places_[value]) || shares(bytes_[value]);
  });
  if (is_last_use(now) && !read) return now;
  const Place copy = allocate(now.desc, step.out);
  reorder(now, copy, plan_.values[other].name);
  return copy;
}

// ---- views -------------------------------------------------------------------------------------

void OneDnnBuilder::reshape(const Step& step) {
  const Shape& out = shape(step.out);
  const Place now = place(step.in[0]);
  const Shape& in = shape(step.in[0]);
  // Axes of length 1 come and go without moving a number, in any plain layout.
  const bool blocked = now.desc.data.format_desc.blocking.inner_nblks > 0;
  Shape long_in, long_out;
  std::copy_if(in.begin(), in.end(), std::back_inserter(long_in), [](auto d) { return d != 1; });
  std::copy_if(out.begin(), out.end(), std::back_inserter(long_out), [](auto d) { return d != 1; });
  if (!blocked && long_in == long_out) {
    const Desc desc = now.desc.reshape(out.empty() ? Shape{1} : out, true);
    if (desc && desc.data.ndims > 0) return set(step.out, {desc, now.buffer, now.offset});
  }
  set(step.out, reshaped_place(plain(step.in[0]), out));
}

void OneDnnBuilder::transpose(const Step& step) {
  const Place now = place(step.in[0]);
  const bool blocked = now.desc.data.format_desc.blocking.inner_nblks > 0;
  const Place source = blocked ? plain(step.in[0]) : now;
  std::vector<int> order(step.axes.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[static_cast<std::size_t>(step.axes[i])] = static_cast<int>(i);
  }
  set(step.out, {source.desc.permute_axes(order), source.buffer, source.offset});
}

void OneDnnBuilder::slice(const Step& step) {
  const Place now = place(step.in[0]);
  const bool blocked = now.desc.data.format_desc.blocking.inner_nblks > 0;
  const Place source = blocked ? plain(step.in[0]) : now;
  set(step.out,
      {source.desc.submemory_desc(shape(step.out), step.starts), source.buffer, source.offset});
}

// ---- the slow way ------------------------------------------------------------------------------

void OneDnnBuilder::host(const Step& step) {
  // The node's inputs in order: constants as they are, the others copied from memory in each run.
  struct Input {
    std::optional<Tensor> constant;
    Shape shape;
    bool missing = false;
  };
  std::vector<Input> inputs;
  std::vector<std::pair<int, Place>> places;
  std::size_t next = 0;
  for (const std::string& name : step.node.inputs) {
    Input input;
    input.missing = name.empty();
    if (!input.missing) {
      const std::size_t value = step.in[next++];
      input.constant = plan_.values[value].constant;
      input.shape = shape(value);
      if (!input.constant) places.emplace_back(0, plain(value));
    }
    inputs.push_back(std::move(input));
  }
  const Place target = allocate(plain_layout(shape(step.out)), step.out);
  places.emplace_back(0, target);
  const auto run = [node = step.node, opset = plan_.opset,
                    inputs = std::move(inputs)](const std::vector<float*>& pointers) {
    std::vector<Tensor> tensors(inputs.size());
    std::vector<const Tensor*> views(inputs.size(), nullptr);
    std::size_t at = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].missing) continue;
      if (inputs[i].constant) {
        views[i] = &*inputs[i].constant;
        continue;
      }
      const float* start = pointers[at++];
      const auto count = static_cast<std::size_t>(count_of(node, inputs[i].shape));
      tensors[i] = Tensor::of(inputs[i].shape, std::vector<float>(start, start + count));
      views[i] = &tensors[i];
    }
    const Tensor result = evaluate(node, opset, views).front();
    std::copy(result.floats->begin(), result.floats->end(), pointers.back());
  };
  sequence_.calls.push_back({what(step) + " host", {}, run, std::move(places), {}, {}});
  set(step.out, target);
}

// ---- all of it ---------------------------------------------------------------------------------

void OneDnnBuilder::build(const Step& step) {
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

void OneDnnBuilder::hand_out(const PlanOutput& output) {
  const Shape& form = shape(output.value);
  const auto dim = [&](std::size_t i) { return static_cast<std::size_t>(form[i]); };
  CallSequence::Output out;
  Desc desc;
  if (form.size() == 4 && !output.channels_last) {
    out.map = {dim(1), dim(2), dim(3), nullptr};
    desc = Desc(form, kFloat, memory::format_tag::nhwc);
  } else {
    desc = plain_layout(form);
    if (form.size() == 4) {
      out.map = {dim(3), dim(1), dim(2), nullptr};
    } else if (form.size() == 3) {
      out.map = {dim(2), output.height, output.width, nullptr};
      out.skip = (dim(1) - output.height * output.width) * dim(2);
    } else {
      out.map = {dim(form.size() - 1), 1, 1, nullptr};
    }
  }
  const Place now = place(output.value);
  if (same_layout(now.desc, desc) && sequence_.buffers[now.buffer].kind == Buffer::Kind::kArena) {
    out.place = now;  // as it lies: nobody has written over it
  } else {
    out.place = block(desc, kForever);
    reorder(now, out.place, plan_.values[output.value].name);
  }
  sequence_.buffers[out.place.buffer].kept = true;
  sequence_.outputs.push_back(out);
}

void OneDnnBuilder::build(const std::vector<PlanOutput>& outputs) {
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    for (const std::size_t value : plan_.steps[i].in) last_use_[value] = i;
    if (const auto other = summand(plan_.steps[i])) last_use_[*other] = i;
  }
  for (const PlanOutput& output : outputs) last_use_[output.value] = kForever;
  blocks_ = prefers_blocks();
  if (blocks_) plan_regions();
  // The image lies channel after channel, whatever the graph calls it.
  const Shape& in = shape(plan_.input);
  Place image{plain_layout(in), add_buffer(0, kForever), 0};
  if (plan_.channels_last) {
    image.desc = Desc(in, kFloat, Dims{3 * in[1] * in[2], in[2], 1, in[1] * in[2]});
  }
  sequence_.buffers[image.buffer].kind = Buffer::Kind::kImage;
  places_[plan_.input] = {image};
  for (step_ = 0; step_ < plan_.steps.size(); ++step_) {
    const Step& step = plan_.steps[step_];
    try {
      build(step);
    } catch (const dnnl::error& error) {
      fail(step.node, fmt::format("oneDNN cannot run it ({})", error.what()));
    }
  }
  for (const PlanOutput& output : outputs) hand_out(output);
}

}  // namespace contcore
