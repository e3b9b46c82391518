// What happens to contributions and links, and which verdict or law reports it.
#include <gmock/gmock.h>

#include "lockstep/sim/session/session.h"
#include "lockstep/train/rank_program.h"

#include "tests/train/one_rank.h"

namespace lockstep::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Sums = std::vector<std::vector<double>>;  // By call, by rank.

/// Three ranks add up 1, 10 and 100 times the number of the call, `n_calls` times.
struct Outcome {
  SessionResult result;
  Sums sums;
  std::vector<std::int64_t> times;  // By call: when rank 0 had it.
};

Outcome add_up(SessionOptions options, std::vector<Fault> faults, int n_calls = 2) {
  options.n_ranks = 3;
  options.faults = std::move(faults);
  Outcome outcome;
  outcome.sums.assign(static_cast<std::size_t>(n_calls), std::vector<double>(3, -1.0));
  Session session;
  auto result = session.run(options, [&](RankContext& context) {
    const double weights[] = {1.0, 10.0, 100.0};
    for (int call = 0; call < n_calls; ++call) {
      double value = weights[context.rank()] * (call + 1);
      context.world().all_reduce({&value, 1, DType::kF64}).wait_or_throw();
      const auto place = static_cast<std::size_t>(call);
      outcome.sums[place][static_cast<std::size_t>(context.rank())] = value;
      if (context.rank() == 0) outcome.times.push_back(context.host().now().ns);
    }
  });
  EXPECT_TRUE(result.ok());
  outcome.result = std::move(result).value();
  return outcome;
}

Fault at_call(FaultKind kind, std::int64_t nth) {
  return {.kind = kind, .rank = 1, .at = CollectiveOp::kAllReduce, .nth = nth};
}

SessionOptions messages() {
  SessionOptions options;
  options.group.fidelity = Fidelity::kMessage;
  return options;
}

class Contributions : public ::testing::TestWithParam<Fidelity> {
 protected:
  static SessionOptions options() {
    SessionOptions options;
    options.group.fidelity = GetParam();
    return options;
  }
};

TEST_P(Contributions, AHealthyNetworkDeliversContributionsUnchanged) {
  const Outcome healthy = add_up(options(), {});
  EXPECT_EQ(name_of(healthy.result.report.outcome), "ok");
  EXPECT_THAT(healthy.sums, ElementsAre(std::vector(3, 111.0), std::vector(3, 222.0)));
}

// What is lost cannot get lost once more, nor come late.
TEST_P(Contributions, ALostContributionCannotBeLostOrDelayedAgain) {
  for (const FaultKind second : {FaultKind::kLost, FaultKind::kDelayed}) {
    const Outcome outcome = add_up(options(), {at_call(FaultKind::kLost, 1), at_call(second, 1)});

    EXPECT_EQ(outcome.result.report.outcome, RunOutcome::kHang);
    EXPECT_THAT(outcome.sums, ElementsAre(std::vector(3, 111.0), std::vector(3, -1.0)));
  }
}

TEST_P(Contributions, ADuplicatedContributionCountsTwice) {
  const Outcome outcome = add_up(options(), {at_call(FaultKind::kDuplicated, 1)});
  EXPECT_THAT(outcome.sums, ElementsAre(std::vector(3, 111.0), std::vector(3, 242.0)));
}

TEST_P(Contributions, AStaleContributionIsThatOfThePreviousCall) {
  const Outcome outcome = add_up(options(), {at_call(FaultKind::kStale, 1)});
  EXPECT_THAT(outcome.sums, ElementsAre(std::vector(3, 111.0), std::vector(3, 212.0)));
  // There is nothing before the first.
  const Outcome first = add_up(options(), {at_call(FaultKind::kStale, 0)});
  EXPECT_THAT(first.sums, ElementsAre(std::vector(3, 111.0), std::vector(3, 222.0)));
}

TEST_P(Contributions, ABitFlippedBeforeTheReductionReachesEveryRank) {
  Fault fault = at_call(FaultKind::kCorrupted, 0);
  fault.bit = 63;  // The sign: -10 instead of 10.
  const Outcome outcome = add_up(options(), {fault});
  EXPECT_THAT(outcome.sums, ElementsAre(std::vector(3, 91.0), std::vector(3, 222.0)));
}

