// The network that turns an image into feature maps: any ONNX file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"

namespace contcore {

class Engine;  // what runs the network: src/backbone/engine.h

/// One layer's output for one image: `channels` numbers for each place, place after place, row
/// after row. The memory belongs to the Runner and is valid until its next run.
struct FeatureMap {
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  const float* data = nullptr;
};

struct LayerShape {
  std::string name;  ///< what to ask for in `layers`
  std::string op;    ///< the operator that makes it
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  bool chosen = false;  ///< one of the chosen layers
};

struct BackboneInfo {
  std::vector<LayerShape> layers;  ///< every tensor that can be asked for, in order of computation
  std::uint64_t parameters = 0;    ///< of what the chosen layers need
  double gflops = 0;               ///< the same, for one image; a multiply and an add are two
};

class Backbone {
 public:
  /// Reads an ONNX file; "builtin" is a small fixed network that needs no file. `layers` are names
  /// of tensors, of graph outputs or of module scopes ("layer2" finds the last tensor made under
  /// /layer2/); empty: layer2 and layer3 (for a graph with neither, all its outputs). Throws Error
  /// (kInput) naming the file, the node, the operator and the remedy for what cannot be run.
  explicit Backbone(const std::string& file, std::vector<std::string> layers = {});
  /// The same, run by an engine of its own instead of oneDNN.
  Backbone(const std::string& file, std::vector<std::string> layers,
           std::unique_ptr<Engine> engine);
  /// The same of the bytes of an ONNX file, for which `name` stands in errors and in file().
  static Backbone of_bytes(const std::string& name, const std::string& bytes,
                           std::vector<std::string> layers = {});
  ~Backbone();
  Backbone(Backbone&&) noexcept;
  Backbone& operator=(Backbone&&) noexcept;

  const std::string& file() const;
  /// The chosen layers, as they were asked for.
  const std::vector<std::string>& layers() const;
  /// SHA-256 of the file's bytes, hexadecimal (of the built-in graph for "builtin").
  const std::string& hash() const;

  /// The sides of the images it takes, as its file declares them; 0 where any will do.
  struct InputSize {
    std::size_t height = 0;
    std::size_t width = 0;
  };
  InputSize input_size() const;

  /// Shapes and costs for an image of height × width. Throws Error (kInput) if the graph does not
  /// take that size.
  BackboneInfo info(std::size_t height, std::size_t width) const;

  /// The chosen layers' shapes for such an image, in the order they were asked for: what
  /// Runner::run would give. Throws as info() does.
  std::vector<LayerShape> shapes(std::size_t height, std::size_t width) const;

  /// A place to run the network in, with working memory of its own. The weights are shared: several
  /// runners may run at once, each in its own thread, but one runner is for one thread at a time. A
  /// runner must not outlive its backbone.
  class Runner {
   public:
    ~Runner();
    Runner(Runner&&) noexcept;
    Runner& operator=(Runner&&) noexcept;

    /// The chosen layers of one image: 3 × height × width, as contcore::prepare gives it, spread
    /// over the threads of `compute`, or on its GPU. A size is compiled when it is first seen with
    /// so many threads and that device; the last few are kept. Throws Error (kInput) on a size the
    /// graph does not take.
    std::vector<FeatureMap> run(std::span<const float> chw, std::size_t height, std::size_t width,
                                Compute& compute);

    /// The same for several images of one size: the maps of each. A GPU does them at once.
    std::vector<std::vector<FeatureMap>> run_batch(
        const std::vector<std::span<const float>>& images, std::size_t height, std::size_t width,
        Compute& compute);

   private:
    friend class Backbone;
    struct State;
    explicit Runner(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };

  Runner runner() const;

 private:
  struct Model;
  explicit Backbone(std::unique_ptr<Model> model);
  std::unique_ptr<Model> model_;
};

}  // namespace contcore
