// What a person at a terminal sees of a report, and what of it on the first screen.
#include <algorithm>
#include <gmock/gmock.h>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/laws/report.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Finding finding_of(const std::string& law, const std::string& tensor, Cause cause) {
  Finding finding;
  finding.law = law;
  finding.step = 17;
  finding.event = "step";
  finding.tensor = tensor;
  finding.ranks = {Rank{3}};
  finding.message = "differs from the other replicas";
  finding.cause = cause;
  return finding;
}

Report report_of(std::vector<Finding> findings) {
  Report report{.title = "a job", .n_ranks = 4, .outcome = RunOutcome::kFindings};
  report.laws.push_back({.law = "init-equal", .n_checked = 6});
  report.laws.push_back(
      {.law = "replicas-equal", .verdict = Verdict::kBroken, .findings = std::move(findings)});
  report.laws.push_back(
      {.law = "progress", .verdict = Verdict::kNotCheckable, .missing = "end events"});
  report.replay = "lockstep replay out/repro.toml";
  return report;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t i = text.find(part); i != std::string_view::npos; i = text.find(part, i + 1))
    ++n;
  return n;
}

/// What a terminal of 24 lines and 100 columns shows, counted by hand: no code of the library.
std::string first_screen(const std::string& text) {
  std::string screen;
  std::size_t column = 0;
  std::size_t line = 0;
  for (const char letter : text) {
    if (letter != '\n' && column == 100) column = 0, ++line;
    if (line == 24) break;
    screen += letter;
    ++column;
    if (letter == '\n') column = 0, ++line;
    if (line == 24) break;
  }
  return screen;
}

TEST(ReportTextTest, BeginsWithVerdictCausePlaceAndReplay) {
  EXPECT_EQ(
      render_text(report_of({finding_of("replicas-equal", "fc2.weight", Cause::kLrPerRank)}),
                  false),
      "a job (4 ranks): findings: 1 law broken\n"
      "\n"
      "Likely cause: lr-per-rank. The ranks stepped with different learning rates.\n"
      "  step 17, after optimizer.step: `fc2.weight` on rank 3: differs from the other replicas "
      "(law REPLICAS-EQUAL).\n"
      "  Remedy: Compute the learning rate from shared values only, and step the scheduler on "
      "every "
      "rank with the same (reduced) metric.\n"
      "  Read more: docs/zoo.md#learning-rate-per-rank\n"
      "\n"
      "Replay: lockstep replay out/repro.toml\n"
      "\n"
      "laws: 1 broken, 1 holds, 1 not checkable\n"
      "0 events, result digest 0000000000000000\n");
}

TEST(ReportTextTest, AHealthyRunIsThreeLines) {
  Report report = report_of({});
  report.outcome = RunOutcome::kOk;
  report.laws[1].verdict = Verdict::kHolds;
  EXPECT_EQ(render_text(report, TextOptions{.laws_option = "--laws"}),
            "a job (4 ranks): ok\n"
            "laws: 2 hold, 1 not checkable (--laws lists them)\n"
            "0 events, result digest 0000000000000000\n");
}

TEST(ReportTextTest, TensorsWithTheSameDifferenceAreOneLine) {
  const Cause cause = Cause::kLrPerRank;
  const std::string law = "replicas-equal";
  const std::string text = render_text(
      report_of(
          {finding_of(law, "a", cause), finding_of(law, "b", cause), finding_of(law, "c", cause)}),
      false);
  EXPECT_THAT(text, HasSubstr("`a` (and 2 other tensors) on rank 3: differs from"));
  EXPECT_EQ(count(text, "differs from"), 1U);
  EXPECT_EQ(count(text, "Likely cause:"), 1U);
}

