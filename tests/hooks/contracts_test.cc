// What errors say when a contract of communication hooks is broken: the values.
#include <gtest/gtest.h>

#include "lockstep/comm/loopback_group.h"
#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/low_rank.h"
#include "lockstep/hooks/power_sgd_hook.h"
#include "lockstep/hooks/quantization_hooks.h"

#include "tests/support/complaint.h"
#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

TEST(HookContractsTest, SayWhichOptionMakesNoSense) {
  testing::PlainRuntime rt;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(rt.runtime());
  const Tensor wide = rt.tensor({1, 2, 3}, {1, 2, 3, 4, 5, 6});

  testing::expect_complaints({
      {[&] { PowerSgdHook(*group, {.rank = 0}); },
       "PowerSgdOptions::rank is 0: an approximation has a rank of at least one"},
      {[&] { CompressHook(*group, DType::kF64); },
       "gradients are compressed to f16 or bf16, not to f64"},
      {[&] { CompressWrapper(nullptr, DType::kF16); }, "CompressWrapper got no hook to wrap"},
      {[&] { QuantizePerChannelHook(*group, 0); }, "a channel of 0 elements: it has at least one"},
      {[&] { orthogonalize(wide, 0.0); },
       "only a stack of matrices with no more columns than rows can be orthogonalized, not f64 "
       "[1, 2, 3]"},
  });
}

}  // namespace
}  // namespace lockstep
