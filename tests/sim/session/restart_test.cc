// A job over attempts: what the report, the trace and the ranks see of a restart.
#include <gmock/gmock.h>

#include "lockstep/base/text.h"
#include "lockstep/laws/trace_check.h"
#include "lockstep/sim/session/session.h"
#include "lockstep/train/rank_program.h"

#include "tests/train/one_rank.h"

namespace lockstep::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Duration kMillisecond{1'000'000};

SessionOptions agent_of(std::int32_t n_ranks, std::vector<Fault> faults) {
  SessionOptions options;
  options.n_ranks = n_ranks;
  options.faults = std::move(faults);
  options.agent = AgentOptions{.max_restarts = 2};
  return options;
}

Job job_of(std::int64_t rows) {
  Job job;
  job.model.kind = ModelKind::kMlp;
  job.model.widths = {1, 3, 1};
  std::vector<double> x;
  std::vector<double> y;
  for (std::int64_t i = 0; i < rows; ++i) {
    x.push_back(static_cast<double>(i));
    y.push_back(static_cast<double>(i % 3));
  }
  job.train = lockstep::testing::column_data(x, y);
  job.loader = {.batch = 2, .shuffle = true, .seed = 3};
  job.loop.steps = 6;
  job.loop.snapshot = {.every_steps = 2, .path = "ckpt"};
  return job;
}

SessionResult run(const SessionOptions& options, const Job& job) {
  Session session;
  auto result = session.run(options, [&](RankContext& context) { run_job(job, context, {}); });
  EXPECT_TRUE(result.ok());
  return std::move(result).value();
}

std::vector<std::int32_t> attempts_in(const MemoryTrace& trace, Rank rank) {
  std::vector<std::int32_t> attempts;
  for (const Event& event : trace.events(rank)) {
    if (attempts.empty() || attempts.back() != event.at.attempt) {
      attempts.push_back(event.at.attempt);
    }
  }
  return attempts;
}

