// A checked run remembers what its tensors contain. Every job here must leave the same trace, value
// by value, when nothing is remembered.
#include "lockstep/tensor/contents.h"

#include <functional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/optim/clip.h"
#include "lockstep/random/generator.h"
#include "lockstep/run.h"

#include "tests/harness/run/some_rows.h"

namespace lockstep::testing {

namespace {

constexpr std::int64_t kSteps = 3;

/// What a job does besides training.
struct Job {
  std::int64_t width = 24;
  DdpOptions ddp{};
  std::int64_t accumulate = 1;
  bool synchronises_all = true;  ///< False: all micro-steps but the last are local.
  bool batch_norm = false;
  bool momentum = false;
  std::function<void(RankContext&, nn::Sequential&, std::int64_t step)> before_step{};
};

void train(RankContext& context, const Job& job) {
  Generator generator(1);
  nn::Sequential model(context.runtime());
  model.append<nn::Linear>(job.width, job.width, generator);
  if (job.batch_norm) model.append<nn::BatchNorm1d>(job.width);
  model.append<nn::ReLU>();
  model.append<nn::Linear>(job.width, 3, generator);
  DistributedDataParallel ddp(model, context.world(), job.ddp);
  optim::Sgd optimizer(model.parameters(), {.lr = 0.05, .momentum = job.momentum ? 0.9 : 0.0});
  for (std::int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (std::int64_t micro = 0; micro < job.accumulate; ++micro) {
      std::optional<NoSync> guard;
      if (!job.synchronises_all && micro + 1 < job.accumulate) guard.emplace(ddp);
      const Variable x(some_rows(context, job.width, step + micro));
      mse_loss(ddp(x), some_rows(context, 3, step + 9)).backward();
    }
    if (job.before_step) job.before_step(context, model, step);
    optimizer.step();
  }
}

struct Judged {
  std::string text;
  std::uint64_t trace = 0;
  std::uint64_t spared = 0;
  std::set<std::string> broken{};  ///< Laws with findings.

