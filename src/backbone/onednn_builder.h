// Turns a plan into the calls of a program: chooses primitives and layouts, and who writes where.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backbone/integer_sums.h"
#include "backbone/onednn_calls.h"
#include "backbone/onednn_layouts.h"
#include "backbone/onednn_program.h"
#include "backbone/plan.h"

namespace contcore {

class OneDnnBuilder {
 public:
  using Place = CallSequence::Place;
  using Buffer = CallSequence::Buffer;

  OneDnnBuilder(const Plan& plan, CallSequence& sequence, PackedWeights& weights)
      : plan_(plan),
        sequence_(sequence),
        weights_(weights),
        places_(plan.values.size()),
        bytes_(plan.values.size()),
        last_use_(plan.values.size(), 0) {}

  void build(const std::vector<PlanOutput>& outputs);

 private:
  // ---- values and buffers ----
  std::size_t add_buffer(std::size_t bytes, std::size_t last) {
    Buffer buffer;
    buffer.life.bytes = bytes;
    sequence_.buffers.push_back(std::move(buffer));
    buffer_last_.push_back(last);
    return sequence_.buffers.size() - 1;
  }
  Place block(const Desc& desc, std::size_t last) {
    return {desc, add_buffer(desc.get_size(), last), 0};
  }
  Place allocate(const Desc& desc, std::size_t value);
  void set(std::size_t value, Place place) {
    std::size_t& last = buffer_last_[place.buffer];
    if (last != kForever) last = std::max(last, last_use_[value]);
    places_[value] = {std::move(place)};
  }
  Place place(std::size_t value) {
    if (places_[value].empty()) {
      const Place made = bytes_[value].empty() ? upload(value) : from_bytes(value);
      places_[value].push_back(made);
    }
    return places_[value].front();
  }
  Place upload(std::size_t value);
  Place in_layout(std::size_t value, const Desc& desc);
  Place plain(std::size_t value) {
    return in_layout(value, plain_layout(plan_.values[value].shape));
  }
  Place dense(std::size_t value) {
    const Place now = place(value);
    return is_dense(now.desc) ? now : plain(value);
  }

  // ---- bytes, of values with a grid ----
  const std::optional<Grid>& grid(std::size_t value) const { return plan_.values[value].grid; }
  bool has_bytes(std::size_t value) const { return !bytes_[value].empty(); }
  bool have_bytes(const std::vector<std::size_t>& values) const {
    return std::all_of(values.begin(), values.end(),
                       [this](std::size_t value) { return has_bytes(value); });
  }
  void set_bytes(std::size_t value, Place place) {
    std::size_t& last = buffer_last_[place.buffer];
    if (last != kForever) last = std::max(last, last_use_[value]);
    bytes_[value] = {std::move(place)};
  }
  Place bytes_in_layout(std::size_t value, const Desc& desc);
  Place from_bytes(std::size_t value);
  Place to_bytes(const Place& from, const Desc& desc, const Grid& levels, std::size_t value);
  // Whether a step may write its result over what it read here.
  bool is_last_use(const Place& place) const {
    return sequence_.buffers[place.buffer].kind == Buffer::Kind::kArena &&
           buffer_last_[place.buffer] <= step_;
  }
  Place in_place_or_allocate(const Place& in, const Desc& desc, std::size_t value) {
    if (!regions_.contains(value) && same_layout(in.desc, desc) && is_last_use(in)) {
      return {desc, in.buffer, in.offset};
    }
    return allocate(desc, value);
  }
  Place reshaped_place(const Place& from, const Shape& shape) {
    return {from.desc.reshape(shape.empty() ? Shape{1} : shape), from.buffer, from.offset};
  }
  const Shape& shape(std::size_t value) const { return plan_.values[value].shape; }

