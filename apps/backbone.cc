// contcore backbone: what is in a backbone, how fast it runs here, where to get one, its 8-bit
// form.
#include "contcore/backbone.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backbone/fetch.h"
#include "base/file.h"
#include "base/random.h"
#include "commands.h"
#include "common.h"
#include "contcore/compute.h"
#include "contcore/embedding.h"
#include "contcore/error.h"
#include "detector/eight_bit.h"
#include "detector/find_images.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

struct BackboneCommand {
  std::string file;
  std::vector<std::string> layers;
  std::string size = "224";
  bool all = false;
  std::size_t runs = 20;
  std::string out;
  std::string images;
  CommonOptions common;
};

constexpr const char* kFooter =
    "A backbone is an ONNX file, 'builtin' or one that was fetched, by its name.\n"
    "Example: get a network, see its layers, measure it\n"
    "  contcore backbone fetch resnet50\n"
    "  contcore backbone info resnet50 --layers layer2,layer3\n"
    "  contcore backbone bench resnet50 --size 384 --threads 2\n"
    "  contcore backbone quantize mine.onnx --out mine-8bit.onnx\n";

struct Size {
  std::size_t height = 0;
  std::size_t width = 0;
};

// "224" or "240x320".
Size parse_image_size(const std::string& text) {
  Size size;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, size.height);
  size.width = size.height;
  if (error == std::errc() && rest != end && *rest == 'x') {
    const auto second = std::from_chars(rest + 1, end, size.width);
    rest = second.ptr;
    error = second.ec;
  }
  if (error != std::errc() || rest != end) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format("--size {} is not a size; write 224 or 240x320 (height x width)", text));
  }
  return size;
}

// ---- info --------------------------------------------------------------------------------------

// What lies inside a transformer's attention, though it has the shape of a map.
bool is_inside(const LayerShape& layer) {
  static const char* const kOperators[] = {"MatMul", "Softmax", "Transpose", "Reshape",  "Slice",
                                           "Split",  "Gather",  "Squeeze",   "Unsqueeze"};
  return std::find(std::begin(kOperators), std::end(kOperators), layer.op) != std::end(kOperators);
}

// Without --all: the chosen layers, and the last of each size of map, which are the usual choice.
std::vector<LayerShape> shown(const BackboneInfo& info, bool all) {
  if (all) return info.layers;
  std::vector<LayerShape> layers;
  for (std::size_t i = 0; i < info.layers.size(); ++i) {
    const LayerShape& layer = info.layers[i];
    const bool last = std::none_of(info.layers.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                   info.layers.end(), [&](const LayerShape& later) {
                                     return !is_inside(later) && later.height == layer.height &&
                                            later.width == layer.width;
                                   });
    if (layer.chosen || (last && !is_inside(layer) && layer.height * layer.width > 1)) {
      layers.push_back(layer);
    }
  }
  return layers;
}

// What is known of the network's 8-bit form, without making it.
struct FormInfo {
  bool itself = false;           // the file is in 8 bits
  std::size_t convolutions = 0;  // that are in 8 bits, or would be
  std::string why_not;           // there can be none
  std::string file, hash;        // where it is kept; empty: it is not
};

FormInfo form_info(const std::string& named) {
  FormInfo info;
  try {
    const EightBitForm form = kept_eight_bit_form(named);
    info.itself = form.itself;
    if (!form.bytes.empty()) {
      info.file = form.file;
      info.hash = Backbone::of_bytes(form.file, form.bytes).hash();
    }
    if (!form.itself) info.convolutions = Quantizer(model_bytes(named)).convolutions();
  } catch (const Error& error) {
    info.why_not = error.what();
  }
  return info;
}

std::string form_text(const FormInfo& info) {
  if (info.itself) return "in 8 bits\n";
  if (!info.why_not.empty()) return fmt::format("8-bit form: none, {}\n", info.why_not);
  const std::string convolutions = counted(info.convolutions, "convolution");
  if (info.file.empty()) {
    return fmt::format("8-bit form: {}; not made yet: it is when 8 bits are first used\n",
                       convolutions);
  }
  return fmt::format("8-bit form: {}, {}\n       sha256 {}\n", convolutions, info.file, info.hash);
}

