// Where findings and refusals point: to the call in the program's loop.
#include <functional>
#include <gmock/gmock.h>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/run.h"
#include "lockstep/sim/session/session.h"

#include "tests/harness/run/some_rows.h"

namespace lockstep {

namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using Lines = std::set<std::int32_t>;

/// The lines of this file at which rank 0 is said to make the calls of each scope.
std::map<std::string, Lines> lines_of(const std::function<void(RankContext&)>& program) {
  sim::Session session;
  sim::SessionOptions options;
  options.n_ranks = 2;
  options.record = true;
  options.keep_trace = true;
  const Result<sim::SessionResult> run = session.run(options, program);
  std::map<std::string, Lines> lines;
  for (const Event& event : run.value().trace->events(Rank{0})) {
    const auto* call = std::get_if<CollectiveEvent>(&event.body);
    if (call == nullptr || call->phase != CollectivePhase::kPosted) continue;
    const CallSite& site = call->signature.site;
    const bool here = std::string_view(site.file).ends_with("call_sites_test.cc");
    lines[site.scope].insert(here ? site.line : -1);
  }
  return lines;
}

/// Linear, batch norm, linear: with buffers that rank 0 broadcasts.
class Net final : public nn::Module {
 public:
  explicit Net(Runtime& runtime)
      : nn::Module(runtime), first_(runtime, 3, 2), norm_(runtime, 2), last_(runtime, 2, 1) {
    Generator seed(1);
    register_module("first", first_);
    register_module("norm", norm_);
    register_module("last", last_);
    reset_parameters(seed);
  }

  Variable forward(const Variable& x) override {
    return last_.forward(norm_.forward(first_.forward(x)));
  }

 private:
  nn::Linear first_;
  nn::BatchNorm1d norm_;
  nn::Linear last_;
};

Variable rows(RankContext& rank, std::int64_t step) {
  return Variable(testing::some_rows(rank, 3, step));
}

Tensor targets(RankContext& rank, std::int64_t step) {
  return testing::some_rows(rank, 1, step + 9);
}

template <typename Body>
std::string refusal(Body body) {
  try {
    run_ranks({.ranks = 1}, body);
  } catch (const ContractViolation& refused) {
    return refused.what();
  }
  return "";
}

std::string at(std::int32_t line) { return "call_sites_test.cc:" + std::to_string(line) + ": "; }

}  // namespace

TEST(CallSitesTest, BucketsAreAtTheBackwardAndBuffersAtTheForward) {
  std::int32_t made = 0;
  Lines forward;
  Lines backward;
  const auto lines = lines_of([&](RankContext& rank) {
    Net model(rank.runtime());
    made = __LINE__ + 1;
    DistributedDataParallel ddp(model, rank.world());
    for (std::int64_t step = 0; step < 2; ++step) {
      forward.insert(__LINE__ + 1);
      const Variable out = ddp(rows(rank, step));
      const Variable loss = mse_loss(out, targets(rank, step));
      backward.insert(__LINE__ + 1);
      loss.backward();
    }
    forward.insert(__LINE__ + 1);
    const Variable out = ddp(rows(rank, 2));
    backward.insert(__LINE__ + 1);
    sum(out).backward(false);
  });
  EXPECT_THAT(lines,
              UnorderedElementsAre(Pair("ddp.init", Lines{made}),
                                   Pair("ddp.buffers", forward),
                                   Pair("ddp.rebuild", Lines{*std::next(forward.begin(), 0)}),
                                   Pair("ddp.backward", backward)));
  EXPECT_EQ(forward.size(), 2U);
}

TEST(CallSitesTest, AHookReducesAtTheBackward) {
  std::int32_t backward = 0;
  const auto lines = lines_of([&](RankContext& rank) {
    nn::Linear model(rank.runtime(), 3, 1);
    DistributedDataParallel ddp(model, rank.world());
    AllReduceHook hook(rank.world());
    ddp.register_comm_hook(hook);
    const Variable loss = mse_loss(ddp(rows(rank, 0)), targets(rank, 0));
    backward = __LINE__ + 1;
    loss.backward();
  });
  EXPECT_EQ(lines.at("ddp.hook"), Lines{backward});
}

TEST(CallSitesTest, AShardedOptimizerBroadcastsAtTheStepAndSyncedNormsGatherAtTheForward) {
  std::int32_t forward = 0;
  std::int32_t backward = 0;
  std::int32_t step = 0;
  const auto lines = lines_of([&](RankContext& rank) {
    nn::Sequential model(rank.runtime());
    model.append<nn::Linear>(3, 2);
    model.append<nn::SyncBatchNorm>(2, rank.world());
    DistributedDataParallel ddp(model, rank.world());
    ZeroRedundancyOptimizer optimizer(
        model.parameters(),
        [](std::vector<optim::ParamGroup> groups) -> std::unique_ptr<optim::Optimizer> {
          return std::make_unique<optim::Adam>(std::move(groups), optim::AdamOptions{});
        },
        rank.world());
    forward = __LINE__ + 1;
    const Variable out = ddp(rows(rank, 0));
    backward = __LINE__ + 1;
    sum(out).backward();
    step = __LINE__ + 1;
    optimizer.step();
  });
  EXPECT_EQ(lines.at("sync_batch_norm.forward"), Lines{forward});
  EXPECT_EQ(lines.at("sync_batch_norm.backward"), Lines{backward});
  EXPECT_EQ(lines.at("zero.step"), Lines{step});
}

TEST(CallSitesTest, RefusedCallsSayWhereTheProgramMadeThem) {
  std::int32_t line = 0;
  const std::string text = refusal([&](RankContext& rank) {
    const Variable x = rows(rank, 0);
    line = __LINE__ + 1;
    sum(x).backward();
  });
  EXPECT_THAT(text, HasSubstr("rank 0: "));
  EXPECT_THAT(text, HasSubstr(at(line)));

  const std::string misshapen = refusal([&](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    const Variable x = rows(rank, 0);
    line = __LINE__ + 1;
    (void)model(x);
  });
  EXPECT_THAT(misshapen, HasSubstr(at(line)));
}

}  // namespace lockstep
