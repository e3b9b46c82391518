// Runs of small scenarios against what they expect, and wrong expectations that must be detected.
#include <gmock/gmock.h>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/replay.h"
#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunTest : public ScenarioFiles {
 protected:
  static std::vector<std::string> unmet_of(const std::string& text,
                                           const std::string& variant = "") {
    const Result<Scenario> scenario = load(text, variant);
    if (!scenario.ok()) return {scenario.error().text()};
    const Result<ScenarioResult> result = run_scenario(scenario.value(), {});
    if (!result.ok()) return {result.error().text()};
    return texts_of(unmet(scenario.value(), result.value()));
  }

  static ScenarioResult run(const std::string& text, const RunChoices& choices = {}) {
    const Result<Scenario> scenario = load(text);
    EXPECT_TRUE(scenario.ok()) << (scenario.ok() ? "" : scenario.error().text());
    if (!scenario.ok()) return {};
    Result<ScenarioResult> result = run_scenario(scenario.value(), choices);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().text());
    return result.ok() ? std::move(result).value() : ScenarioResult();
  }
};

// w = 1: gradients 2 on rank 0 and 8 on rank 1, mean 5; 1 - 0.25 * 5 = -0.25.
const char* const kValues =
    "expect = { values = [ { at = { step = 0, event = \"grad.post\" }, tensor = \"weight\", "
    "equals = [5.0] }, { at = { step = 0, event = \"step\" }, tensor = \"weight\", equals = "
    "[-0.25] } ] }\n";

TEST_F(RunTest, TrueExpectationsAreMet) { EXPECT_THAT(unmet_of(small_job() + kValues), IsEmpty()); }

TEST_F(RunTest, AWrongValueIsReportedOnEveryRankThatHasAnother) {
  EXPECT_THAT(
      unmet_of(small_job() + replaced(kValues, "[5.0]", "[6.0]")),
      ElementsAre(HasSubstr("step 0, grad.post, `weight`: expected [6], found [5] on rank 0"),
                  HasSubstr("expected [6], found [5] on rank 1")));
}

TEST_F(RunTest, AnUnrecordedValueIsReported) {
  EXPECT_THAT(
      unmet_of(small_job() +
               replaced(kValues, "\"weight\", equals = [5.0]", "\"wieght\", equals = [5.0]")),
      ElementsAre(HasSubstr("found nothing on rank 0"), HasSubstr("on rank 1")));
}

TEST_F(RunTest, AFindingThatDoesNotComeIsReported) {
  EXPECT_THAT(
      unmet_of(small_job() +
               "expect = { outcome = \"findings\", fires = [ { law = \"replicas-equal\", step "
               "= 0 } ] }\n"),
      ElementsAre(HasSubstr("outcome is \"ok\", expected \"findings\""),
                  HasSubstr("expected but not found: law replicas-equal, step 0")));
}

const char* const kStrayWrite =
    "bug = [ { kind = \"write-tensor\", ranks = [1], tensor = \"weight\", value = 3.0, at = { "
    "event = \"wrap\", when = \"after\" } } ]\n";

TEST_F(RunTest, AFindingThatWasNotExpectedIsReported) {
  const auto complaints = unmet_of(small_job() + kStrayWrite);

  EXPECT_THAT(complaints, ::testing::Contains(HasSubstr("outcome is \"findings\"")));
  EXPECT_THAT(complaints, ::testing::Contains(HasSubstr("not expected: ")));
}

TEST_F(RunTest, AFindingWithAnotherFieldIsNotTheExpectedOne) {
  const std::string expect =
      "expect = { outcome = \"findings\", fires = [ { law = \"init-equal\", ranks = [1] }, "
      "{ law = \"replicas-equal\" } ] }\n";

  EXPECT_THAT(unmet_of(small_job() + kStrayWrite + expect), IsEmpty());
  EXPECT_THAT(unmet_of(small_job() + kStrayWrite + replaced(expect, "[1]", "[0]")),
              ElementsAre(HasSubstr("ranks [0]; found ")));
}

TEST_F(RunTest, RanksThatDidNotComeAreCompared) {
  const std::string job =
      "format = 1\nworld = { ranks = 3 }\ntensor.x = { shape = [2] }\n"
      "program = [ { ranks = [0, 2], body = [ { op = \"all_reduce\", tensor = \"x\" } ] } ]\n"
      "expect = { outcome = \"hang\", fires = [ { law = \"progress\", missing = [1] } ] }\n";

  EXPECT_THAT(unmet_of(job), IsEmpty());
  EXPECT_THAT(unmet_of(replaced(job, "missing = [1]", "missing = [2]")),
              ElementsAre(HasSubstr("missing [2]; found ")));
}

