#include "lockstep/laws/report.h"

#include <gmock/gmock.h>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Finding lr_finding() {
  Finding finding;
  finding.law = "replicas-equal";
  finding.step = 17;
  finding.event = "step";
  finding.tensor = "fc2.weight";
  finding.ranks = {Rank{3}};
  finding.message = "differs from the other replicas";
  finding.cause = Cause::kLrPerRank;
  return finding;
}

Report small_report() {
  Report report{.title = "a <job>", .n_ranks = 4, .outcome = RunOutcome::kFindings};
  report.laws.push_back({.law = "init-equal", .n_checked = 6});
  report.laws.push_back(
      {.law = "replicas-equal", .verdict = Verdict::kBroken, .findings = {lr_finding()}});
  report.laws.push_back(
      {.law = "progress", .verdict = Verdict::kNotCheckable, .missing = "end events"});
  report.replay = "lockstep replay out/repro.toml";
  return report;
}

TEST(ReportTest, AFindingIsOneSentence) {
  EXPECT_EQ(
      sentence(lr_finding()),
      "step 17, after optimizer.step: `fc2.weight` on rank 3: differs from the other replicas "
      "(law REPLICAS-EQUAL). Likely: lr-per-rank.");
}

TEST(ReportTest, RanksReadAsRanges) {
  EXPECT_EQ(ranks_text({Rank{3}}), "rank 3");
  EXPECT_EQ(ranks_text({Rank{0}, Rank{1}, Rank{2}, Rank{5}}), "ranks 0-2, 5");
  EXPECT_EQ(ranks_text({Rank{0}, Rank{1}}), "ranks 0, 1");
}

TEST(ReportTest, JsonExplainsTheCauseOfAFinding) {
  EXPECT_NE(render_json(small_report())
                .find(R"("cause":"lr-per-rank","cause_text":"The ranks stepped with different )"
                      R"(learning rates.","remedy":"Compute)"),
            std::string::npos);
  Report report = small_report();
  report.laws[1].findings[0].cause = Cause::kNone;
  EXPECT_NE(render_json(report).find(R"("cause":"","cause_text":"","remedy":"","page":"",)"),
            std::string::npos);
}

TEST(ReportTest, JsonHasTheDocumentedMembers) {
  Report report = small_report();
  report.laws.resize(1);
  EXPECT_EQ(render_json(report),
            R"({"lockstep_report":1,"title":"a <job>","ranks":4,"outcome":"findings","error":"",)"
            R"("laws":[{"law":"init-equal","number":1,"verdict":"holds","missing":"","checks":6,)"
            R"("findings":[],"advice":[]}],"wait_for_graph":"","wait_for_dot":"",)"
            R"("timeouts":"","attempts":[],"notes":[],"first_divergence":"",)"
            R"("replay":"lockstep replay out/repro.toml","events":0,)"
            R"("trace_digest":"0000000000000000","result_digest":"0000000000000000"})"
            "\n");
  EXPECT_NE(render_json(small_report()).find(R"("tensor":"fc2.weight","element":null)"),
            std::string::npos);
}

TEST(ReportTest, JunitHasOneCasePerLaw) {
  const std::string xml = render_junit(small_report());
  EXPECT_NE(
      xml.find(R"(<testsuite name="a &lt;job&gt;" tests="3" failures="1" errors="0" skipped="1">)"),
      std::string::npos);
  EXPECT_NE(xml.find(R"(name="init-equal"/>)"), std::string::npos);
  EXPECT_NE(xml.find("<failure message=\"1 finding\">step 17"), std::string::npos);
}

TEST(LawTableTest, LawsAreNumberedOneByOne) {
  std::set<std::string_view> ids;
  std::int32_t number = 0;
  for (const LawInfo& law : all_laws()) {
    EXPECT_EQ(law.number, ++number);
    EXPECT_FALSE(law.statement.empty());
    EXPECT_FALSE(law.source.empty());
    EXPECT_FALSE(law.blind_spots.empty()) << law.id;
    ids.insert(law.id);
  }
  EXPECT_EQ(ids.size(), 24U);
  EXPECT_EQ(trace_laws().size(), 22U);
}

TEST(LawSetTest, SaysWhyALawCannotBeMade) {
  const LawPolicy policy = testing::policy_of(2);
  const std::string unknown = make_law("replica-equal", policy).error().message;
  EXPECT_THAT(unknown, StartsWith("unknown law 'replica-equal'; did you mean 'replicas-equal'?"));
  for (const LawInfo& law : all_laws()) EXPECT_THAT(unknown, HasSubstr(law.id)) << "not listed";
  EXPECT_EQ(make_law("resume-equal", policy).error().message,
            "law 'resume-equal' compares several runs and cannot be checked on one trace");
  EXPECT_EQ(make_law("REPLICAS-EQUAL", policy).value()->info().number, 2);
  const std::string wrong[] = {"lunch"};
  EXPECT_FALSE(LawSet::make(policy, wrong).ok());
}

TEST(LawSetTest, EveryTraceLawHasAChecker) {
  for (const LawInfo& law : trace_laws()) {
    EXPECT_EQ(make_law(law.id, testing::policy_of(2)).value()->info().id, law.id);
  }
}

TEST(LawSetTest, ExemptsWhatThePolicyAllows) {
  const auto verdict_with = [](std::vector<std::string> allow) {
    testing::DdpJob job(2);
    job.wrap();
    job.weights = {1.0, 2.0};
    job.train_step({1.0, 1.0});
    LawPolicy policy = testing::policy_of(2);
    policy.allow = std::move(allow);
    const std::string ids[] = {"replicas-equal"};
    LawSet laws = std::move(LawSet::make(policy, ids).value());
    job.stream.play(laws);
    return laws.finish(job.stream.names()).at(0).verdict;
  };
  EXPECT_EQ(verdict_with({}), Verdict::kBroken);
  EXPECT_EQ(verdict_with({"replicas-equal@bias"}), Verdict::kBroken);
  EXPECT_EQ(verdict_with({"replicas-equal@weight"}), Verdict::kHolds);
  EXPECT_EQ(verdict_with({"REPLICAS-EQUAL"}), Verdict::kHolds);
}

TEST(LawSetTest, AsksTheRecorderForNoMoreThanItsLawsNeed) {
  const std::string ids[] = {"collectives-match"};
  const LawSet laws = std::move(LawSet::make(testing::policy_of(2), ids).value());
  EXPECT_TRUE(laws.required().collectives);
  EXPECT_FALSE(laws.required().sketches);
  EXPECT_FALSE(laws.required().states);
  EXPECT_TRUE(std::move(LawSet::make(testing::policy_of(2)).value()).required().sketches);
}

}  // namespace
}  // namespace lockstep
