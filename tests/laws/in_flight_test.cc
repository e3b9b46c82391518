// in-flight-untouched, and the advice about the order of groups, on events written by hand.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::EventStream;

LawResult check_law(const EventStream& stream, std::string_view id, bool watched) {
  LawPolicy policy;
  policy.n_ranks = stream.n_ranks();
  policy.watched = watched;
  const auto law = std::move(make_law(id, policy).value());
  stream.play(*law);
  return law->finish(stream.trace().names());
}

LawResult check_touches(const EventStream& stream, bool watched = true) {
  return check_law(stream, "in-flight-untouched", watched);
}

CollectiveEvent call(std::int32_t group, std::int64_t seq, CallSite site = {}) {
  CollectiveEvent event;
  event.group = group;
  event.seq = seq;
  event.signature.op = CollectiveOp::kBarrier;
  event.signature.site = site;
  return event;
}

TouchEvent touch(EventStream& stream, bool written, std::int64_t seq) {
  return {.written = written,
          .operation = stream.name("fill"),
          .site = stream.site("clip.py", 3),
          .group = 0,
          .seq = seq,
          .call = CollectiveOp::kAllReduce,
          .receives = true,
          .posted_at = stream.name("ddp.py:70")};
}

TEST(InFlightUntouchedTest, OneMistakeOnManyRanksIsOneFindingAtItsFirstPlace) {
  EventStream stream(3);
  stream.add_all(call(0, 0));
  for (const std::int32_t rank : {2, 0}) {
    for (const std::int32_t step : {4, 3}) {
      stream.at(rank).opt = step;
      stream.add(rank, touch(stream, true, 10 + step));
    }
  }
  const LawResult result = check_touches(stream);
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(finding.ranks, (std::vector<Rank>{Rank{0}, Rank{2}}));
  EXPECT_EQ(finding.step, 3);
  EXPECT_EQ(finding.seq, 13);
  EXPECT_EQ(finding.field, "write");
  EXPECT_EQ(finding.site, "clip.py:3");
  EXPECT_EQ(finding.other_site, "ddp.py:70");
  EXPECT_EQ(finding.message,
            "writes (fill) memory that all_reduce #13 of group 0 writes until wait()");
}

TEST(InFlightUntouchedTest, ReadsAndWritesAreTwoMistakes) {
  EventStream stream(1);
  stream.add(0, touch(stream, true, 0));
  stream.add(0, touch(stream, false, 0));
  EXPECT_EQ(check_touches(stream).findings.size(), 2U);
}

TEST(InFlightUntouchedTest, EveryRestartAttemptHasItsOwnFinding) {
  EventStream stream(1);
  for (const std::int32_t attempt : {0, 1}) {
    stream.at(0).attempt = attempt;
    stream.add(0, touch(stream, true, 0));
  }
  const LawResult result = check_touches(stream);
  ASSERT_EQ(result.findings.size(), 2U);
  EXPECT_EQ(result.findings[0].attempt, 0);
  EXPECT_EQ(result.findings[1].attempt, 1);
}

TEST(InFlightUntouchedTest, AnUnwatchedRunProvesNothing) {
  EventStream stream(2);
  stream.add_all(call(0, 0));
  EXPECT_EQ(check_touches(stream, false).verdict, Verdict::kNotCheckable);
  EXPECT_EQ(check_touches(stream, true).verdict, Verdict::kHolds);
  EXPECT_EQ(check_touches(EventStream(2), true).verdict, Verdict::kNotCheckable);
}

/// Ranks enter barriers of groups, each in its own order: "aab" is two of group 1, then one of 2.
std::vector<Advice> advice_for(const std::vector<std::string>& orders) {
  EventStream stream(static_cast<std::int32_t>(orders.size()));
  for (std::size_t r = 0; r < orders.size(); ++r) {
    const auto rank = static_cast<std::int32_t>(r);
    std::map<char, std::int64_t> next;
    for (const char letter : orders[r]) {
      CollectiveEvent event =
          call(letter - 'a' + 1, next[letter]++, stream.site(std::string(1, letter), 7));
      stream.add(rank, event);
      event.phase = CollectivePhase::kCompleted;
      stream.add(rank, event);
    }
    stream.add(rank, EndEvent{.outcome = EndOutcome::kOk});
  }
  const LawResult result = check_law(stream, "progress", false);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  return result.advice;
}

TEST(GroupOrderTest, OppositeOrdersAreAdvisedAgainst) {
  const std::vector<Advice> advice = advice_for({"aab", "aba"});
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-group-order");
  EXPECT_EQ(advice[0].message,
            "rank 0 enters call 1 of group 1 before call 0 of group 2 (b:7), rank 1 in the "
            "opposite order: with blocking calls, or one execution slot per rank, both deadlock "
            "(two-comm-cycle). Enter groups in the same order on every rank.");
}

TEST(GroupOrderTest, OneOrderIsFine) {
  EXPECT_TRUE(advice_for({"abab", "abab", "abab"}).empty());
  EXPECT_TRUE(advice_for({"aaabbb", "aaabbb"}).empty());
}

TEST(GroupOrderTest, RanksThatShareOneGroupOnlyHaveNoOrder) {
  EXPECT_TRUE(advice_for({"ab", "a", "b"}).empty());
  EXPECT_TRUE(advice_for({"abc", "ba"}).size() == 1U);
  EXPECT_TRUE(advice_for({"acb", "ab", "cb"}).empty());
}

TEST(GroupOrderTest, APairOfGroupsIsNamedOnce) {
  EXPECT_EQ(advice_for({"abab", "baba", "baba"}).size(), 1U);
  EXPECT_EQ(advice_for({"abc", "cba"}).size(), 3U);
}

}  // namespace
}  // namespace lockstep
