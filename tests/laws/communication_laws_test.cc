// collectives-match and progress on calls written by hand.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/laws/detail/stragglers.h"

#include "tests/support/calls.h"
#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::Calls;
using testing::check;
using testing::EventStream;

constexpr CollectiveOp kAllReduce = CollectiveOp::kAllReduce;
constexpr CollectiveOp kBroadcast = CollectiveOp::kBroadcast;
constexpr CollectiveOp kBarrier = CollectiveOp::kBarrier;

/// Only rank 0 enters the barrier of its save; pairing by number matches rank 1's all_reduce to it.
Calls rank0_saves_alone() {
  Calls calls(2);
  calls.post(0, calls.make(kBarrier, 12, "save.py"));
  calls.post(0, calls.make(kAllReduce, 40), false);
  calls.post(1, calls.make(kAllReduce, 40));
  calls.end(0, EndOutcome::kStuck);
  calls.end(1);
  return calls;
}

TEST(CollectivesMatchTest, NamesTheExtraCallOfOneRank) {
  const LawResult result = check("collectives-match", rank0_saves_alone().stream);
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(finding.seq, 0);
  EXPECT_EQ(finding.ranks, (std::vector<Rank>{Rank{0}}));
  EXPECT_EQ(finding.field, "op");
  EXPECT_EQ(finding.site, "save.py:12");
  EXPECT_EQ(finding.other_site, "train.py:40");
  EXPECT_EQ(id_of(finding.cause), "rank0-only-collective");
}

TEST(ProgressTest, NamesWhoWaitsWhereAndForWhom) {
  const LawResult result = check("progress", rank0_saves_alone().stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}}));
  EXPECT_EQ(result.findings[0].missing, (std::vector<Rank>{Rank{1}}));
  EXPECT_EQ(result.findings[0].site, "train.py:40");
}

TEST(CollectivesMatchTest, TwoSitesOfOneBroadcastAreAnIdiom) {
  Calls calls(2);
  for (int i = 0; i < 3; ++i) {
    calls.post(0, calls.make(kBroadcast, 3, "a.py"));
    calls.post(1, calls.make(kBroadcast, 5, "a.py"));
  }
  calls.end_all();
  EXPECT_EQ(check("collectives-match", calls.stream).verdict, Verdict::kHolds);
  EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kHolds);
}

TEST(CollectivesMatchTest, TheIdiomStaysQuietWhenARankStopsEarly) {
  Calls calls(2);
  for (int i = 0; i < 3; ++i) calls.post(0, calls.make(kBroadcast, 3, "a.py"), i < 2);
  for (int i = 0; i < 2; ++i) calls.post(1, calls.make(kBroadcast, 5, "a.py"));
  calls.end(0, EndOutcome::kStuck);
  calls.end(1);
  EXPECT_EQ(check("collectives-match", calls.stream).verdict, Verdict::kHolds);
  EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kBroken);
}

TEST(CollectivesMatchTest, SitesThatShiftTellOfAnExtraCallThatMatchedByChance) {
  Calls calls(2);
  calls.post(0, calls.make(kBarrier, 12, "save.py"));
  for (const std::int32_t rank : {0, 1}) {
    for (int i = 0; i < 3; ++i) calls.post(rank, calls.make(kBarrier, 40), rank == 1 || i < 2);
  }
  calls.end(0, EndOutcome::kStuck);
  calls.end(1);
  const LawResult result = check("collectives-match", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "site");
  EXPECT_EQ(result.findings[0].seq, 0);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}}));
  EXPECT_EQ(result.findings[0].site, "save.py:12");
}

TEST(CollectivesMatchTest, IgnoresARankThatEndedEarly) {
  Calls calls(2);
  for (int i = 0; i < 3; ++i) calls.post(0, calls.make(kAllReduce, 40), i < 2);
  for (int i = 0; i < 2; ++i) calls.post(1, calls.make(kAllReduce, 40));
  EXPECT_EQ(check("collectives-match", calls.stream).verdict, Verdict::kHolds);
}

