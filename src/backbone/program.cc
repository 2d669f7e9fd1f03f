#include "backbone/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "backbone/builder.h"
#include "backbone/program_work.h"
#include "contcore/error.h"

// oneDNN runs on GCC's OpenMP, whichever compiler builds this: its threads are set through the same
// library, without a compiler's own omp.h.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

namespace contcore {
namespace {

constexpr std::size_t kMostActivations = std::size_t{4} << 30;

}  // namespace

std::shared_ptr<const Vectors> PackedWeights::get(const std::string& key, std::size_t bytes,
                                                  const std::function<void(float*)>& fill) {
  const std::lock_guard lock(mutex_);
  auto& block = blocks_[key];
  if (block == nullptr) {
    Vectors fresh(1, (bytes + sizeof(float) - 1) / sizeof(float));
    fill(fresh.data());
    block = std::make_shared<const Vectors>(std::move(fresh));
  }
  return block;
}

OpenMpThreads::OpenMpThreads(std::size_t count) : before_(omp_get_max_threads()) {
  omp_set_num_threads(static_cast<int>(std::clamp<std::size_t>(count, 1, 1024)));
}
OpenMpThreads::~OpenMpThreads() { omp_set_num_threads(before_); }

void Program::Work::plan_memory() {
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

float* Program::Work::pointer(const Place& place) {
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

void Program::Work::bind() {
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

void Program::Work::set_image(const float* image) {
  float* start = const_cast<float*>(image);  // read only
  for (memory& view : images) {
    check(dnnl_memory_set_data_handle_v2(view.get(), start, nullptr), "could not set the image");
  }
  for (const auto& [call, index] : image_pointers) calls[call].pointers[index] = start;
}

Program::Program(const Plan& plan, const std::vector<Wanted>& wanted, std::size_t threads,
                 const dnnl::engine& engine, PackedWeights& shared)
    : work_(std::make_unique<Work>()) {
  const OpenMpThreads scope(threads);
  work_->engine = engine;
  work_->stream = dnnl::stream(engine);
  work_->threads = threads;
  Builder(plan, *work_, shared).build(wanted);
  work_->plan_memory();
  work_->bind();
}

Program::~Program() = default;

std::vector<FeatureMap> Program::run(const float* image) {
  const OpenMpThreads scope(work_->threads);
  work_->set_image(image);
  for (Work::Call& call : work_->calls) work_->run(call);
  work_->stream.wait();
  std::vector<FeatureMap> maps;
  for (const auto& output : work_->outputs) maps.push_back(output.map);
  return maps;
}

std::size_t Program::arena_bytes() const { return work_->arena.cols() * sizeof(float); }

std::vector<Program::Timing> Program::profile(const float* image, int repeats) {
  using Watch = std::chrono::steady_clock;
  const OpenMpThreads scope(work_->threads);
  work_->set_image(image);
  std::vector<Timing> timings;
  for (const auto& call : work_->calls) {
    timings.push_back({call.what, std::numeric_limits<double>::max()});
  }
  for (int i = 0; i < repeats; ++i) {
    for (std::size_t c = 0; c < timings.size(); ++c) {
      const auto start = Watch::now();
      work_->run(work_->calls[c]);
      work_->stream.wait();
      const std::chrono::duration<double, std::milli> taken = Watch::now() - start;
      timings[c].milliseconds = std::min(timings[c].milliseconds, taken.count());
    }
  }
  return timings;
}

}  // namespace contcore
