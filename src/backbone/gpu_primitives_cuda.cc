// The steps that calculate, each as one kernel or two.
#include <cmath>
#include <cstring>
#include <limits>

#include "backbone/attributes.h"
#include "backbone/gpu_builder.h"

namespace contcore {

using gpu_kernels::ByteConvolution;
using gpu_kernels::Finish;
using gpu_kernels::FloatConvolution;
using gpu_kernels::Operation;
using gpu_kernels::Walk;
using gpu_kernels::Window;
using Kind = Step::Kind;

namespace {

int whole_number(const Node& node, std::int64_t number) {
  if (number < 0 || number > std::numeric_limits<int>::max()) {
    throw GpuCannot(fmt::format("{}: is too large for the GPU", node.name));
  }
  return static_cast<int>(number);
}

std::size_t round_up(std::size_t count, std::size_t unit) {
  return (count + unit - 1) / unit * unit;
}

template <typename Number>
std::vector<char> as_bytes(const std::vector<Number>& numbers) {
  std::vector<char> bytes(numbers.size() * sizeof(Number));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string key_of(const char* kind, const void* numbers, const std::vector<float>& scale) {
  std::string key = kind;
  key.append(reinterpret_cast<const char*>(&numbers), sizeof numbers);
  key.append(reinterpret_cast<const char*>(scale.data()), scale.size() * sizeof(float));
  return key;
}

// A convolution's weights (O, I, h, w): of each channel of the result, tap after tap.
struct Taps {
  std::size_t columns, channels, taps;
  explicit Taps(const Shape& form)
      : columns(static_cast<std::size_t>(form[0])),
        channels(static_cast<std::size_t>(form[1])),
        taps(static_cast<std::size_t>(form[2] * form[3])) {}
  std::size_t depth() const { return taps * channels; }
  /// Where channel c of tap t of column o stands in the file's order.
  std::size_t at(std::size_t o, std::size_t t, std::size_t c) const {
    return (o * channels + c) * taps + t;
  }
};

// As the byte kernel wants them: rows of columns, padded.
std::vector<std::int8_t> padded_codes(const Taps& form, const std::vector<std::int8_t>& codes) {
  const std::size_t pitch = round_up(form.depth(), ByteConvolution::kDepth);
  std::vector<std::int8_t> rows(round_up(form.columns, ByteConvolution::kColumns) * pitch, 0);
  for (std::size_t o = 0; o < form.columns; ++o) {
    for (std::size_t t = 0; t < form.taps; ++t) {
      for (std::size_t c = 0; c < form.channels; ++c) {
        rows[o * pitch + t * form.channels + c] = codes[form.at(o, t, c)];
      }
    }
  }
  return rows;
}

// As the kernels of groups want them: tap after tap, columns innermost.
template <typename Number>
std::vector<Number> ordered(const Taps& form, const std::vector<Number>& numbers) {
  std::vector<Number> rows(numbers.size());
  for (std::size_t o = 0; o < form.columns; ++o) {
    for (std::size_t t = 0; t < form.taps; ++t) {
      for (std::size_t c = 0; c < form.channels; ++c) {
        rows[(t * form.channels + c) * form.columns + o] = numbers[form.at(o, t, c)];
      }
    }
  }
  return rows;
}

// What the zero point takes from each sum.
std::vector<std::int32_t> start_of_sums(const Taps& form, const std::vector<std::int8_t>& codes,
                                        std::int32_t zero) {
  std::vector<std::int32_t> start(round_up(form.columns, ByteConvolution::kColumns), 0);
  for (std::size_t o = 0; o < form.columns; ++o) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < form.depth(); ++i) sum += codes[o * form.depth() + i];
    start[o] = -zero * sum;
  }
  return start;
}

}  // namespace

// ---- what follows a sum ------------------------------------------------------------------------

Finish GpuBuilder::functions_of(const Step& step, float unit,
                                const std::optional<Grid>& other_bytes) const {
  Finish finish;
  if (step.post_ops.size() > Finish::kMost) {
    throw GpuCannot(fmt::format("{}: has too many functions behind it", step.node.name));
  }
  for (const PostOp& op : step.post_ops) {
    Operation& made = finish.operations[finish.count++];
    if (!op.unary && other_bytes) {
      made = {Operation::kAddBytes, other_bytes->scale * unit,
              static_cast<float>(other_bytes->zero)};
    } else if (!op.unary) {
      made = {Operation::kAddFloats, 0, 0};
    } else if (op.unary->kind == Unary::Kind::kRelu && op.unary->alpha == 0) {
      made = {static_cast<int>(Unary::Kind::kClip), 0, std::numeric_limits<float>::infinity()};
    } else {
      const float scale = op.unary->kind == Unary::Kind::kClip ? unit : 1.0f;
      made = {static_cast<int>(op.unary->kind), op.unary->alpha * scale, op.unary->beta * scale};
    }
  }
  return finish;
}