TEST(CollectivesMatchTest, NamesTheFirstDifferingFieldAndTheMinority) {
  const auto field_of = [](auto change) {
    Calls calls(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      CollectiveEvent event = calls.make(CollectiveOp::kReduce, 0);
      event.signature.root = 0;
      if (rank == 1) change(event.signature);
      calls.post(rank, event);
    }
    const LawResult result = check("collectives-match", calls.stream);
    if (result.findings.size() != 1) return std::string("no finding");
    EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}}));
    return result.findings[0].field;
  };
  EXPECT_EQ(field_of([](Signature& s) { s.count = 8; }), "count");
  EXPECT_EQ(field_of([](Signature& s) { s.dtype = DType::kBF16; }), "dtype");
  EXPECT_EQ(field_of([](Signature& s) { s.reduce = ReduceOp::kMax; }), "reduce");
  EXPECT_EQ(field_of([](Signature& s) { s.root = 1; }), "root");
  EXPECT_EQ(field_of([](Signature& s) { s.layout = 1; }), "layout");
  EXPECT_EQ(field_of([](Signature& s) { s.device = Device::kCuda; }), "device");
  EXPECT_EQ(field_of([](Signature& s) { s.async = true; }), "no finding");
}

TEST(CollectivesMatchTest, FactorsOfAScaledSumMustAgree) {
  for (const double factor : {0.5, 0.25}) {
    Calls calls(3);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      CollectiveEvent event = calls.make(CollectiveOp::kAllReduce, 0);
      event.signature.reduce = ReduceOp::kPremulSum;
      event.signature.premul = rank == 1 ? factor : 0.5;
      calls.post(rank, event);
    }
    const LawResult result = check("collectives-match", calls.stream);
    ASSERT_EQ(result.findings.size(), factor == 0.5 ? 0U : 1U);
    for (const Finding& finding : result.findings) EXPECT_EQ(finding.field, "premul");
  }
}

// Two ranks, then three after a restart: the new one must match as well, and is missed if it ends.
TEST(CollectivesMatchTest, ARestartWithMoreRanksComparesThemAll) {
  for (const bool waits : {false, true}) {
    Calls calls(3);
    for (const std::int32_t rank : {0, 1}) calls.post(rank, calls.make(kAllReduce, 40));
    calls.next.assign(3, 0);
    for (const std::int32_t rank : {0, 1, 2}) {
      calls.stream.at(rank).attempt = 1;
      calls.stream.add(rank, EnvironmentEvent{.world = 3});
    }
    for (const std::int32_t rank : {0, 1}) calls.post(rank, calls.make(kAllReduce, 40), !waits);
    if (!waits) calls.post(2, calls.make(kBarrier, 41));
    for (const std::int32_t rank : {0, 1, 2})
      calls.end(rank, waits && rank < 2 ? EndOutcome::kStuck : EndOutcome::kOk);
    const LawPolicy policy{.n_ranks = 2};
    const LawResult result = check(waits ? "progress" : "collectives-match", calls.stream, policy);
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(waits ? result.findings[0].missing : result.findings[0].ranks,
              std::vector<Rank>{Rank{2}});
  }
}

TEST(CollectivesMatchTest, OnlyTheFirstMismatchOfAGroupIsReported) {
  Calls calls(2);
  for (int i = 0; i < 4; ++i) {
    calls.post(0, calls.make(kAllReduce, 0));
    calls.post(1, calls.make(kBarrier, 0));
  }
  EXPECT_EQ(check("collectives-match", calls.stream).findings.size(), 1U);
}

TEST(CollectivesMatchTest, UnevenSizesAreEachRanksOwn) {
  Calls calls(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    CollectiveEvent event = calls.make(CollectiveOp::kAllToAll, 0);
    event.signature.count = 3 + rank;
    event.signature.splits = 7U + static_cast<std::uint64_t>(rank);
    calls.post(rank, event);
  }
  EXPECT_EQ(check("collectives-match", calls.stream).verdict, Verdict::kHolds);
}

TEST(CollectivesMatchTest, MessagesPairByTheirEnds) {
  for (const std::int64_t count : {4, 5}) {
    Calls calls(2);
    CollectiveEvent send = calls.make(CollectiveOp::kSend, 0);
    send.signature.peer = 1;
    CollectiveEvent receive = calls.make(CollectiveOp::kRecv, 0);
    receive.signature.peer = 0;
    receive.signature.count = count;
    calls.post(0, send);
    calls.post(1, receive);
    const LawResult result = check("collectives-match", calls.stream);
    ASSERT_EQ(result.verdict, count == 4 ? Verdict::kHolds : Verdict::kBroken);
    if (count == 5) {
      EXPECT_EQ(result.findings[0].field, "count");
    }
  }
}

