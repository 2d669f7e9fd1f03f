// Networks on a GPU: where they are in 8 bits, their maps are the processor's to the last bit. The
// tests of backbones run here too (tests/CMakeLists.txt), with the GPU in the processor's place.
#include "backbone/engine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backbone/gpu_program.h"
#include "backbone/onnx_writer.h"
#include "backbone/quantized_net.h"
#include "contcore/backbone.h"

namespace contcore {
namespace {

using testing::Attributes;
using testing::Ints;
using testing::Net;
using testing::QuantizedNet;
using testing::random_image;
using testing::TemporaryFile;
using testing::Width;
using Maps = std::vector<std::vector<float>>;

// The tests of backbones ask for this.
class OnTheGpu : public ::testing::Environment {
  void SetUp() override { setenv("CONTCORE_TEST_DEVICE", "cuda:0", 1); }
};
const auto* const kOnTheGpu = ::testing::AddGlobalTestEnvironment(new OnTheGpu);

Maps copied(const std::vector<FeatureMap>& maps) {
  Maps copies;
  for (const FeatureMap& map : maps) {
    copies.emplace_back(map.data, map.data + map.channels * map.height * map.width);
  }
  return copies;
}

Maps run_on(const Backbone& backbone, Device device, const std::vector<float>& image,
            std::size_t height, std::size_t width) {
  Compute compute(2, device);
  return copied(backbone.runner().run(image, height, width, compute));
}

void expect_same_bits(const Maps& ours, const Maps& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].size(), theirs[i].size());
    std::size_t off = 0;
    for (std::size_t k = 0; k < ours[i].size(); ++k) off += ours[i][k] != theirs[i][k] ? 1u : 0u;
    EXPECT_EQ(off, 0u) << "of " << ours[i].size() << " in map " << i;
  }
}

void expect_the_processors(Graph graph, const std::vector<std::string>& layers,
                           std::size_t height = 23, std::size_t width = 19) {
  graph.outputs = layers;
  const TemporaryFile file(graph);
  const Backbone backbone(file.path(), layers);
  const std::vector<float> image = random_image(height, width);
  expect_same_bits(run_on(backbone, Device{0}, image, height, width),
                   run_on(backbone, Device{}, image, height, width));
}

struct Form {
  std::int64_t in, out, kernel;
  Attributes attributes;
};

TEST(GpuEngine, HasTheProcessorsBytesOfAllConvolutions) {
  const std::vector<Form> forms = {
      {64, 64, 1, {}},
      {64, 256, 1, {}},
      {256, 48, 1, {{"strides", Ints{2, 2}}}},
      {16, 32, 3, {{"pads", Ints{1, 1, 1, 1}}}},
      {64, 64, 3, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}}},
      {144, 80, 3, {{"pads", Ints{1, 1, 1, 1}}}},
      {19, 21, 3, {{"pads", Ints{0, 1, 2, 0}}, {"strides", Ints{2, 1}}}},
      {16, 24, 3, {{"dilations", Ints{2, 3}}, {"pads", Ints{2, 3, 2, 3}}}},
      {32, 16, 5, {{"pads", Ints{2, 2, 2, 2}}}},
      {32, 16, 7, {{"pads", Ints{3, 3, 3, 3}}}},
      {16, 16, 3, {{"group", std::int64_t{16}}, {"pads", Ints{1, 1, 1, 1}}}},
      {20, 7, 1, {{"strides", Ints{2, 2}}}},
      {3, 64, 7, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}}},
  };
  for (const Form& form : forms) {
    for (const auto& [zero, width] :
         {std::pair<std::int64_t, Width>{0, Width::kUint8}, {117, Width::kUint8}}) {
      SCOPED_TRACE(::testing::Message()
                   << form.in << "->" << form.out << " k" << form.kernel << " zero " << zero);
      QuantizedNet net;
      // Rounded at once, so that both engines begin with the same bytes.
      std::string x = net.rounded("image", 0.021f, zero, width);
      if (form.in != 3) x = net.rounded(net.integer_conv(x, 3, form.in, 1), 0.03f, zero, width);
      const std::string y = net.integer_conv(x, form.in, form.out, form.kernel, form.attributes);
      const std::string bytes = net.rounded(y, 0.023f, 117);
      const std::string relu = net.rounded(net.add("Relu", {y}), 0.013f, -128, Width::kInt8);
      const std::string clip =
          net.rounded(net.add("Clip", {y, net.number(-0.5f), net.number(1.5f)}), 0.013f, 60);
      expect_the_processors(net.graph(), {y});
      expect_the_processors(net.graph(), {bytes});
      expect_the_processors(net.graph(), {relu});
      expect_the_processors(net.graph(), {clip});
    }
  }
}