TEST(Restart, IsOneRunWithOneTrace) {
  const Fault fault{
      .kind = FaultKind::kOutOfMemory, .rank = 2, .step = 3, .at = CollectiveOp::kAllReduce};
  const SessionResult result = run(agent_of(3, {fault}), job_of(18));
  EXPECT_EQ(name_of(result.report.outcome), "ok") << render_text(result.report, false);
  EXPECT_THAT(result.report.attempts,
              ElementsAre("rank 2: injected fault: rank 2: out-of-memory at all_reduce 0 of step "
                          "3"));
  ASSERT_EQ(result.attempts.size(), 2U);
  EXPECT_EQ(result.attempts[0].struck.size(), 1U);
  for (std::int32_t r = 0; r < 3; ++r) {
    EXPECT_THAT(attempts_in(*result.trace, Rank{r}), ElementsAre(0, 1));
    std::uint64_t index = 0;
    for (const Event& event : result.trace->events(Rank{r})) EXPECT_EQ(event.index, index++);
  }
  EXPECT_THAT(render_text(result.report, false), HasSubstr("attempt 0 ended: rank 2: injected"));
  EXPECT_THAT(render_json(result.report), HasSubstr(R"("attempts":["rank 2: injected)"));
}

// Deterministic over attempts too: the same digests, and different ones for a different fault.
TEST(Restart, RestartedRunsAreDeterministic) {
  SessionOptions options =
      agent_of(3, {{.kind = FaultKind::kExit, .rank = 1, .step = 4, .at = EventKind::kForward}});
  options.strategy = "random";
  options.schedule_seed = 5;
  const SessionResult once = run(options, job_of(18));
  EXPECT_EQ(once.report.trace_digest, run(options, job_of(18)).report.trace_digest);
  options.faults[0].step = 5;
  EXPECT_NE(once.report.trace_digest, run(options, job_of(18)).report.trace_digest);
}

TEST(Restart, EndsWhenTheAttemptsAreUsedUp) {
  std::vector<Fault> faults;
  for (std::int32_t attempt = 0; attempt < 3; ++attempt) {
    faults.push_back({.rank = 1, .attempt = attempt, .step = 1, .at = EventKind::kForward});
  }
  const SessionResult result = run(agent_of(2, faults), job_of(8));
  EXPECT_EQ(name_of(result.report.outcome), "error");
  EXPECT_EQ(result.attempts.size(), 3U);
  EXPECT_EQ(result.report.error, "rank 1: injected fault: rank 1: sigkill at forward 0 of step 1");
}

// Without an agent nothing stops the others: they learn of the death where they need the dead one.
TEST(Restart, NeedsAnAgent) {
  SessionOptions options = agent_of(3, {{.rank = 1, .step = 2, .at = EventKind::kForward}});
  options.agent.reset();
  const SessionResult result = run(options, job_of(18));
  EXPECT_EQ(name_of(result.report.outcome), "findings");
  EXPECT_EQ(result.attempts.size(), 1U);
  const auto progress = std::find_if(result.report.laws.begin(),
                                     result.report.laws.end(),
                                     [](const LawResult& law) { return law.law == "progress"; });
  ASSERT_FALSE(progress->findings.empty());
  EXPECT_EQ(id_of(progress->findings[0].cause), "rank-crash");
}

TEST(Restart, ARunMayContinueWithFewerAndThenMoreRanks) {
  SessionOptions options =
      agent_of(3,
               {{.rank = 2, .attempt = 0, .step = 2, .at = EventKind::kForward},
                {.rank = 0, .attempt = 1, .step = 4, .at = EventKind::kForward}});
  options.agent->n_ranks_later = {2, 4};
  const SessionResult result = run(options, job_of(24));
  EXPECT_EQ(name_of(result.report.outcome), "ok") << render_text(result.report, false);
  ASSERT_EQ(result.attempts.size(), 3U);
  EXPECT_EQ(result.attempts[1].n_ranks, 2);
  EXPECT_EQ(result.attempts[2].n_ranks, 4);
  EXPECT_THAT(attempts_in(*result.trace, Rank{2}), ElementsAre(0, 2));
  EXPECT_THAT(attempts_in(*result.trace, Rank{3}), ElementsAre(2));
  // A checker that has only the files knows as much.
  const LoadedTrace files{.header = {.n_ranks = 4}, .trace = result.trace, .notes = {}};
  const Result<Report> checked = check_trace(files, {});
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(name_of(checked.value().outcome), "ok") << render_text(checked.value(), false);
}

TEST(Restart, ARunMayEndWithFewerRanks) {
  SessionOptions options = agent_of(3, {{.rank = 2, .step = 4, .at = EventKind::kForward}});
  options.agent->n_ranks_later = {2};
  const SessionResult result = run(options, job_of(12));
  EXPECT_EQ(name_of(result.report.outcome), "ok") << render_text(result.report, false);
  EXPECT_EQ(result.attempts.back().n_ranks, 2);
  const LoadedTrace files{.header = {.n_ranks = 3}, .trace = result.trace, .notes = {}};
  EXPECT_EQ(name_of(check_trace(files, {}).value().outcome), "ok");
}

/// What the parameters of all ranks end with.
std::vector<std::uint64_t> final_state(const SessionResult& result) {
  std::vector<std::uint64_t> digests;
  for (std::int32_t r = 0; r < result.trace->n_ranks(); ++r) {
    for (const Event& event : result.trace->events(Rank{r})) {
      const auto* state = std::get_if<StateEvent>(&event.body);
      if (state == nullptr || state->point != StatePoint::kEnd) continue;
      digests.insert(digests.end(), state->digests.begin(), state->digests.end());
    }
  }
  return digests;
}

bool resumes_with_the_same_bits(const ReductionOrder& order, bool rebuilds) {
  Job job = job_of(30);
  job.model.widths = {1, 60, 50, 1};
  job.ddp.options.find_unused_parameters = !rebuilds;
  SessionOptions options = agent_of(3, {});
  options.group.order = order;
  const SessionResult whole = run(options, job);
  options.faults = {{.rank = 1, .step = 3, .at = EventKind::kForward}};
  const SessionResult resumed = run(options, job);
  EXPECT_EQ(resumed.attempts.size(), 2U);
  EXPECT_FALSE(final_state(whole).empty());
  return final_state(whole) == final_state(resumed);
}

// Why a resumed run may end with other last bits: a wrapper's first backward uses the buckets of
// its construction, the others those it rebuilds in the order in which gradients came. A restart
// builds again, so one more step uses the first layout; where a sum's order depends on its place in
// the bucket, that rounds differently. Where nothing is rebuilt, or places do not matter, all bits
// are those of the whole run.
TEST(Restart, RoundsDifferentlyOnlyWhereBucketsAreRebuilt) {
  EXPECT_FALSE(resumes_with_the_same_bits(ReductionOrder::kGlooRing, true));
  EXPECT_TRUE(resumes_with_the_same_bits(ReductionOrder::kGlooRing, false));
  EXPECT_TRUE(resumes_with_the_same_bits(ReductionOrder::kRank, true));
  EXPECT_TRUE(resumes_with_the_same_bits(ReductionOrder::kRank, false));
}

/// When the first attempt's or the second's ranks finish computing once, in milliseconds.
std::vector<std::int64_t> times(bool reassign, std::int32_t attempt) {
  SessionOptions options = agent_of(3, {{.rank = 0, .step = 0, .at = EventKind::kForward}});
  options.timed = true;
  options.compute.mflops = 1000;
  options.compute.slow = {{.rank = 2, .permille = 3000}};
  options.agent->reassign = reassign;
  std::vector<std::int64_t> ends(3);
  Session session;
  auto result = session.run(options, [&](RankContext& context) {
    const std::int64_t number =
        parse_int(context.host().environment("TORCHELASTIC_RESTART_COUNT").value()).value();
    const Tensor square = Tensor::full(context.runtime(), {100, 100}, DType::kF32, 1.0);
    const Tensor out = Tensor::empty(context.runtime(), {100, 100}, DType::kF32);
    context.runtime().kernels().gemm(out, square, square, {});
    if (number == attempt) {
      ends[static_cast<std::size_t>(context.rank())] = context.host().now().ns / 1'000'000;
    }
    if (number == 0) throw std::runtime_error("once more");
  });
  EXPECT_TRUE(result.ok());
  return ends;
}

// The slow processor stays where it is; after a rendezvous another rank sits there.
TEST(Restart, AssignsPlacesAgain) {
  EXPECT_THAT(times(false, 0), ElementsAre(2, 2, 6));
  EXPECT_THAT(times(false, 1), ElementsAre(2, 2, 6));
  EXPECT_THAT(times(true, 0), ElementsAre(2, 2, 6));
  EXPECT_THAT(times(true, 1), ElementsAre(2, 6, 2));
}

// -- what watchdogs say, and the verdict that needs none

SessionResult stuck_run(Duration watchdog) {
  SessionOptions options;
  options.n_ranks = 3;
  options.group.watchdog = watchdog;
  Session session;
  auto result = session.run(options, [](RankContext& context) {
    if (context.rank() == 1) return;
    context.world().barrier().wait_or_throw();
  });
  EXPECT_TRUE(result.ok());
  return std::move(result).value();
}

TEST(Watchdog, SaysWhatTimedOutNextToTheVerdict) {
  const SessionResult result = stuck_run(kMillisecond);
  EXPECT_EQ(name_of(result.report.outcome), "hang");
  EXPECT_THAT(result.report.wait_for_graph, HasSubstr("missing: rank 1, which ended normally"));
  EXPECT_THAT(result.report.timeouts, HasSubstr("rank 0: barrier #0 of group 0 at"));
  EXPECT_THAT(result.report.timeouts,
              HasSubstr("has not completed in 1000000 ns; missing: rank 1, which ended normally"));
  EXPECT_EQ(result.world.ends[0].time.ns, kMillisecond.ns);
  EXPECT_THAT(result.world.ends[0].detail, HasSubstr("timed_out"));
}

TEST(Watchdog, IsNotNeededForTheVerdict) {
  const SessionResult result = stuck_run({});
  EXPECT_EQ(name_of(result.report.outcome), "hang");
  EXPECT_THAT(result.report.wait_for_graph, HasSubstr("missing: rank 1"));
  EXPECT_THAT(result.report.timeouts, IsEmpty());
}

TEST(Watchdog, ARunAfterAHangSaysNothingOfIt) {
  SessionOptions options;
  options.n_ranks = 3;
  Session session;
  for (const bool hangs : {true, false}) {
    const auto result = session.run(options, [&](RankContext& context) {
      if (hangs && context.rank() == 1) return;
      context.world().barrier().wait_or_throw();
    });
    ASSERT_TRUE(result.ok());
    const Report& report = result.value().report;
    EXPECT_EQ(report.ok(), !hangs) << render_text(report, false);
    EXPECT_EQ(report.wait_for_graph.empty(), !hangs) << report.wait_for_graph;
    EXPECT_EQ(result.value().wait_for.nodes.empty(), !hangs);
  }
}

// Late is not missing: with less patience than a rank takes, a run that would end well ends badly.
TEST(Watchdog, CannotTellLateFromMissingButSaysSo) {
  SessionOptions options;
  options.n_ranks = 2;
  options.timed = true;
  const auto body = [](RankContext& context) {
    if (context.rank() == 1) context.host().sleep(Duration{3 * kMillisecond.ns});
    context.world().barrier().wait_or_throw();
  };
  Session session;
  for (const std::int64_t patience : {2, 4}) {
    options.group.watchdog = {patience * kMillisecond.ns};
    const auto result = session.run(options, body);
    ASSERT_TRUE(result.ok());
    const Report& report = result.value().report;
    EXPECT_FALSE(result.value().world.stuck.has_value());
    EXPECT_EQ(report.ok(), patience == 4) << render_text(report, false);
    if (patience == 4) {
      EXPECT_THAT(report.timeouts, IsEmpty());
    } else {
      EXPECT_THAT(report.timeouts, HasSubstr("; late: rank 1, which"));
      EXPECT_THAT(report.timeouts, Not(HasSubstr("missing")));
    }
  }
}

// -- other faults of ranks

TEST(RankFaults, ASignalWithGraceLetsARankFinish) {
  SessionOptions options;
  options.n_ranks = 2;
  options.timed = true;
  options.faults = {{.kind = FaultKind::kSigterm,
                     .rank = 1,
                     .time = VirtualTime{kMillisecond.ns},
                     .grace = Duration{5 * kMillisecond.ns}}};
  const auto body = [](RankContext& context) {
    context.host().sleep(Duration{4 * kMillisecond.ns});
    context.world().barrier().wait_or_throw();
  };
  Session session;
  EXPECT_EQ(name_of(session.run(options, body).value().report.outcome), "ok");
  options.faults[0].grace = kMillisecond;
  const auto late = session.run(options, body);
  EXPECT_EQ(name_of(late.value().report.outcome), "findings");
  EXPECT_EQ(late.value().world.ends[1].time.ns, 2 * kMillisecond.ns);
}

TEST(RankFaults, ASlowRankTakesLongerForATime) {
  SessionOptions options;
  options.n_ranks = 1;
  options.timed = true;
  options.compute.mflops = 1000;
  options.faults = {{.kind = FaultKind::kSlow,
                     .time = VirtualTime{kMillisecond.ns},
                     .permille = 4000,
                     .lasting = Duration{5 * kMillisecond.ns}}};
  std::vector<std::int64_t> ends;
  Session session;
  ASSERT_TRUE(
      session
          .run(options,
               [&](RankContext& context) {
                 const Tensor a = Tensor::full(context.runtime(), {100, 100}, DType::kF32, 1.0);
                 const Tensor out = Tensor::empty(context.runtime(), {100, 100}, DType::kF32);
                 for (int i = 0; i < 4; ++i) {
                   context.runtime().kernels().gemm(out, a, a, {});
                   ends.push_back(context.host().now().ns / 1'000'000);
                 }
               })
          .ok());
  // 2 ms each; the second begins while all takes four times as long, the third does not.
  EXPECT_THAT(ends, ElementsAre(2, 10, 12, 14));
}

TEST(RankFaults, ClocksThatDisagreeChangeTimesAndNothingElse) {
  SessionOptions options = agent_of(2, {});
  options.agent.reset();
  const SessionResult right = run(options, job_of(8));
  options.clock_skews = {{}, Duration{5'000'000}};
  const SessionResult wrong = run(options, job_of(8));
  EXPECT_EQ(name_of(wrong.report.outcome), "ok");
  EXPECT_EQ(wrong.report.result_digest, right.report.result_digest);
  EXPECT_NE(wrong.report.trace_digest, right.report.trace_digest);
  EXPECT_EQ(wrong.trace->events(Rank{1})[0].time.ns, 5'000'000);
}

}  // namespace
}  // namespace lockstep::sim