TEST(ProgressTest, NamesTheRankThatDied) {
  Calls calls(3);
  calls.post(0, calls.make(kAllReduce, 40), false);
  calls.stream.add(1, ForwardEvent{});
  calls.post(2, calls.make(kAllReduce, 40), false);
  calls.end(0, EndOutcome::kStuck);
  calls.end(1, EndOutcome::kKilled);
  calls.end(2, EndOutcome::kStuck);
  const LawResult result = check("progress", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{2}}));
  EXPECT_EQ(result.findings[0].missing, (std::vector<Rank>{Rank{1}}));
  EXPECT_EQ(id_of(result.findings[0].cause), "rank-crash");
  EXPECT_NE(result.findings[0].message.find("last event: forward"), std::string::npos);
}

/// Rank 0 waits for rank 1, which ended as `end` says and never came.
Finding waiting_for(Calls& calls, const EndEvent& end) {
  calls.stream.add_all(ForwardEvent{});
  calls.post(0, calls.make(kAllReduce, 40), false);
  calls.end(0, EndOutcome::kStuck);
  calls.stream.add(1, end);
  return check("progress", calls.stream).findings.at(0);
}

TEST(ProgressTest, RecognisesALivelockWhateverItsDetailSays) {
  Calls calls(2);
  const Finding finding = waiting_for(calls,
                                      {.outcome = EndOutcome::kStuck,
                                       .detail = calls.stream.name("no event for a long time"),
                                       .reason = EndReason::kLivelock});
  EXPECT_EQ(id_of(finding.cause), "livelock");
  EXPECT_NE(finding.message.find("is spinning"), std::string::npos);
}

TEST(ProgressTest, ADetailAloneIsNotALivelock) {
  Calls calls(2);
  const Finding finding = waiting_for(
      calls,
      {.outcome = EndOutcome::kStuck, .detail = calls.stream.name("livelock: says the detail")});
  EXPECT_EQ(id_of(finding.cause), "frozen-device");
  EXPECT_EQ(finding.message.find("is spinning"), std::string::npos);
}

/// Both ranks made the call; a watchdog released rank 0, and rank 1 ended in it as `end` says.
std::string_view cause_of_end_in_call(Calls& calls, const EndEvent& end) {
  for (const std::int32_t rank : {0, 1}) calls.post(rank, calls.make(kAllReduce, 40), false);
  CollectiveEvent failed = calls.make(kAllReduce, 40);
  failed.phase = CollectivePhase::kFailed;
  failed.status = CallStatus::kTimedOut;
  calls.stream.add(0, failed);
  calls.end(0, EndOutcome::kException);
  calls.stream.add(1, end);
  return id_of(check("progress", calls.stream).findings.at(0).cause);
}

TEST(ProgressTest, ARankKilledBecauseAnotherFailedIsNotACrashWhateverItsDetailSays) {
  Calls calls(2);
  EXPECT_EQ(cause_of_end_in_call(calls,
                                 {.outcome = EndOutcome::kKilled,
                                  .detail = calls.stream.name("the world came to its end"),
                                  .reason = EndReason::kOtherFailed}),
            "link-flap");
}

TEST(ProgressTest, ADetailAloneDoesNotMakeACrashAnothersFault) {
  Calls calls(2);
  EXPECT_EQ(
      cause_of_end_in_call(
          calls, {.outcome = EndOutcome::kKilled, .detail = calls.stream.name("rank 0 failed: x")}),
      "rank-crash");
}

TEST(ProgressTest, ARestartForgivesTheAttemptBefore) {
  Calls calls(2);
  calls.post(0, calls.make(kAllReduce, 40), false);
  calls.end(1, EndOutcome::kKilled);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    calls.stream.at(rank).attempt = 1;
    calls.next[static_cast<std::size_t>(rank)] = 0;
    calls.post(rank, calls.make(kAllReduce, 40));
    calls.end(rank);
  }
  EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kHolds);
}

TEST(ProgressTest, NamesShorterEpochs) {
  Calls calls(2);
  calls.stream.add_all(ForwardEvent{});
  calls.post(0, calls.make(kAllReduce, 40));
  calls.post(1, calls.make(kAllReduce, 40));
  calls.stream.add(0, ForwardEvent{});
  calls.post(0, calls.make(kAllReduce, 40), false);
  calls.end(0, EndOutcome::kStuck);
  calls.end(1);
  EXPECT_EQ(id_of(check("progress", calls.stream).findings.at(0).cause), "uneven-batches");
}

