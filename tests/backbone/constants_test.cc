#include "backbone/constants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backbone/graph.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Tensor list(Ints values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::of({n}, std::move(values));
}
Tensor counting(Shape shape) {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  Floats values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::of(std::move(shape), std::move(values));
}

Tensor run(const std::string& op, const std::vector<Tensor>& inputs,
           std::map<std::string, Attribute> attributes = {}, std::int64_t opset = 13) {
  Node node{op, "it", {}, {"out"}, std::move(attributes)};
  std::vector<const Tensor*> views;
  for (const Tensor& tensor : inputs)
    views.push_back(tensor.floats || tensor.ints ? &tensor : nullptr);
  return evaluate(node, opset, views).front();
}
Ints ints(const Tensor& tensor) { return *tensor.ints; }
Floats floats(const Tensor& tensor) { return *tensor.floats; }

TEST(Constants, ShapeArithmetic) {
  EXPECT_EQ(ints(run("Shape", {counting({2, 3, 4})})), (Ints{2, 3, 4}));
  EXPECT_EQ(ints(run("Add", {list({1, 2}), list({10})})), (Ints{11, 12}));
  EXPECT_EQ(ints(run("Div", {list({7, -7}), list({2})})), (Ints{3, -3}));
  EXPECT_EQ(ints(run("Mod", {list({7, -7}), list({4})})), (Ints{3, 1}));
  EXPECT_EQ(ints(run("Mul", {list({3}), list({5, 6})})), (Ints{15, 18}));
  EXPECT_EQ(ints(run("Concat", {list({1}), list({2, 3})}, {{"axis", std::int64_t{0}}})),
            (Ints{1, 2, 3}));
  EXPECT_EQ(ints(run("Gather", {list({5, 6, 7}), list({-1, 0})})), (Ints{7, 5}));
  EXPECT_EQ(ints(run("Equal", {list({1, 2}), list({1, 1})})), (Ints{1, 0}));
  EXPECT_EQ(ints(run("Where", {list({1, 0}), list({5, 6}), list({-1, -2})})), (Ints{5, -2}));
  EXPECT_EQ(ints(run("Range",
                     {Tensor::of({}, Ints{2}), Tensor::of({}, Ints{11}), Tensor::of({}, Ints{4})})),
            (Ints{2, 6, 10}));
  EXPECT_EQ(ints(run("ReduceProd", {list({2, 3, 4})}, {{"keepdims", std::int64_t{0}}})),
            (Ints{24}));
  EXPECT_EQ(
      ints(run("Cast", {Tensor::of({3}, Floats{1.9f, -1.9f, 1e30f})}, {{"to", std::int64_t{7}}})),
      (Ints{1, -1, std::numeric_limits<std::int64_t>::max()}));
  EXPECT_EQ(ints(run("ConstantOfShape", {list({2})}, {{"value", list({9})}})), (Ints{9, 9}));
  EXPECT_EQ(run("Expand", {counting({3, 1}), list({2, 1, 2})}).shape, (Shape{2, 3, 2}));
  EXPECT_EQ(floats(run("Tile", {counting({2}), list({2})})), (Floats{0, 1, 0, 1}));
}

TEST(Constants, NothingOverflows) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(ints(run("Add", {list({most}), list({1})})), Ints{least});
  EXPECT_EQ(ints(run("Div", {list({least}), list({-1})})), Ints{least});
  EXPECT_EQ(ints(run("Abs", {list({least})})), Ints{least});
  EXPECT_THROW(run("Div", {list({1}), list({0})}), Error);
  EXPECT_THROW(run("Mod", {list({1}), list({0})}), Error);
  EXPECT_THROW(run("ConstantOfShape", {list({most, 2})}), Error);
  EXPECT_THROW(run("ConstantOfShape", {list({-1})}), Error);
  EXPECT_THROW(run("Expand", {counting({1}), list({1 << 20, 1 << 20})}), Error);
  EXPECT_THROW(run("Tile", {counting({2}), list({most})}), Error);
  EXPECT_THROW(
      run("Range", {Tensor::of({}, Ints{0}), Tensor::of({}, Ints{1}), Tensor::of({}, Ints{0})}),
      Error);
  EXPECT_THROW(run("Reshape", {counting({4}), list({-1, -1})}), Error);
  EXPECT_THROW(run("Reshape", {counting({4}), list({3})}), Error);
  EXPECT_THROW(run("Gather", {list({1}), list({1})}), Error);
  EXPECT_THROW(run("Transpose", {counting({2, 2})}, {{"perm", Ints{0, 0}}}), Error);
  EXPECT_THROW(run("Pad", {counting({2}), list({most, most})}), Error);
  EXPECT_THROW(run("Unsqueeze", {counting({2}), list({0, 0})}), Error);
  EXPECT_THROW(run("Split", {counting({2}), list({5})}), Error);
}

// A dimension of 0 does not hide what the others come to.
TEST(Constants, NothingOverflowsBehindAZero) {
  const std::int64_t large = std::int64_t{1} << 40;
  const Tensor axis = list({0});
  EXPECT_THROW(run("ConstantOfShape", {list({0, large, large})}), Error);
  EXPECT_THROW(run("ConstantOfShape", {list({large, large, 0})}), Error);
  EXPECT_THROW(run("Reshape", {counting({0}), list({0, large, large})}), Error);
  EXPECT_THROW(run("Expand", {counting({0, 1, 1}), list({0, large, large})}), Error);
  EXPECT_THROW(run("Tile", {counting({0, 1, 1}), list({1, large, large})}), Error);
  EXPECT_THROW(run("Pad", {counting({0, 1}), list({0, 0, 0, large})}), Error);
  EXPECT_EQ(run("ConstantOfShape", {list({0, 3})}).shape, (Shape{0, 3}));
  EXPECT_EQ(run("Transpose", {counting({0, 3, 2})}).shape, (Shape{2, 3, 0}));
  EXPECT_EQ(run("Concat", {counting({0, 3}), counting({2, 3})}, {{"axis", std::int64_t{0}}}).shape,
            (Shape{2, 3}));

  // All is cut off and added anew, along each of many axes.
  const std::int64_t cut = std::int64_t{1} << 29;
  const std::size_t axes = 100;
  Shape shape(axes, 1);
  shape.front() = 0;
  shape.back() = 1 << 28;
  Ints pads(2 * axes, -cut);
  std::fill(pads.begin() + axes, pads.end(), cut);
  pads[0] = pads[axes] = 0;
  EXPECT_EQ(run("Pad", {counting(shape), list(pads)}).shape, shape);
}