std::string info_text(const Backbone& backbone, const BackboneInfo& info, const Size& size,
                      bool all) {
  const std::vector<LayerShape> layers = shown(info, all);
  std::size_t widest = 5;
  for (const LayerShape& layer : layers) widest = std::max(widest, layer.name.size());
  std::string text = fmt::format("  {:<{}}  {:<20} {:>8} {:>6} x {:<6}\n", "layer", widest,
                                 "operator", "channels", "height", "width");
  for (const LayerShape& layer : layers) {
    text += fmt::format("{} {:<{}}  {:<20} {:>8} {:>6} x {:<6}\n", layer.chosen ? '*' : ' ',
                        layer.name, widest, layer.op, layer.channels, layer.height, layer.width);
  }
  text += fmt::format("* chosen: {}\n", fmt::join(backbone.layers(), ", "));
  if (layers.size() < info.layers.size()) {
    text += fmt::format("and {} more with --all\n", info.layers.size() - layers.size());
  }
  text += fmt::format("{:.2f} M parameters and {:.2f} GFLOP an image of {} x {}\n",
                      static_cast<double>(info.parameters) * 1e-6, info.gflops, size.height,
                      size.width);
  return text + fmt::format("sha256 {}\n", backbone.hash());
}

nlohmann::json info_json(const Backbone& backbone, const BackboneInfo& info, const Size& size) {
  nlohmann::json object;
  object["file"] = backbone.file();
  object["sha256"] = backbone.hash();
  object["chosen"] = backbone.layers();
  object["height"] = size.height;
  object["width"] = size.width;
  object["parameters"] = info.parameters;
  object["gflops"] = info.gflops;
  object["layers"] = nlohmann::json::array();
  for (const LayerShape& layer : info.layers) {
    object["layers"].push_back({{"name", layer.name},
                                {"operator", layer.op},
                                {"channels", layer.channels},
                                {"height", layer.height},
                                {"width", layer.width},
                                {"chosen", layer.chosen}});
  }
  return object;
}

void run_info(const BackboneCommand& command) {
  const Size size = parse_image_size(command.size);
  const Backbone backbone(resolve_backbone(command.file), command.layers);
  const BackboneInfo info = backbone.info(size.height, size.width);
  const FormInfo form = form_info(command.file);
  if (!command.common.json) {
    Outputs({}).finish(info_text(backbone, info, size, command.all) + form_text(form));
    return;
  }
  nlohmann::json object = info_json(backbone, info, size);
  object["8bit"] = form.itself;
  if (!form.file.empty() && !form.itself) {
    object["8bit_form"] = {{"file", form.file}, {"sha256", form.hash}};
  }
  Outputs({}).finish(json_line(object));
}

// ---- bench -------------------------------------------------------------------------------------

std::vector<float> random_image(const Size& size) {
  Random random(0);
  std::vector<float> image(3 * size.height * size.width);
  for (float& value : image) value = random.gaussian();
  return image;
}

struct Timing {
  double best = 0, median = 0, first = 0;  // seconds
};

