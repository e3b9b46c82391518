// collectives-match on calls that are shifted by one too many, or made in another order.
#include <cstdint>
#include <gmock/gmock.h>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/calls.h"
#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::Calls;
using testing::check;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr CollectiveOp kReduced = CollectiveOp::kAllReduce;

/// A gradient's reduction in each step, then the largest loss of the epoch by another operation.
struct EpochCalls : Calls {
  explicit EpochCalls(std::int32_t n_ranks) : Calls(n_ranks) {}

  void train(std::int32_t rank, int n_steps = 2) {
    for (int i = 0; i < n_steps; ++i) post(rank, make(kReduced, 40));
  }

  void largest_loss(std::int32_t rank) {
    CollectiveEvent event = make(kReduced, 50);
    event.signature.reduce = ReduceOp::kMax;
    post(rank, event);
  }

  LawResult result() {
    end_all();
    return check("collectives-match", stream);
  }
};

// Rank 2's logging all-reduce fits the gradient's; only much later a maximum meets a sum.
TEST(CallOrderTest, AnExtraCallIsNamedBeforeTheReductionThatNoLongerFits) {
  EpochCalls calls(3);
  for (const std::int32_t rank : {0, 1, 2}) {
    calls.train(rank);
    if (rank == 2) calls.post(rank, calls.make(kReduced, 7, "log.py"));
    calls.train(rank);
    calls.largest_loss(rank);
  }
  const LawResult result = calls.result();
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(finding.field, "site");
  EXPECT_EQ(finding.seq, 2);
  EXPECT_THAT(finding.ranks, ElementsAre(Rank{2}));
  EXPECT_EQ(finding.site, "log.py:7");
  EXPECT_EQ(finding.other_site, "train.py:40");
  EXPECT_THAT(finding.message,
              HasSubstr("rank 2 calls all_reduce at log.py:7 once more than the others"));
  EXPECT_THAT(finding.message, HasSubstr("call 4 is the first mismatch"));
  EXPECT_EQ(id_of(finding.cause), "code-skew");
}

/// One rank takes a maximum that the others do not, between two steps.
Finding extra_call_of(std::int32_t odd) {
  EpochCalls calls(3);
  for (const std::int32_t rank : {0, 1, 2}) {
    calls.train(rank);
    if (rank == odd) calls.largest_loss(rank);
    calls.train(rank);
  }
  return calls.result().findings.at(0);
}

// Where the extra call itself does not fit, the place was right; now the message says what it is.
/// Rank 0's optimizer steps after each gradient's reduction, as the others' do; `logs` says after which steps it
/// reduces at another line, or `instead` of a gradient's. It waits in its last call.
Calls shifted(int n_steps, bool instead) {
  Calls calls(2);
  for (int i = 0; i < n_steps; ++i) {
    calls.post(1, calls.make(kReduced, 40));
    calls.stream.add(1, StepEvent{.lr = 0.5});
    ++calls.stream.at(1).opt;
  }
  for (int step = 0; calls.next[0] <= calls.next[1]; ++step) {
    const bool logs = step % 2 == 1;
    const auto post = [&](int line) {
      const bool completes = calls.next[0] < calls.next[1];
      if (calls.next[0] <= calls.next[1]) calls.post(0, calls.make(kReduced, line), completes);
    };
    if (logs) post(24);
    if (!logs || !instead) post(40);
    calls.stream.add(0, StepEvent{.lr = 0.5});
    ++calls.stream.at(0).opt;
  }
  calls.end(0, EndOutcome::kStuck);
  calls.end(1);
  return calls;
}

// It never gets so far that it has made all of the others' calls.
TEST(CallOrderTest, ACallOfRankZeroThatShiftsAllOthersUntilTheyEndIsNamed) {
  const Calls calls = shifted(6, false);
  for (const LawResult& result : {check("collectives-match", calls.stream),
                                  testing::check_together("collectives-match", calls.stream)}) {
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(id_of(result.findings[0].cause), "rank0-only-collective");
    EXPECT_EQ(result.findings[0].site, "train.py:24");
    EXPECT_EQ(result.findings[0].seq, 1);
  }
}

// One step more than the others, in some of them by another line.
TEST(CallOrderTest, ARankThatStepsOnceMoreMakesNoExtraCall) {
  EXPECT_TRUE(check("collectives-match", shifted(6, true).stream).findings.empty());
}