// ---- windows -----------------------------------------------------------------------------------

Window GpuBuilder::window_of(const Step& step) const {
  const Shape& in = shape(step.in[0]);
  const Shape& out = shape(step.out);
  const auto number = [&](std::int64_t x) { return whole_number(step.node, x); };
  Window window;
  window.images = number(in[0]);
  window.channels = number(in[1]);
  window.height = number(in[2]);
  window.width = number(in[3]);
  window.out_height = number(out[2]);
  window.out_width = number(out[3]);
  window.kernel_height = number(step.kernel[0]);
  window.kernel_width = number(step.kernel[1]);
  window.stride_y = number(step.strides[0]);
  window.stride_x = number(step.strides[1]);
  window.dilation_y = number(step.dilations[0]);
  window.dilation_x = number(step.dilations[1]);
  window.pad_y = number(step.pads_begin[0]);
  window.pad_x = number(step.pads_begin[1]);
  return window;
}

std::size_t GpuBuilder::cut_patches(const Step& step, const Place& source, bool codes,
                                    Window& window) {
  const int unit = codes ? ByteConvolution::kChannels : gpu_kernels::kPatchFloats;
  const int most = codes ? ByteConvolution::kMostTaps : FloatConvolution::kMostTaps;
  if (window.channels % unit == 0 && window.taps() <= most) return source.buffer;
  const std::size_t depth =
      static_cast<std::size_t>(window.taps()) * static_cast<std::size_t>(window.channels);
  const int pitch = whole_number(
      step.node, static_cast<std::int64_t>(round_up(depth, static_cast<std::size_t>(unit))));
  const std::size_t rows =
      add_buffer(static_cast<std::size_t>(window.places()) * static_cast<std::size_t>(pitch) *
                 (codes ? sizeof(std::uint8_t) : sizeof(float)));
  const auto zero = static_cast<std::uint8_t>(codes ? grid(step.in[0])->zero : 0);
  call(what(step) + " patches", {source.buffer, rows}, [=, cut = window](const Run& run) {
    Window all = cut;
    all.images *= run.images;
    if (codes) {
      gpu_kernels::patches(all, run.at<std::uint8_t>(source.buffer), zero,
                           run.at<std::uint8_t>(rows), pitch, run.stream());
    } else {
      gpu_kernels::patches(all, run.at<float>(source.buffer), run.at<float>(rows), pitch,
                           run.stream());
    }
  });
  const Window cut = window;
  window = {};
  window.images = cut.images;
  window.channels = pitch;
  window.height = window.out_height = cut.out_height;
  window.width = window.out_width = cut.out_width;
  return rows;
}

void GpuBuilder::pool(const Step& step) {
  const Window window = window_of(step);
  const bool most = step.kind == Kind::kMaxPool;
  if (most && grid(step.out) && has_bytes(step.in[0])) {
    const Place from = *bytes_[step.in[0]], to = new_bytes(step.out);
    call(what(step), {from.buffer, to.buffer}, [=](const Run& run) {
      Window all = window;
      all.images *= run.images;
      gpu_kernels::max_pool(all, run.at<std::uint8_t>(from.buffer), run.at<std::uint8_t>(to.buffer),
                            run.stream());
    });
    bytes_[step.out] = to;
    return;
  }
  const Place from = whole(step.in[0], Layout::kLast), to = new_floats(step.out, Layout::kLast);
  call(what(step), {from.buffer, to.buffer}, [=, all_of_it = step.count_padding](const Run& run) {
    Window all = window;
    all.images *= run.images;
    const float* in = run.at<float>(from.buffer);
    float* out = run.at<float>(to.buffer);
    if (most) return gpu_kernels::max_pool(all, in, out, run.stream());
    gpu_kernels::mean_pool(all, in, out, all_of_it, run.stream());
  });
  set(step.out, to);
}

