#include "backbone/onednn_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "backbone/onednn_builder.h"
#include "contcore/error.h"

// oneDNN runs on GCC's OpenMP, whichever compiler builds this: its threads are set through the same
// library, without a compiler's own omp.h.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_pause_resource_all(int kind);
void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);
}

namespace contcore {
namespace {

// oneDNN's own errors stay behind the engine.
[[noreturn]] void throw_as_error(const dnnl::error& error) {
  throw Error(Error::Kind::kInternal, fmt::format("oneDNN: {}", error.what()));
}

}  // namespace

OpenMpThreads::OpenMpThreads(std::size_t count)
    : count_(static_cast<int>(std::clamp<std::size_t>(count, 1, 1024))),
      before_(omp_get_max_threads()) {
  omp_set_num_threads(count_);
}
// OpenMP's threads wait for more work with all their might, for milliseconds: what comes next, on
// threads of our own, would have to share the processors with them. So they are sent home; that
// they have to be started again the next time costs a tenth of a millisecond.
OpenMpThreads::~OpenMpThreads() {
  constexpr int kSoft = 1;
  if (count_ > 1) omp_pause_resource_all(kSoft);
  omp_set_num_threads(before_);
}

void over_openmp(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work) {
  struct Parts {
    std::size_t count;
    const std::function<void(std::size_t, std::size_t)>& work;
  } parts{count, work};
  const auto part = [](void* data) {
    const auto& all = *static_cast<const Parts*>(data);
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const auto i = static_cast<std::size_t>(omp_get_thread_num());
    all.work(all.count * i / threads, all.count * (i + 1) / threads);
  };
  GOMP_parallel(part, &parts, 0, 0);
}

OneDnnProgram::OneDnnProgram(const Plan& plan, const std::vector<PlanOutput>& outputs,
                             std::size_t threads, const dnnl::engine& engine,
                             PackedWeights& weights)
    : threads_(threads) {
  const OpenMpThreads scope(threads);
  try {
    sequence_.engine = engine;
    sequence_.stream = dnnl::stream(engine);
    OneDnnBuilder(plan, sequence_, weights).build(outputs);
    sequence_.plan_memory();
    sequence_.bind();
  } catch (const dnnl::error& error) {
    throw_as_error(error);
  }
}

std::vector<FeatureMap> OneDnnProgram::run(const float* image) {
  const OpenMpThreads scope(threads_);
  try {
    sequence_.set_image(image);
    for (CallSequence::Call& call : sequence_.calls) sequence_.run(call);
    sequence_.stream.wait();
  } catch (const dnnl::error& error) {
    throw_as_error(error);
  }
  std::vector<FeatureMap> maps;
  for (const auto& output : sequence_.outputs) maps.push_back(output.map);
  return maps;
}

std::size_t OneDnnProgram::arena_bytes() const { return sequence_.arena.cols() * sizeof(float); }

std::vector<OneDnnProgram::Timing> OneDnnProgram::profile(const float* image, int repeats) {
  using Watch = std::chrono::steady_clock;
  const OpenMpThreads scope(threads_);
  sequence_.set_image(image);
  std::vector<Timing> timings;
  for (const auto& call : sequence_.calls) {
    timings.push_back({call.what, std::numeric_limits<double>::max()});
  }
  for (int i = 0; i < repeats; ++i) {
    for (std::size_t c = 0; c < timings.size(); ++c) {
      const auto start = Watch::now();
      sequence_.run(sequence_.calls[c]);
      sequence_.stream.wait();
      const std::chrono::duration<double, std::milli> taken = Watch::now() - start;
      timings[c].milliseconds = std::min(timings[c].milliseconds, taken.count());
    }
  }
  return timings;
}

}  // namespace contcore
