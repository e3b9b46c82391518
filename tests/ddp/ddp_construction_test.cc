// What wrapping a model checks and synchronises.
#include <gtest/gtest.h>

#include "lockstep/comm/loopback_group.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::data_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TestRuntime;
using testing::TinyModel;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

double own(const MiniRank& rank) { return 10.0 * rank.rank; }

TEST(DdpConstructionTest, EveryRankStartsFromRankZero) {
  const MiniResult result = run_mini_world({.n_ranks = 3}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Values one = {own(rank) + 1};
    const Variable weight = model.parameter("fc.weight", one);
    const Variable frozen = model.parameter("fc.bias", one, DType::kF32, false);
    const Variable wide = model.parameter("head.weight", one, DType::kF64);
    const Variable mean = model.buffer("bn.mean", {own(rank) + 2});
    const Variable steps = model.buffer("bn.steps", {own(rank) + 3}, DType::kI64);
    const Ddp ddp(model.state(), rank.group, {});

    EXPECT_EQ(data_of(weight), (Values{1}));
    EXPECT_EQ(data_of(frozen), (Values{1}));
    EXPECT_EQ(data_of(wide), (Values{1}));
    EXPECT_EQ(data_of(mean), (Values{2}));
    EXPECT_EQ(data_of(steps), (Values{3}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0) << result.error(1);
}

// Linear(8, 8), BatchNorm(8), Linear(8, 3): the calls PyTorch 1.13 made on gloo.
void add_batch_norm_net(TinyModel& model) {
  const auto zeros = [](std::size_t n) { return Values(n); };
  model.parameters.push_back(
      {"0.weight", Variable(Tensor::zeros(*model.runtime, {8, 8}, DType::kF32), true)});
  model.parameter("0.bias", zeros(8));
  model.parameter("1.weight", zeros(8));
  model.parameter("1.bias", zeros(8));
  model.parameters.push_back(
      {"2.weight", Variable(Tensor::zeros(*model.runtime, {3, 8}, DType::kF32), true)});
  model.parameter("2.bias", zeros(3));
  model.buffer("1.running_mean", {0, 0, 0, 0, 0, 0, 0, 0});
  model.buffer("1.running_var", {1, 1, 1, 1, 1, 1, 1, 1});
  model.buffer("1.num_batches_tracked", {0}, DType::kI64);
}

TEST(DdpConstructionTest, IssuesTheCollectivesOfPyTorch) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    add_batch_norm_net(model);
    const Ddp ddp(model.state(), rank.group, {});
  });
  ASSERT_TRUE(result.ok());
  const Texts expected = {"AG i64[1]", "B i64[16]", "B f32[131]", "B i64[1]"};
  EXPECT_EQ(collectives_of(*result.trace, 0), expected);
  EXPECT_EQ(collectives_of(*result.trace, 1), expected);
}

TEST(DdpConstructionTest, WithoutBufferBroadcastOnlyTheOldVersionSendsBuffers) {
  for (const bool old : {false, true}) {
    const MiniResult result = run_mini_world({}, [old](MiniRank& rank) {
      TinyModel model(rank.runtime);
      model.parameter("w", {own(rank)});
      const Variable buffer = model.buffer("b", {own(rank)});
      const Ddp ddp(
          model.state(),
          rank.group,
          {.broadcast_buffers = false, .compat = old ? Compat::kTorch1 : Compat::kTorch2});
      EXPECT_EQ(data_of(buffer), (Values{old ? 0.0 : own(rank)}));
    });
    ASSERT_TRUE(result.ok());
  }
}

TEST(DdpConstructionTest, WithoutInitSyncNothingIsSentAndReplicasStayApart) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable weight = model.parameter("w", {own(rank)});
    const Ddp ddp(model.state(), rank.group, {.init_sync = false});
    EXPECT_EQ(data_of(weight), (Values{own(rank)}));
  });
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(collectives_of(*result.trace, 0).empty());
}

