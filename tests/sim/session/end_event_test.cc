// What the last event of a rank says about why it ended.
#include <stdexcept>

#include <gtest/gtest.h>

#include "lockstep/sim/session/session.h"

namespace lockstep::sim {
namespace {

/// The last event of each rank.
std::vector<EndEvent> ends_of(const SessionOptions& options, const Session::Body& body) {
  Session session;
  const auto result = session.run(options, body);
  std::vector<EndEvent> ends;
  for (std::int32_t rank = 0; rank < options.n_ranks; ++rank) {
    ends.push_back(std::get<EndEvent>(result.value().trace->events(Rank{rank}).back().body));
  }
  return ends;
}

[[noreturn]] void spin(RankContext& context) {
  for (;;) context.host().point({PointKind::kWait, 0});
}

TEST(EndEventTest, RanksThatRunWithoutEndSayThatTheyWereInALivelock) {
  SessionOptions options;
  options.n_ranks = 2;
  options.livelock_points = 10'000;
  for (const EndEvent& end : ends_of(options, spin)) {
    EXPECT_EQ(end.outcome, EndOutcome::kStuck);
    EXPECT_EQ(end.reason, EndReason::kLivelock);
  }
}

TEST(EndEventTest, RanksEndedForAnotherSaySoAndTheFailedRankDoesNot) {
  SessionOptions options;
  options.n_ranks = 2;
  const std::vector<EndEvent> ends = ends_of(options, [](RankContext& context) {
    if (context.rank() == 1) throw std::runtime_error("rank 0 failed: no, it was me");
    spin(context);
  });
  EXPECT_EQ(ends[0].outcome, EndOutcome::kKilled);
  EXPECT_EQ(ends[0].reason, EndReason::kOtherFailed);
  EXPECT_EQ(ends[1].outcome, EndOutcome::kException);
  EXPECT_EQ(ends[1].reason, EndReason::kNone);
}

TEST(EndEventTest, RanksThatEndByThemselvesHaveNothingToAdd) {
  SessionOptions options;
  options.n_ranks = 2;
  for (const EndEvent& end : ends_of(options, [](RankContext&) {})) {
    EXPECT_EQ(end.outcome, EndOutcome::kOk);
    EXPECT_EQ(end.reason, EndReason::kNone);
  }
}

}  // namespace
}  // namespace lockstep::sim
