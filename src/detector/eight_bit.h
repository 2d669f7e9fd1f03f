// Networks brought to 8 bits, by the values they have on images, and kept.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backbone/quantizer.h"
#include "contcore/backbone.h"
#include "contcore/compute.h"
#include "contcore/embedding.h"
#include "contcore/image.h"
#include "contcore/progress.h"

namespace contcore {

/// Images that a network is calibrated by. `image` is called from several threads at once.
struct CalibrationImages {
  std::size_t count = 0;
  std::function<Image(std::size_t)> image;
};

/// The generated products: the same everywhere, so that everybody gets the same 8-bit network.
CalibrationImages generated_images();
/// Some sixty of these files, evenly spread.
CalibrationImages images_of(const std::vector<std::string>& files);

struct QuantizedNetwork {
  std::string bytes;  ///< of the ONNX file
  std::size_t convolutions = 0;
  std::vector<FloatConvolution> stay_float;
};

/// The network in 8 bits; `model` are the bytes of its ONNX file, and `name` stands for it in
/// errors. The same bytes on every machine, whatever the threads. Throws Error: kInput as Quantizer
/// and Backbone do, kCancelled when `progress` says so.
QuantizedNetwork quantize_network(const std::string& name, const std::string& model,
                                  const CalibrationImages& images, Compute& compute,
                                  const Progress& progress = {});

/// An 8-bit network: the file it is kept in (or would be), and its bytes.
struct EightBitForm {
  std::string file;
  std::string bytes;
  bool itself = false;  ///< the backbone that was asked for is in 8 bits
};

/// The 8-bit form of a backbone as far as it is there; without bytes if it has to be made.
EightBitForm kept_eight_bit_form(const std::string& backbone);

/// The bytes of the ONNX file that a backbone's name or path means ("builtin": of that graph).
std::string model_bytes(const std::string& backbone);

/// Where the 8-bit form of "resnet50" or "builtin" is kept; empty if there is no such place.
std::string eight_bit_file(const std::string& name);

/// The 8-bit form of a backbone, given by name or path. A file in 8 bits is that itself; of others
/// it is made once, with the generated images, and kept in the cache, where a file that is damaged
/// or of another network is made anew. `wanted` (may be empty) is the SHA-256 it had when it was
/// used before: a kept file that has it is taken without looking at the float one.
EightBitForm eight_bit_form(const std::string& backbone, Compute& compute,
                            const Notice& notice = {}, const Progress& progress = {},
                            const std::string& wanted = "");

/// The scale of a backbone's patch vectors: of its layers and the embedding, not of the user's
/// images. Computed once from the generated images, and kept in the cache. Throws Error (kInput)
/// for features that are all zero, or not finite.
ByteScale find_byte_scale(const Backbone& backbone, const PatchEmbedding& embedding,
                          Compute& compute, const Notice& notice = {},
                          const Progress& progress = {});

/// Whether a file may say so: a positive, normal number, and a zero of 0 or 128.
bool is_sane(const ByteScale& scale);

/// How far patch vectors of one backbone are from another's on images, these rounded to bytes if a
/// scale is given.
struct FeatureError {
  double relative = 0;  ///< mean length of the difference over the mean length of the first's
  bool all_zero = false;
};
FeatureError feature_error(const Backbone& reference, const Backbone& other,
                           const PatchEmbedding& embedding, const CalibrationImages& images,
                           std::size_t most, const std::optional<ByteScale>& bytes = {});

}  // namespace contcore