TEST(CallOrderTest, AnExtraCallThatDoesNotFitIsCalledOne) {
  const Finding finding = extra_call_of(2);
  EXPECT_EQ(finding.field, "reduce");
  EXPECT_EQ(finding.seq, 2);
  EXPECT_THAT(finding.message,
              HasSubstr("rank 2 calls all_reduce at train.py:50 once more than the others"));
  EXPECT_EQ(id_of(finding.cause), "call-set-differs");
}

TEST(CallOrderTest, AnExtraCallOfRankZeroIsTheCauseWhateverElseDiffers) {
  const Finding finding = extra_call_of(0);
  EXPECT_EQ(finding.field, "reduce");
  EXPECT_EQ(id_of(finding.cause), "rank0-only-collective");
}

// Two lines for one purpose, and an operation that really differs: nothing is shifted.
TEST(CallOrderTest, AnotherLineForTheSameCallIsNoExtraCall) {
  Calls calls(3);
  for (const std::int32_t rank : {0, 1, 2}) {
    for (int i = 0; i < 3; ++i) calls.post(rank, calls.make(kReduced, rank == 2 ? 41 : 40));
    CollectiveEvent last = calls.make(kReduced, 60);
    if (rank == 2) last.signature.reduce = ReduceOp::kMax;
    calls.post(rank, last);
  }
  calls.end_all();
  const Finding finding = check("collectives-match", calls.stream).findings.at(0);
  EXPECT_EQ(finding.field, "reduce");
  EXPECT_EQ(finding.seq, 3);
  EXPECT_THAT(finding.message, Not(HasSubstr("once more")));
}

/// A loop over the metrics of a dictionary: each has its own size.
LawResult reduce_each(const std::vector<std::vector<std::int64_t>>& sizes_by_rank) {
  Calls calls(static_cast<std::int32_t>(sizes_by_rank.size()));
  for (std::int32_t rank = 0; rank < calls.stream.n_ranks(); ++rank) {
    for (const std::int64_t size : sizes_by_rank[static_cast<std::size_t>(rank)]) {
      CollectiveEvent event = calls.make(kReduced, 12, "metrics.py");
      event.signature.count = size;
      calls.post(rank, event);
    }
    calls.post(rank, calls.make(CollectiveOp::kBarrier, 20));
  }
  calls.end_all();
  return check("collectives-match", calls.stream);
}

TEST(CallOrderTest, TheSameKeysInAnotherOrderAreNamed) {
  const LawResult result = reduce_each({{1, 3, 2, 4}, {1, 3, 2, 4}, {1, 4, 3, 2}});
  const Finding& finding = result.findings.at(0);
  EXPECT_THAT(finding.ranks, ElementsAre(Rank{2}));
  EXPECT_EQ(finding.seq, 1);
  EXPECT_EQ(finding.field, "count");
  EXPECT_THAT(finding.message, HasSubstr("the same 3 calls in that loop, in different orders"));
  EXPECT_EQ(id_of(finding.cause), "order-swap");
}

TEST(CallOrderTest, OtherKeysAreNotAnotherOrder) {
  const Finding finding = reduce_each({{1, 3, 2}, {1, 3, 2}, {1, 5, 2}}).findings.at(0);
  EXPECT_THAT(finding.message, Not(HasSubstr("order")));
  EXPECT_EQ(id_of(finding.cause), "shape-mismatch-completes");
}

TEST(CallOrderTest, OneOrderOnAllRanksIsHealthy) {
  EXPECT_EQ(reduce_each({{1, 3, 2}, {1, 3, 2}, {1, 3, 2}}).verdict, Verdict::kHolds);
}

/// What a wrapper calls as a forward or backward of its begins.
CollectiveEvent of_wrapper(Calls& calls, DType dtype, const char* scope) {
  CollectiveEvent event = calls.make(CollectiveOp::kBroadcast, 10);
  event.signature.dtype = dtype;
  event.signature.site.scope = scope;
  return event;
}