TEST(GpuEngine, HasTheProcessorsBytesOfAllSums) {
  for (const std::int64_t zero : {0, 90}) {
    for (const bool relu : {true, false}) {
      for (const char* form : {"identity", "branch", "floats", "itself", "odd"}) {
        SCOPED_TRACE(::testing::Message() << form << zero << relu);
        const std::int64_t channels = *form == 'o' ? 36 : 32;
        QuantizedNet net;
        const std::string first = net.rounded("image", 0.03f, 120);
        const std::string x = net.rounded(net.integer_conv(first, 3, channels, 1), 0.02f, zero);
        const std::string y =
            net.rounded(net.add("Relu", {net.integer_conv(x, channels, 48, 1)}), 0.01f, 0);
        const std::string z = net.integer_conv(y, 48, channels, 3, {{"pads", Ints{1, 1, 1, 1}}});
        std::string other = x;
        if (*form == 'b') other = net.integer_conv(x, channels, channels, 1);
        if (*form == 'f')
          other = net.add("Mul", {net.integer_conv(x, channels, channels, 1), net.number(2)});
        if (*form == 'i' && form[1] == 't') other = z;
        std::string sum = net.add("Add", {other, z});
        if (relu) sum = net.add("Relu", {sum});
        const std::string out = net.rounded(sum, 0.03f, relu ? 0 : 128);
        expect_the_processors(net.graph(), {out});
        expect_the_processors(net.graph(), {sum});
      }
    }
  }
}

// A small ResNet-50: wide enough for every way of cutting its convolutions.
struct Residual {
  QuantizedNet net;
  std::vector<std::string> layers;

  Residual() {
    const Attributes pads = {{"pads", Ints{1, 1, 1, 1}}};
    std::string x = net.rounded("image", 0.03f, 113);
    x = net.integer_conv(x, 3, 64, 7, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}});
    x = net.rounded(net.add("Relu", {x}), 0.02f, 0);
    x = net.add(
        "MaxPool", {x},
        {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
    std::int64_t channels = 64;
    for (const std::int64_t width : {64, 128, 256}) {
      for (int block = 0; block < 2; ++block) {
        const std::int64_t stride = block == 0 && width > 64 ? 2 : 1;
        Attributes middle = pads;
        middle["strides"] = Ints{stride, stride};
        std::string y =
            net.rounded(net.add("Relu", {net.integer_conv(x, channels, width, 1)}), 0.02f, 0);
        y = net.rounded(net.add("Relu", {net.integer_conv(y, width, width, 3, middle)}), 0.02f, 0);
        std::string shortcut = x;
        if (block == 0) {
          shortcut = net.rounded(
              net.integer_conv(x, channels, 4 * width, 1, {{"strides", Ints{stride, stride}}}),
              0.03f, 128);
        }
        channels = 4 * width;
        const std::string sum = net.add("Add", {net.integer_conv(y, width, channels, 1), shortcut});
        x = net.rounded(net.add("Relu", {sum}), 0.02f, 0);
        layers.push_back(x);
      }
    }
    net.graph().outputs = layers;
  }
};

TEST(GpuEngine, HasTheProcessorsBytesOfAResidualNetwork) {
  const Residual residual;
  const TemporaryFile file(const_cast<Residual&>(residual).net.graph());
  const Backbone backbone(file.path(), residual.layers);
  for (const auto& [height, width] :
       {std::pair<std::size_t, std::size_t>(64, 64), {97, 131}, {224, 160}}) {
    const std::vector<float> image = random_image(height, width);
    expect_same_bits(run_on(backbone, Device{0}, image, height, width),
                     run_on(backbone, Device{}, image, height, width));
  }
}

