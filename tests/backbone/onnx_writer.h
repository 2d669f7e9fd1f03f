// Graphs as ONNX files, for tests: the inverse of the reader.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

#include "backbone/graph.h"

namespace contcore::testing {

inline void write_tensor(const Tensor& tensor, onnx::TensorProto& proto) {
  for (const std::int64_t dim : tensor.shape) proto.add_dims(dim);
  if (!tensor.is_float() && tensor.width != Tensor::Width::kOther) {
    proto.set_data_type(tensor.width == Tensor::Width::kInt8    ? onnx::TensorProto::INT8
                        : tensor.width == Tensor::Width::kUint8 ? onnx::TensorProto::UINT8
                                                                : onnx::TensorProto::INT32);
    for (const std::int64_t x : *tensor.ints) proto.add_int32_data(static_cast<std::int32_t>(x));
    return;
  }
  proto.set_data_type(tensor.is_float() ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT64);
  const void* data = tensor.is_float() ? static_cast<const void*>(tensor.floats->data())
                                       : static_cast<const void*>(tensor.ints->data());
  proto.set_raw_data(data, tensor.size() * (tensor.is_float() ? 4 : 8));
}

inline void write_attribute(const std::string& name, const Attribute& value,
                            onnx::NodeProto& node) {
  onnx::AttributeProto& out = *node.add_attribute();
  out.set_name(name);
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    out.set_type(onnx::AttributeProto::INT);
    out.set_i(*i);
  } else if (const auto* f = std::get_if<float>(&value)) {
    out.set_type(onnx::AttributeProto::FLOAT);
    out.set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    out.set_type(onnx::AttributeProto::STRING);
    out.set_s(*s);
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&value)) {
    out.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t x : *ints) out.add_ints(x);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
    out.set_type(onnx::AttributeProto::FLOATS);
    for (const float x : *floats) out.add_floats(x);
  } else {
    out.set_type(onnx::AttributeProto::TENSOR);
    write_tensor(std::get<Tensor>(value), *out.mutable_t());
  }
}

inline onnx::ModelProto to_proto(const Graph& graph) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  auto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(graph.opset);
  onnx::GraphProto& proto = *model.mutable_graph();
  auto& input = *proto.add_input();
  input.set_name(graph.input);
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t dim : graph.input_shape) {
    auto& out = *type.mutable_shape()->add_dim();
    if (dim > 0) out.set_dim_value(dim);
  }
  for (const auto& [name, tensor] : graph.weights) {
    auto& initializer = *proto.add_initializer();
    write_tensor(tensor, initializer);
    initializer.set_name(name);
  }
  for (const Node& node : graph.nodes) {
    auto& out = *proto.add_node();
    out.set_op_type(node.op);
    out.set_name(node.name);
    for (const auto& name : node.inputs) out.add_input(name);
    for (const auto& name : node.outputs) out.add_output(name);
    for (const auto& [name, value] : node.attributes) write_attribute(name, value, out);
  }
  for (const auto& name : graph.outputs) proto.add_output()->set_name(name);
  return model;
}

/// A file that is gone when the test ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    std::string pattern = std::filesystem::temp_directory_path() / "contcore-XXXXXX";
    const int file = ::mkstemp(pattern.data());
    if (file >= 0) ::close(file);
    path_ = pattern;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  explicit TemporaryFile(const Graph& graph) : TemporaryFile(to_proto(graph).SerializeAsString()) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace contcore::testing