  bool breaks(const std::string& law) const { return broken.count(law) > 0; }
};

Judged run(const RunOptions& options, const Job& job, bool remembers) {
  Judged outcome;
  Simulator fresh;  // Counts from zero.
  const auto result = fresh.run(options, [&](RankContext& context) {
    Runtime& runtime = context.runtime();
    Contents* const contents = runtime.contents();
    if (!remembers) runtime.set_contents(nullptr);
    train(context, job);
    if (contents != nullptr) outcome.spared = contents->n_spared();  // Of all ranks.
  });
  outcome.text = render_text(result.report, false);
  outcome.trace = result.report.trace_digest;
  for (const LawResult& law : result.report.laws) {
    if (!law.findings.empty()) outcome.broken.insert(law.law);
  }
  return outcome;
}

/// The run as it is, after it has been compared with one that remembers nothing.
Judged expect_same(const std::string& name, const RunOptions& options, const Job& job) {
  const Judged plain = run(options, job, false);
  const Judged remembering = run(options, job, true);
  EXPECT_EQ(remembering.trace, plain.trace) << name;
  EXPECT_EQ(remembering.text, plain.text) << name;
  EXPECT_EQ(plain.spared, 0U) << name;
  EXPECT_GT(remembering.spared, 0U) << name;
  return remembering;
}

Tensor first_gradient(const nn::Sequential& model) { return model.parameters().front().grad(); }

}  // namespace

TEST(ContentsOfARunTest, HealthyJobsLeaveTheSameTrace) {
  for (const std::int32_t ranks : {1, 2, 5}) {
    const std::string on = " on " + std::to_string(ranks) + " ranks";
    const RunOptions plain{.ranks = ranks};
    for (const bool view : {false, true}) {
      const DdpOptions ddp{.gradient_as_bucket_view = view};
      expect_same("plain" + on, plain, {.ddp = ddp});
      expect_same("accumulated" + on, plain, {.ddp = ddp, .accumulate = 3});
      expect_same("local" + on, plain, {.ddp = ddp, .accumulate = 3, .synchronises_all = false});
      expect_same("buffers" + on, plain, {.ddp = ddp, .batch_norm = true, .momentum = true});
    }
    expect_same("unused" + on, plain, {.ddp = {.find_unused_parameters = true}});
    expect_same("covered" + on, {.ranks = ranks, .coverage = 4}, {});
    expect_same("messages" + on,
                {.ranks = ranks,
                 .reduction_order = ReductionOrder::kGlooRing,
                 .fidelity = sim::Fidelity::kMessage},
                {});
    expect_same("random" + on, {.ranks = ranks, .schedule_seed = 7, .strategy = "random"}, {});
  }
}

// The used gradient is what was averaged, which is what every other rank was given: one look.
TEST(ContentsOfARunTest, AGroupsResultIsLookedAtOnce) {
  const std::uint64_t two = run({.ranks = 2}, {}, true).spared;
  const std::uint64_t three = run({.ranks = 3}, {}, true).spared;
  // A rank more spares post and used of each of four parameters per step. Parameters themselves are compared
  // with another rank's, which takes a look.
  EXPECT_EQ(three - two, 4U * 2U * static_cast<std::uint64_t>(kSteps));
}

// More than 4,096 weights: their contribution is remembered, too, and what the last step left until the end.
TEST(ContentsOfARunTest, ALoneRanksAverageIsItsGradient) {
  const std::uint64_t small = run({.ranks = 1}, {.width = 64}, true).spared;
  const std::uint64_t large = run({.ranks = 1}, {.width = 65}, true).spared;
  EXPECT_EQ(large - small, static_cast<std::uint64_t>(kSteps) + 1);
  const Job views{.width = 65, .ddp = {.gradient_as_bucket_view = true}, .accumulate = 2};
  expect_same("wide", {.ranks = 1}, {.width = 65});
  expect_same("wide on two ranks", {.ranks = 2}, {.width = 65});
  expect_same("wide views", {.ranks = 2}, views);
  expect_same("wide and covered", {.ranks = 2, .coverage = 4}, {.width = 65, .accumulate = 2});
}

TEST(ContentsOfARunTest, ChangesAfterTheReductionAreDetected) {
  const Job poking{.before_step = [](RankContext& context, nn::Sequential& model, std::int64_t) {
    if (context.rank() == 1) first_gradient(model).data<float>()[3] += 1.0F;
  }};
  EXPECT_TRUE(expect_same("a pointer", {.ranks = 2}, poking).breaks("replicas-equal"));

  const Job adding{.before_step = [](RankContext& context, nn::Sequential& model, std::int64_t) {
    const Tensor grad = first_gradient(model);
    if (context.rank() == 1) context.runtime().kernels().scale(grad, grad, 1.5);
  }};
  EXPECT_TRUE(expect_same("an operation", {.ranks = 2}, adding).breaks("replicas-equal"));

  const Job clipping{.before_step = [](RankContext&, nn::Sequential& model, std::int64_t) {
    optim::clip_grad_norm(model.parameters(), {.max_norm = 0.01});
  }};
  EXPECT_TRUE(expect_same("clipping", {.ranks = 2}, clipping).broken.empty());
}

// Taken before the first step, used before the last.
TEST(ContentsOfARunTest, AHeldPointerIsSeen) {
  float* held = nullptr;
  const Job job{.ddp = {.gradient_as_bucket_view = true},
                .before_step = [&](RankContext& context, nn::Sequential& model, std::int64_t step) {
                  if (context.rank() != 1) return;
                  if (step == 1) held = first_gradient(model).data<float>();
                  if (step + 1 == kSteps) held[3] += 1.0F;
                }};
  EXPECT_TRUE(expect_same("held", {.ranks = 2}, job).breaks("replicas-equal"));
}

TEST(ContentsOfARunTest, EveryContributionFaultIsDetected) {
  const auto fault = [](sim::FaultKind kind, bool result) {
    return sim::Fault{.kind = kind,
                      .rank = 1,
                      .step = 1,
                      .at = CollectiveOp::kAllReduce,
                      .delay = Duration{5},
                      .element = 7,
                      .bit = 30,
                      .result = result};
  };
  for (const bool view : {false, true}) {
    const Job job{.ddp = {.gradient_as_bucket_view = view}};
    const RunOptions flipped{.ranks = 3, .faults = {fault(sim::FaultKind::kCorrupted, true)}};
    EXPECT_TRUE(expect_same("flipped", flipped, job).breaks("replicas-equal"));
    const RunOptions sent{.ranks = 3, .faults = {fault(sim::FaultKind::kCorrupted, false)}};
    EXPECT_TRUE(expect_same("sent", sent, job).breaks("gradient-mean"));
    const RunOptions stale{.ranks = 3, .faults = {fault(sim::FaultKind::kStale, false)}};
    EXPECT_TRUE(expect_same("stale", stale, job).breaks("gradient-mean"));
    const RunOptions twice{.ranks = 3, .faults = {fault(sim::FaultKind::kDuplicated, false)}};
    EXPECT_TRUE(expect_same("twice", twice, job).breaks("gradient-mean"));
    const RunOptions late{.ranks = 3, .faults = {fault(sim::FaultKind::kDelayed, false)}};
    EXPECT_TRUE(expect_same("late", late, job).broken.empty());
  }
}

// A transfer that is never waited for may write to the gradients at any time: between the average
// and the step, or after it.
TEST(ContentsOfARunTest, AnUnawaitedTransferIsDetected) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Job job{.before_step = [&](RankContext& context, nn::Sequential& model, std::int64_t) {
      (void)context.world().all_reduce(Memory::of(first_gradient(model)));
      context.host().point({});
    }};
    const RunOptions options{.ranks = 3, .schedule_seed = seed, .strategy = "random"};
    expect_same("unawaited", options, job);
  }
}

// The transfer's memory becomes another tensor's while it is under way.
TEST(ContentsOfARunTest, ATransferIntoMemoryThatWasGivenBackIsSeen) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Job job{
        .before_step = [](RankContext& context, nn::Sequential& model, std::int64_t step) {
          if (step == 0) return;
          const Tensor copy = first_gradient(model).clone();
          (void)context.world().all_reduce(Memory::of(copy));
        }};
    const RunOptions options{.ranks = 3, .schedule_seed = seed, .strategy = "random"};
    expect_same("given back", options, job);
  }
}

}  // namespace lockstep::testing