LawResult evaluated_alone(bool through_wrapper, bool others_too) {
  Calls calls(3);
  for (const std::int32_t rank : {0, 1, 2}) {
    calls.stream.at(rank).wrapper = 0;
    const bool evaluates = rank == 0 || others_too;
    if (evaluates) calls.stream.add(rank, PhaseEvent{.kind = PhaseKind::kEval});
    const char* const scope = through_wrapper ? "ddp.buffers" : "";
    calls.post(rank, of_wrapper(calls, rank == 0 ? DType::kF32 : DType::kI32, scope));
  }
  return check("collectives-match", calls.stream);
}

// Its buffers meet what the others' training sends.
TEST(CallOrderTest, AnEvaluationOfRankZeroThroughTheWrapperIsTheCauseOfWhatItsCallMeets) {
  const LawResult result = evaluated_alone(true, false);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "rank0-only-collective");
  EXPECT_THAT(result.findings[0].message, HasSubstr("rank 0 evaluates through the wrapper"));
  for (const bool others_too : {true, false}) {
    EXPECT_EQ(id_of(evaluated_alone(others_too, others_too).findings.at(0).cause),
              "dtype-redop-root-mismatch");
  }
}

/// In each step a log at line 24 and a sum of `n_summed` elements at line 40. The skipper leaves out the log of step 2.
struct Logged {
  std::int32_t n_ranks = 2;
  std::int32_t skipper = 1;
  std::int64_t n_summed = 9;
  int n_steps = 3;
  const char* scope = "";

  LawResult result() const {
    Calls calls(n_ranks);
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      for (int step = 0; step < n_steps; ++step) {
        CollectiveEvent log = calls.make(kReduced, 24);
        log.signature.site.scope = scope;
        if (rank != skipper || step != 2) calls.post(rank, log);
        // The others wait for the log where nothing else fits it.
        const bool waits = step == 2 && rank != skipper && n_summed != log.signature.count;
        CollectiveEvent sum = calls.make(kReduced, 40);
        sum.signature.count = n_summed;
        if (!waits) calls.post(rank, sum);
        calls.stream.add(rank, StepEvent{.lr = 0.5});
        ++calls.stream.at(rank).opt;
      }
      calls.end(rank);
    }
    return check("collectives-match", calls.stream);
  }
};

TEST(CallOrderTest, ACallThatARankLeavesOutIsNamed) {
  for (const Logged& job : {Logged{.skipper = 1},
                            Logged{.skipper = 0},
                            Logged{.n_ranks = 3, .skipper = 2},
                            Logged{.n_ranks = 3, .skipper = 0}}) {
    const LawResult result = job.result();
    ASSERT_EQ(result.findings.size(), 1U);
    const Finding& finding = result.findings[0];
    const std::string rank = "rank " + std::to_string(job.skipper);
    EXPECT_THAT(finding.message,
                HasSubstr(rank + " skips all_reduce at train.py:24, which it makes at other times: "
                                 "mismatched collectives: "));
    EXPECT_EQ(id_of(finding.cause), "call-skipped");
    EXPECT_THAT(finding.ranks, ElementsAre(Rank{job.skipper}));
    EXPECT_EQ(finding.field, "count");
  }
}

TEST(CallOrderTest, ACallThatIsLeftOutShiftsThoseThatFit) {
  for (const std::int32_t skipper : {0, 1}) {
    const LawResult result = Logged{.skipper = skipper, .n_summed = 4, .n_steps = 5}.result();
    ASSERT_EQ(result.findings.size(), 1U);
    const Finding& finding = result.findings[0];
    EXPECT_THAT(finding.message,
                HasSubstr("skips all_reduce at train.py:24, which it makes at other times, which "
                          "shifts all later calls"));
    EXPECT_EQ(id_of(finding.cause), "call-skipped");
    EXPECT_THAT(finding.ranks, ElementsAre(Rank{skipper}));
  }
}

// As of a rank whose log of step 2 is missing, and whose backward meets the others' sum.
TEST(CallOrderTest, ACallThatIsLeftOutIsNamedBeforeTheOneThatNoLongerFits) {
  Calls calls(2);
  for (const std::int32_t rank : {0, 1}) {
    for (int step = 0; step < 3; ++step) {
      CollectiveEvent gradient = calls.make(kReduced, 7);
      gradient.signature.count = 100;
      calls.post(rank, gradient);
      if (rank == 0 || step < 2) calls.post(rank, calls.make(kReduced, 24));
      calls.post(rank, calls.make(kReduced, 40));
      if (rank == 1 && step == 2) calls.post(rank, gradient);
    }
    calls.end(rank);
  }
  const LawResult result = check("collectives-match", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].message,
              HasSubstr("rank 1 skips all_reduce at train.py:24, which it makes at other times"));
  EXPECT_THAT(result.findings[0].message, HasSubstr("; call 8 is the first mismatch"));
  EXPECT_EQ(id_of(result.findings[0].cause), "call-skipped");
}