// A mean of means: one sample on rank 0, three on rank 1.
TEST_F(RunTest, WeightsOfAMeanAreCompared) {
  const std::string job = replaced(
      replaced(small_job(), "{ kind = \"mse\" }", "{ kind = \"mse\", declared = \"token-mean\" }"),
      "{ rows = [ { x = [1], y = [0] }, { x = [2], y = [0] } ] }",
      "{ rows = [ { x = [1], y = [0], tokens = 1 }, { x = [2], y = [0], tokens = 3 } ] }");
  const std::string expect =
      "expect = { outcome = \"findings\", fires = [ { law = \"single-process-equal\" }, { law = "
      "\"gradient-mean\", weights = [0.5, 0.5], declared = [0.25, 0.75] } ] }\n";

  EXPECT_THAT(
      unmet_of(replaced(job, "declared =", "normalize = \"local-tokens\", declared =") + expect),
      IsEmpty());
  EXPECT_THAT(unmet_of(replaced(job, "declared =", "normalize = \"local-tokens\", declared =") +
                       replaced(expect, "[0.25, 0.75]", "[0.75, 0.25]")),
              ElementsAre(HasSubstr("declared [0.75, 0.25]; found ")));
}

TEST_F(RunTest, WhatAMetricWasTakenOverIsCompared) {
  const std::string job =
      replaced(replaced(small_job(),
                        "{ steps = 1 }",
                        "{ epochs = 1, eval = { every_epochs = 1, metric = \"l1\" } }"),
               "{ x = [2], y = [0] } ] }",
               "{ x = [2], y = [0] }, { x = [3], y = [0] }, { x = [4], y = [0] } ], holdout = 2 }");

  EXPECT_THAT(unmet_of(job + "expect = { metric = { denominator = 2 } }\n"), IsEmpty());
  EXPECT_THAT(unmet_of(job + "expect = { metric = { denominator = 3 } }\n"),
              ElementsAre(HasSubstr("was taken over 2, expected 3")));
}

// A list names laws that must have looked; it allows nothing else to fire.
TEST_F(RunTest, AListOfQuietLawsDoesNotExcuseOthers) {
  const std::string fires = "fires = [ { law = \"init-equal\" } ] }\n";
  EXPECT_THAT(unmet_of(small_job() + kStrayWrite +
                       "expect = { outcome = \"findings\", quiet = [\"progress\"], " + fires),
              ElementsAre(HasSubstr("not expected: ")));
  EXPECT_THAT(unmet_of(small_job() + "expect = { quiet = [\"progress\"] }\n"), IsEmpty());
  EXPECT_THAT(unmet_of(small_job() + "expect = { quiet = [\"metric-true\"] }\n"),
              ElementsAre(HasSubstr("law metric-true saw nothing to check")));
}

TEST_F(RunTest, SamplesAndMetricsAreCompared) {
  const std::string job = small_job();

  EXPECT_THAT(unmet_of(job + "expect = { samples = [ { rank = 1, step = 0, ids = [1] } ] }\n"),
              IsEmpty());
  EXPECT_THAT(unmet_of(job + "expect = { samples = [ { rank = 1, step = 0, ids = [0] } ] }\n"),
              ElementsAre(HasSubstr("rank 1 consumed [1] in step 0, expected [0]")));
  EXPECT_THAT(unmet_of(job + "expect = { metric = { min = 0.5 } }\n"),
              ElementsAre(HasSubstr("nothing was evaluated")));
}

TEST_F(RunTest, ThrowingIsAnErrorWithTheGivenText) {
  const std::string bug =
      "bug = [ { kind = \"throw\", ranks = [1], message = \"out of memory\" } ]\n";

  EXPECT_THAT(
      unmet_of(small_job() + bug +
               "expect = { outcome = \"error\", error = \"out of memory\", fires = [ { law = "
               "\"progress\" } ] }\n"),
      IsEmpty());
  EXPECT_THAT(unmet_of(small_job() + bug +
                       "expect = { outcome = \"error\", error = \"disk full\", fires = [ { law = "
                       "\"progress\" } ] }\n"),
              ElementsAre(HasSubstr("the error should contain 'disk full'")));
}

