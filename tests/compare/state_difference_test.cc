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

StateFile of(std::vector<StoredTensor> tensors) {
  StateFile state;
  state.tensors = std::move(tensors);
  return state;
}

TEST(StateDifferenceTest, NeitherOrderNorFormatNorValuesCount) {
  StateFile left = of({floats("a", {1}), floats("b", {2})});
  StateFile right = of({floats("b", {2}), floats("a", {1})});
  right.format = StateFormat::kTorch;
  right.values.emplace_back("epoch", "3");
  EXPECT_FALSE(first_state_difference(left, right).has_value());
}

TEST(StateDifferenceTest, NamesTheElementAndHowFarApart) {
  const auto found =
      first_state_difference(of({floats("a", {1, 2, 3})}), of({floats("a", {1, 2.5F, 1})}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tensor, "a");
  EXPECT_EQ(found->element, 1);
  EXPECT_EQ(found->n_elements, 2);
  EXPECT_EQ(found->text, "tensor `a`[1]: 2 against 2.5; 2 of 3 elements differ, by 2 at most");
}

TEST(StateDifferenceTest, NamesWhatOneFileLacksAndCountsTensors) {
  const auto found = first_state_difference(of({floats("a", {1}), floats("b", {1})}),
                                            of({floats("b", {2}), floats("c", {1})}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->n_tensors, 3);
  EXPECT_EQ(found->text, "tensor `a` is only in the first file; 3 tensors differ");
}

TEST(StateDifferenceTest, NotANumberEqualsItselfBitByBit) {
  const float nan = std::bit_cast<float>(0x7fc00000U);
  const float other = std::bit_cast<float>(0x7fc00001U);
  EXPECT_FALSE(first_state_difference(of({floats("a", {nan})}), of({floats("a", {nan})})));
  EXPECT_TRUE(first_state_difference(of({floats("a", {nan})}), of({floats("a", {other})})));
}

}  // namespace
}  // namespace lockstep