TEST(CallOrderTest, WhatAWrapperCallsIsNotSkipped) {
  const LawResult result = Logged{.scope = "ddp.backward"}.result();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].message, Not(HasSubstr("skips")));
}

// Both make as many calls, by one line or the other.
TEST(CallOrderTest, ABranchWithACallOfItsOwnSkipsNothing) {
  Calls calls(2);
  for (const std::int32_t rank : {0, 1}) {
    for (const int line : {24, 40, rank == 0 ? 24 : 40})
      calls.post(rank, calls.make(kReduced, line));
    calls.end(rank);
  }
  EXPECT_TRUE(check("collectives-match", calls.stream).findings.empty());
}

// The other rank never makes the call: an `if rank == 0`.
TEST(CallOrderTest, ACallThatARankNeverMakesIsNotSkipped) {
  Calls calls(2);
  for (const std::int32_t rank : {0, 1}) {
    for (int step = 0; step < 2; ++step) {
      if (rank == 0) calls.post(rank, calls.make(kReduced, 24));
      CollectiveEvent sum = calls.make(kReduced, 40);
      sum.signature.count = 9;
      calls.post(rank, sum);
    }
    calls.end(rank);
  }
  const LawResult result = check("collectives-match", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].message, Not(HasSubstr("skips")));
}

// A longer epoch: the other rank has come to the later line for the first time.
TEST(CallOrderTest, ALineThatIsNewToARankSkipsNothing) {
  Calls calls(2);
  for (const std::int32_t rank : {0, 1}) {
    for (int step = 0; step < (rank == 0 ? 2 : 1); ++step) {
      calls.post(rank, calls.make(kReduced, 24));
      calls.stream.add(rank, StepEvent{.lr = 0.5});
    }
    CollectiveEvent sum = calls.make(kReduced, 40);
    sum.signature.count = 9;
    calls.post(rank, sum);
    calls.end(rank);
  }
  const LawResult result = check("collectives-match", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].message, Not(HasSubstr("skips")));
}

// Calls at these lines by each rank; 0 is a step. Calls of two lines do not fit each other.
LawResult result_of_lines(const std::vector<std::vector<int>>& lines_of_ranks) {
  Calls calls(static_cast<std::int32_t>(lines_of_ranks.size()));
  for (std::int32_t rank = 0; rank < calls.stream.n_ranks(); ++rank) {
    for (const int line : lines_of_ranks[static_cast<std::size_t>(rank)]) {
      if (line == 0) {
        calls.stream.add(rank, StepEvent{.lr = 0.5});
        continue;
      }
      CollectiveEvent event = calls.make(kReduced, line);
      event.signature.count = line;
      calls.post(rank, event);
    }
    calls.end(rank);
  }
  return check("collectives-match", calls.stream);
}

TEST(CallOrderTest, ALineThatIsLeftOutOnceOfManyTimesInAStepIsNotNamed) {
  const LawResult result =
      result_of_lines({{24, 30, 24, 30, 40, 0, 24, 30, 24}, {24, 30, 24, 30, 40, 0, 24, 30, 40}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].message, Not(HasSubstr("skips")));
}

TEST(CallOrderTest, ALineThatARankRepeatsIsNoSignOfASkippedOne) {
  const LawResult result = result_of_lines({{24, 40, 0, 24}, {24, 40, 0, 40, 40, 40}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].message, Not(HasSubstr("skips")));
}

TEST(CallOrderTest, ACallThatComesLaterIsNotSkipped) {
  const LawResult result = result_of_lines({{24, 0, 40, 0, 24, 0, 40}, {24, 0, 40, 0, 40, 0, 24}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].message, Not(HasSubstr("skips")));
}

}  // namespace
}  // namespace lockstep