TEST(ProgressTest, NamesACycleOverTwoGroups) {
  Calls calls(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    CollectiveEvent event = calls.make(kAllReduce, 10 + rank);
    for (event.group = 1; event.group < 3; ++event.group) {  // Both groups were used before.
      event.seq = 0;
      event.phase = CollectivePhase::kPosted;
      calls.stream.add(rank, event);
      event.phase = CollectivePhase::kCompleted;
      calls.stream.add(rank, event);
    }
    event.phase = CollectivePhase::kPosted;
    event.group = 1 + rank;
    event.seq = 1;
    calls.stream.add(rank, event);
    calls.end(rank, EndOutcome::kStuck);
  }
  const LawResult result = check("progress", calls.stream);
  ASSERT_EQ(result.findings.size(), 2U);
  EXPECT_EQ(id_of(result.findings[0].cause), "two-comm-cycle");
  EXPECT_EQ(id_of(result.findings[1].cause), "two-comm-cycle");
}

TEST(ProgressTest, AnUnawaitedCallThatAllRanksPostedIsNotAHang) {
  Calls calls(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) calls.post(rank, calls.make(kAllReduce, 1), false);
  calls.end_all();
  EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kHolds);
}

TEST(ProgressTest, RanksThatAStoppedWorldKilledAreNotToBlame) {
  Calls calls(3);
  calls.post(0, calls.make(kAllReduce, 40), false);
  calls.end(0, EndOutcome::kKilled);
  calls.end(1, EndOutcome::kException);
  calls.end(2, EndOutcome::kKilled);
  EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kHolds);
}

TEST(ProgressTest, ACallThatFailedForALostPeerDidNotComplete) {
  Calls calls(2);
  CollectiveEvent event = calls.make(kAllReduce, 40);
  calls.post(0, event, false);
  event.phase = CollectivePhase::kFailed;
  event.status = CallStatus::kPeerLost;
  calls.stream.add(0, event);
  calls.end(0, EndOutcome::kException);
  calls.end(1, EndOutcome::kKilled);
  const LawResult result = check("progress", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}}));
  EXPECT_EQ(result.findings[0].missing, (std::vector<Rank>{Rank{1}}));
}

TEST(ProgressTest, RanksThatAllFailInTheSameWayEndInTheSameWay) {
  Calls calls(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) calls.end(rank, EndOutcome::kException);
  EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kHolds);

  Calls one(2);
  one.end(0);
  one.end(1, EndOutcome::kException);
  EXPECT_EQ(check("progress", one.stream).findings.at(0).ranks, (std::vector<Rank>{Rank{1}}));
}

/// Eight calls of three ranks, one every second; `lateness(call, rank)` in ms.
template <typename F>
std::optional<Advice> straggler(F lateness) {
  laws::Stragglers stragglers;
  for (std::int32_t seq = 0; seq < 8; ++seq) {
    for (const std::int32_t rank : {1, 2, 0}) {
      Event event;
      event.rank = Rank{rank};
      event.time.ns = (1000 * (seq + 1) + lateness(seq, rank)) * std::int64_t{1'000'000};
      CollectiveEvent call;
      call.seq = seq;
      stragglers.on_posted(event, call, 3);
    }
  }
  return stragglers.advice();
}

TEST(StragglersTest, NamesTheRankThatAllOthersWaitFor) {
  const auto advice =
      straggler([](std::int32_t, std::int32_t rank) { return rank == 1 ? 200 : rank; });
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->id, "A-straggler");
  // 8 calls, each 198 ms after rank 2.
  EXPECT_EQ(advice->message,
            "rank 1 is the last to arrive at 8 of 8 collectives of the world group, 1584 ms in "
            "total after the second to last: the other ranks wait that long for it");
}

// One of two ranks is the last one at four calls in a row once in eight runs, by chance: eight
// calls it takes.
TEST(StragglersTest, LatenessOfCenturiesAddsUpWithoutOverflow) {
  constexpr std::int64_t kLate = std::numeric_limits<std::int64_t>::max() / 2'000'000 - 10'000;
  const auto advice =
      straggler([](std::int32_t, std::int32_t rank) { return rank == 1 ? kLate : rank; });
  ASSERT_TRUE(advice.has_value());
  EXPECT_NE(advice->message.find("rank 1 is the last to arrive"), std::string::npos)
      << advice->message;
}

