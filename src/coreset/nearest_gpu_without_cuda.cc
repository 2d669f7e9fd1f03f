// A build that knows no GPU has no vectors on one.
#include "contcore/error.h"
#include "coreset/nearest_gpu.h"

namespace contcore {

std::unique_ptr<GpuVectors> make_gpu_vectors(int, std::size_t, Scalar, const float*) {
  throw Error(Error::Kind::kInternal, "a search on a GPU in a build without CUDA");
}

}  // namespace contcore
