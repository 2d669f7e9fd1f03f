// A network in 8 bits, as a standard ONNX file: its convolutions read bytes.
//
//   x ─► QuantizeLinear ─► DequantizeLinear ─► Conv      activations: u8, one scale for a tensor
//        weights (int8) ─► DequantizeLinear ─┘           weights: s8, a scale for each channel
//
// The pair stands right behind what makes x, and all who read x read what comes out of it: it takes
// over x's name, so that layers have the names they had. A convolution whose result is only added
// to another or goes through an activation has no pair of its own: an engine does all that at once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backbone/graph.h"

namespace contcore {

/// A convolution that stays in float, by name, and why.
struct FloatConvolution {
  std::string name;
  std::string why;
};

/// A float network on its way to 8 bits: it says whose ranges it needs, and given them makes the
/// file.
class Quantizer {
 public:
  /// The bytes of an ONNX file. Throws Error (kInput) without the file's name: as parse_onnx does,
  /// if there is nothing to quantise, and if it cannot be written with operator set 13.
  explicit Quantizer(const std::string& model);
  ~Quantizer();
  Quantizer(Quantizer&&) noexcept;
  Quantizer& operator=(Quantizer&&) noexcept;

  /// The tensors whose largest absolute values have to be known.
  const std::vector<std::string>& tensors() const;

  /// How many convolutions go to 8 bits, and which do not.
  std::size_t convolutions() const;
  const std::vector<FloatConvolution>& stay_float() const;

  /// The 8-bit file: the same bytes on every machine for the same ranges, one for each of
  /// tensors(). `origin` (SHA-256 of the float file; may be empty) is kept in it. Throws Error
  /// (kInput) for a range or a weight that is not finite.
  std::string file(const std::map<std::string, float>& ranges, const std::string& origin) const;

  struct Work;  // for the implementation alone

 private:
  std::unique_ptr<Work> work_;
};

/// Whether the graph is in this form, from here or from elsewhere.
bool is_quantized(const Graph& graph);

/// The `origin` of a file that Quantizer made in its present form; empty for any other bytes.
std::string quantized_origin(const std::string& model);

/// A graph as an ONNX file; its outputs must be maps (N, C, height, width).
std::string onnx_file(const Graph& graph);

}  // namespace contcore
