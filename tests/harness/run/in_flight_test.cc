// The sanitizer of memory in flight, as a user of run_ranks sees it.
#include <string>

#include <gtest/gtest.h>

#include "lockstep/run.h"

namespace lockstep::testing {

namespace {

const LawResult& in_flight_law(const Report& report) {
  for (const LawResult& law : report.laws) {
    if (law.law == "in-flight-untouched") return law;
  }
  throw std::logic_error("the law is not in the report");
}

Tensor ones(RankContext& context) { return Tensor::full(context.runtime(), {4}, DType::kF32, 1.0); }

}  // namespace

TEST(InFlightTest, ALookBeforeTheWaitIsFoundWithBothPlaces) {
  constexpr int kPosted = __LINE__ + 4;
  constexpr int kTouched = __LINE__ + 4;
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    const Tensor data = ones(context);
    const Work work = context.world().all_reduce(Memory::of(data));
    if (context.rank() == 1) (void)data.slice(2, {2}).at(1);
    work.wait_or_throw();
  });
  EXPECT_EQ(name_of(run.report.outcome), "findings");
  const LawResult& law = in_flight_law(run.report);
  ASSERT_EQ(law.findings.size(), 1U) << render_text(run.report, false);
  const Finding& finding = law.findings[0];
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(finding.field, "read");
  EXPECT_NE(finding.site.find("in_flight_test.cc:" + std::to_string(kTouched)), std::string::npos)
      << finding.site;
  EXPECT_NE(finding.other_site.find("in_flight_test.cc:" + std::to_string(kPosted)),
            std::string::npos)
      << finding.other_site;
}

// Whether the transfer has ended is up to the schedule; whose memory it is, is not.
TEST(InFlightTest, EveryScheduleFindsIt) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto run = run_ranks({.ranks = 3, .schedule_seed = seed, .strategy = "random"},
                               [](RankContext& context) {
                                 const Tensor data = ones(context);
                                 const Work work = context.world().all_reduce(Memory::of(data));
                                 context.host().point({});
                                 context.runtime().kernels().fill(data, 0.0);
                                 work.wait_or_throw();
                               });
    const LawResult& law = in_flight_law(run.report);
    ASSERT_EQ(law.findings.size(), 1U);
    EXPECT_EQ(law.findings[0].ranks.size(), 3U);
    EXPECT_EQ(law.findings[0].message.rfind("writes (fill)", 0), 0U) << law.findings[0].message;
  }
}

TEST(InFlightTest, AfterTheWaitTheMemoryIsTheProgramsAgain) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    const Tensor data = ones(context);
    const Tensor other = ones(context);
    const Work work = context.world().all_reduce(Memory::of(data));
    context.runtime().kernels().fill(other, 2.0);
    work.wait_or_throw();
    EXPECT_EQ(data.at(0), 2.0);
    context.runtime().kernels().add(data, data, other);
  });
  EXPECT_TRUE(run.ok()) << render_text(run.report, false);
  EXPECT_EQ(in_flight_law(run.report).verdict, Verdict::kHolds);
}

TEST(InFlightTest, NothingIsWatchedWithoutTheLaw) {
  const auto run = run_ranks({.ranks = 2, .laws = {"progress"}}, [](RankContext& context) {
    EXPECT_EQ(context.runtime().in_flight(), nullptr);
    const Tensor data = ones(context);
    const Work work = context.world().all_reduce(Memory::of(data));
    (void)data.at(0);
    work.wait_or_throw();
  });
  EXPECT_TRUE(run.ok());
}

}  // namespace lockstep::testing