TEST(ReportTextTest, OtherRanksStepsOrCausesAreNotTheSamePlace) {
  const auto lines_with = [](void (*change)(Finding&)) {
    Finding other = finding_of("replicas-equal", "b", Cause::kLrPerRank);
    change(other);
    const std::string text = render_text(
        report_of({finding_of("replicas-equal", "a", Cause::kLrPerRank), other}), false);
    return count(text, "differs from");
  };
  EXPECT_EQ(lines_with([](Finding&) {}), 1U);
  EXPECT_EQ(lines_with([](Finding& finding) { finding.ranks = {Rank{2}}; }), 2U);
  EXPECT_EQ(lines_with([](Finding& finding) { finding.step = 18; }), 2U);
  EXPECT_EQ(lines_with([](Finding& finding) { finding.cause = Cause::kBypassWrapper; }), 2U);
  EXPECT_EQ(lines_with([](Finding& finding) { finding.event = "end"; }), 2U);
  EXPECT_EQ(lines_with([](Finding& finding) { finding.attempt = 1; }), 2U);
}

TEST(ReportTextTest, ACauseIsReportedOnceWithAllItsLaws) {
  Report report = report_of({finding_of("replicas-equal", "a", Cause::kBypassWrapper)});
  report.laws.push_back({.law = "reduced-once",
                         .verdict = Verdict::kBroken,
                         .findings = {finding_of("reduced-once", "a", Cause::kBypassWrapper)}});
  const std::string text = render_text(report, false);
  EXPECT_EQ(count(text, "Likely cause:"), 1U);
  EXPECT_EQ(count(text, "Remedy:"), 1U);
  EXPECT_THAT(text, HasSubstr("(law REPLICAS-EQUAL)"));
  EXPECT_THAT(text, HasSubstr("(law REDUCED-ONCE)"));
}

TEST(ReportTextTest, SaysThatACauseIsNotKnownAndWhichLawWasBroken) {
  const std::string text =
      render_text(report_of({finding_of("replicas-equal", "a", Cause::kNone)}), false);
  EXPECT_THAT(text, HasSubstr("Likely cause: not known. Law REPLICAS-EQUAL: After every step"));
  EXPECT_THAT(text, HasSubstr("Read more: docs/laws.md#2-replicas-equal\n"));
}

TEST(ReportTextTest, FindingsWithoutACauseStandBelowThoseWithOne) {
  Finding early = finding_of("replicas-equal", "a", Cause::kNone);
  early.step = 1;
  const std::string text =
      render_text(report_of({early, finding_of("replicas-equal", "b", Cause::kLrPerRank)}), false);
  const std::size_t also = text.find("\nAlso broken:\n  step 1,");
  ASSERT_NE(also, std::string::npos) << text;
  EXPECT_LT(text.find("Likely cause: lr-per-rank"), also);
  EXPECT_EQ(count(text, "not known"), 0U);
}

TEST(ReportTextTest, AllFindingsWithoutACauseHaveOneHeading) {
  Report report = report_of({finding_of("replicas-equal", "a", Cause::kLrPerRank)});
  for (const char* const law : {"reduced-once", "gradient-mean", "norm-true"}) {
    report.laws.push_back({.law = law,
                           .verdict = Verdict::kBroken,
                           .findings = {finding_of(law, "a", Cause::kNone)}});
  }
  const std::string text = render_text(report, false);
  EXPECT_EQ(count(text, "(law "), 4U) << text;
  EXPECT_EQ(count(text, "Also broken:"), 1U) << text;
}

TEST(ReportTextTest, TheReplayLineIsOnTheFirstScreenHoweverMuchIsBroken) {
  std::vector<Finding> findings;
  for (const CauseInfo& cause : all_causes()) {
    for (std::int64_t step = 0; step < 20; ++step) {
      findings.push_back(finding_of("replicas-equal", "a", cause.cause));
      findings.back().step = step;
    }
  }
  const Report report = report_of(findings);
  const std::string text = render_text(report, false);
  const std::string screen = first_screen(text);
  EXPECT_THAT(screen, StartsWith("a job (4 ranks): findings: 1 law broken\n"));
  EXPECT_THAT(screen, HasSubstr("Likely cause: "));
  EXPECT_THAT(screen, HasSubstr("step 0, after optimizer.step: `a` on rank 3"));
  EXPECT_THAT(screen, HasSubstr("more places below\n"));
  EXPECT_THAT(screen, HasSubstr("\nReplay: lockstep replay out/repro.toml\n"));
  // What did not fit is not lost, and nothing is reported twice.
  EXPECT_EQ(count(text, "differs from"), findings.size());
  EXPECT_EQ(count(text, "Likely cause: "), all_causes().size());
}