Timing measure(const Backbone& backbone, const Size& size, std::size_t runs, Compute& compute) {
  const std::vector<float> image = random_image(size);
  auto runner = backbone.runner();
  const Stopwatch compiling;
  runner.run(image, size.height, size.width, compute);
  Timing timing;
  timing.first = compiling.seconds();
  std::vector<double> seconds;
  while (seconds.size() < runs) {
    stop_if_asked();
    const Stopwatch watch;
    runner.run(image, size.height, size.width, compute);
    seconds.push_back(watch.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  timing.best = seconds.front();
  timing.median = seconds[seconds.size() / 2];
  return timing;
}

// The 8-bit form of a float backbone; nothing of one that is in 8 bits, or can have no such form.
std::optional<Backbone> other_form(const BackboneCommand& command) {
  if (kept_eight_bit_form(command.file).itself) return std::nullopt;
  try {
    Compute compute(command.common.threads);
    ProgressLine progress(fmt::format("bringing {} to 8 bits", command.file));
    const EightBitForm form = eight_bit_form(command.file, compute, note, progress.callback());
    return Backbone::of_bytes(form.file, form.bytes, command.layers);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    note(error.what());
    return std::nullopt;
  }
}

void run_bench(const BackboneCommand& command) {
  if (command.runs == 0) throw Error(Error::Kind::kUsage, "--runs 0 measures nothing");
  const Size size = parse_image_size(command.size);
  const Backbone backbone(resolve_backbone(command.file), command.layers);
  const BackboneInfo info = backbone.info(size.height, size.width);
  const std::optional<Backbone> eight_bit = other_form(command);
  Compute compute = command.common.compute();
  const std::size_t threads = compute.threads().count();
  const Timing timing = measure(backbone, size, command.runs, compute);
  Timing bytes;
  if (eight_bit) bytes = measure(*eight_bit, size, command.runs, compute);
  if (command.common.json) {
    nlohmann::json object;
    object["file"] = backbone.file();
    object["layers"] = backbone.layers();
    object["height"] = size.height;
    object["width"] = size.width;
    object["threads"] = threads;
    object["device"] = compute.device().text();
    object["best_ms"] = timing.best * 1e3;
    object["median_ms"] = timing.median * 1e3;
    object["first_ms"] = timing.first * 1e3;
    object["gflops_per_second"] = info.gflops / timing.best;
    if (eight_bit) {
      object["8bit"] = {{"file", eight_bit->file()},
                        {"best_ms", bytes.best * 1e3},
                        {"median_ms", bytes.median * 1e3},
                        {"first_ms", bytes.first * 1e3},
                        {"times_as_fast", timing.best / bytes.best}};
    }
    Outputs({}).finish(json_line(object));
    return;
  }
  std::string text = fmt::format(
      "{:.2f} ms an image of {} x {} at best, {:.2f} ms in the median of {}, on {}\n"
      "{:.1f} GFLOP/s; the first image of a size takes {:.0f} ms\n",
      timing.best * 1e3, size.height, size.width, timing.median * 1e3, counted(command.runs, "run"),
      compute.device().is_cpu() ? counted(threads, "thread") : compute.device().text(),
      info.gflops / timing.best, timing.first * 1e3);
  if (eight_bit) {
    text +=
        fmt::format("in 8 bits {:.2f} ms at best, {:.2f} ms in the median: {:.1f} times as fast\n",
                    bytes.best * 1e3, bytes.median * 1e3, timing.best / bytes.best);
  }
  Outputs({}).finish(text);
}

// ---- fetch -------------------------------------------------------------------------------------

void run_fetch(const BackboneCommand& command) {
  std::string written;
  {
    ProgressLine progress(fmt::format("fetching {}", command.file));
    written = fetch_backbone(command.file, command.out, progress.callback());
  }
  const Backbone backbone(written);  // what was written can be run
  Compute compute;
  EightBitForm form;
  {
    ProgressLine progress(fmt::format("bringing {} to 8 bits", command.file));
    form = eight_bit_form(written, compute, note, progress.callback());
  }
  const Backbone eight_bit = Backbone::of_bytes(form.file, form.bytes);
  if (command.common.json) {
    nlohmann::json object;
    object["file"] = written;
    object["sha256"] = backbone.hash();
    object["8bit_form"] = {{"file", form.file}, {"sha256", eight_bit.hash()}};
    Outputs({}).finish(json_line(object));
    return;
  }
  Outputs({}).finish(fmt::format("{}\nsha256 {}\n{}\nsha256 {}\n", written, backbone.hash(),
                                 form.file, eight_bit.hash()));
}

// ---- quantize ----------------------------------------------------------------------------------

constexpr std::size_t kImagesCompared = 8;

CalibrationImages calibration_images(const BackboneCommand& command) {
  if (command.images.empty()) return generated_images();
  const std::vector<std::string> files = images_in_folder(command.images);
  if (files.empty()) {
    throw Error(Error::Kind::kInput, fmt::format("{}: no images in it", command.images));
  }
  return images_of(files);
}

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

// One line for each reason.
std::string float_text(const std::vector<FloatConvolution>& stay_float) {
  std::vector<std::pair<FloatConvolution, std::size_t>> reasons;  // the first, and how many
  for (const FloatConvolution& one : stay_float) {
    const auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& reason) {
      return reason.first.why == one.why;
    });
    if (known != reasons.end()) {
      ++known->second;
    } else {
      reasons.emplace_back(one, 1);
    }
  }
  std::string text;
  for (const auto& [first, count] : reasons) {
    const std::string others = count > 1 ? fmt::format(" and {} more", count - 1) : "";
    text += fmt::format("in float: {}{} ({})\n", first.name, others, first.why);
  }
  return text;
}