TEST(StragglersTest, AFewCallsAreNoEvidence) {
  for (const std::int32_t n_late : {7, 8}) {
    const auto advice = straggler(
        [&](std::int32_t seq, std::int32_t rank) { return seq < n_late && rank == 1 ? 400 : 0; });
    EXPECT_EQ(advice.has_value(), n_late == 8) << n_late;
  }
}

TEST(StragglersTest, IsSilentAboutTurnsAndTriflesAndOneLateCall) {
  EXPECT_FALSE(straggler([](std::int32_t seq, std::int32_t rank) {
                 return seq % 3 == rank ? 200 : 0;
               }).has_value());
  EXPECT_FALSE(
      straggler([](std::int32_t, std::int32_t rank) { return rank == 1 ? 2 : 0; }).has_value());
  EXPECT_FALSE(straggler([](std::int32_t seq, std::int32_t rank) {
                 return seq == 4 && rank == 1 ? 900 : 0;
               }).has_value());
}

TEST(ProgressTest, NamesWhatIsWrongWithMessages) {
  const auto message = [](Calls& calls, std::int32_t rank, CollectiveOp op, std::int32_t tag) {
    CollectiveEvent event = calls.make(op, 5);
    event.signature.peer = 1 - rank;
    event.signature.tag = tag;
    calls.post(rank, event, false);
  };
  const auto cause_of = [&](CollectiveOp of_one, std::int32_t tag) {
    Calls calls(2);
    message(calls, 0, CollectiveOp::kSend, 1);
    message(calls, 1, of_one, tag);
    calls.end(0, EndOutcome::kStuck);
    calls.end(1, EndOutcome::kStuck);
    return id_of(check("progress", calls.stream).findings.at(0).cause);
  };
  EXPECT_EQ(cause_of(CollectiveOp::kSend, 1), "send-send");
  EXPECT_EQ(cause_of(CollectiveOp::kRecv, 2), "tag-mismatch");
  Calls calls(2);
  message(calls, 0, CollectiveOp::kSend, 1);
  calls.end(0, EndOutcome::kStuck);
  calls.end(1);
  EXPECT_EQ(id_of(check("progress", calls.stream).findings.at(0).cause), "missing-recv");
}

TEST(ProgressTest, CallsThatAllPostedAndThatNeverArriveTellOfTheNetwork) {
  const auto judged = [](CollectiveOp of_rank_one) {
    Calls calls(2);
    calls.post(0, calls.make(kAllReduce, 40), false);
    calls.post(1, calls.make(of_rank_one, 40), false);
    calls.end(0, EndOutcome::kStuck);
    calls.end(1, EndOutcome::kStuck);
    return id_of(check("progress", calls.stream).findings.at(0).cause);
  };
  EXPECT_EQ(judged(kAllReduce), "partition");
  EXPECT_EQ(judged(kBarrier), "");  // They did not match: the business of collectives-match.
}

TEST(CollectivesMatchTest, ALoopThatGoesFurtherOnOneRankIsNoOtherScript) {
  for (const bool steps : {false, true}) {
    Calls calls(2);
    for (const std::int32_t rank : {0, 1}) calls.post(rank, calls.make(kAllReduce, 40));
    if (steps) calls.stream.add(0, StepEvent{});  // A longer epoch, not a longer list.
    calls.post(0, calls.make(kAllReduce, 40));
    for (const std::int32_t rank : {0, 1}) calls.post(rank, calls.make(kBarrier, 12, "save.py"));
    calls.end_all();
    const std::string_view cause =
        id_of(check("collectives-match", calls.stream).findings.at(0).cause);
    EXPECT_EQ(cause == "call-set-differs", !steps) << cause;
  }
}

TEST(CollectivesMatchTest, AnExtraCallAmongDecisionsIsNotBlamedOnTheProgram) {
  for (const bool decides : {false, true}) {
    Calls calls(2);
    if (decides) {
      for (const std::int32_t rank : {0, 1}) {
        calls.stream.add(rank, DecisionEvent{.name = calls.stream.name("best"), .value = rank});
      }
    }
    calls.post(0, calls.make(kAllReduce, 40));
    calls.post(1, calls.make(kBarrier, 12, "save.py"));
    calls.post(1, calls.make(kAllReduce, 40));
    calls.end_all();
    EXPECT_EQ(id_of(check("collectives-match", calls.stream).findings.at(0).cause),
              decides ? "" : "code-skew");
  }
}

}  // namespace
}  // namespace lockstep
