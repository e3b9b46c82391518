#include "lockstep/autograd/variable.h"

#include <cmath>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/functional/functions.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlainRuntime;
using ::testing::ThrowsMessage;
using testing::values_of;

class VariableTest : public ::testing::Test {
 protected:
  Variable leaf(std::initializer_list<double> values) {
    return Variable(rt_.tensor({static_cast<std::int64_t>(values.size())}, values), true);
  }

  PlainRuntime rt_;
};

TEST_F(VariableTest, CopiesShareState) {
  const Variable a = leaf({1, 2});
  const Variable b = a;  // NOLINT(performance-unnecessary-copy-initialization)

  b.set_grad(rt_.tensor({2}, {3, 4}));

  EXPECT_EQ(a, b);
  EXPECT_THAT(values_of(a.grad()), ElementsAre(3, 4));
}

TEST_F(VariableTest, LeavesAreNumberedInTheOrderOfConstruction) {
  const Variable a = leaf({1});
  const Variable b = leaf({2});
  EXPECT_EQ(b.state().id, a.state().id + 1);
}

TEST_F(VariableTest, ResultsRequireGradIffAnInputDoes) {
  const Variable w = leaf({1});
  const Variable x(rt_.tensor({1}, {2}));

  EXPECT_TRUE(mul(x, w).requires_grad());
  EXPECT_FALSE(mul(x, w).is_leaf());
  EXPECT_FALSE(mul(x, x).requires_grad());
  EXPECT_TRUE(mul(x, x).is_leaf());
}

TEST_F(VariableTest, NothingIsRecordedUnderNoGrad) {
  const Variable w = leaf({1});
  {
    const NoGradGuard no_grad(rt_);
    EXPECT_FALSE(scale(w, 2).requires_grad());
  }
  EXPECT_TRUE(scale(w, 2).requires_grad());
}

TEST_F(VariableTest, DetachSharesValuesButNoGraph) {
  const Variable w = leaf({1, 2});
  const Variable y = scale(w, 2).detach();

  sum(mul(y, w)).backward();

  EXPECT_FALSE(y.requires_grad());
  EXPECT_THAT(values_of(w.grad()), ElementsAre(2, 4));
}

TEST_F(VariableTest, BackwardsAccumulateInPlace) {
  const Variable w = leaf({1, 2});
  sum(scale(w, 3)).backward();
  const Tensor first = w.grad();  // NOLINT(performance-unnecessary-copy-initialization)

  sum(scale(w, 4)).backward();

  EXPECT_THAT(values_of(first), ElementsAre(7, 7));
  EXPECT_TRUE(w.grad().shares_memory_with(first));
}

// A reducer's gradient is a view into a bucket; what is added must end up in the bucket.
TEST_F(VariableTest, ADefinedGradientKeepsItsMemory) {
  const Variable w = leaf({1, 2});
  const Tensor bucket = rt_.tensor({4}, {10, 20, 30, 40});
  w.set_grad(bucket.slice(1, {2}));

  sum(scale(w, 3)).backward();

  EXPECT_THAT(values_of(bucket), ElementsAre(10, 23, 33, 40));
}

// 0 + -0 would be +0: the first contribution is taken over, not added.
TEST_F(VariableTest, TheFirstContributionKeepsTheSignOfZero) {
  const Variable w = leaf({1});
  sum(scale(w, -0.0)).backward();
  EXPECT_TRUE(std::signbit(w.grad().item()));
}

TEST_F(VariableTest, GradientsOfTwoLeavesNeverShareMemory) {
  const Variable a = leaf({1, 2});
  const Variable b = leaf({3, 4});

  sum(add(a, b)).backward();

  EXPECT_FALSE(a.grad().shares_memory_with(b.grad()));
  sum(a).backward();
  EXPECT_THAT(values_of(a.grad()), ElementsAre(2, 2));
  EXPECT_THAT(values_of(b.grad()), ElementsAre(1, 1));
}

TEST_F(VariableTest, AFrozenLeafReceivesNothingAndAThawedOneDoes) {
  const Variable w = leaf({1});
  const Variable v = leaf({2});

  w.set_requires_grad(false);
  sum(mul(w, v)).backward();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(v.grad().item(), 1.0);

  w.set_requires_grad(true);
  sum(mul(w, v)).backward();
  EXPECT_EQ(w.grad().item(), 2.0);
}

TEST_F(VariableTest, MisuseIsRefusedWithAReason) {
  const Variable w = leaf({1, 2});

  EXPECT_THAT([&] { w.backward(); },
              ThrowsMessage<ContractViolation>(HasSubstr("starts from one element")));
  EXPECT_THAT([&] { Variable(rt_.tensor({1}, {1})).backward(); },
              ThrowsMessage<ContractViolation>(HasSubstr("does not require grad")));
  EXPECT_THAT([&] { Variable(rt_.tensor({1}, {1}, DType::kI64), true); },
              ThrowsMessage<ContractViolation>(HasSubstr("floating type")));
  EXPECT_THROW(scale(w, 2).set_requires_grad(false), ContractViolation);
  EXPECT_THROW(Variable(Tensor{}), ContractViolation);
}

TEST_F(VariableTest, ALeafMayBeItsOwnLoss) {
  const Variable w = leaf({5});
  w.backward();
  EXPECT_EQ(w.grad().item(), 1.0);
}

}  // namespace
}  // namespace lockstep