TEST(ReportTextTest, ALongErrorLeavesRoomForTheReplayLineAndIsPrintedInFullBelow) {
  Report report = report_of({finding_of("replicas-equal", "a", Cause::kRankCrash)});
  report.outcome = RunOutcome::kError;
  report.error = "rank 1: " + std::string(5000, 'x') + " the end";
  const std::string text = render_text(report, false);
  EXPECT_THAT(text, StartsWith("a job (4 ranks): error: rank 1: xxx"));
  EXPECT_THAT(first_screen(text), HasSubstr("\nReplay: "));
  EXPECT_THAT(first_screen(text), Not(HasSubstr("the end")));
  EXPECT_THAT(text, HasSubstr("xxx the end\n"));
}

TEST(ReportTextTest, AHangIsReportedOnceWhereAMismatchExplainsIt) {
  Finding mismatch = finding_of("collectives-match", "", Cause::kOrderSwap);
  mismatch.message = "rank 0 called barrier at a.py:1 where rank 1 called all_reduce at b.py:2";
  mismatch.site = "a.py:1";
  mismatch.other_site = "b.py:2";
  Finding wait = finding_of("progress", "", Cause::kNone);
  wait.message = "blocked forever";
  Report report{.title = "a job", .n_ranks = 2, .outcome = RunOutcome::kHang};
  report.laws.push_back(
      {.law = "collectives-match", .verdict = Verdict::kBroken, .findings = {mismatch}});
  report.laws.push_back({.law = "progress", .verdict = Verdict::kBroken, .findings = {wait}});
  report.wait_for_graph =
      "rank 3 waits for all_reduce #1\nfirst pairing of different calls in group 0: op\n";
  const std::string text = render_text(report, false);
  EXPECT_THAT(text, StartsWith("a job (2 ranks): hang: 2 laws broken\n"));
  EXPECT_THAT(text, HasSubstr("who waits for whom:\n  rank 3 waits for all_reduce #1\n"));
  EXPECT_THAT(text, Not(HasSubstr("blocked forever")));
  EXPECT_THAT(text, Not(HasSubstr("first pairing")));
  EXPECT_EQ(count(text, "a.py:1"), 1U);
  // Alone, each of them is all there is to say.
  report.laws.erase(report.laws.begin());
  EXPECT_THAT(render_text(report, false), HasSubstr("blocked forever"));
  EXPECT_THAT(render_text(report, false), HasSubstr("first pairing"));
}

TEST(ReportTextTest, ListsEveryLawOnRequest) {
  const Report report = report_of({finding_of("replicas-equal", "a", Cause::kLrPerRank)});
  const std::string table =
      "  init-equal      holds (6 checks)\n"
      "  replicas-equal  broken\n"
      "  progress        not checkable: add end events\n";
  EXPECT_EQ(render_laws(report, false), table);
  const std::string text = render_text(report, TextOptions{.laws = true, .laws_option = "--laws"});
  EXPECT_THAT(text, HasSubstr("\n" + table + "0 events"));
  EXPECT_THAT(text, Not(HasSubstr("(--laws lists them)")));
}

TEST(ReportTextTest, ColoursTheVerdictOnlyWhereAsked) {
  const Report report = report_of({finding_of("replicas-equal", "a", Cause::kLrPerRank)});
  EXPECT_THAT(render_text(report, true), HasSubstr("\033[31mfindings: 1 law broken\033[0m"));
  EXPECT_THAT(render_text(report, false), Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace lockstep
