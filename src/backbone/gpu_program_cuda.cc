#include "backbone/gpu_program.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "backbone/gpu_builder.h"
#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kForever = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMostImages = 4096;
constexpr std::size_t kMostNumbers = std::numeric_limits<int>::max();

std::size_t numbers_of(const Shape& shape) {
  std::size_t numbers = 1;
  for (const std::int64_t side : shape) numbers *= static_cast<std::size_t>(side);
  return numbers;
}

// A pair of events around work on a stream.
class Watch {
 public:
  explicit Watch(CUstream_st* stream) : stream_(stream) {
    check_cuda(cudaEventCreate(&begin_), "timing");
    check_cuda(cudaEventCreate(&end_), "timing");
  }
  ~Watch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  template <typename Work>
  double milliseconds(const Work& work) {
    check_cuda(cudaEventRecord(begin_, stream_), "timing");
    work();
    check_cuda(cudaEventRecord(end_, stream_), "timing");
    check_cuda(cudaEventSynchronize(end_), "timing");
    float taken = 0;
    check_cuda(cudaEventElapsedTime(&taken, begin_, end_), "timing");
    return static_cast<double>(taken);
  }

 private:
  CUstream_st* stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

// ---- what programs share -----------------------------------------------------------------------

std::shared_ptr<const GpuBuffer> GpuShared::get(const std::string& key,
                                                const std::function<std::vector<char>()>& bytes) {
  const std::lock_guard lock(mutex_);
  auto& block = blocks_[key];
  if (block == nullptr) {
    const std::vector<char> numbers = bytes();
    auto fresh = std::make_shared<GpuBuffer>(gpu_, numbers.size());
    gpu_.upload(fresh->as<char>(), numbers.data(), numbers.size());
    block = std::move(fresh);
  }
  return block;
}

int GpuShared::tile(const std::string& form, const std::function<int()>& measure) {
  const std::lock_guard lock(mutex_);
  const auto known = tiles_.find(form);
  if (known != tiles_.end()) return known->second;
  return tiles_[form] = measure();
}

// ---- memory ------------------------------------------------------------------------------------

void GpuSequence::plan_memory() {
  buffers[image].touched = true;  // it is filled before the first call
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const std::size_t id : calls[i].buffers) {
      Buffer& buffer = buffers[id];
      if (!buffer.touched) buffer.life.first = i;
      buffer.touched = true;
      buffer.life.last = i;
    }
  }
  std::vector<Lifetime> lives;
  std::vector<std::size_t> whose;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].fixed != nullptr || !buffers[i].touched) continue;
    lives.push_back(buffers[i].life);
    if (buffers[i].kept) lives.back().last = kForever;
    whose.push_back(i);
  }
  arena_bytes = plan_arena(lives);
  for (std::size_t i = 0; i < lives.size(); ++i) buffers[whose[i]].life = lives[i];
}

GpuProgram::GpuProgram(const Plan& plan, const std::vector<PlanOutput>& outputs, int number,
                       GpuShared& shared)
    : gpu_(number), shared_(shared) {
  GpuBuilder(plan, sequence_, shared, gpu_).build(outputs);
  sequence_.plan_memory();
  for (const Value& value : plan.values) {
    if (!value.constant) largest_ = std::max(largest_, numbers_of(value.shape));
  }
  waits_ = std::any_of(sequence_.calls.begin(), sequence_.calls.end(),
                       [](const GpuSequence::Call& call) { return call.host; });
  reserve(1);
}

GpuProgram::~GpuProgram() { forget_graphs(); }

void GpuProgram::forget_graphs() {
  for (const auto& [images, graph] : graphs_) cudaGraphExecDestroy(graph);
  graphs_.clear();
}

// Offsets grow with the number of images, so that pieces stay apart.
void GpuProgram::reserve(std::size_t images) {
  if (images > kMostImages) {
    throw Error(Error::Kind::kUsage,
                fmt::format("{} images at once; {} are the most", images, kMostImages));
  }
  gpu_.use();
  if (images > capacity_) {
    gpu_.wait();
    forget_graphs();
    capacity_ = 0;
    arena_ = {};
    host_ = {};
    std::size_t floats = 0;
    for (const auto& output : sequence_.outputs) floats += output.each;
    arena_ = GpuBuffer(gpu_, sequence_.arena_bytes * images);
    host_ = PinnedBuffer(gpu_, floats * sizeof(float) * images);
    capacity_ = images;
  }
  // Before the images are there: it runs over whatever lies in the arena.
  if (!tiles_.contains(images)) choose_tiles(all_of(images));
}

// ---- running -----------------------------------------------------------------------------------

std::vector<FeatureMap> GpuProgram::run(const float* image) { return run_batch({image}).front(); }

void GpuProgram::upload(const std::vector<const float*>& images) {
  float* to = all_of(images.size()).at<float>(sequence_.image);
  for (const float* image : images) {
    check_cuda(cudaMemcpyAsync(to, image, sequence_.image_floats * sizeof(float),
                               cudaMemcpyHostToDevice, gpu_.stream()),
               "copying to the GPU");
    to += sequence_.image_floats;
  }
}

