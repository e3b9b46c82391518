// The outcome of a report, and what else is decided where it is finished.
#include "lockstep/laws/finish_report.h"

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

struct Case {
  bool stuck;
  bool own_failure;
  bool finding;
  bool error;
};

RunOutcome outcome_of(const Case& end) {
  Report report;
  report.stuck = end.stuck;
  report.own_failure = end.own_failure;
  if (end.error) report.error = "rank 1: all_reduce failed";
  if (end.finding) {
    report.laws.push_back({.law = "progress", .verdict = Verdict::kBroken, .findings = {{}}});
  }
  finish_report(report);
  return report.outcome;
}

TEST(FinishReportTest, ARunThatCouldNotContinueIsAHangWhateverElseHappened) {
  EXPECT_EQ(outcome_of({true, true, true, true}), RunOutcome::kHang);
  EXPECT_EQ(outcome_of({true, false, false, false}), RunOutcome::kHang);
}

TEST(FinishReportTest, ARanksOwnFailureIsAnErrorAndAFailedCollectiveAFinding) {
  EXPECT_EQ(outcome_of({false, true, true, true}), RunOutcome::kError);
  EXPECT_EQ(outcome_of({false, false, true, true}), RunOutcome::kFindings);
  EXPECT_EQ(outcome_of({false, false, false, true}), RunOutcome::kError);
}

TEST(FinishReportTest, OnlyARunWithoutAnyOfThemIsOk) {
  EXPECT_EQ(outcome_of({false, false, false, false}), RunOutcome::kOk);
  EXPECT_EQ(outcome_of({false, false, true, false}), RunOutcome::kFindings);
}

TEST(FinishReportTest, ALawAddedLaterCounts) {
  Report report;
  finish_report(report, {.title = "a job", .replay = "again"});
  EXPECT_TRUE(report.ok());
  report.laws.push_back({.law = "resume-equal", .verdict = Verdict::kBroken, .findings = {{}}});
  finish_report(report);
  EXPECT_EQ(report.outcome, RunOutcome::kFindings);
  EXPECT_EQ(report.title, "a job");
  EXPECT_EQ(report.replay, "again");
}

TEST(FinishReportTest, SaysWhereReplicasDivergeOnlyWhereALawAboutThemIsBroken) {
  const auto divergence_with = [](const std::string& law) {
    Report report;
    report.laws.push_back({.law = law, .verdict = Verdict::kBroken, .findings = {{}}});
    finish_report(report, {.first_divergence = [] { return std::string("at step 3"); }});
    return report.first_divergence;
  };
  EXPECT_EQ(divergence_with("replicas-equal"), "at step 3");
  EXPECT_EQ(divergence_with("metric-true"), "");
}

}  // namespace
}  // namespace lockstep