void run_quantize(const BackboneCommand& command) {
  const std::string path = resolve_backbone(command.file);
  Outputs outputs({path});
  outputs.plan("--out", command.out);
  const std::string model = model_bytes(command.file);
  const CalibrationImages images = calibration_images(command);
  const Backbone before = Backbone::of_bytes(path, model, command.layers);  // are there such?
  Compute compute(command.common.threads);
  QuantizedNetwork network;
  {
    ProgressLine progress(fmt::format("measuring {}", command.file));
    network = quantize_network(path, model, images, compute, progress.callback());
  }
  const Backbone after = Backbone::of_bytes(command.out, network.bytes, command.layers);
  PatchEmbedding embedding;
  embedding.dimension = 512;
  const FeatureError error = feature_error(before, after, embedding, images, kImagesCompared);
  outputs.write(command.out, [&](const std::string& file) {
    const std::span<const std::byte> part = std::as_bytes(std::span(network.bytes));
    write_whole(file, std::array{part});
  });
  if (command.common.json) {
    nlohmann::json object;
    object["file"] = command.out;
    object["sha256"] = after.hash();
    object["bytes_before"] = model.size();
    object["bytes"] = network.bytes.size();
    object["convolutions"] = network.convolutions;
    object["stay_float"] = nlohmann::json::array();
    for (const FloatConvolution& one : network.stay_float) {
      object["stay_float"].push_back({{"name", one.name}, {"why", one.why}});
    }
    object["relative_error"] = error.relative;
    object["useful"] = !error.all_zero && error.relative <= kUselessError;
    outputs.finish(json_line(object));
    return;
  }
  outputs.finish(
      fmt::format("{}\n{} before, {} now; {} in 8 bits\n{}{}sha256 {}\n", command.out,
                  megabytes(model.size()), megabytes(network.bytes.size()),
                  counted(network.convolutions, "convolution"), float_text(network.stay_float),
                  error_text(error, std::min(images.count, kImagesCompared)), after.hash()));
}

// ---- options -----------------------------------------------------------------------------------

void add_file(CLI::App& sub, BackboneCommand& command) {
  sub.add_option("backbone", command.file,
                 "An ONNX file, the name of one that was fetched, or builtin")
      ->required()
      ->type_name("FILE");
  sub.add_option(
         "--layers", command.layers,
         "Tensors, outputs or modules to take features from (default: layer2,layer3, or all "
         "outputs)")
      ->delimiter(',')
      ->type_name("A,B");
  sub.add_option("--size", command.size, "Image size, such as 224 or 240x320 (default: 224)")
      ->type_name("SIZE");
  sub.footer(kFooter);
}

}  // namespace

void add_backbone(CLI::App& app) {
  CLI::App* backbone = app.add_subcommand("backbone", "Look at, measure or fetch a network");
  backbone->require_subcommand(1);
  backbone->footer(kFooter);

  auto command = std::make_shared<BackboneCommand>();
  CLI::App* info = backbone->add_subcommand("info", "Layers, shapes, parameters and operations");
  add_file(*info, *command);
  info->add_flag("--all", command->all, "List every layer that can be asked for");
  info->add_flag("--json", command->common.json, "Print the result as one line of JSON");
  info->callback([command] { run_info(*command); });

  command = std::make_shared<BackboneCommand>();
  CLI::App* bench = backbone->add_subcommand("bench", "Time for an image, on this machine");
  add_file(*bench, *command);
  bench->add_option("--runs", command->runs, "How often to measure (default: 20)")
      ->check(whole_number())
      ->type_name("N");
  command->common.add_to(*bench);
  bench->callback([command] { run_bench(*command); });

  command = std::make_shared<BackboneCommand>();
  CLI::App* fetch = backbone->add_subcommand("fetch", "Get a network with pretrained weights");
  fetch->add_option("name", command->file, "Which: resnet50")->required()->type_name("NAME");
  fetch->add_option("--out", command->out, "Write the ONNX file here (default: the cache)")
      ->type_name("FILE");
  fetch->add_flag("--json", command->common.json, "Print the result as one line of JSON");
  fetch->footer(kFooter);
  fetch->callback([command] { run_fetch(*command); });

  command = std::make_shared<BackboneCommand>();
  CLI::App* quantize = backbone->add_subcommand("quantize", "Make the 8-bit form of a network");
  quantize->add_option("backbone", command->file, "A float ONNX file, resnet50 or builtin")
      ->required()
      ->type_name("FILE");
  quantize
      ->add_option("--images", command->images,
                   "Calibrate with images of this folder (default: generated ones)")
      ->type_name("DIR");
  quantize->add_option("--out", command->out, "Write the 8-bit ONNX file here")
      ->required()
      ->type_name("FILE");
  quantize
      ->add_option("--layers", command->layers,
                   "Layers to compare with float (default: layer2,layer3, or all outputs)")
      ->delimiter(',')
      ->type_name("A,B");
  command->common.add_processor_to(*quantize);
  quantize->footer(kFooter);
  quantize->callback([command] { run_quantize(*command); });
}

}  // namespace contcore::app