// ---- convolutions ------------------------------------------------------------------------------

void GpuBuilder::conv(const Step& step) {
  if (integer_conv(step)) return;
  float_conv(step);
  if (!grid(step.out)) return;
  bytes_[step.out] = to_bytes(step.out, floats(step.out), *grid(step.out), step.out);
  floats_[step.out].clear();
}

bool GpuBuilder::integer_conv(const Step& step) {
  const auto added = summand(step);
  const auto after = after_sums(plan_, step, added && has_bytes(*added));
  if (!after) return false;
  const std::size_t in = step.in[0];
  const auto& levels = grid(step.out);
  const Taps form(step.weights.shape);
  const std::vector<std::int8_t>& codes = step.weights.codes->numbers;

  ByteConvolution how;
  how.window = window_of(step);
  how.columns = whole_number(step.node, step.weights.shape[0]);
  how.zero = grid(in)->zero;
  std::optional<Grid> other_grid;
  if (after->other_bytes) other_grid = grid(*after->other);
  how.finish = functions_of(step, after->unit, other_grid);
  how.finish.last = after->last.value_or(1.0f);
  how.finish.zero = levels ? static_cast<float>(levels->zero) : 0.0f;

  const bool grouped = step.group > 1;
  const Place source = bytes(in);
  const std::size_t rows = grouped ? source.buffer : cut_patches(step, source, true, how.window);
  const std::size_t weights =
      grouped ? shared_or_own(step, key_of("grouped codes", &codes, {}),
                              [&] { return as_bytes(ordered(form, codes)); })
              : shared_or_own(step, key_of("codes", &codes, {}),
                              [&] { return as_bytes(padded_codes(form, codes)); });
  const std::size_t bias = constant_floats(after->bias, ByteConvolution::kColumns);
  const std::size_t factor = constant_floats(after->factor, ByteConvolution::kColumns);
  std::vector<std::size_t> buffers = {rows, weights, bias, factor};
  std::optional<std::size_t> start;
  if (how.zero != 0 && !grouped) {
    const std::vector<std::int32_t> numbers = start_of_sums(form, codes, how.zero);
    start = constant_bytes(numbers.data(), numbers.size() * sizeof(std::int32_t));
    buffers.push_back(*start);
  }
  std::optional<std::size_t> other;
  if (after->other) {
    other = after->other_bytes ? bytes(*after->other).buffer
                               : whole(*after->other, Layout::kLast).buffer;
    buffers.push_back(*other);
  }
  const Place to = levels ? new_bytes(step.out) : new_floats(step.out, Layout::kLast);
  buffers.push_back(to.buffer);
  const auto tile = std::make_shared<int>(0);
  call(
      what(step), std::move(buffers),
      [=, whole_bytes = levels.has_value(), groups = static_cast<int>(step.group)](const Run& run) {
        ByteConvolution now = how;
        now.window.images *= run.images;
        now.in = run.at<std::uint8_t>(rows);
        now.weights = run.at<std::int8_t>(weights);
        if (start) now.start = run.at<std::int32_t>(*start);
        now.finish.bias = run.at<float>(bias);
        now.finish.factor = run.at<float>(factor);
        if (other) now.finish.other = run.at<void>(*other);
        (whole_bytes ? void(now.bytes = run.at<std::uint8_t>(to.buffer))
                     : void(now.floats = run.at<float>(to.buffer)));
        if (groups > 1) {
          gpu_kernels::grouped_byte_convolution(now, groups, run.stream());
        } else {
          gpu_kernels::byte_convolution(now, *tile, run.stream());
        }
      });
  if (!grouped) {
    const Window& w = how.window;
    GpuSequence::Call& made = sequence_.calls.back();
    made.form = fmt::format("{} -> {} of {} by {}x{} {} adds {} makes {}", w.channels, how.columns,
                            w.out_height * w.out_width, w.kernel_height, w.kernel_width, w.stride_x,
                            !after->other        ? "-"
                            : after->other_bytes ? "bytes"
                                                 : "floats",
                            levels ? "bytes" : "floats");
    made.tiles = gpu_kernels::byte_convolution_tiles(gpu_.shared_memory());
    made.tile = tile;
  }
  levels ? void(bytes_[step.out] = to) : set(step.out, to);
  return true;
}

