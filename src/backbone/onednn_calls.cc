// Where the buffers of a program lie, and its calls pointed at them. In: buffers and calls as the
// builder leaves them. Out: calls that run. Fails: more working memory than the limit.
#include "backbone/onednn_calls.h"

#include <fmt/format.h>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kMostActivations = std::size_t{4} << 30;

}  // namespace

void CallSequence::plan_memory() {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const auto& [role, place] : calls[i].places) {
      Buffer& buffer = buffers[place.buffer];
      if (!buffer.touched) buffer.life.first = i;
      buffer.touched = true;
      buffer.life.last = buffer.kept ? kForever : i;
    }
  }
  std::vector<Lifetime> lives;
  std::vector<std::size_t> whose;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].kind != Buffer::Kind::kArena || !buffers[i].touched) continue;
    lives.push_back(buffers[i].life);
    whose.push_back(i);
  }
  const std::size_t bytes = plan_arena(lives);
  if (bytes > kMostActivations) {
    throw Error(Error::Kind::kInput,
                fmt::format("needs {:.1f} GiB of working memory for images of this size, over the "
                            "limit of 4 GiB; use smaller images",
                            static_cast<double>(bytes) / static_cast<double>(1 << 30)));
  }
  for (std::size_t i = 0; i < lives.size(); ++i) buffers[whose[i]].life = lives[i];
  arena = Vectors(1, bytes / sizeof(float) + 1);
}

float* CallSequence::pointer(const Place& place) {
  const Buffer& buffer = buffers[place.buffer];
  switch (buffer.kind) {
    case Buffer::Kind::kArena:
      return arena.data() + buffer.life.offset / sizeof(float) + place.offset;
    case Buffer::Kind::kFixed:
      return const_cast<float*>(buffer.fixed->data());  // oneDNN reads it only
    case Buffer::Kind::kImage:
      return nullptr;
  }
  return nullptr;
}

void CallSequence::bind() {
  for (std::size_t c = 0; c < calls.size(); ++c) {
    Call& call = calls[c];
    for (const auto& [role, place] : call.places) {
      float* start = pointer(place);
      const bool image = buffers[place.buffer].kind == Buffer::Kind::kImage;
      if (call.host) {
        if (image) image_pointers.emplace_back(c, call.pointers.size());
        call.pointers.push_back(start);
        continue;
      }
      // The pointer is set without touching the memory: padding is the primitives' affair.
      memories.emplace_back(place.desc, engine, nullptr);
      check(dnnl_memory_set_data_handle_v2(memories.back().get(), start, nullptr),
            "could not set a memory's handle");
      if (image) images.push_back(memories.back());
      call.arguments.push_back({role, memories.back().get()});
    }
  }
  for (Output& output : outputs) output.map.data = pointer(output.place) + output.skip;
}

void CallSequence::set_image(const float* image) {
  float* start = const_cast<float*>(image);  // read only
  for (memory& view : images) {
    check(dnnl_memory_set_data_handle_v2(view.get(), start, nullptr), "could not set the image");
  }
  for (const auto& [call, index] : image_pointers) calls[call].pointers[index] = start;
}

}  // namespace contcore