TEST(DdpConstructionTest, RefusesAModelWithoutTrainableParameters) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  TinyModel frozen(test.runtime);
  frozen.parameter("w", Values{1}, DType::kF32, false);
  TinyModel ignored(test.runtime);
  ignored.parameter("fc.w", {1});
  try {
    const Ddp ddp(frozen.state(), *group, {});
    FAIL() << "a frozen model was wrapped";
  } catch (const ReducerError& e) {
    EXPECT_STREQ(e.what(),
                 "DistributedDataParallel is not needed when a module doesn't have any parameter "
                 "that requires a gradient.");
  }
  EXPECT_THROW(Ddp(ignored.state(), *group, {.ignored = {"fc.w"}}), ReducerError);
}

TEST(DdpConstructionTest, ADifferentNumberOfParametersIsSeenByEveryRank) {
  const MiniResult result = run_mini_world({.n_ranks = 3}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    model.parameter("a", {1});
    if (rank.rank == 1) model.parameter("b", {1});
    const Ddp ddp(model.state(), rank.group, {});
  });
  EXPECT_EQ(result.error(0),
            "DDP expects same model across all ranks, but Rank 0 has 1 params, while rank 1 has "
            "inconsistent 2 params.");
  EXPECT_EQ(result.error(1),
            "DDP expects same model across all ranks, but Rank 1 has 2 params, while rank 0 has "
            "inconsistent 1 params.");
  EXPECT_NE(result.error(2), "");
}

TEST(DdpConstructionTest, ADifferentShapeIsSeenByTheOthersAndBlocksRankZero) {
  const MiniResult result = run_mini_world({.n_ranks = 2}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    model.parameter("a", {1});
    model.parameter("b", rank.rank == 0 ? Values{1, 2} : Values{1, 2, 3});
    const Ddp ddp(model.state(), rank.group, {});
  });
  EXPECT_EQ(result.error(1),
            "[1]: params[1] in this process with sizes [3] appears not to match sizes of the same "
            "param in process 0.");
  EXPECT_NE(result.error(0).find("stuck"), std::string::npos);
}

TEST(DdpConstructionTest, IgnoringHasTwoSpellingsForTheRootModule) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable plain = model.parameter("a", {own(rank)});
    const Variable dotted = model.parameter("b", {own(rank)});
    const Variable nested = model.parameter("fc.c", {own(rank)});
    model.parameter("d", {own(rank)});
    const Ddp ddp(model.state(), rank.group, {.ignored = {"a", ".b", "fc.c"}});

    EXPECT_EQ(data_of(plain), (Values{own(rank)}));  // Not broadcast ...
    EXPECT_EQ(data_of(dotted), (Values{0}));
    EXPECT_EQ(data_of(nested), (Values{own(rank)}));
    ASSERT_EQ(ddp.parameters().size(), 2U);  // ... but reduced.
    EXPECT_EQ(ddp.parameters()[0].name, "a");
    EXPECT_EQ(ddp.parameters()[1].name, "d");
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpConstructionTest, StartsWithOneBucketPerDtypeInReverseOrder) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  TinyModel model(test.runtime);
  model.parameter("a", Values(300'000));
  model.parameter("b", Values(2), DType::kF64);
  model.parameter("c", Values(2));
  const Ddp ddp(model.state(), *group, {});
  EXPECT_EQ(ddp.buckets(), (std::vector<std::vector<std::int32_t>>{{1}, {0, 2}}));
}

// The first bucket's limit without a rebuild to come; its bucket is launched last.
TEST(DdpConstructionTest, FindUnusedUsesTheLimitsFromTheStart) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  TinyModel model(test.runtime);
  for (const char* name : {"a", "b", "c", "d"}) model.parameter(name, Values(10));
  using Layout = std::vector<std::vector<std::int32_t>>;
  DdpOptions options{.first_bucket_bytes = 40, .find_unused_parameters = true};
  EXPECT_EQ(Ddp(model.state(), *group, options).buckets(), (Layout{{1, 2, 3}, {0}}));
  options.bucket_cap_mb = 80.0 / 1048576;
  EXPECT_EQ(Ddp(model.state(), *group, options).buckets(), (Layout{{2, 3}, {0, 1}}));
  options.compat = Compat::kTorch1;  // The small first bucket survives an explicit cap.
  EXPECT_EQ(Ddp(model.state(), *group, options).buckets(), (Layout{{3}, {1, 2}, {0}}));
}

