// The uniform walk in worlds whose ranks meet in collectives: against all schedules there are.
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/explore/explore.h"
#include "lockstep/sim/strategy/exhaustive.h"
#include "lockstep/sim/strategy/strategies.h"
#include "lockstep/sim/strategy/uniform.h"

#include "tests/sim/support/chi_square.h"

namespace lockstep::sim {
namespace {

using testing::chi_square;
using testing::Counts;
using testing::one_in_a_million;

/// Rank 0 has much to do before the barrier and little after it; rank 1 the other way round.
void meet_once(RankContext& context) {
  const int n_before = context.rank() == 0 ? 3 : 0;
  for (int i = 0; i < n_before; ++i) context.host().point({});
  context.world().barrier().wait_or_throw();
  for (int i = 0; i < 3 - n_before; ++i) context.host().point({});
}

SessionOptions bare_world() {
  SessionOptions options;
  options.n_ranks = 2;
  options.record = false;
  options.keep_trace = false;
  return options;
}

std::string schedule_of(Session& session, Strategy& strategy) {
  const auto recording = make_recording(strategy);
  EXPECT_TRUE(session.run(bare_world(), *recording, meet_once).ok());
  return encode_schedule(recording->schedule());
}

RankLengths lengths_of(Session& session) {
  return count_lengths([&](LengthCounter& counter) {
           schedule_of(session, counter);
           return success();
         })
      .value();
}

/// Every schedule of the program, none left out.
std::int64_t n_schedules(Session& session) {
  const auto search = make_exhaustive({.reduce = false});
  std::int64_t n = 0;
  for (; search->next(); ++n) schedule_of(session, *search);
  return n;
}

template <typename Make>
double statistic(Session& session, std::int64_t n_cells, int n_runs, Make make) {
  Counts counts;
  for (int seed = 0; seed < n_runs; ++seed) {
    const auto strategy = make(static_cast<std::uint64_t>(seed));
    ++counts[schedule_of(session, *strategy)];
  }
  return chi_square(counts, n_cells, n_runs);
}

TEST(UniformWorldTest, LengthsEndWhereRanksMeet) {
  Session session;
  const RankLengths lengths = lengths_of(session);
  ASSERT_EQ(lengths.stretches.size(), 2U);
  ASSERT_EQ(lengths.stretches[0].size(), 2U);
  ASSERT_EQ(lengths.stretches[1].size(), 2U);
  EXPECT_EQ(lengths.stretches[0][0], lengths.stretches[1][0] + 3);
  EXPECT_EQ(lengths.stretches[0][1] + 3, lengths.stretches[1][1]);
}

// Before and after the meeting: (a + b)! / (a! b!) interleavings each.
TEST(UniformWorldTest, EveryScheduleOfRanksThatMeetIsEquallyLikely) {
  Session session;
  const RankLengths lengths = lengths_of(session);
  const std::int64_t n_cells = n_schedules(session);
  const auto binomial = [](std::uint64_t a, std::uint64_t b) {
    std::int64_t result = 1;
    for (std::uint64_t i = 1; i <= b; ++i) {
      result = result * static_cast<std::int64_t>(a + i) / static_cast<std::int64_t>(i);
    }
    return result;
  };
  const auto& ranks = lengths.stretches;
  ASSERT_EQ(n_cells, binomial(ranks[0][0], ranks[1][0]) * binomial(ranks[0][1], ranks[1][1]));

  const int n_runs = static_cast<int>(n_cells) * 40;
  const auto uniform = [&](std::uint64_t seed) {
    return make_uniform({.seed = seed, .lengths = lengths});
  };
  EXPECT_LT(statistic(session, n_cells, n_runs, uniform), one_in_a_million(n_cells - 1));

  // The twins: each rank equally often; and by all that it has left, also after the meeting.
  EXPECT_GT(statistic(session, n_cells, n_runs, make_random), 2.0 * one_in_a_million(n_cells - 1));
  RankLengths whole;
  for (const auto& rank : ranks) {
    whole.stretches.push_back({std::accumulate(rank.begin(), rank.end(), std::uint64_t{0})});
  }
  const auto by_all = [&](std::uint64_t seed) {
    return make_uniform({.seed = seed, .lengths = whole});
  };
  EXPECT_GT(statistic(session, n_cells, n_runs, by_all), 2.0 * one_in_a_million(n_cells - 1));
}

TEST(UniformWorldTest, ExploresWhatRandomSchedulesFindToo) {
  const auto found = explore({.session = bare_world(), .strategy = "uniform", .n_schedules = 50},
                             meet_once,
                             [](const SessionResult& run) {
                               return Judgement{run.report.ok() ? "" : "failed", 0};
                             });
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value().n_schedules, 50U);
  EXPECT_FALSE(found.value().failure.has_value());
}

}  // namespace
}  // namespace lockstep::sim