TEST_P(Contributions, ABitFlippedAfterTheReductionReachesOneRank) {
  Fault fault = at_call(FaultKind::kCorrupted, 0);
  fault.bit = 63;
  fault.result = true;
  const Outcome outcome = add_up(options(), {fault});
  EXPECT_THAT(outcome.sums, ElementsAre(ElementsAre(111.0, -111.0, 111.0), std::vector(3, 222.0)));
}

TEST_P(Contributions, ALateContributionDelaysButDoesNotChangeTheSum) {
  Fault fault = at_call(FaultKind::kDelayed, 1);
  fault.delay = Duration{700};
  const Outcome outcome = add_up(options(), {fault});
  EXPECT_EQ(name_of(outcome.result.report.outcome), "ok");
  EXPECT_THAT(outcome.sums, ElementsAre(std::vector(3, 111.0), std::vector(3, 222.0)));
  EXPECT_THAT(outcome.times, ElementsAre(0, 700));
}

TEST_P(Contributions, ALostContributionIsAHangThatNamesIt) {
  const Outcome outcome = add_up(options(), {at_call(FaultKind::kLost, 1)});
  EXPECT_EQ(name_of(outcome.result.report.outcome), "hang");
  EXPECT_THAT(outcome.result.report.wait_for_graph, HasSubstr("missing: rank 1, which"));
  EXPECT_THAT(outcome.result.report.wait_for_graph,
              HasSubstr("lost: the contribution of rank 1 to all_reduce #1 of group 0"));
  // Rank 1 waits for the others, which wait for it because of the loss: not for itself.
  EXPECT_THAT(outcome.result.report.wait_for_graph, Not(HasSubstr("cycle")));
  EXPECT_THAT(outcome.sums[0], ElementsAre(111.0, 111.0, 111.0));
}

TEST_P(Contributions, AWatchdogNamesTheLostContribution) {
  SessionOptions watched = options();
  watched.group.watchdog = Duration{5000};
  const Outcome outcome = add_up(watched, {at_call(FaultKind::kLost, 1)});
  ASSERT_EQ(outcome.result.attempts.size(), 1U);
  EXPECT_THAT(outcome.result.attempts[0].root_cause,
              HasSubstr("missing: rank 1, which called it, but its contribution was lost"));
}

// A watchdog makes it a failure on all ranks, and an agent a restart.
TEST_P(Contributions, ARestartRecoversALostContribution) {
  SessionOptions with_agent = options();
  with_agent.group.watchdog = Duration{5000};
  with_agent.agent = AgentOptions{.max_restarts = 1};
  const Outcome outcome = add_up(with_agent, {at_call(FaultKind::kLost, 1)});
  EXPECT_EQ(name_of(outcome.result.report.outcome), "ok");
  EXPECT_EQ(outcome.result.attempts.size(), 2U);
  EXPECT_THAT(outcome.sums, ElementsAre(std::vector(3, 111.0), std::vector(3, 222.0)));
}

INSTANTIATE_TEST_SUITE_P(Fidelities,
                         Contributions,
                         ::testing::Values(Fidelity::kRendezvous, Fidelity::kMessage));

// -- links

SessionOptions with_outage(SessionOptions options, Outage outage) {
  options.timed = true;
  options.group.net.outages = {std::move(outage)};
  return options;
}

TEST(LinkFaults, ALinkThatComesBackCostsTime) {
  for (const SessionOptions& options : {SessionOptions{}, messages()}) {
    const Outcome outcome = add_up(with_outage(options, {.ranks = {1}, .for_ns = 900}), {});
    EXPECT_EQ(name_of(outcome.result.report.outcome), "ok");
    EXPECT_THAT(outcome.sums, ElementsAre(std::vector(3, 111.0), std::vector(3, 222.0)));
    EXPECT_THAT(outcome.times, ElementsAre(900, 900));
  }
}

TEST(LinkFaults, APartitionIsAHangThatNamesTheSides) {
  for (const SessionOptions& options : {SessionOptions{}, messages()}) {
    const Outcome outcome = add_up(with_outage(options, {.ranks = {1}, .peers = {0, 2}}), {});
    EXPECT_EQ(name_of(outcome.result.report.outcome), "hang");
    EXPECT_THAT(outcome.result.report.wait_for_graph,
                HasSubstr("link down: no message passes between rank 1 and ranks 0, 2"));
    EXPECT_THAT(outcome.result.report.wait_for_graph, HasSubstr("missing: rank"));
  }
}

