#include "lockstep/compare/state_difference.h"

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

StoredTensor floats(const std::string& name, const std::vector<float>& values) {
  StoredTensor tensor{name, ElementType::kF32, {static_cast<std::int64_t>(values.size())}, {}};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

using Tensors = std::vector<StoredTensor>;

TEST(StateDifferenceTest, TheOrderOfTensorsDoesNotCount) {
  const Tensors left = {floats("a", {1}), floats("b", {2})};
  const Tensors right = {floats("b", {2}), floats("a", {1})};
  EXPECT_TRUE(state_differences(left, right).empty());
}

TEST(StateDifferenceTest, NamesTheElementAndHowFarApart) {
  const auto found =
      state_differences(Tensors{floats("a", {1, 2, 3})}, Tensors{floats("a", {1, 2.5F, 1})});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].tensor, "a");
  ASSERT_TRUE(found[0].distance.has_value());
  EXPECT_EQ(found[0].distance->first, 1);
  EXPECT_EQ(found[0].distance->n_different, 2);
  // From 1 to 2 there are 2^23 floats, from 2 to 3 half as many.
  EXPECT_EQ(found[0].text,
            "tensor `a`[1]: 2 against 2.5; 2 of 3 elements differ, by 2 at most, 12582912 ulps of "
            "float32, at [2]");
}

TEST(StateDifferenceTest, NamesEveryTensorThatDiffersAndWhatOneFileLacks) {
  const auto found = state_differences(Tensors{floats("a", {1}), floats("b", {1})},
                                       Tensors{floats("b", {2}), floats("c", {1})});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].text, "tensor `a` is only in the first file");
  EXPECT_EQ(found[1].tensor, "b");
  EXPECT_EQ(found[2].text, "tensor `c` is only in the second file");
}

TEST(StateDifferenceTest, TensorsOfOtherShapesHaveNoDistance) {
  const auto found = state_differences(Tensors{floats("a", {1})}, Tensors{floats("a", {1, 2})});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].distance.has_value());
  EXPECT_EQ(found[0].text, "tensor `a`: float32[1] against float32[2]");
}

TEST(StateDifferenceTest, NotANumberEqualsItselfBitByBit) {
  const float nan = std::bit_cast<float>(0x7fc00000U);
  const float other = std::bit_cast<float>(0x7fc00001U);
  EXPECT_TRUE(state_differences(Tensors{floats("a", {nan})}, Tensors{floats("a", {nan})}).empty());
  EXPECT_EQ(state_differences(Tensors{floats("a", {nan})}, Tensors{floats("a", {other})}).size(),
            1U);
}

}  // namespace
}  // namespace lockstep
