// What errors say when a contract of optimizers is broken: the values.
#include <gtest/gtest.h>

#include "lockstep/optim/clip.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"

#include "tests/support/complaint.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::expect_complaints;
using lockstep::testing::PlainRuntime;

TEST(OptimizerContractsTest, SayWhichArgumentMakesNoSense) {
  PlainRuntime rt;
  const Variable single(rt.tensor({2}, {1, 2}, DType::kF32), true);
  const Variable twice(rt.tensor({2}, {1, 2}), true);
  single.set_grad(rt.tensor({2}, {1, 2}, DType::kF32));
  twice.set_grad(rt.tensor({2}, {1, 2}));
  const std::vector<Variable> both = {single, twice};

  expect_complaints({
      {[&] { clip_grad_value(both, -1.5); },
       "gradients are clipped to a range around zero: clip_value is -1.5"},
      {[&] { clip_grad_norm(both, {.max_norm = 1.0}); },
       "cannot clip gradients of f32 and f64 together: they must share a dtype"},
      {[&] { GradScaler(GradScalerOptions{.growth_factor = 0.5}); },
       "The growth factor must be > 1.0. It is 0.5."},
      {[&] { GradScaler(GradScalerOptions{.backoff_factor = 1.5}); },
       "The backoff factor must be < 1.0. It is 1.5."},
  });
}

}  // namespace
}  // namespace lockstep::optim
