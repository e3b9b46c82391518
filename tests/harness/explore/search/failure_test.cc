// When two runs fail the same way.
#include "lockstep/harness/explore/search/failure.h"

#include <gtest/gtest.h>

namespace lockstep::explore {
namespace {

Report report_of(RunOutcome outcome, std::vector<Finding> findings) {
  Report report;
  report.outcome = outcome;
  LawResult law;
  law.findings = std::move(findings);
  report.laws.push_back(std::move(law));
  return report;
}

Finding finding(const std::string& law, std::optional<std::int64_t> step) {
  Finding result;
  result.law = law;
  result.step = step;
  return result;
}

TEST(FailureTest, AHealthyRunHasNone) { EXPECT_FALSE(failure_of(report_of(RunOutcome::kOk, {}))); }

TEST(FailureTest, TheEarliestFindingCounts) {
  const Report report = report_of(
      RunOutcome::kFindings, {finding("late", 4), finding("early", 2), finding("early-too", 2)});

  EXPECT_EQ(failure_of(report)->law, "early");
  Report with_data = report;
  with_data.laws[0].findings.push_back(finding("data", std::nullopt));
  EXPECT_EQ(failure_of(with_data)->law, "data");
}

TEST(FailureTest, TheFirstLawOfTheContractNamesAHang) {
  const std::vector<Finding> findings = {finding("collectives-match", 4), finding("progress", 2)};

  EXPECT_EQ(failure_of(report_of(RunOutcome::kHang, findings))->law, "collectives-match");
  EXPECT_EQ(failure_of(report_of(RunOutcome::kFindings, findings))->law, "progress");
}

TEST(FailureTest, StepsRanksAndTensorsMayDiffer) {
  Finding small = finding("replicas-equal", 1);
  small.ranks = {Rank{1}};
  small.tensor = "weight";
  Finding large = finding("replicas-equal", 7);
  large.ranks = {Rank{5}, Rank{6}};
  large.tensor = "4.weight";

  EXPECT_EQ(failure_of(report_of(RunOutcome::kFindings, {small})),
            failure_of(report_of(RunOutcome::kFindings, {large})));
}

TEST(FailureTest, CausesFieldsAndOutcomesMakeAnotherFailure) {
  const Finding plain = finding("replicas-equal", 1);
  Finding caused = plain;
  caused.cause = Cause::kLrPerRank;
  Finding field = plain;
  field.field = "count";
  const auto failure = failure_of(report_of(RunOutcome::kFindings, {plain}));

  EXPECT_NE(failure, failure_of(report_of(RunOutcome::kFindings, {caused})));
  EXPECT_NE(failure, failure_of(report_of(RunOutcome::kFindings, {field})));
  EXPECT_NE(failure, failure_of(report_of(RunOutcome::kHang, {plain})));
}

// Places in a scenario file move when it shrinks; those of a program do not.
TEST(FailureTest, CallSitesOfAProgramMakeAnotherFailure) {
  const auto at = [](const std::string& site) {
    Finding one = finding("collectives-match", 1);
    one.site = site;
    return failure_of(report_of(RunOutcome::kFindings, {one}));
  };

  EXPECT_NE(at("save.py:12"), at("train.py:40"));
  EXPECT_EQ(at("save.py:12"), at("save.py:12"));
  EXPECT_EQ(at("job.toml:12"), at("job.toml:9"));
}

TEST(FailureTest, ErrorsAreComparedWithoutTheirNumbers) {
  const auto error = [](const std::string& text) {
    Report report = report_of(RunOutcome::kError, {});
    report.error = text;
    return failure_of(report)->error;
  };

  EXPECT_EQ(error("rank 12: no work 'w' (job.toml:3:70)"), "rank #: no work 'w' (job.toml:#)");
  EXPECT_EQ(error("ranks 0, 1 got 1.5, -2"), error("ranks 3 got 7"));
  EXPECT_NE(error("rank 1: no work 'w'"), error("rank 1: no work 'v'"));
}

}  // namespace
}  // namespace lockstep::explore
