// What errors say when a contract of variables and functions is broken: the values.
#include <gtest/gtest.h>

#include "lockstep/autograd/variable.h"
#include "lockstep/functional/attention.h"
#include "lockstep/functional/cast.h"
#include "lockstep/functional/functions.h"
#include "lockstep/functional/image_functions.h"
#include "lockstep/functional/layer_functions.h"

#include "tests/support/complaint.h"
#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using testing::expect_complaints;
using testing::PlainRuntime;

class AutogradContractsTest : public ::testing::Test {
 protected:
  Variable ones(const Shape& shape, DType dtype = DType::kF64) {
    return Variable(Tensor::full(rt_, shape, dtype, 1.0), is_floating(dtype));
  }

  PlainRuntime rt_;
};

TEST_F(AutogradContractsTest, SayWhatWasDifferentiated) {
  expect_complaints({
      {[&] {
         ones({2, 3}).backward();
       },
       "a backward pass starts from one element, such as a loss, not from f64 [2, 3]"},
      {[&] { Variable().backward(); },
       "a backward pass starts from one element, such as a loss, not from an undefined variable"},
      {[&] { ones({2}, DType::kI64).set_requires_grad(true); },
       "only tensors of floating type can require gradients, not i64 [2]"},
      {[&] { add(ones({2}), ones({2})).set_requires_grad(false); },
       "only leaves can be frozen or unfrozen; f64 [2] is the result of an operation"},
  });
}

TEST_F(AutogradContractsTest, SayWhichShapesDoNotFit) {
  const Tensor row = Tensor::zeros(rt_, {1}, DType::kI64);

  expect_complaints({
      {[&] {
         linear(ones({4, 3}), ones({2, 3}), ones({5}));
       },
       "linear needs one bias per row of its weight [2, 3], not [5]"},
      {[&] {
         layer_norm(ones({4, 3}), ones({3}), ones({2}), 1e-5);
       },
       "layer norm needs one weight and bias per column of [4, 3], not [3] and [2]"},
      {[&] { embedding(ones({3}), row); },
       "an embedding takes a table (V, D) and indices (R,), not [3] and [1]"},
      {[&] {
         cross_entropy(ones({2, 3}), row, 1.0);
       },
       "cross entropy needs one label per row of [2, 3], not [1]"},
      {[&] {
         attention(ones({1, 2, 3}), ones({1, 4, 3}), ones({1, 4, 3}), {.causal = true});
       },
       "causal attention needs as many keys as queries, not 4 and 2"},
      {[&] {
         max_pool2d(ones({1, 1, 3, 3}), {.height = 4, .width = 1});
       },
       "a window of 4 by 1 is larger than [1, 1, 3, 3] with padding 0"},
      {[&] {
         conv2d(ones({1, 1, 3, 3}), ones({1, 1, 2, 2}), {}, {.stride = 0});
       },
       "a convolution with stride 0 and padding 0: the stride is positive, padding is not "
       "negative"},
      {[&] { cast(ones({2}), DType::kI64); },
       "cannot cast f64 [2] to i64: both are floating-point"},
  });
}

}  // namespace
}  // namespace lockstep