TEST(Constants, SlicesLikePython) {
  const Tensor ten = counting({10});
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const auto slice = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
    return floats(run("Slice", {ten, list({start}), list({end}), list({0}), list({step})}));
  };
  EXPECT_EQ(slice(2, 5, 1), (Floats{2, 3, 4}));
  EXPECT_EQ(slice(-3, most, 1), (Floats{7, 8, 9}));
  EXPECT_EQ(slice(1, 9, 3), (Floats{1, 4, 7}));
  EXPECT_EQ(slice(-1, least, -4), (Floats{9, 5, 1}));
  EXPECT_EQ(slice(most, least, -3), (Floats{9, 6, 3, 0}));
  EXPECT_EQ(slice(5, 2, 1), Floats{});
  EXPECT_EQ(slice(least, most, most), Floats{0});
  EXPECT_THROW(slice(0, 1, 0), Error);
  EXPECT_EQ(floats(run("Slice", {counting({2, 3})},
                       {{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{1}}}, 9)),
            (Floats{1, 2, 4, 5}));
}

TEST(Constants, Moves) {
  EXPECT_EQ(floats(run("Transpose", {counting({2, 3})}, {{"perm", Ints{1, 0}}})),
            (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(run("Squeeze", {counting({1, 3, 1}), list({0})}).shape, (Shape{3, 1}));
  EXPECT_EQ(run("Unsqueeze", {counting({3, 1}), list({0, -1})}).shape, (Shape{1, 3, 1, 1}));
  EXPECT_EQ(run("Flatten", {counting({2, 3, 4})}, {{"axis", std::int64_t{2}}}).shape,
            (Shape{6, 4}));
  EXPECT_EQ(floats(run("ReduceMean", {counting({2, 3})}, {{"axes", Ints{0}}})),
            (Floats{1.5f, 2.5f, 3.5f}));
  EXPECT_EQ(floats(run("Pad", {counting({3}), list({-1, 2})})), (Floats{1, 2, 0, 0}));
}

// ---- resizing ----------------------------------------------------------------------------------

Tensor resize_to(const Tensor& tensor, Ints sizes, std::map<std::string, Attribute> attributes) {
  return run("Resize", {tensor, Tensor{}, Tensor{}, list(std::move(sizes))}, std::move(attributes));
}

TEST(Resize, NearestRepeats) {
  const Tensor x = counting({1, 1, 2, 2});
  EXPECT_EQ(floats(resize_to(x, {1, 1, 2, 4}, {})), (Floats{0, 0, 1, 1, 2, 2, 3, 3}));
  const Tensor up = run("Upsample", {x, Tensor::of({4}, Floats{1, 1, 1, 2})}, {}, 9);
  EXPECT_EQ(floats(up), (Floats{0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(Resize, LinearKeepsLines) {
  const std::map<std::string, Attribute> linear = {{"mode", std::string("linear")}};
  EXPECT_EQ(floats(resize_to(counting({1, 1, 1, 2}), {1, 1, 1, 4}, linear)),
            (Floats{0, 0.25f, 0.75f, 1}));
  auto corners = linear;
  corners["coordinate_transformation_mode"] = std::string("align_corners");
  EXPECT_EQ(floats(resize_to(counting({1, 1, 1, 3}), {1, 1, 1, 5}, corners)),
            (Floats{0, 0.5f, 1, 1.5f, 2}));
}

// Against numbers from PyTorch 1.13: interpolate(…, mode="bicubic", align_corners=False).
TEST(Resize, CubicIsPyTorchs) {
  const Tensor x = Tensor::of({1, 1, 1, 4}, Floats{1, 5, 2, -3});
  const Floats ours = floats(
      resize_to(x, {1, 1, 1, 7}, {{"mode", std::string("cubic")}, {"cubic_coeff_a", -0.75f}}));
  const Floats theirs = {0.603135f, 2.547467f,  4.909712f, 4.343750f,
                         1.575346f, -1.480776f, -3.496082f};
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-5f) << i;
}

TEST(Resize, RefusesWhatItDoesNotKnow) {
  const Tensor x = counting({1, 1, 2, 2});
  EXPECT_THROW(resize_to(x, {1, 1, 2}, {}), Error);
  EXPECT_THROW(resize_to(x, {1, 1, -2, 2}, {}), Error);
  EXPECT_THROW(resize_to(x, {1, 1, 2, std::int64_t{1} << 60}, {}), Error);
  EXPECT_THROW(resize_to(x, {1, 1, 4, 4}, {{"mode", std::string("magic")}}), Error);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(run("Resize", {x, Tensor{}, Tensor::of({4}, Floats{1, 1, nan, 1})}), Error);
  EXPECT_THROW(run("Resize", {x, Tensor{}, Tensor::of({4}, Floats{1, 1, 1e30f, 1})}), Error);
}

}  // namespace
}  // namespace contcore