std::vector<std::vector<FeatureMap>> GpuProgram::run_batch(
    const std::vector<const float*>& images) {
  if (images.empty()) return {};
  // Kernels count the places of all images in 32 bits.
  if (images.size() > 1 && images.size() > kMostNumbers / largest_) {
    return Program::run_batch(images);
  }
  try {
    reserve(images.size());
  } catch (const GpuMemoryError&) {
    if (images.size() == 1) throw;
    return Program::run_batch(images);  // one after the other
  }
  upload(images);
  compute(images.size());
  const GpuSequence::Run run = all_of(images.size());
  std::vector<std::vector<FeatureMap>> all(images.size());
  auto* to = host_.as<float>();
  for (const auto& output : sequence_.outputs) {
    check_cuda(cudaMemcpyAsync(to, run.at<float>(output.floats),
                               output.each * images.size() * sizeof(float), cudaMemcpyDeviceToHost,
                               gpu_.stream()),
               "copying from the GPU");
    for (std::vector<FeatureMap>& maps : all) {
      maps.push_back(output.map);
      maps.back().data = to + output.skip;
      to += output.each;
    }
  }
  gpu_.wait();
  return all;
}

void GpuProgram::run_there(const float* images, std::size_t count) {
  if (count == 0) return;
  reserve(count);
  check_cuda(cudaMemcpyAsync(all_of(count).at<float>(sequence_.image), images,
                             count * sequence_.image_floats * sizeof(float),
                             cudaMemcpyDeviceToDevice, gpu_.stream()),
             "copying on the GPU");
  compute(count);
}

std::vector<GpuProgram::Map> GpuProgram::maps() {
  const GpuSequence::Run run = all_of(1);
  std::vector<Map> all;
  for (const auto& output : sequence_.outputs) {
    Map map{output.map.channels,
            output.map.height,
            output.map.width,
            run.at<float>(output.floats) + output.skip,
            nullptr,
            output.grid,
            output.each};
    if (output.bytes) map.bytes = run.at<std::uint8_t>(*output.bytes);
    all.push_back(map);
  }
  return all;
}

// The launches for so many images are recorded once, and played from there on.
void GpuProgram::compute(std::size_t images) {
  const GpuSequence::Run run = all_of(images);
  const std::vector<int>& tiles = tiles_[images];
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (sequence_.calls[i].tile != nullptr) *sequence_.calls[i].tile = tiles[i];
  }
  const auto launch = [&] {
    for (const GpuSequence::Call& call : sequence_.calls) call.launch(run);
  };
  if (waits_) return launch();
  const auto known = graphs_.find(images);
  if (known != graphs_.end()) {
    return check_cuda(cudaGraphLaunch(known->second, gpu_.stream()), "computing on the GPU");
  }
  check_cuda(cudaStreamBeginCapture(gpu_.stream(), cudaStreamCaptureModeThreadLocal),
             "recording the network");
  cudaGraph_t graph = nullptr;
  try {
    launch();
  } catch (...) {
    cudaStreamEndCapture(gpu_.stream(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check_cuda(cudaStreamEndCapture(gpu_.stream(), &graph), "recording the network");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(status, "recording the network");
  graphs_[images] = ready;
  check_cuda(cudaGraphLaunch(ready, gpu_.stream()), "computing on the GPU");
}

// ---- measuring ---------------------------------------------------------------------------------

double GpuProgram::time(const GpuSequence::Call& call, const GpuSequence::Run& run, int repeats) {
  constexpr int kInARow = 4;  // so that the GPU, not the launch, is what is timed
  Watch watch(gpu_.stream());
  call.launch(run);
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < repeats; ++i) {
    const double taken = watch.milliseconds([&] {
      for (int k = 0; k < kInARow; ++k) call.launch(run);
    });
    best = std::min(best, taken / kInARow);
  }
  return best;
}

// All tiles give the same numbers, so that it does not matter when the clock is wrong.
void GpuProgram::choose_tiles(const GpuSequence::Run& run) {
  constexpr int kRepeats = 3;
  std::vector<int> tiles;
  for (const GpuSequence::Call& call : sequence_.calls) {
    int best = 0;
    if (call.tiles > 1) {
      best = shared_.tile(fmt::format("{} x {}", call.form, run.images), [&] {
        int fastest = 0;
        double least = std::numeric_limits<double>::max();
        for (int tile = 0; tile < call.tiles; ++tile) {
          *call.tile = tile;
          const double taken = time(call, run, kRepeats);
          if (taken < least) fastest = tile, least = taken;
        }
        return fastest;
      });
    }
    tiles.push_back(best);
  }
  tiles_[static_cast<std::size_t>(run.images)] = std::move(tiles);
}

std::vector<GpuProgram::Timing> GpuProgram::profile(std::size_t images, int repeats) {
  reserve(images);
  compute(images);
  const GpuSequence::Run run = all_of(images);
  std::vector<Timing> timings;
  for (const GpuSequence::Call& call : sequence_.calls) {
    std::string what = call.what;
    if (call.tile != nullptr) what += fmt::format(" [{} tile {}]", call.form, *call.tile);
    timings.push_back({std::move(what), time(call, run, repeats)});
  }
  return timings;
}

}  // namespace contcore