namespace {

// As the float kernel wants them: a row for each tap and channel, of all columns.
std::vector<float> columns_of(const Taps& form, const std::vector<float>& numbers,
                              const std::vector<float>& scale, std::size_t pitch,
                              std::size_t depth) {
  std::vector<float> rows(depth * pitch, 0.0f);
  for (std::size_t o = 0; o < form.columns; ++o) {
    const float factor = scale.empty() ? 1.0f : scale[o];
    for (std::size_t t = 0; t < form.taps; ++t) {
      for (std::size_t c = 0; c < form.channels; ++c) {
        rows[(t * form.channels + c) * pitch + o] = numbers[form.at(o, t, c)] * factor;
      }
    }
  }
  return rows;
}

std::vector<float> scaled_rows(const Taps& form, std::vector<float> numbers,
                               const std::vector<float>& scale) {
  for (std::size_t i = 0; i < numbers.size() && !scale.empty(); ++i) {
    numbers[i] *= scale[i / form.depth()];
  }
  return ordered(form, numbers);
}

}  // namespace

void GpuBuilder::float_conv(const Step& step) {
  const Taps form(step.weights.shape);
  const std::vector<float>& numbers = *step.weights.floats;
  FloatConvolution how;
  how.window = window_of(step);
  how.columns = whole_number(step.node, step.weights.shape[0]);
  const std::size_t pitch = round_up(form.columns, 4);
  how.pitch = static_cast<int>(pitch);
  how.finish = functions_of(step);
  const bool grouped = step.group > 1;
  const Place source = whole(step.in[0], Layout::kLast);
  const std::size_t rows = grouped ? source.buffer : cut_patches(step, source, false, how.window);
  const std::size_t depth = round_up(form.depth(), gpu_kernels::kPatchFloats);
  const std::size_t weights =
      grouped ? shared_or_own(step, key_of("grouped", &numbers, step.scale),
                              [&] { return as_bytes(scaled_rows(form, numbers, step.scale)); })
              : shared_or_own(step, key_of("columns", &numbers, step.scale), [&] {
                  return as_bytes(columns_of(form, numbers, step.scale, pitch, depth));
                });
  std::vector<float> all = step.bias;
  all.resize(form.columns, 0.0f);
  const std::size_t bias = constant_floats(all);
  std::vector<std::size_t> buffers = {rows, weights, bias};
  std::optional<std::size_t> other;
  if (const auto added = summand(step)) other = whole(*added, Layout::kLast).buffer;
  if (other) buffers.push_back(*other);
  const Place to = new_floats(step.out, Layout::kLast);
  buffers.push_back(to.buffer);
  call(what(step), std::move(buffers), [=, groups = static_cast<int>(step.group)](const Run& run) {
    FloatConvolution now = how;
    now.window.images *= run.images;
    now.in = run.at<float>(rows);
    now.weights = run.at<float>(weights);
    now.finish.bias = run.at<float>(bias);
    if (other) now.finish.other = run.at<void>(*other);
    now.out = run.at<float>(to.buffer);
    if (groups > 1) {
      gpu_kernels::grouped_float_convolution(now, groups, run.stream());
    } else {
      gpu_kernels::float_convolution(now, run.stream());
    }
  });
  set(step.out, to);
}

// ---- products of matrices ----------------------------------------------------------------------

void GpuBuilder::linear(const Step& step) {
  const std::int64_t inputs = step.weights.shape[0], outputs = step.weights.shape[1];
  FloatConvolution how;
  how.window.channels = whole_number(step.node, inputs);
  how.columns = how.pitch = whole_number(step.node, outputs);
  how.window.width = how.window.out_width = whole_number(step.node, count(step.out) / outputs);
  how.finish = functions_of(step);
  const std::vector<float>& numbers = *step.weights.floats;
  const std::size_t weights = shared_or_own(step, key_of("matrix", &numbers, step.scale), [&] {
    std::vector<float> scaled = numbers;
    const auto columns = static_cast<std::size_t>(outputs);
    for (std::size_t i = 0; i < scaled.size() && !step.scale.empty(); ++i) {
      scaled[i] *= step.scale[i % columns];
    }
    return as_bytes(scaled);
  });
  const Place from = whole(step.in[0], Layout::kPlain);
  std::vector<std::size_t> buffers = {from.buffer, weights};
  std::optional<std::size_t> other, bias;
  if (!step.bias.empty()) buffers.push_back(*(bias = constant_floats(step.bias)));
  if (const auto added = summand(step)) {
    buffers.push_back(*(other = whole(*added, Layout::kPlain).buffer));
  }
  const Place to = new_floats(step.out, Layout::kPlain);
  buffers.push_back(to.buffer);
  call(what(step), std::move(buffers), [=](const Run& run) {
    FloatConvolution now = how;
    now.window.images *= run.images;
    now.in = run.at<float>(from.buffer);
    now.weights = run.at<float>(weights);
    if (bias) now.finish.bias = run.at<float>(*bias);
    if (other) now.finish.other = run.at<void>(*other);
    now.out = run.at<float>(to.buffer);
    gpu_kernels::float_convolution(now, run.stream());
  });
  set(step.out, to);
}

