// Communication hooks in the place of the reducer's all-reduce, buffer hooks in the broadcast's.
#include <gtest/gtest.h>

#include "lockstep/tensor/kernels.h"

#include "tests/ddp/two_parameters.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::data_of;
using testing::flat_term;
using testing::forward_backward;
using testing::grad_of;
using testing::kOneElementCapMb;
using testing::MiniRank;
using testing::MiniResult;
using testing::PendingResult;
using testing::run_mini_world;
using testing::sum_of;
using testing::TinyModel;
using testing::TwoParameters;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

// Sums buckets, and writes down what it was shown.
class SumHook final : public CommHook {
 public:
  explicit SumHook(ProcessGroup& group) : group_(&group) {}

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override {
    std::string line = std::to_string(bucket.index()) + (bucket.is_last() ? " last:" : ":");
    for (const Tensor& gradient : bucket.gradients()) {
      line += " " + std::to_string(static_cast<int>(gradient.at(0)));
    }
    seen.push_back(line);
    return sum_of(*group_, bucket);
  }

  Texts seen;

 private:
  ProcessGroup* group_;
};

// Communicates nothing and answers with other memory of another dtype: what hooks may do.
class ConstantHook final : public CommHook {
 public:
  explicit ConstantHook(DType dtype, std::int64_t surplus = 0) : dtype_(dtype), surplus_(surplus) {}

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override {
    const Tensor& buffer = bucket.buffer();
    return std::make_unique<PendingResult>(
        Tensor::full(buffer.runtime(), {buffer.n_elems() + surplus_}, dtype_, 2.0));
  }

 private:
  DType dtype_;
  std::int64_t surplus_;
};

TEST(DdpHooksTest, AHookSeesUnscaledBucketsInOrderAndItsResultIsNotDivided) {
  for (const bool as_view : {false, true}) {
    const MiniResult result = run_mini_world({.n_ranks = 3}, [as_view](MiniRank& rank) {
      const TwoParameters model(rank);
      Ddp ddp(model.state(),
              rank.group,
              {.bucket_cap_mb = kOneElementCapMb, .gradient_as_bucket_view = as_view});
      SumHook hook(rank.group);
      ddp.register_comm_hook(hook);
      for (int step = 0; step < 3; ++step) {
        model.forget();
        forward_backward(ddp, [&] { return model.loss(1, 5); });
        EXPECT_EQ(grad_of(model.a), (Values{3}));
        EXPECT_EQ(grad_of(model.b), (Values{15}));
      }
      EXPECT_EQ(hook.seen, (Texts{"0 last: 1 5", "0: 5", "1 last: 1", "0: 5", "1 last: 1"}));
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

TEST(DdpHooksTest, AccumulatedViewsReachTheHookUnscaled) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    Ddp ddp(model.state(), rank.group, {.gradient_as_bucket_view = true});
    SumHook hook(rank.group);
    ddp.register_comm_hook(hook);
    for (int step = 0; step < 2; ++step) forward_backward(ddp, [&] { return flat_term(a, 1); });
    EXPECT_EQ(hook.seen, (Texts{"0 last: 1", "0 last: 3"}));
    EXPECT_EQ(grad_of(a), (Values{6}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpHooksTest, TheResultMayBeOtherMemoryOfAnotherDtype) {
  for (const bool as_view : {false, true}) {
    for (const DType dtype : {DType::kF32, DType::kF16}) {
      const MiniResult result = run_mini_world({.n_ranks = 1}, [=](MiniRank& rank) {
        TinyModel model(rank.runtime);
        const Variable a = model.parameter("a", {0, 0});
        Ddp ddp(model.state(), rank.group, {.gradient_as_bucket_view = as_view});
        ConstantHook hook(dtype);
        ddp.register_comm_hook(hook);
        for (int step = 0; step < 2; ++step) {
          forward_backward(ddp, [&] { return flat_term(a, 1); });
          EXPECT_EQ(grad_of(a), (Values{2, 2}));
          EXPECT_EQ(a.grad().dtype(), DType::kF32);
        }
      });
      ASSERT_TRUE(result.ok()) << result.error(0);
    }
  }
}

TEST(DdpHooksTest, AResultOfAnotherSizeIsRefused) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    Ddp ddp(model.state(), rank.group, {});
    ConstantHook hook(DType::kF32, 1);
    ddp.register_comm_hook(hook);
    forward_backward(ddp, [&] { return flat_term(a, 1); });
  });
  EXPECT_EQ(result.error(0), "a communication hook's result has 2 elements, and its bucket 1");
}

TEST(DdpHooksTest, CanBeRegisteredOnce) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    model.parameter("a", {0});
    Ddp ddp(model.state(), rank.group, {});
    ConstantHook hook(DType::kF32);
    ddp.register_comm_hook(hook);
    ddp.register_comm_hook(hook);
  });
  EXPECT_EQ(result.error(0),
            "register_comm_hook or register_builtin_comm_hook can only be called once.");
}

