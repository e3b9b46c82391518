// Parameters that take no part in a backward.
#include <bit>

#include <gtest/gtest.h>

#include "tests/ddp/two_parameters.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::flat_term;
using testing::forward_backward;
using testing::grad_of;
using testing::MiniOptions;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::term;
using testing::TinyModel;
using testing::total;
using testing::TwoParameters;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

constexpr const char* kUnfinished =
    "Expected to have finished reduction in the prior iteration before starting a new one. This "
    "error indicates that your module has parameters that were not used in producing loss. ";

TEST(DdpUnusedTest, WithoutTheFlagNothingIsSentAndTheNextForwardComplains) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("net.a", {0});
    model.parameter("net.b", {0});
    model.parameter("net.c", {0});
    Ddp ddp(model.state(), rank.group, {});
    const double mine = 1.0 + rank.rank;
    forward_backward(ddp, [&] { return flat_term(a, mine); });
    EXPECT_EQ(grad_of(a), (Values{mine}));  // Local, silently.
    ddp.before_forward(true);
  });
  const Texts only_construction = {"AG i64[1]", "B i64[6]", "B f32[3]"};
  EXPECT_EQ(collectives_of(*result.trace, 0), only_construction);
  const std::string expected =
      std::string(kUnfinished) +
      "You can enable unused parameter detection by passing the keyword argument "
      "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by \n"
      "making sure all `forward` function outputs participate in calculating loss. \n"
      "If you already have done the above, then the distributed data parallel module wasn't able "
      "to locate the output tensors in the return value of your module's `forward` function. "
      "Please include the loss function and the structure of the return value of `forward` of "
      "your module when reporting this issue (e.g. list, dict, iterable).\n"
      "Parameter indices which did not receive grad for rank 1: 1 2\n"
      " In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO "
      "or DETAIL to print out information about which particular parameters did not receive "
      "gradient on this rank as part of this error";
  EXPECT_EQ(result.error(1), expected);
}

TEST(DdpUnusedTest, DebuggingNamesTheParameters) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    rank.host.variables.emplace("TORCH_DISTRIBUTED_DEBUG", "INFO");
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("net.a", {0});
    model.parameter("net.b", {0});
    model.parameter("net.c", {0});
    Ddp ddp(model.state(), rank.group, {});
    forward_backward(ddp, [&] { return flat_term(a, 1); });
    ddp.before_forward(true);
  });
  EXPECT_NE(result.error(0).find("\nParameters which did not receive grad for rank 0: net.b, net.c"
                                 "\nParameter indices which did not receive grad for rank 0: 1 2"),
            std::string::npos)
      << result.error(0);
}

TEST(DdpUnusedTest, AForwardThatWasNeverDifferentiatedIsNotAnError) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    Ddp ddp(model.state(), rank.group, {});
    ddp.before_forward(true);
    ddp.after_forward(flat_term(a, 1));
    forward_backward(ddp, [&] { return flat_term(a, 1); });
    EXPECT_EQ(grad_of(a), (Values{1}));
  });
  EXPECT_TRUE(result.ok()) << result.error(0);
}