void GpuBuilder::matmul(const Step& step) {
  if (step.in.size() == 1) return linear(step);
  const Shape& out = shape(step.out);
  Shape left = shape(step.in[0]), right = shape(step.in[1]);
  left.insert(left.begin(), out.size() - left.size(), 1);
  right.insert(right.begin(), out.size() - right.size(), 1);
  const std::size_t last = out.size() - 1;
  FloatConvolution how;
  how.window.channels = whole_number(step.node, left[last]);
  how.columns = how.pitch = whole_number(step.node, out[last]);
  how.window.width = how.window.out_width = whole_number(step.node, out[last - 1]);
  how.finish = functions_of(step);
  const Place a = in_layout(step.in[0], Layout::kPlain), b = in_layout(step.in[1], Layout::kPlain);
  // Product after product: those of an image, then the next image.
  how.dims = 1;
  how.sizes[0] = 1;
  how.in_strides[0] = is_fixed(a) ? 0 : count(step.in[0]);
  how.weight_strides[0] = is_fixed(b) ? 0 : count(step.in[1]);
  how.out_strides[0] = count(step.out);
  const auto a_strides = strides_of(left, Layout::kPlain);
  const auto b_strides = strides_of(right, Layout::kPlain);
  const auto out_strides = strides_of(out, Layout::kPlain);
  for (std::size_t d = 0; d + 1 < last; ++d) {
    if (out[d] == 1) continue;
    if (how.dims == FloatConvolution::kMostDims) {
      throw GpuCannot(fmt::format("{}: has too many dimensions for the GPU", step.node.name));
    }
    how.sizes[how.dims] = whole_number(step.node, out[d]);
    how.in_strides[how.dims] = left[d] == 1 ? 0 : a_strides[d];
    how.weight_strides[how.dims] = right[d] == 1 ? 0 : b_strides[d];
    how.out_strides[how.dims] = out_strides[d];
    how.products = whole_number(step.node, out[d] * how.products);
    ++how.dims;
  }
  std::vector<std::size_t> buffers = {a.buffer, b.buffer};
  std::optional<std::size_t> other;
  if (const auto added = summand(step)) {
    buffers.push_back(*(other = whole(*added, Layout::kPlain).buffer));
  }
  const Place to = new_floats(step.out, Layout::kPlain);
  buffers.push_back(to.buffer);
  call(what(step), std::move(buffers), [=](const Run& run) {
    FloatConvolution now = how;
    now.sizes[0] = run.images;
    now.products *= run.images;
    now.in = run.at<float>(a.buffer);
    now.weights = run.at<float>(b.buffer);
    if (other) now.finish.other = run.at<void>(*other);
    now.out = run.at<float>(to.buffer);
    gpu_kernels::float_convolution(now, run.stream());
  });
  set(step.out, to);
}

// ---- numbers one by one ------------------------------------------------------------------------

void GpuBuilder::affine(const Step& step) {
  const Layout layout = floats(step.in[0]).layout;
  const Place from = whole(step.in[0], layout), to = new_floats(step.out, layout);
  const Shape& form = shape(step.in[0]);
  std::int64_t inner = 1;
  for (std::size_t i = 2; i < form.size() && layout == Layout::kPlain; ++i) inner *= form[i];
  const std::size_t scale = constant_floats(step.scale), bias = constant_floats(step.bias);
  call(what(step), {from.buffer, to.buffer, scale, bias},
       [=, finish = functions_of(step), channels = whole_number(step.node, form[1]),
        numbers = count(step.out)](const Run& run) {
         gpu_kernels::affine(run.at<float>(from.buffer), run.at<float>(scale), run.at<float>(bias),
                             inner, channels, finish, run.at<float>(to.buffer),
                             numbers * run.images, run.stream());
       });
  set(step.out, to);
}