TEST(DdpConstructionTest, ADestroyedWrapperLeavesNoHooks) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {1});
    { const Ddp first(model.state(), rank.group, {}); }
    Ddp second(model.state(), rank.group, {});
    testing::forward_backward(second, [&] { return testing::term(w, {2.0 * rank.rank}); });
    EXPECT_EQ(testing::grad_of(w), (Values{1}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  EXPECT_EQ(collectives_of(*result.trace, 0).back(), "AR f32[1]");
}

// "a.weight" and "b.weight" are one parameter. Values and layouts are PyTorch's, 1.13 and 2.15.
TEST(DdpConstructionTest, ASharedParameterIsReducedUntilAllItsNamesAreIgnored) {
  struct Shared {
    std::vector<std::string> ignored;
    bool broadcast;
    std::vector<std::string> reduced;
  };

  const Shared cases[] = {
      {{}, true, {"w", "a.weight", "m.weight"}},
      {{"a.weight"}, false, {"w", "m.weight", "b.weight"}},
      {{"b.weight"}, true, {"w", "a.weight", "m.weight"}},
      {{"a.weight", "b.weight"}, false, {"w", "m.weight"}},
  };
  for (const Shared& one : cases) {
    const MiniResult result = run_mini_world({}, [&one](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable w = model.parameter("w", {0});
      const Variable shared = model.parameter("a.weight", {own(rank)});
      const Variable m = model.parameter("m.weight", {0});
      ReplicatedState state = model.state();
      state.all_names = state.parameters;
      state.all_names.push_back({"b.weight", shared});
      Ddp ddp(std::move(state), rank.group, {.ignored = one.ignored});
      EXPECT_EQ(data_of(shared)[0], one.broadcast ? 0.0 : own(rank));
      std::vector<std::string> reduced;
      for (const NamedVariable& entry : ddp.parameters()) reduced.push_back(entry.name);
      EXPECT_EQ(reduced, one.reduced);
      testing::forward_backward(ddp, [&] {
        return testing::total({testing::flat_term(w, 1),
                               testing::flat_term(shared, 1.0 + rank.rank),
                               testing::flat_term(m, 2)});
      });
      EXPECT_EQ(testing::grad_of(shared)[0],
                one.reduced.back() != "m.weight" || one.broadcast ? 1.5 : 1.0 + rank.rank);
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

// Debugging spells names as the reducer does, and takes the last one.
TEST(DdpConstructionTest, DebuggingTakesTheLastNameOfASharedParameter) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    rank.host.variables.emplace("TORCH_DISTRIBUTED_DEBUG", "INFO");
    TinyModel model(rank.runtime);
    model.parameter("w", {0});
    const Variable shared = model.parameter("a.weight", {0});
    const Variable m = model.parameter("m.weight", {0});
    ReplicatedState state = model.state();
    state.all_names = state.parameters;
    state.all_names.push_back({"b.weight", shared});
    Ddp ddp(std::move(state), rank.group, {});
    testing::forward_backward(ddp, [&] { return testing::flat_term(m, 1); });
    ddp.before_forward(true);
  });
  EXPECT_NE(result.error(0).find("did not receive grad for rank 0: .w, b.weight\n"),
            std::string::npos)
      << result.error(0);
}

}  // namespace
}  // namespace lockstep