// t0 is used on rank 0 only, t1 on the others, t2 nowhere.
void expect_average_of_used(bool as_view) {
  const MiniResult result = run_mini_world({.n_ranks = 4}, [as_view](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable t0 = model.parameter("t0", {0});
    const Variable t1 = model.parameter("t1", {0});
    const Variable t2 = model.parameter("t2", {0});
    Ddp ddp(model.state(),
            rank.group,
            {.find_unused_parameters = true, .gradient_as_bucket_view = as_view});
    for (int step = 0; step < 3; ++step) {
      forward_backward(ddp, [&] { return flat_term(rank.rank == 0 ? t0 : t1, 4); });
      EXPECT_EQ(grad_of(t0), (Values{1}));
      EXPECT_EQ(grad_of(t1), (Values{3}));
      EXPECT_FALSE(t2.grad().defined());
      EXPECT_EQ(ddp.used_map(), (std::vector<std::int32_t>{1, 3, 0}));
      t0.set_grad(Tensor());
      t1.set_grad(Tensor());
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0) << result.error(1);
  const Texts all = collectives_of(*result.trace, 2);
  EXPECT_EQ((Texts{all.end() - 2, all.end()}), (Texts{"AR f32[3]", "AR i32[3]"}));
}

TEST(DdpUnusedTest, WithTheFlagUsedSomewhereIsAveragedEverywhere) {
  for (const bool as_view : {false, true}) expect_average_of_used(as_view);
}

TEST(DdpUnusedTest, AGloballyUnusedParameterKeepsAStaleGradient) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    model.b.set_grad(Tensor::full(rank.runtime, {1}, DType::kF32, 7.0 + rank.rank));
    forward_backward(ddp, [&] { return flat_term(model.a, 1); });
    EXPECT_EQ(grad_of(model.b), (Values{7.0 + rank.rank}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// Rank 0 uses everything and must still take part in the map's reduction.
TEST(DdpUnusedTest, ARankThatUsesEverythingJoinsTheMap) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    forward_backward(ddp,
                     [&] { return rank.rank == 0 ? model.loss(2, 2) : flat_term(model.a, 2); });
    EXPECT_EQ(grad_of(model.b), (Values{1}));
    EXPECT_EQ(ddp.used_map(), (std::vector<std::int32_t>{2, 1}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// Version 1.13 forgets what was used without synchronisation.
TEST(DdpUnusedTest, UseInsideNoSyncDoesNotCountInTheOldVersion) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true, .compat = Compat::kTorch1});
    {
      const NoSync no_sync(ddp);
      forward_backward(ddp, [&] { return flat_term(rank.rank == 0 ? model.a : model.b, 2); });
    }
    forward_backward(ddp, [&] { return flat_term(model.a, 2); });
    EXPECT_EQ(grad_of(model.a), (Values{3}));
    EXPECT_EQ(model.b.grad().defined(), rank.rank == 1);
    EXPECT_EQ(ddp.used_map(), (std::vector<std::int32_t>{2, 0}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// Used under no_sync, then its gradient thrown away: it counts as used and has nothing to reduce.
TEST(DdpUnusedTest, AGradientThrownAwaySinceItWasUsedIsRefusedExceptInTheOldVersion) {
  for (const bool is_old : {false, true}) {
    const MiniResult result = run_mini_world({}, [is_old](MiniRank& rank) {
      const TwoParameters model(rank);
      Ddp ddp(
          model.state(),
          rank.group,
          {.find_unused_parameters = true, .compat = is_old ? Compat::kTorch1 : Compat::kTorch2});
      {
        const NoSync no_sync(ddp);
        forward_backward(ddp, [&] { return model.loss(2, 2); });
      }
      model.b.set_grad(Tensor());
      forward_backward(ddp, [&] { return flat_term(model.a, 2); });
      EXPECT_FALSE(model.b.grad().defined());
    });
    EXPECT_EQ(result.error(0),
              is_old ? ""
                     : "Encountered gradient which is undefined, but still allreduced by DDP "
                       "reducer. This indicates a bug in DDP implementation, please report a bug "
                       "with a repro to PyTorch.");
  }
}

// Its slice of the bucket is still divided and summed, and a view shows that: of eight
// elements one moves, once, by its last bit. PyTorch 1.13 and 2.15 on three gloo processes.
TEST(DdpUnusedTest, AStaleGradientInABucketViewMayChangeInItsLastBit) {
  using Bits = std::vector<std::uint32_t>;
  const Bits averaged = {0x3fdb6db8,
                         0x40e00000,
                         0x40649249,
                         0x40430c31,
                         0x40adb6dc,
                         0x40000000,
                         0x408c30c4,
                         0x4076db6f};
  for (const bool as_view : {false, true}) {
    Bits stale = averaged;
    if (as_view) ++stale[3];
    const MiniOptions ring = {.n_ranks = 3, .order = ReductionOrder::kGlooRing};
    const MiniResult result = run_mini_world(ring, [&](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable a = model.parameter("a", {0});
      const Variable b = model.parameter("b", {0, 0, 0, 0, 0, 0, 0, 0});
      Ddp ddp(model.state(),
              rank.group,
              {.find_unused_parameters = true, .gradient_as_bucket_view = as_view});
      Values inputs;
      for (int i = 0; i < 8; ++i) inputs.push_back(((i * 37 + rank.rank * 11) % 61 + 1) / 7.0);
      const auto bits = [&b] {
        Bits words;
        for (const float value : b.grad().span<float>()) {
          words.push_back(std::bit_cast<std::uint32_t>(value));
        }
        return words;
      };
      forward_backward(ddp, [&] { return total({flat_term(a, 1), term(b, inputs)}); });
      EXPECT_EQ(bits(), averaged);
      for (int step = 0; step < 3; ++step) {
        forward_backward(ddp, [&] { return flat_term(a, 1); });
        EXPECT_EQ(bits(), stale) << as_view << step;
      }
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

TEST(DdpUnusedTest, UseInsideNoSyncCountsForTheSynchronisingStep) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    {
      const NoSync no_sync(ddp);
      forward_backward(ddp, [&] { return flat_term(rank.rank == 0 ? model.a : model.b, 2); });
    }
    forward_backward(ddp, [&] { return flat_term(model.a, 2); });
    EXPECT_EQ(grad_of(model.a), (Values{3}));
    EXPECT_EQ(grad_of(model.b), (Values{1}));
    EXPECT_EQ(ddp.used_map(), (std::vector<std::int32_t>{2, 1}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpUnusedTest, UseIsForgottenOnceItWasReduced) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    forward_backward(ddp, [&] { return model.loss(2, 2); });
    model.b.set_grad(Tensor());
    forward_backward(ddp, [&] { return flat_term(model.a, 2); });
    EXPECT_FALSE(model.b.grad().defined());
    EXPECT_EQ(ddp.used_map(), (std::vector<std::int32_t>{2, 0}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpUnusedTest, TheFlagPreventsTheRebuild) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    for (int step = 0; step < 2; ++step) forward_backward(ddp, [&] { return flat_term(a, 1); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(collectives_of(*result.trace, 0),
            (Texts{"AG i64[1]",
                   "B i64[2]",
                   "B f32[1]",
                   "AR f32[1]",
                   "AR i32[1]",
                   "AR f32[1]",
                   "AR i32[1]"}));
}

// The search starts at the returned output; a loss that reaches further hides parameters from it.
TEST(DdpUnusedTest, AParameterUsedOutsideTheOutputIsReadyTwice) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    const Variable hidden = model.parameter("fc3.weight", {0});
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    rank.host.variables.emplace("TORCH_DISTRIBUTED_DEBUG", "DETAIL");
    ddp.before_forward(true);
    const Variable late = flat_term(hidden, 1);
    const Variable output = ddp.after_forward(flat_term(a, 1));
    add(output, late).backward();
  });
  const std::string error = result.error(0);
  EXPECT_EQ(
      error.find("Expected to mark a variable ready only once. This error is caused by one of "
                 "the following reasons: 1) "),
      0U)
      << error;
  EXPECT_NE(
      error.find("\nParameter at index 1 with name fc3.weight has been marked as ready twice."),
      std::string::npos)
      << error;
  // PyTorch's source has a third reason, under a condition that can't be true there.
  EXPECT_NE(error.find("2) Reused parameters"), std::string::npos) << error;
  EXPECT_EQ(error.find("3) "), std::string::npos) << error;
}

TEST(DdpUnusedTest, TwoBackwardsOfAnUnfinishedIterationMarkTwice) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    model.parameter("b", {0});
    Ddp ddp(model.state(), rank.group, {});
    ddp.before_forward(true);
    const Variable loss = ddp.after_forward(flat_term(a, 1));
    loss.backward(true);
    loss.backward();
  });
  EXPECT_NE(result.error(0).find("\nParameter at index 0 has been marked as ready twice."),
            std::string::npos);
  EXPECT_NE(result.error(0).find("You can set the environment variable TORCH_DISTRIBUTED_DEBUG"),
            std::string::npos);
}

// Cleaning up after an exception: the hooks go with the wrapper and a new one works.
TEST(DdpUnusedTest, AnExceptionInABackwardIsSurvivedByANewWrapper) {
  class Bomb final : public GradHook {
   public:
    void on_grad_ready(std::size_t /*index*/) override {
      if (armed) throw std::runtime_error("bomb");
    }

    bool armed = true;
  };

  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Bomb bomb;
    model.b.add_hook(bomb, 0);
    const auto loss = [&] {
      return total({flat_term(model.b, 2.0 * rank.rank), flat_term(model.a, 1)});
    };
    {
      Ddp ddp(model.state(), rank.group, {});
      EXPECT_THROW(forward_backward(ddp, loss), std::runtime_error);
      EXPECT_THROW(ddp.before_forward(true), ReducerError);
    }
    bomb.armed = false;
    model.forget();
    Ddp ddp(model.state(), rank.group, {});
    forward_backward(ddp, loss);
    EXPECT_EQ(grad_of(model.b), (Values{1}));
    model.b.remove_hook(bomb);
  });
  ASSERT_TRUE(result.ok()) << result.error(0) << result.error(1);
}

}  // namespace
}  // namespace lockstep