TEST(GpuEngine, ABatchIsItsImages) {
  Residual residual;
  const TemporaryFile file(residual.net.graph());
  const Backbone backbone(file.path(), residual.layers);
  const std::size_t height = 80, width = 64;
  std::vector<std::vector<float>> images;
  for (std::uint64_t i = 0; i < 7; ++i) images.push_back(random_image(height, width, i));
  for (const Device device : {Device{0}, Device{}}) {
    Compute compute(2, device);
    auto runner = backbone.runner(), other = backbone.runner();
    for (const std::size_t count : {1u, 3u, 7u, 2u}) {
      std::vector<std::span<const float>> some(images.begin(),
                                               images.begin() + static_cast<std::ptrdiff_t>(count));
      const auto batch = runner.run_batch(some, height, width, compute);
      ASSERT_EQ(batch.size(), count);
      for (std::size_t i = 0; i < count; ++i) {
        expect_same_bits(copied(batch[i]), copied(other.run(images[i], height, width, compute)));
      }
    }
  }
}

TEST(GpuEngine, OneRunnerServesBothDevices) {
  Residual residual;
  const TemporaryFile file(residual.net.graph());
  const Backbone backbone(file.path(), {residual.layers.back()});
  auto runner = backbone.runner();
  Compute there(2, Device{0}), here(2);
  const std::vector<float> image = random_image(64, 64);
  const Maps first = copied(runner.run(image, 64, 64, there));
  expect_same_bits(first, copied(runner.run(image, 64, 64, here)));
  expect_same_bits(first, copied(runner.run(image, 64, 64, there)));
}

// Hands out the program.
class Watched : public Engine {
 public:
  explicit Watched(GpuProgram*& program) : program_(program) {}
  std::unique_ptr<Program> compile(const Plan& plan, const std::vector<PlanOutput>& outputs,
                                   Compute& compute) override {
    auto made = engine_->compile(plan, outputs, compute);
    program_ = dynamic_cast<GpuProgram*>(made.get());
    return made;
  }

 private:
  std::unique_ptr<Engine> engine_ = gpu_engine();
  GpuProgram*& program_;
};

TEST(GpuEngine, MapsStayOnTheGpu) {
  Residual residual;
  const TemporaryFile file(residual.net.graph());
  GpuProgram* program = nullptr;
  const Backbone backbone(file.path(), residual.layers, std::make_unique<Watched>(program));
  auto runner = backbone.runner();
  Compute compute(1, Device{0});
  std::vector<float> images = random_image(64, 96, 1);
  const std::vector<float> second = random_image(64, 96, 2);
  const Maps expected = copied(runner.run(second, 64, 96, compute));
  ASSERT_NE(program, nullptr);
  images.insert(images.end(), second.begin(), second.end());
  Gpu& gpu = program->gpu();
  GpuBuffer there(gpu, images.size() * sizeof(float));
  gpu.upload(there.as<float>(), images.data(), there.bytes());
  program->run_there(there.as<float>(), 2);
  const std::vector<GpuProgram::Map> maps = program->maps();
  ASSERT_EQ(maps.size(), expected.size());
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::size_t count = maps[i].channels * maps[i].height * maps[i].width;
    ASSERT_EQ(count, expected[i].size());
    ASSERT_NE(maps[i].bytes, nullptr);
    std::vector<float> floats(count);
    std::vector<std::uint8_t> bytes(count);
    gpu.download(floats.data(), maps[i].floats + maps[i].stride, count * sizeof(float));
    gpu.download(bytes.data(), maps[i].bytes + maps[i].stride, count);
    EXPECT_EQ(floats, expected[i]);
    for (std::size_t k = 0; k < count; ++k) {
      ASSERT_EQ(maps[i].grid.scale * static_cast<float>(bytes[k] - maps[i].grid.zero),
                expected[i][k]);
    }
  }
}

}  // namespace
}  // namespace contcore
