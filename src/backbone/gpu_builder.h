// Turns a plan into the calls of a program on a GPU: a kernel or two for each step.
//
// A value is numbers for each image, one image after the other: floats, plain (row-major) or, of
// four dimensions, with the channels last; or codes of its grid, channels last where it can have
// them. What is asked for in another form is made then, once.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backbone/gpu_kernels.h"
#include "backbone/gpu_program.h"
#include "backbone/integer_sums.h"
#include "backbone/plan.h"

namespace contcore {

class GpuBuilder {
 public:
  GpuBuilder(const Plan& plan, GpuSequence& sequence, GpuShared& shared, Gpu& gpu)
      : plan_(plan),
        sequence_(sequence),
        shared_(shared),
        gpu_(gpu),
        floats_(plan.values.size()),
        bytes_(plan.values.size()) {}

  void build(const std::vector<PlanOutput>& outputs);

 private:
  using Run = GpuSequence::Run;
  using Launch = std::function<void(const Run&)>;
  enum class Layout { kPlain, kLast };
  struct Place {
    std::size_t buffer = 0;
    Layout layout = Layout::kPlain;
  };

  // ---- values and buffers ----
  const Shape& shape(std::size_t value) const { return plan_.values[value].shape; }
  const std::optional<Grid>& grid(std::size_t value) const { return plan_.values[value].grid; }
  std::int64_t count(std::size_t value) const { return count_in(shape(value)); }
  static std::int64_t count_in(const Shape& shape) {
    std::int64_t product = 1;
    for (const std::int64_t dim : shape) product *= dim;
    return product;
  }
  Layout last_of(std::size_t value) const {
    return shape(value).size() == 4 ? Layout::kLast : Layout::kPlain;
  }
  std::size_t add_buffer(std::size_t bytes);
  std::size_t add_constant(std::shared_ptr<const GpuBuffer> block);
  std::size_t constant_floats(std::vector<float> numbers, std::size_t unit = 1);
  std::size_t constant_bytes(const void* data, std::size_t bytes);
  std::size_t shared_or_own(const Step& step, const std::string& key,
                            const std::function<std::vector<char>()>& make);
  bool is_fixed(const Place& place) const {
    return sequence_.buffers[place.buffer].fixed != nullptr;
  }
  bool has_bytes(std::size_t value) const { return bytes_[value].has_value(); }
  Place new_floats(std::size_t value, Layout layout);
  Place new_bytes(std::size_t value);
  void set(std::size_t value, Place place) { floats_[value] = {place}; }
  /// As it is.
  Place floats(std::size_t value);
  Place in_layout(std::size_t value, Layout layout);
  /// Once for each image, even if it is a constant.
  Place whole(std::size_t value, Layout layout);
  Place bytes(std::size_t value);
  Place to_bytes(std::size_t value, const Place& from, const Grid& levels, std::size_t as);

  // ---- walks ----
  static std::vector<std::int64_t> strides_of(const Shape& shape, Layout layout);
  /// A tensor on a walk: how far it is from one index to the next along each axis, and from one
  /// image to the next.
  struct Track {
    std::vector<std::int64_t> strides;
    std::int64_t image = 0;
  };
  Track track(std::size_t value, const Place& place) const;
  static gpu_kernels::Walk walk(const Node& node, const Shape& sizes,
                                const std::vector<Track>& tracks);
  static gpu_kernels::Walk for_images(gpu_kernels::Walk walk, int images) {
    walk.sizes[0] = images;
    walk.count *= images;
    return walk;
  }

  // ---- calls ----
  void call(const std::string& what, std::vector<std::size_t> buffers, Launch launch) {
    sequence_.calls.push_back({what, std::move(buffers), std::move(launch), false, {}, 1, {}});
  }
  std::string what(const Step& step) const {
    return fmt::format("{} {}", step.node.op, plan_.values[step.out].name);
  }
  /// The step's functions and sum; `other` is where the summand lies, if there is one.
  gpu_kernels::Finish functions_of(const Step& step, float unit = 1,
                                   const std::optional<Grid>& other_bytes = {}) const;
  gpu_kernels::Window window_of(const Step& step) const;
  /// Rows of patches instead of the map, where the kernels cannot take it as it is.
  std::size_t cut_patches(const Step& step, const Place& source, bool codes,
                          gpu_kernels::Window& window);

  void build(const Step& step);
  void conv(const Step& step);
  bool integer_conv(const Step& step);
  void float_conv(const Step& step);
  void pool(const Step& step);
  void affine(const Step& step);
  void unary(const Step& step);
  void binary(const Step& step);
  void concat(const Step& step);
  void matmul(const Step& step);
  void linear(const Step& step);
  void layer_norm(const Step& step);
  void softmax(const Step& step);
  void mean(const Step& step);
  void reshape(const Step& step);
  void transpose(const Step& step);
  void slice(const Step& step);
  void quantize(const Step& step);
  void host(const Step& step);
  void hand_out(const PlanOutput& output);

  const Plan& plan_;
  GpuSequence& sequence_;
  GpuShared& shared_;
  Gpu& gpu_;
  std::vector<std::vector<Place>> floats_;   // of each value; the first is the original
  std::vector<std::optional<Place>> bytes_;  // the same, as codes of its grid
};

}  // namespace contcore