  // ---- constants ----
  Place constant_block(std::shared_ptr<const Vectors> block, const Desc& desc) {
    const std::size_t id = add_buffer(desc.get_size(), kForever);
    sequence_.buffers[id].kind = Buffer::Kind::kFixed;
    sequence_.buffers[id].fixed = std::move(block);
    return {desc, id, 0};
  }
  static std::string key_of(const Step& step, const Desc& desc);
  Place pack_weights(const std::vector<float>& numbers, const Desc& from, const Desc& to,
                     const std::string& key, const std::vector<float>& scale, std::size_t each,
                     std::size_t columns);
  Place pack_codes(const Step& step, const Desc& to);
  Place constant_vector(const std::vector<float>& numbers) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    const Desc desc = plain_layout({count});
    auto block = std::make_shared<Vectors>(1, numbers.size());
    std::copy(numbers.begin(), numbers.end(), block->data());
    return constant_block(block, desc);
  }

  // ---- calls ----
  void call(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& description,
            std::vector<std::pair<int, Place>> places, const std::string& what) {
    const Desc scratch = description.query_md(dnnl::query::scratchpad_md);
    if (scratch.get_size() > 0) places.emplace_back(DNNL_ARG_SCRATCHPAD, block(scratch, 0));
    sequence_.calls.push_back({what, primitive, {}, std::move(places), {}, {}});
  }
  void reorder(const Place& from, const Place& to, const std::string& what,
               dnnl::primitive_attr attributes = {}) {
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc description(sequence_.engine, from.desc, sequence_.engine,
                                                    to.desc, attributes);
    call(dnnl::reorder(description), description, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
         "reorder " + what);
  }
  Place sum_target(std::size_t other, const Desc& desc, const Step& step);
  Place sum_target(std::size_t other, const Place& now, const Step& step);

  // ---- convolutions, and the layout of the whole ----
  /// The first that oneDNN has whose name contains `kind`. Throws dnnl::error if there is none.
  Convolution describe(const Step& step, dnnl::algorithm algorithm, const Desc& from,
                       const Desc& to, const char* kind = "") const;
  std::optional<Convolution> winograd(const Step& step) const;
  Convolution choose(const Step& step);
  void float_conv(const Step& step);
  void bounded_conv(const Step& step);
  bool integer_conv(const Step& step);
  bool float_sums_conv(const Step& step, const AfterSums& after);
  Place codes_as_floats(std::size_t value, const Desc& desc);
  Place sums_of(const Step& step, const Convolution& description, const Place& source,
                const std::vector<float>& weights, const char* part);
  bool prefers_blocks() const;
  bool fits_blocks(std::size_t value) const {
    return shape(value).size() == 4 && shape(value)[0] == 1 && shape(value)[1] % kBlock == 0;
  }

  // ---- concatenations ----
  // A part of the buffer that the value `root` is.
  struct Region {
    std::size_t root = 0;
    std::size_t offset = 0;  // floats
  };
  void plan_regions();
  std::optional<Region> contiguous_region(const Step& step) const;
  Place region_place(const Region& region, const Shape& form);

  void build(const Step& step);
  void conv(const Step& step);
  void quantize(const Step& step);
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
  void host(const Step& step);
  void hand_out(const PlanOutput& output);

  std::string what(const Step& step) const {
    return fmt::format("{} {}", step.node.op, plan_.values[step.out].name);
  }

  const Plan& plan_;
  CallSequence& sequence_;
  PackedWeights& weights_;
  std::vector<std::vector<Place>> places_;           // of each value; the first is the original
  std::vector<std::vector<Place>> bytes_;            // the same, as codes of its grid
  std::vector<std::size_t> last_use_;                // of each value: a step
  std::vector<std::size_t> buffer_last_;             // of each buffer: the same, over its values
  std::map<std::size_t, Region> regions_;            // of values
  std::map<std::size_t, std::size_t> root_buffers_;  // of roots
  bool blocks_ = false;  // maps are laid out in blocks of channels where nothing speaks against it
  std::size_t step_ = 0;
};

}  // namespace contcore
