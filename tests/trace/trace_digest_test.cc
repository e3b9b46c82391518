#include "lockstep/trace/trace_digest.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/event_stream.h"

namespace lockstep {
namespace {

using testing::EventStream;

struct Digests {
  std::uint64_t trace = 0;
  std::uint64_t result = 0;
};

Digests digests_of(const EventStream& stream, const std::vector<std::uint32_t>& draws = {}) {
  TraceDigest digest;
  stream.play(digest, draws);
  return {digest.trace(), digest.result()};
}

CollectiveEvent collective(CollectivePhase phase, std::int64_t seq) {
  CollectiveEvent event{.phase = phase, .seq = seq};
  event.signature.op = CollectiveOp::kAllReduce;
  event.signature.count = 4;
  return event;
}

EventStream two_ranks() {
  EventStream stream(2);
  stream.add_all(ForwardEvent{});
  stream.add_all(collective(CollectivePhase::kPosted, 0));
  stream.add_all(collective(CollectivePhase::kCompleted, 0));
  return stream;
}

TEST(TraceDigestTest, TheInterleavingOfRanksIsInTheTraceAndNotInTheResult) {
  const EventStream stream = two_ranks();

  const Digests a = digests_of(stream, {0, 1, 0, 1, 0, 1});
  const Digests b = digests_of(stream, {1, 0, 0, 1, 1, 0});

  EXPECT_NE(a.trace, b.trace);
  EXPECT_EQ(a.result, b.result);
}

TEST(TraceDigestTest, TheSameRunGivesTheSameNumbersWhateverTheIdsOfItsNames) {
  EventStream a(1);
  a.add(0, LogEvent{.text = a.name("x")});
  a.add(0, WrapEvent{.params = a.layout({"v", "w"})});
  EventStream b(1);
  b.layout({"q"});
  b.add(0, LogEvent{.text = b.name("x")});
  b.add(0, WrapEvent{.params = b.layout({"v", "w"})});
  EventStream c(1);
  c.add(0, LogEvent{.text = c.name("x")});
  c.add(0, WrapEvent{.params = c.layout({"w", "v"})});

  EXPECT_EQ(digests_of(a).trace, digests_of(b).trace);
  EXPECT_EQ(digests_of(a).result, digests_of(b).result);
  EXPECT_NE(digests_of(a).result, digests_of(c).result);
}

TEST(TraceDigestTest, SitesFaultsLogsMachinesAndThePlaceOfCompletionsAreNotResults) {
  EventStream a(1);
  a.add(0, collective(CollectivePhase::kPosted, 0));
  a.add(0, collective(CollectivePhase::kPosted, 1));
  a.add(0, collective(CollectivePhase::kCompleted, 0));
  a.add(0, collective(CollectivePhase::kCompleted, 1));
  EventStream b(1);
  CollectiveEvent posted = collective(CollectivePhase::kPosted, 0);
  posted.signature.site = b.site("train.py", 3);
  b.add(0, posted);
  b.add(0, FaultEvent{.kind = b.name("slow")});
  b.add(0, LogEvent{.text = b.name("hello")});
  b.add(0, EnvironmentEvent{.world = 1, .local_rank = 0, .node = b.name("elsewhere")});
  b.add(0, collective(CollectivePhase::kCompleted, 0));
  b.add(0, collective(CollectivePhase::kPosted, 1));
  b.add(0, collective(CollectivePhase::kCompleted, 1));

  EXPECT_EQ(digests_of(a).result, digests_of(b).result);
  EXPECT_NE(digests_of(a).trace, digests_of(b).trace);
}

TEST(TraceDigestTest, WhyARankWasKilledIsInNoDigestAndHowItEndedIs) {
  const auto digest_of = [](const EndEvent& end) {
    EventStream stream(1);
    stream.add(0, end);
    return digests_of(stream);
  };
  const EndEvent stuck{.outcome = EndOutcome::kStuck};
  const EndEvent spinning{.outcome = EndOutcome::kStuck, .reason = EndReason::kLivelock};
  const EndEvent killed{.outcome = EndOutcome::kKilled};
  EXPECT_EQ(digest_of(stuck).trace, digest_of(spinning).trace);
  EXPECT_EQ(digest_of(stuck).result, digest_of(spinning).result);
  EXPECT_NE(digest_of(stuck).trace, digest_of(killed).trace);
  EXPECT_NE(digest_of(stuck).result, digest_of(killed).result);
}

TEST(TraceDigestTest, OneBitOfOneDigestChangesBoth) {
  const auto run = [](std::uint64_t digest) {
    EventStream stream(2);
    const std::vector<std::uint64_t> digests = {digest};
    stream.add(1, StateEvent{.layout = stream.layout({"w"}), .digests = digests});
    return digests_of(stream);
  };

  EXPECT_NE(run(4).result, run(5).result);
  EXPECT_NE(run(4).trace, run(5).trace);
}

TEST(TraceDigestTest, TheValueOfALossChangesBoth) {
  const auto run = [](double value) {
    EventStream stream(1);
    stream.add(0, LossEvent{.value = value, .denominator = 2.0});
    return digests_of(stream);
  };

  EXPECT_NE(run(0.25).result, run(0.5).result);
  EXPECT_NE(run(0.25).trace, run(0.5).trace);
}

TEST(TraceDigestTest, ALossFoldedByItsValueHasTheDigestOfTheWholeEvent) {
  EventStream stream(1);
  stream.add(0, LossEvent{.value = 1.0, .denominator = 2.0});
  stream.add(0, LossEvent{.value = 3.0, .denominator = 2.0});
  const std::span<const Event> events = stream.trace().events(Rank{0});
  TraceDigest whole;
  whole.add(stamp_of(events[1]), whole.content_of(events[1], stream.names()));
  TraceDigest shared;
  const TraceDigest::Content first = shared.content_of(events[0], stream.names());
  shared.add(
      stamp_of(events[1]), first, *TraceDigest::measured(std::get<LossEvent>(events[1].body)));

  EXPECT_EQ(shared.trace(), whole.trace());
  EXPECT_EQ(shared.result(), whole.result());
}

TEST(TraceDigestTest, EveryOptionOfAnOptimizerIsInTheResult) {
  const auto run = [](double eps) {
    EventStream stream(1);
    const std::vector<double> values = {0.1, eps};
    stream.add(0,
               OptimizerEvent{.kind = stream.name("adam"),
                              .options = stream.layout({"lr", "eps"}),
                              .values = values});
    return digests_of(stream);
  };

  EXPECT_EQ(run(1e-8).result, run(1e-8).result);
  EXPECT_NE(run(1e-8).result, run(1e-7).result);
}

TEST(TraceDigestTest, ResultsOfSwappedRanksDiffer) {
  EventStream a(2);
  a.add(0, DecisionEvent{.value = 1});
  a.add(1, DecisionEvent{.value = 2});
  EventStream b(2);
  b.add(0, DecisionEvent{.value = 2});
  b.add(1, DecisionEvent{.value = 1});

  EXPECT_NE(digests_of(a).result, digests_of(b).result);
}

TEST(TraceDigestTest, RecordedValuesChangeNoDigest) {
  const EventStream plain = two_ranks();
  EventStream with_values = two_ranks();
  const std::vector<double> values = {1.0, 2.0};
  with_values.add(0, ValueEvent{.tensor = with_values.name("w"), .values = values});

  EXPECT_EQ(digests_of(with_values).trace, digests_of(plain).trace);
  EXPECT_EQ(digests_of(with_values).result, digests_of(plain).result);
}

}  // namespace
}  // namespace lockstep
