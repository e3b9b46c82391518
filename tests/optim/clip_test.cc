#include "lockstep/optim/clip.h"

#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include <gtest/gtest.h>

#include "tests/golden/golden_bits.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;
using ::testing::ElementsAre;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ClipTest : public ::testing::Test {
 protected:
  Variable with_grad(std::initializer_list<double> values) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    const Variable parameter(Tensor::zeros(rt_, shape, DType::kF64), true);
    parameter.set_grad(rt_.tensor(shape, values));
    return parameter;
  }

  PlainRuntime rt_;
};

TEST_F(ClipTest, NormsOfEachOrderEqualThoseComputedByHand) {
  const std::vector<Variable> p = {with_grad({3}), with_grad({-4})};

  EXPECT_EQ(clip_grad_norm(p, {.max_norm = 100.0}), 5.0);
  EXPECT_EQ(clip_grad_norm(p, {.max_norm = 100.0, .norm_type = 1.0}), 7.0);
  EXPECT_EQ(clip_grad_norm(p, {.max_norm = 100.0, .norm_type = kInfinity}), 4.0);
  EXPECT_THAT(values_of(p[0].grad()), ElementsAre(3));
}

TEST_F(ClipTest, TooLargeGradientsShrinkToJustBelowTheBound) {
  const std::vector<Variable> p = {with_grad({3, -4})};

  clip_grad_norm(p, {.max_norm = 1.0});

  EXPECT_THAT(values_of(p[0].grad()), ElementsAre(3 * (1 / (5 + 1e-6)), -4 * (1 / (5 + 1e-6))));
}

TEST_F(ClipTest, ANormComputedBeforeClipsAsTheOneComputedHere) {
  const std::vector<Variable> p = {with_grad({3, -4})};
  const std::vector<Variable> other = {with_grad({3, -4})};

  const double norm = total_norm(p);
  EXPECT_EQ(norm, 5.0);
  EXPECT_THAT(values_of(p[0].grad()), ElementsAre(3, -4));
  clip_grads_with_norm(p, {.max_norm = 1.0}, norm);
  clip_grad_norm(other, {.max_norm = 1.0});
  EXPECT_EQ(values_of(p[0].grad()), values_of(other[0].grad()));
}

// What a norm that was summed over two replicas once more does to a gradient below the limit.
TEST_F(ClipTest, ANormThatIsTooLargeClipsWhatFits) {
  const std::vector<Variable> p = {with_grad({0.8})};

  clip_grads_with_norm(p, {.max_norm = 1.0}, 0.8 * std::sqrt(2.0));

  EXPECT_LT(values_of(p[0].grad())[0], 0.8 / std::sqrt(1.28) + 1e-9);
  EXPECT_GT(values_of(p[0].grad())[0], 0.8 / std::sqrt(1.28) - 1e-5);
}

TEST_F(ClipTest, WithoutGradientsThereIsNoNormAndNothingToScale) {
  const std::vector<Variable> p = {Variable(Tensor::zeros(rt_, {2}, DType::kF64), true)};
  EXPECT_EQ(total_norm(p), 0.0);
  clip_grads_with_norm(p, {}, 5.0);
  EXPECT_FALSE(p[0].has_grad());
}

TEST_F(ClipTest, NothingToClipIsZero) {
  const std::vector<Variable> p = {Variable(Tensor::zeros(rt_, {2}, DType::kF64), true)};
  EXPECT_EQ(clip_grad_norm(p, {}), 0.0);
}

TEST_F(ClipTest, NonFiniteNormsAreRefusedOnRequest) {
  const std::vector<Variable> p = {with_grad({kInfinity, 1})};

  EXPECT_THAT([&] { clip_grad_norm(p, {.error_if_nonfinite = true}); },
              ThrowsMessage<std::runtime_error>(
                  StartsWith("The total norm of order 2.0 for gradients from `parameters` is "
                             "non-finite")));
  EXPECT_EQ(clip_grad_norm(p, {}), kInfinity);
  EXPECT_EQ(p[0].grad().at(1), 0.0);
}

TEST_F(ClipTest, ValuesAreClampedOneByOne) {
  const std::vector<Variable> p = {with_grad({-3, 0.5, 2})};

  clip_grad_value(p, 1.0);

  EXPECT_THAT(values_of(p[0].grad()), ElementsAre(-1, 0.5, 1));
}

/// PyTorch's words for clipping by infinity norm and by value; `slack` is added to the bound.
std::string clipped(const golden::Case& one, double slack) {
  PlainRuntime rt;
  const DType dtype = parse_enum<DType>(one.arguments.at(0)).value();
  const double limit = parse_double(one.arguments.at(1)).value() * (1.0 + slack);
  golden::WordReader reader(one.values);
  std::vector<Variable> parameters;
  std::vector<Tensor> before;
  for (const std::int64_t n : {11, 3}) {
    parameters.emplace_back(Tensor::zeros(rt, {n}, dtype), true);
    before.push_back(reader.take(rt, {n}, dtype));
    parameters.back().set_grad(before.back().clone());
  }
  std::vector<std::string> words;
  const double total = clip_grad_norm(parameters, {.max_norm = limit, .norm_type = kInfinity});
  golden::append(words, Tensor::full(rt, Shape{}, dtype, total));
  for (const Variable& parameter : parameters) golden::append(words, parameter.grad());
  for (std::size_t i = 0; i < before.size(); ++i) parameters[i].set_grad(before[i]);
  clip_grad_value(parameters, limit);
  for (const Variable& parameter : parameters) golden::append(words, parameter.grad());
  return join(words, " ");
}

TEST_F(ClipTest, InfinityNormsAndValuesHaveTheBitsOfPyTorch) {
  int n_cases = 0;
  for (const golden::Case& one : golden::read("optim.txt")) {
    if (one.kind != "clip") continue;
    ++n_cases;
    const std::string wanted = one.values.substr(one.values.find(" | ") + 3);

    EXPECT_EQ(clipped(one, 0.0), wanted) << one.text();
    if (one.arguments.at(1) != "50.0") {
      EXPECT_NE(clipped(one, 1e-5), wanted) << one.text();
    }
  }
  EXPECT_EQ(n_cases, 6);
}

}  // namespace
}  // namespace lockstep::optim
