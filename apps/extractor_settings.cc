#include "extractor_settings.h"

#include <fmt/format.h>

#include <cctype>

#include "common.h"

namespace contcore::app {

void ExtractorSettings::add_to(CLI::App& command, const std::string& of, const std::string& more) {
  const ExtractorOptions usual;
  const auto means = [&](std::string text) {
    if (of.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
    return of + text;
  };
  command
      .add_option(
          "--backbone", backbone,
          means("an ONNX file, resnet50 or builtin (default: resnet50 if it was fetched)") + more)
      ->type_name("FILE");
  command.add_option("--layers", layers, means("the network's layers (default: layer2,layer3)"))
      ->type_name("A,B");
  command
      .add_option("--precision", precision,
                  means("network and patch vectors in 8 bits, or in float (default: 8bit)"))
      ->check(CLI::IsMember({"8bit", "float"}))
      ->type_name("8bit|float");
  command
      .add_option("--dimension", dimension,
                  means(fmt::format("numbers of a patch vector (default: {})", usual.dimension)))
      ->check(vector_dimension())
      ->type_name("D");
  command
      .add_option("--resize", resize,
                  means(fmt::format("{0} squares the image, short:{0} keeps its shape "
                                    "(default: {0}); 50% is for tiles (default there: 100%)",
                                    usual.geometry.resize_text())))
      ->type_name("N|short:N|N%");
  command
      .add_option(
          "--crop", crop,
          means(fmt::format("side of the centre crop (default: {})", usual.geometry.crop_text())))
      ->type_name("N|none");
  command
      .add_option("--tile", tile,
                  means("for large images with small defects: see them in overlapping tiles of "
                        "this side, such as 384"))
      ->type_name("N|none");
  command
      .add_option("--overlap", overlap,
                  means(fmt::format("pixels that neighbouring tiles have in common (default: {}, "
                                    "at most half a tile)",
                                    kTileOverlap)))
      ->type_name("N");
}

void ExtractorSettings::set(ExtractorOptions& options) const {
  options.backbone = backbone;
  options.layers = split_names(layers);
  if (!precision.empty()) options.precision = parse_precision(precision);
  if (dimension) options.dimension = *dimension;
  options.geometry = Geometry::parse(geometry(), options.geometry);
  options.notice = note;
}

}  // namespace contcore::app