// Between others nothing is down.
TEST(LinkFaults, APartitionOfOneGroupLeavesOthersConnected) {
  SessionOptions options = with_outage({}, {.ranks = {2}});
  options.n_ranks = 3;
  Session session;
  const auto result = session.run(options, [&](RankContext& context) {
    const std::vector<std::int32_t> pair = {0, 1};
    const auto group = context.world().split(pair, {});
    if (group) group->barrier().wait_or_throw();
  });
  EXPECT_EQ(name_of(result.value().report.outcome), "ok");
}

TEST(LinkFaults, FlappingLinksAreUpInBetween) {
  const Outage flapping{.ranks = {0}, .from_ns = 100, .for_ns = 50, .period_ns = 200};
  EXPECT_EQ(flapping.next_up(0), 0);
  EXPECT_EQ(flapping.next_up(100), 150);
  EXPECT_EQ(flapping.next_up(149), 150);
  EXPECT_EQ(flapping.next_up(150), 150);
  EXPECT_EQ(flapping.next_up(299), 299);
  EXPECT_EQ(flapping.next_up(320), 350);
  const Outage twin{.ranks = {0}, .from_ns = 150, .for_ns = 100, .period_ns = 200};
  const std::vector<Outage> both = {flapping, twin};
  EXPECT_EQ(next_up(both, 0, 1, 120), 250);  // 150 comes up, but the twin goes down.
  EXPECT_EQ(next_up(both, 1, 2, 120), 120);
  const Outage for_good{.ranks = {0}, .from_ns = 10};
  EXPECT_EQ(for_good.next_up(9), 9);
  EXPECT_EQ(for_good.next_up(10), std::nullopt);
}

TEST(LinkFaults, MessagesWaitForTheirLink) {
  SessionOptions options = with_outage({}, {.ranks = {0}, .peers = {1}, .for_ns = 400});
  options.n_ranks = 2;
  const auto body = [](RankContext& context) {
    float value = 1.0F;
    if (context.rank() == 0) {
      context.world().send({&value, 1, DType::kF32}, 1).wait_or_throw();
    } else {
      context.world().recv({&value, 1, DType::kF32}, 0).wait_or_throw();
    }
  };
  Session session;
  const auto healed = session.run(options, body);
  EXPECT_EQ(name_of(healed.value().report.outcome), "ok");
  EXPECT_EQ(healed.value().world.ends[1].time.ns, 400);
  options.group.net.outages[0].for_ns = 0;
  EXPECT_EQ(name_of(session.run(options, body).value().report.outcome), "hang");
}

// -- the laws that find what no rank notices

Report train(const Fault& fault, bool exact) {
  Job job;
  job.model.kind = ModelKind::kScalar;
  job.model.widths = {1, 1};
  job.model.dtype = DType::kF64;
  job.model.init = {.kind = InitKind::kConstant, .value = 1.0};
  job.train = lockstep::testing::column_data({1, 2, 3, 4}, {0, 0, 0, 0});
  job.optimizer.lr = 0.25;
  job.loop.steps = 2;
  SessionOptions options;
  options.n_ranks = 2;
  options.exact = exact;
  options.faults = {fault};
  Session session;
  return session.run(options, [&](RankContext& context) { run_job(job, context, {}); })
      .value()
      .report;
}

bool fires(const Report& report, std::string_view id) {
  return std::any_of(report.laws.begin(), report.laws.end(), [&](const LawResult& law) {
    return law.law == id && !law.findings.empty();
  });
}

TEST(NetworkFaultLaws, GradientMeanNoticesFaultsThatLeaveReplicasEqual) {
  Fault fault{.rank = 1, .step = 1, .at = CollectiveOp::kAllReduce};
  fault.kind = FaultKind::kDuplicated;
  EXPECT_TRUE(fires(train(fault, false), "gradient-mean"));
  EXPECT_FALSE(fires(train(fault, false), "replicas-equal"));
  fault.kind = FaultKind::kStale;
  EXPECT_TRUE(fires(train(fault, false), "gradient-mean"));
  fault.kind = FaultKind::kCorrupted;
  fault.bit = 52;
  EXPECT_TRUE(fires(train(fault, false), "gradient-mean"));
  EXPECT_FALSE(fires(train(fault, false), "replicas-equal"));
  fault.result = true;
  EXPECT_TRUE(fires(train(fault, false), "replicas-equal"));
  fault.kind = FaultKind::kDelayed;
  fault.delay = Duration{5};
  EXPECT_TRUE(train(fault, false).ok());
}

}  // namespace
}  // namespace lockstep::sim
