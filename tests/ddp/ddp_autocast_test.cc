// What DDP reduces and records of models that compute in 16 bits.
#include <set>

#include <gtest/gtest.h>

#include "lockstep/autograd/autocast.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::forward_backward;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;

/// The mean over two ranks of rows 1 and 3, exactly.
MiniResult train(DType model_dtype, bool autocasts) {
  return run_mini_world({}, [=](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable weight(Tensor::full(rank.runtime, {1, 1}, model_dtype, 0.5), true);
    model.parameters.push_back({"weight", weight});
    Ddp ddp(model.state(), rank.group, {});
    const Variable x(Tensor::full(rank.runtime, {1, 1}, model_dtype, rank.rank == 0 ? 1.0 : 3.0));
    forward_backward(ddp, [&] {
      const AutocastGuard autocast(rank.runtime, {.dtype = DType::kBF16, .enabled = autocasts});
      return sum(linear(x, weight, {}));
    });
    EXPECT_EQ(weight.grad().dtype(), model_dtype);
    EXPECT_EQ(weight.grad().item(), 2.0);
  });
}

std::set<DType> recorded(const MemoryTrace& trace) {
  std::set<DType> dtypes;
  for (const Event& event : trace.events(Rank{1})) {
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) dtypes.insert(grad->dtype);
  }
  return dtypes;
}

std::set<DType> reduced(const MemoryTrace& trace) {
  std::set<DType> dtypes;
  for (const Event& event : trace.events(Rank{1})) {
    const auto* call = std::get_if<CollectiveEvent>(&event.body);
    if (call != nullptr && call->signature.op == CollectiveOp::kAllReduce) {
      dtypes.insert(call->signature.dtype);
    }
  }
  return dtypes;
}

TEST(DdpAutocastTest, GradientsOfF32ParametersAreReducedAndRecordedInF32) {
  const MiniResult result = train(DType::kF32, true);

  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(recorded(*result.trace), std::set<DType>{DType::kF32});
  EXPECT_EQ(reduced(*result.trace), std::set<DType>{DType::kF32});
}

TEST(DdpAutocastTest, GradientsOfA16BitModelAreReducedAndRecordedIn16Bits) {
  for (const bool autocasts : {false, true}) {
    const MiniResult result = train(DType::kBF16, autocasts);

    ASSERT_TRUE(result.ok()) << result.error(0);
    EXPECT_EQ(recorded(*result.trace), std::set<DType>{DType::kBF16});
    EXPECT_EQ(reduced(*result.trace), std::set<DType>{DType::kBF16});
  }
}

}  // namespace
}  // namespace lockstep
