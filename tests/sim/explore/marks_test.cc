// Marks: reached, never reached, never even looked at.
#include "lockstep/sim/explore/marks.h"

#include <gmock/gmock.h>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/sim/explore/explore.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MarksTest, AMarkThatWasNeverThereIsNamedWithTheLineOfItsDeclaration) {
  Marks marks;
  const auto reached = marks.sometimes("a rank comes late");
  const int line = __LINE__ + 1;
  const auto missed = marks.sometimes("a rank never comes");
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(reached.look(run == 1), run == 1);
    missed.look(false);
  }

  EXPECT_EQ(marks.text(),
            "marks: 1 of 2 reached\n  never reached: a rank never comes "
            "(tests/sim/explore/marks_test.cc:" +
                std::to_string(line) + "), in 3 looks\n");
  ASSERT_EQ(marks.unreached().size(), 1U);
  EXPECT_EQ(marks.counts()[0].n_reached, 1U);
  EXPECT_EQ(marks.counts()[0].n_looked, 3U);
}

// The line that would look is never executed: what counts is the declaration.
TEST(MarksTest, AMarkWhoseLineIsNeverExecutedIsMissedToo) {
  Marks marks;
  const auto never = marks.sometimes("an attempt fails");
  for (int run = 0; run < 3; ++run) {
    if (run > 5) never.look(true);
  }
  ASSERT_EQ(marks.unreached().size(), 1U);
  EXPECT_THAT(marks.text(), HasSubstr("in 0 looks"));
}

TEST(MarksTest, MarksThatWereReachedAreNotNamed) {
  Marks marks;
  marks.sometimes("it rains").look(true);
  EXPECT_TRUE(marks.unreached().empty());
  EXPECT_EQ(marks.text(), "marks: 1 of 1 reached\n");
}

// Two ranks of which one posts first: some schedules begin with rank 1, and the default never does.
TEST(MarksTest, RanksOfAWorldMayLook) {
  for (const bool random : {true, false}) {
    Marks marks;
    const auto second_first = marks.sometimes("rank 1 is first");
    int n_there = 0;
    const auto body = [&](RankContext& context) {
      context.host().point({});
      if (n_there++ == 0) second_first.look(context.rank() == 1);
    };
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      n_there = 0;
      sim::Session session;
      sim::SessionOptions options;
      options.n_ranks = 2;
      options.record = false;
      options.strategy = random ? "random" : "run-to-block";
      options.schedule_seed = seed;
      ASSERT_TRUE(session.run(options, body).ok());
    }
    EXPECT_EQ(marks.unreached().empty(), random);
  }
}

Report report_of(Verdict first, Verdict second) {
  Report report;
  report.laws = {{.law = "replicas-equal", .verdict = first},
                 {.law = "outer-step", .verdict = second}};
  return report;
}

TEST(MarksTest, LawsThatNeverHadAnythingToCheckAreNamed) {
  Marks marks;
  marks.add(report_of(Verdict::kHolds, Verdict::kNotCheckable));
  marks.add(report_of(Verdict::kBroken, Verdict::kNotCheckable));
  EXPECT_THAT(marks.text(),
              HasSubstr("laws: 1 of 2 had something to check; broken: replicas-equal in 1; never: "
                        "outer-step\n"));
  marks.add(report_of(Verdict::kHolds, Verdict::kHolds));
  EXPECT_THAT(marks.text(), Not(HasSubstr("never: outer-step")));
}

}  // namespace
}  // namespace lockstep