// Nothing is launched before the end of the first backward, so no launch counts.
TEST(DdpHooksTest, TheFirstBackwardOfAStaticGraphNumbersEveryBucketZero) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Ddp ddp(model.state(),
            rank.group,
            {.bucket_cap_mb = kOneElementCapMb, .find_unused_parameters = true});
    ddp.set_static_graph();
    SumHook hook(rank.group);
    ddp.register_comm_hook(hook);
    for (int step = 0; step < 2; ++step) {
      model.forget();
      forward_backward(ddp, [&] { return model.loss(1, 5); });
    }
    EXPECT_EQ(hook.seen, (Texts{"0: 5", "0: 1", "0: 5", "1 last: 1"}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// Sums buffers, or leaves them alone.
class SumBuffers final : public BufferHook {
 public:
  explicit SumBuffers(ProcessGroup& group) : group_(&group) {}

  std::vector<Work> run(std::span<const NamedVariable> buffers, const OpOptions& options) override {
    std::vector<Work> works;
    for (const NamedVariable& buffer : buffers) {
      before.push_back(buffer.variable.data().at(0));
      works.push_back(
          group_->all_reduce(Memory::of(buffer.variable.data()), ReduceOp::kSum, options));
      // Before a forward that writes the buffer, nothing may be under way.
      if (waits) works.back().wait_or_throw();
    }
    return works;
  }

  Values before;
  bool waits = false;

 private:
  ProcessGroup* group_;
};

TEST(DdpHooksTest, ABufferHookTakesThePlaceOfTheBroadcast) {
  for (const BufferHookLocation location :
       {BufferHookLocation::kPreForward, BufferHookLocation::kPostForward}) {
    const MiniResult result = run_mini_world({}, [location](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable a = model.parameter("a", {0});
      const Variable buffer = model.buffer("n", {1});
      Ddp ddp(model.state(), rank.group, {});
      SumBuffers hook(rank.group);
      hook.waits = location == BufferHookLocation::kPreForward;
      ddp.register_buffer_comm_hook(hook, location);
      forward_backward(ddp, [&] {
        rank.runtime.kernels().fill(buffer.data(), 10);  // The forward's own update.
        return flat_term(a, 1);
      });
      const bool after = location == BufferHookLocation::kPostForward;
      EXPECT_EQ(hook.before, (Values{after ? 10.0 : 1.0}));
      EXPECT_EQ(data_of(buffer)[0], after ? 20.0 : 10.0);
      {
        // Due once more, since the forward before it was synchronising; then no longer.
        const NoSync no_sync(ddp);
        for (int step = 0; step < 2; ++step) {
          ddp.before_forward(true);
          ddp.after_forward(flat_term(a, 1));
        }
      }
      EXPECT_EQ(hook.before.size(), 2U);
      forward_backward(ddp, [&] { return flat_term(a, 1); });
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
    const Texts all = collectives_of(*result.trace, 0);
    for (std::size_t i = 3; i < all.size(); ++i) EXPECT_EQ(all[i].find("B f32"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
