// What a program on oneDNN is made of, once it is built: memory and calls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backbone/arena.h"
#include "backbone/onednn_layouts.h"
#include "contcore/backbone.h"
#include "contcore/vectors.h"

namespace contcore {

struct CallSequence {
  // A piece of memory: in the arena, the image, or numbers of its own.
  struct Buffer {
    enum class Kind { kArena, kImage, kFixed };
    Kind kind = Kind::kArena;
    Lifetime life;
    bool kept = false;  // to the end of the run and beyond
    std::shared_ptr<const Vectors> fixed;
    bool touched = false;
  };
  struct Place {
    Desc desc;
    std::size_t buffer = 0;
    std::size_t offset = 0;  // floats from the buffer's start
  };
  struct Call {
    std::string what;
    dnnl::primitive primitive;  // or, where it is empty,
    std::function<void(const std::vector<float*>&)> host;
    std::vector<std::pair<int, Place>> places;
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<float*> pointers;
  };
  struct Output {
    FeatureMap map;
    Place place;
    std::size_t skip = 0;  // floats before the map
  };

  dnnl::engine engine;
  dnnl::stream stream;
  std::vector<Buffer> buffers;
  std::vector<Call> calls;
  std::vector<Output> outputs;
  std::vector<memory> memories;
  std::vector<memory> images;  // those of `memories` that look at the image
  std::vector<std::pair<std::size_t, std::size_t>> image_pointers;  // call, index: host calls
  Vectors arena;

  void plan_memory();
  void bind();
  float* pointer(const Place& place);
  void run(Call& call) {
    if (call.primitive.get(true) != nullptr) {
      check(dnnl_primitive_execute(call.primitive.get(), stream.get(),
                                   static_cast<int>(call.arguments.size()), call.arguments.data()),
            "could not execute a primitive");
    } else {
      call.host(call.pointers);
    }
  }
  void set_image(const float* image);
};

}  // namespace contcore
