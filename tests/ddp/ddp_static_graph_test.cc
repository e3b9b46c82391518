// Static graphs: the first backward counts, later ones are held to it.
#include <gtest/gtest.h>

#include "tests/ddp/two_parameters.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::flat_term;
using testing::forward_backward;
using testing::grad_of;
using testing::kOneElementCapMb;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using testing::TwoParameters;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

constexpr const char* kChanged =
    "Your training graph has changed in this iteration, e.g., one parameter is unused in first "
    "iteration, but then got used in the second iteration. this is not compatible with "
    "static_graph set to True.";

// "a" and "b" used, "c" never; caps of one element, so that the rebuild shows.
TEST(DdpStaticGraphTest, ReducesAfterTheFirstBackwardAndRebuildsAtTheThirdForward) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TwoParameters model(rank);
    const Variable c = model.parameter("c", {0});
    Ddp ddp(model.state(), rank.group, {.bucket_cap_mb = kOneElementCapMb, .static_graph = true});
    for (int step = 0; step < 4; ++step) {
      model.forget();
      forward_backward(ddp, [&] { return model.loss(1.0 + rank.rank, 4.0 * rank.rank); });
      EXPECT_EQ(grad_of(model.a), (Values{1.5})) << step;
      EXPECT_EQ(grad_of(model.b), (Values{2})) << step;
      EXPECT_FALSE(c.grad().defined()) << step;
      EXPECT_EQ(ddp.buckets().size(), step < 2 ? 1U : 3U) << step;
    }
    // Readiness in the second backward: b before a, and what never is comes last... as the index
    // that is marked at the first hook is not recorded then.
    EXPECT_EQ(ddp.buckets(), (std::vector<std::vector<std::int32_t>>{{1}, {0}, {2}}));
    EXPECT_EQ(ddp.used_map(), (std::vector<std::int32_t>{2, 2, 0}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(collectives_of(*result.trace, 0),
            (Texts{"AG i64[1]",
                   "B i64[6]",
                   "B f32[3]",
                   "AR i32[3]",
                   "AR f32[3]",
                   "AR f32[3]",
                   "B i32[4]",
                   "B i32[3]",
                   "AR f32[1]",
                   "AR f32[1]",
                   "AR f32[1]",
                   "AR f32[1]",
                   "AR f32[1]",
                   "AR f32[1]"}));
}

TEST(DdpStaticGraphTest, AUseBeyondTheFirstIterationIsRefused) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Ddp ddp(model.state(), rank.group, {.static_graph = true});
    forward_backward(ddp, [&] { return flat_term(model.a, 1); });
    forward_backward(ddp, [&] { return model.loss(1, 1); });
  });
  EXPECT_EQ(result.error(0), kChanged);
}

TEST(DdpStaticGraphTest, AMissingUseIsReportedByTheNextForward) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    const TwoParameters model(rank);
    Ddp ddp(model.state(), rank.group, {.static_graph = true});
    forward_backward(ddp, [&] { return model.loss(1, 1); });
    forward_backward(ddp, [&] { return flat_term(model.a, 1); });
    ddp.before_forward(true);
  });
  EXPECT_EQ(result.error(0).find(
                "Expected to have finished reduction in the prior iteration before starting a new "
                "one. This error indicates that your training graph has changed in this iteration, "
                "e.g., one parameter is used in first iteration, but then got unused in the second "
                "iteration. this is not compatible with static_graph set to True.\n"
                "Parameter indices which did not receive grad for rank 0: 1\n In addition"),
            0U)
      << result.error(0);
}

TEST(DdpStaticGraphTest, MustBeDeclaredBeforeTraining) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    Ddp ddp(model.state(), rank.group, {});
    forward_backward(ddp, [&] { return flat_term(a, 1); });
    ddp.set_static_graph();
  });
  EXPECT_EQ(result.error(0),
            "set_static_graph() should be called before training loop starts and after "
            "DistributedDataParallel is constructed.");
}

// The flag only chose the first buckets; the map is reduced once, not in every backward.
TEST(DdpStaticGraphTest, OverridesTheSearchForUnusedParameters) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    model.parameter("b", {0});
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    ddp.set_static_graph();
    for (int step = 0; step < 2; ++step) forward_backward(ddp, [&] { return flat_term(a, 1); });
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  const Texts all = collectives_of(*result.trace, 0);
  EXPECT_EQ((Texts{all.begin() + 3, all.end()}), (Texts{"AR i32[2]", "AR f32[2]", "AR f32[2]"}));
}

// Each rank uses a different parameter: averaged everywhere, always by the first iteration's map.
TEST(DdpStaticGraphTest, UsedOnSomeRankIsAveragedOnAll) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TwoParameters model(rank);
    const Variable c = model.parameter("c", {0});
    Ddp ddp(model.state(), rank.group, {.static_graph = true});
    for (int step = 0; step < 4; ++step) {
      model.forget();
      forward_backward(ddp, [&] { return flat_term(rank.rank == 0 ? model.a : model.b, 4); });
      EXPECT_EQ(grad_of(model.a), (Values{2})) << step;
      EXPECT_EQ(grad_of(model.b), (Values{2})) << step;
      EXPECT_FALSE(c.grad().defined());
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0) << result.error(1);
}

// Two forwards and one backward: legal, and one reduction.
TEST(DdpStaticGraphTest, TwoForwardsAndOneBackwardReduceOnce) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    Ddp ddp(model.state(), rank.group, {.static_graph = true});
    for (int step = 0; step < 3; ++step) {
      a.set_grad(Tensor());
      ddp.before_forward(true);
      const Variable first = ddp.after_forward(flat_term(a, 1.0 + rank.rank));
      ddp.before_forward(true);
      const Variable second = ddp.after_forward(flat_term(a, 2));
      add(first, second).backward();
      EXPECT_EQ(grad_of(a), (Values{3.5})) << step;
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// The versions differ: 2.7 starts the delayed reduction in the no_sync backward and fails.
TEST(DdpStaticGraphTest, AFirstBackwardWithoutSynchronisationFailsExceptInTheOldVersion) {
  for (const Compat compat : {Compat::kTorch2, Compat::kTorch1}) {
    const MiniResult result = run_mini_world({}, [&compat](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable a = model.parameter("a", {0});
      Ddp ddp(model.state(), rank.group, {.static_graph = true, .compat = compat});
      {
        const NoSync no_sync(ddp);
        forward_backward(ddp, [&] { return flat_term(a, 1.0 + rank.rank); });
      }
      forward_backward(ddp, [&] { return flat_term(a, 1); });
      EXPECT_EQ(grad_of(a), (Values{2.5}));
    });
    EXPECT_EQ(result.ok(), compat == Compat::kTorch1) << result.error(0);
    if (compat == Compat::kTorch2) {
      EXPECT_EQ(result.error(0).find("expect_autograd_hooks_ INTERNAL ASSERT FAILED"), 0U);
    }
  }
}

TEST(DdpStaticGraphTest, AGraphMayOutliveItsWrapper) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    Variable loss;
    {
      Ddp ddp(model.state(), rank.group, {.static_graph = true});
      ddp.before_forward(true);
      loss = ddp.after_forward(flat_term(a, 3));
    }
    loss.backward();
    EXPECT_EQ(grad_of(a), (Values{3}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

}  // namespace
}  // namespace lockstep
