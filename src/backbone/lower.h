// One ONNX operator as steps of a plan: a function for each family of operators.
//
// In: a node whose inputs are in the plan or among the graph's weights, at least one of them
// dependent on the image. Out: steps, and a value for each of the node's outputs. Fails with Error
// (kInput), naming the node: attributes or shapes that do not fit together, or more than a step can
// do.
#pragma once

#include "backbone/plan_builder.h"

namespace contcore {

// Windows that move over a map (lower_windows.cc).
void lower_conv(PlanBuilder& plan, const Node& node);
void lower_pool(PlanBuilder& plan, const Node& node);
void lower_global_pool(PlanBuilder& plan, const Node& node);

// One number at a time (lower_elementwise.cc).
void lower_function(PlanBuilder& plan, const Node& node);
void lower_clip(PlanBuilder& plan, const Node& node);
void lower_binary(PlanBuilder& plan, const Node& node);
void lower_pow(PlanBuilder& plan, const Node& node);
void lower_batch_norm(PlanBuilder& plan, const Node& node);

// Numbers that move without changing (lower_data_movement.cc).
void lower_concat(PlanBuilder& plan, const Node& node);
void lower_reshape(PlanBuilder& plan, const Node& node);
void lower_transpose(PlanBuilder& plan, const Node& node);
void lower_slice(PlanBuilder& plan, const Node& node);
void lower_split(PlanBuilder& plan, const Node& node);
void lower_gather(PlanBuilder& plan, const Node& node);

// Sums along an axis (lower_reductions.cc).
void lower_matmul(PlanBuilder& plan, const Node& node);
void lower_gemm(PlanBuilder& plan, const Node& node);
void lower_layer_norm(PlanBuilder& plan, const Node& node);
void lower_softmax(PlanBuilder& plan, const Node& node);
void lower_mean(PlanBuilder& plan, const Node& node);

// Rounding to few levels, and back (lower_quantize.cc).
void lower_quantize(PlanBuilder& plan, const Node& node);
void lower_dequantize(PlanBuilder& plan, const Node& node);
/// Refuses a node that calculates with whole numbers; what only moves them hands them on.
void check_whole(const PlanBuilder& plan, const Node& node);
void hand_on_whole(PlanBuilder& plan, const Node& node);

// What needs no step of its own, and what no step does (lower.cc).
void lower_alias(PlanBuilder& plan, const Node& node);
void lower_cast(PlanBuilder& plan, const Node& node);
void lower_shape(PlanBuilder& plan, const Node& node);
void lower_host(PlanBuilder& plan, const Node& node);

}  // namespace contcore