void GpuBuilder::unary(const Step& step) {
  const Layout layout = floats(step.in[0]).layout;
  const Place from = whole(step.in[0], layout);
  if (step.post_ops.empty()) return set(step.out, from);
  const Place to = new_floats(step.out, layout);
  call(what(step), {from.buffer, to.buffer},
       [=, finish = functions_of(step), numbers = count(step.out)](const Run& run) {
         gpu_kernels::functions(run.at<float>(from.buffer), finish, run.at<float>(to.buffer),
                                numbers * run.images, run.stream());
       });
  set(step.out, to);
}

void GpuBuilder::binary(const Step& step) {
  const Shape& out = shape(step.out);
  const Place left = floats(step.in[0]), right = floats(step.in[1]);
  const Place to = new_floats(step.out, left.layout);
  Track second = track(step.in[1], right);
  Shape form = shape(step.in[1]);
  second.strides.insert(second.strides.begin(), out.size() - form.size(), 0);
  form.insert(form.begin(), out.size() - form.size(), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (form[i] == 1) second.strides[i] = 0;
  }
  const Walk all =
      walk(step.node, out, {track(step.out, to), track(step.in[0], left), std::move(second)});
  std::vector<std::size_t> buffers = {left.buffer, right.buffer};
  std::optional<std::size_t> other;
  if (const auto added = summand(step))
    buffers.push_back(*(other = whole(*added, left.layout).buffer));
  buffers.push_back(to.buffer);
  call(what(step), std::move(buffers),
       [=, finish = functions_of(step), combine = static_cast<int>(step.combine)](const Run& run) {
         Finish now = finish;
         if (other) now.other = run.at<void>(*other);
         gpu_kernels::binary(for_images(all, run.images), combine, run.at<float>(left.buffer),
                             run.at<float>(right.buffer), now, run.at<float>(to.buffer),
                             run.stream());
       });
  set(step.out, to);
}

// ---- along an axis -----------------------------------------------------------------------------

void GpuBuilder::layer_norm(const Step& step) {
  const Place from = whole(step.in[0], Layout::kPlain), to = new_floats(step.out, Layout::kPlain);
  const std::size_t scale = constant_floats(step.scale), bias = constant_floats(step.bias);
  const int length = whole_number(step.node, shape(step.out).back());
  call(what(step), {from.buffer, to.buffer, scale, bias},
       [=, rows = count(step.out) / length, epsilon = step.epsilon](const Run& run) {
         gpu_kernels::layer_norm(run.at<float>(from.buffer), rows * run.images, length,
                                 run.at<float>(scale), run.at<float>(bias), epsilon,
                                 run.at<float>(to.buffer), run.stream());
       });
  set(step.out, to);
}

void GpuBuilder::softmax(const Step& step) {
  const Place from = whole(step.in[0], Layout::kPlain), to = new_floats(step.out, Layout::kPlain);
  const Shape& form = shape(step.out);
  const auto axis = static_cast<std::size_t>(step.axes[0]);
  const std::int64_t inner = strides_of(form, Layout::kPlain)[axis];
  const int length = whole_number(step.node, form[axis]);
  call(what(step), {from.buffer, to.buffer},
       [=, outer = count(step.out) / inner / length](const Run& run) {
         gpu_kernels::softmax(run.at<float>(from.buffer), outer * run.images, length, inner,
                              run.at<float>(to.buffer), run.stream());
       });
  set(step.out, to);
}

void GpuBuilder::mean(const Step& step) {
  const Place from = whole(step.in[0], Layout::kPlain), to = new_floats(step.out, Layout::kPlain);
  const Shape& form = shape(step.in[0]);
  const Track source = track(step.in[0], from);
  Shape reduced(form.size(), 1);
  for (const std::int64_t axis : step.axes) {
    reduced[static_cast<std::size_t>(axis)] = form[static_cast<std::size_t>(axis)];
  }
  const Walk outside = walk(step.node, shape(step.out), {track(step.out, to), source});
  const Walk inside = walk(step.node, reduced, {source, source});
  call(what(step), {from.buffer, to.buffer}, [=](const Run& run) {
    gpu_kernels::mean(for_images(outside, run.images), inside, run.at<float>(from.buffer),
                      run.at<float>(to.buffer), run.stream());
  });
  set(step.out, to);
}

}  // namespace contcore