TEST_F(RunTest, RunsAreEqualAtOtherAddressesAndOtherSchedulesGiveTheSameResult) {
  RunChoices shifted;
  shifted.address_shift = 4096 + 576;
  RunChoices random;
  random.schedule_seed = 7;

  const Report plain = run(small_job()).report;

  EXPECT_EQ(run(small_job(), shifted).report.trace_digest, plain.trace_digest);
  EXPECT_EQ(run(small_job(), random).report.result_digest, plain.result_digest);
  EXPECT_NE(run(replaced(small_job(), "0.25", "0.5")).report.result_digest, plain.result_digest);
}

TEST_F(RunTest, ScalingALocalGradientMovesTheMean) {
  // Rank 1 contributes 3 * 8: the mean becomes (2 + 24) / 2 = 13, the same on both ranks.
  const std::string local =
      "bug = [ { kind = \"scale-gradient\", ranks = [1], factor = 3.0, at = { event = "
      "\"backward\", when = \"before\" } } ]\n"
      "expect = { outcome = \"findings\", fires = [ { law = \"single-process-equal\", step = 0, "
      "tensor = \"weight\" } ], values = [ { at = { step = 0, event = \"grad.post\" }, tensor = "
      "\"weight\", equals = [13.0] } ] }\n";

  EXPECT_THAT(unmet_of(small_job() + local), IsEmpty());
}

TEST_F(RunTest, ScalingAReducedGradientSplitsTheReplicas) {
  // 1 - 0.25 * 5 on rank 0, 1 - 0.25 * 2.5 on rank 1, the latter on the grid of sixteenths.
  const std::string reduced =
      "bug = [ { kind = \"scale-gradient\", ranks = [1], factor = 0.5, at = { event = "
      "\"backward\", when = \"after\" } } ]\n"
      "expect = { outcome = \"findings\", fires = [ { law = \"replicas-equal\", ranks = [1] } ], "
      "values = [ { at = { step = 0, event = \"step\" }, tensor = \"weight\", by_rank = [[-0.25], "
      "[0.375]] } ] }\n";

  EXPECT_THAT(unmet_of(small_job() + reduced), IsEmpty());
}

TEST_F(RunTest, ProgramsRunTheirOperations) {
  const std::string program =
      "format = 1\n"
      "world = { ranks = 4, groups.pair = [[0, 1], [2, 3]] }\n"
      "tensor.x = { dtype = \"f32\", shape = [1], fill = \"rank+1\" }\n"
      "tensor.y = { dtype = \"f32\", shape = [4], fill = 0 }\n"
      "program = [ { ranks = [0], body = [ { op = \"send\", tensor = \"x\", peer = 3 } ] },\n"
      "  { ranks = [3], body = [ { op = \"recv\", tensor = \"x\", peer = 0 }, { op = \"expect\", "
      "tensor = \"x\", equals = [1] } ] },\n"
      "  { ranks = \"all\", body = [ { op = \"all_gather\", tensor = \"x\", output = \"y\" },\n"
      "    { op = \"expect\", tensor = \"y\", equals = [1, 2, 3, 1] },\n"
      "    { op = \"repeat\", times = 2, body = [ { op = \"all_reduce\", tensor = \"x\", group = "
      "\"pair\", async = \"w\" }, { op = \"wait\", work = \"w\" } ] } ] },\n"
      "  { ranks = [0, 1], body = [ { op = \"expect\", tensor = \"x\", equals = [6] } ] },\n"
      "  { ranks = [2, 3], body = [ { op = \"expect\", tensor = \"x\", equals = [8] } ] } ]\n";

  EXPECT_THAT(unmet_of(program), IsEmpty());
  EXPECT_THAT(unmet_of(replaced(program, "equals = [6]", "equals = [7]")),
              ElementsAre(HasSubstr("tensor 'x' is [6] on rank 0, expected [7]")));
}

TEST_F(RunTest, AReproductionCarriesItsScenarioAndItsDigests) {
  const std::string path = write(small_job() + "title = \"with \\\"quotes\\\"\"\n");
  Replay made;
  made.variant = "v";
  made.schedule_seed = 7;
  made.settings = {"optimizer.lr=0.5"};
  made.trace_digest = 0x1234;

  const auto text = render_reproduction(path, made);
  ASSERT_TRUE(text.ok());
  const auto read = load_replay(write(text.value(), "repro.toml"));

  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read.value().variant, "v");
  EXPECT_EQ(read.value().schedule_seed, 7U);
  EXPECT_THAT(read.value().settings, ElementsAre("optimizer.lr=0.5"));
  EXPECT_EQ(read.value().trace_digest, 0x1234U);
  EXPECT_TRUE(load_scenario("repro.toml", "", {}).ok());
  EXPECT_FALSE(load_replay(path).ok());
}

}  // namespace
}  // namespace lockstep
