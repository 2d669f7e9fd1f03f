// A plan as a list of kernels on a GPU, over one block of its memory.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backbone/arena.h"
#include "backbone/engine.h"
#include "backbone/plan.h"
#include "device/gpu.h"

struct CUgraphExec_st;

namespace contcore {

/// What the programs of a backbone share on one GPU: the weights, as kernels want them, and which
/// way of cutting a convolution into tiles was the fastest.
class GpuShared {
 public:
  explicit GpuShared(int number) : gpu_(number) {}

  /// The block for `key`, made of `bytes` when it is asked for the first time. Safe from any
  /// thread.
  std::shared_ptr<const GpuBuffer> get(const std::string& key,
                                       const std::function<std::vector<char>()>& bytes);

  /// The tile for a convolution of this form; `measure` is called the first time.
  int tile(const std::string& form, const std::function<int()>& measure);

 private:
  Gpu gpu_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const GpuBuffer>> blocks_;
  std::map<std::string, int> tiles_;
};

/// What a program on a GPU is made of, once it is built.
struct GpuSequence {
  /// Memory for each image of a batch: a piece of the arena, or constants that all images share.
  struct Buffer {
    Lifetime life;
    bool kept = false;  ///< to the end of the run and beyond
    bool touched = false;
    std::shared_ptr<const GpuBuffer> fixed;
  };
  class Run;
  struct Call {
    std::string what;
    std::vector<std::size_t> buffers;        ///< that it reads or writes
    std::function<void(const Run&)> launch;  ///< for all images
    bool host = false;                       ///< it waits for the GPU
    std::string form;  ///< where there are several ways of cutting it: what the best depends on
    int tiles = 1;     ///< how many
    std::shared_ptr<int> tile;  ///< the one to use
  };
  struct Output {
    FeatureMap map;  ///< without data
    std::size_t floats = 0;
    std::size_t skip = 0;  ///< floats before the map
    std::size_t each = 0;  ///< floats of an image
    std::optional<std::size_t> bytes;
    Grid grid;
  };
  std::vector<Buffer> buffers;
  std::vector<Call> calls;
  std::vector<Output> outputs;
  std::size_t image = 0;         ///< buffer
  std::size_t image_floats = 0;  ///< of one image
  std::size_t arena_bytes = 0;   ///< for one image

  void plan_memory();
};

/// Where the buffers of a run are.
class GpuSequence::Run {
 public:
  Run(const GpuSequence& sequence, Gpu& on, char* arena, std::size_t capacity, int how_many)
      : gpu(on), images(how_many), sequence_(sequence), arena_(arena), capacity_(capacity) {}

  template <typename T>
  T* at(std::size_t buffer) const {
    const Buffer& one = sequence_.buffers[buffer];
    if (one.fixed != nullptr) return one.fixed->as<T>();
    return reinterpret_cast<T*>(arena_ + one.life.offset * capacity_);
  }
  CUstream_st* stream() const { return gpu.stream(); }

  Gpu& gpu;
  int images;

 private:
  const GpuSequence& sequence_;
  char* arena_;
  std::size_t capacity_;
};

class GpuProgram : public Program {
 public:
  /// Compiles a fused plan for GPU `number`; `shared` is that of the same GPU. Throws Error: kInput
  /// naming the node that fails, GpuMemoryError where there is not enough for one image.
  GpuProgram(const Plan& plan, const std::vector<PlanOutput>& outputs, int number,
             GpuShared& shared);
  ~GpuProgram() override;

  std::vector<FeatureMap> run(const float* image) override;
  std::vector<std::vector<FeatureMap>> run_batch(const std::vector<const float*>& images) override;

  // ---- for what goes on on the GPU ----

  /// The same on images in its memory, image after image; the maps stay there. All is in order on
  /// gpu().stream(), and this does not wait.
  void run_there(const float* images, std::size_t count);

  /// A map of the latest run, as it lies on the GPU: floats, and their codes if they have a grid.
  struct Map {
    std::size_t channels = 0, height = 0, width = 0;
    const float* floats = nullptr;
    const std::uint8_t* bytes = nullptr;
    Grid grid;
    std::size_t stride = 0;  ///< numbers from one image to the next
  };
  std::vector<Map> maps();
  Gpu& gpu() { return gpu_; }

  // ---- for benchmarks ----

  std::size_t arena_bytes() const { return sequence_.arena_bytes * capacity_; }
  /// Milliseconds of each call on the GPU, and what it is.
  struct Timing {
    std::string what;
    double milliseconds = 0;
  };
  std::vector<Timing> profile(std::size_t images, int repeats);

 private:
  void reserve(std::size_t images);
  void upload(const std::vector<const float*>& images);
  void compute(std::size_t images);
  void choose_tiles(const GpuSequence::Run& run);
  double time(const GpuSequence::Call& call, const GpuSequence::Run& run, int repeats);
  GpuSequence::Run all_of(std::size_t images) {
    return {sequence_, gpu_, arena_.as<char>(), capacity_, static_cast<int>(images)};
  }
  void forget_graphs();

  Gpu gpu_;
  GpuShared& shared_;
  GpuSequence sequence_;
  std::size_t largest_ = 1;  // numbers of a value, for one image
  bool waits_ = false;       // a call waits for the GPU: no graph
  std::size_t capacity_ = 0;
  GpuBuffer arena_;
  PinnedBuffer host_;                              // the maps
  std::map<std::size_t, CUgraphExec_st*> graphs_;  // by images
  std::map<std::size_t, std::vector<int>> tiles_;  // the same: of each call
};

}  // namespace contcore
