// Laws that run a scenario again: resume-equal and deterministic on jobs small enough to follow.
#include "lockstep/harness/run/repeat_laws.h"

#include <functional>
#include <gmock/gmock.h>
#include <string_view>
#include <thread>

#include "lockstep/base/check.h"
#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

const std::vector<Rank> kBothRanks = {Rank{0}, Rank{1}};

class RepeatLawsTest : public ScenarioFiles {
 protected:
  static LawResult law_of(const std::string& law, const std::string& text) {
    const Result<Scenario> scenario = load(text);
    EXPECT_TRUE(scenario.ok()) << (scenario.ok() ? "" : scenario.error().text());
    if (!scenario.ok()) return {};
    const Result<ScenarioResult> run = run_scenario(scenario.value(), {});
    EXPECT_TRUE(run.ok());
    if (!run.ok()) return {};
    sim::Session session;
    return law == "resume-equal" ? check_resume_equal(scenario.value(), run.value(), session)
                                 : check_deterministic(scenario.value(), run.value(), session);
  }
};

/// y = w * x with a snapshot every `every` steps, of `include` only.
std::string saved_job(int steps,
                      int every,
                      const std::string& include = "\"model\", \"optimizer\"") {
  return replaced(replaced(small_job(), "lr = 0.25", "lr = 0.25, momentum = 0.5"),
                  "loop = { steps = 1 }",
                  "loop = { steps = " + std::to_string(steps) + ", snapshot = { every_steps = " +
                      std::to_string(every) + ", include = [" + include + ", \"sampler\"] } }");
}

TEST_F(RepeatLawsTest, ACompleteSnapshotContinuesAsIfNothingHadHappened) {
  const LawResult law = law_of("resume-equal", saved_job(3, 1));

  EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
  // Stopped after one step two are compared, after two steps one, and one again after both: on two
  // ranks, the weight and its momentum.
  EXPECT_EQ(law.n_checked, (2 + 1 + 1) * 2 * 2);
}

/// Ten steps, four of which are an epoch, with the given settings of snapshots.
std::string shuffled_job(const std::string& snapshot) {
  return "format = 1\nworld = { ranks = 2 }\n"
         "model = { kind = \"mlp\", widths = [3, 2, 1], init = { kind = \"pytorch\", seed = 2 } }\n"
         "data = { kind = \"synthetic\", size = 16, features = 3 }\n"
         "loader = { batch = 2, shuffle = true }\nloss = { kind = \"mse\" }\n"
         "optimizer = { kind = \"sgd\", lr = 0.0625 }\n"
         "loop = { steps = 10, snapshot = { " +
         snapshot + " } }\n";
}

// The second snapshot says how many batches there were since the first resume: both lie in one
// epoch, and a single resume finds nothing.
TEST_F(RepeatLawsTest, AJobIsResumedTwice) {
  const LawResult law =
      law_of("resume-equal", shuffled_job("every_steps = 1, batches = \"resume\""));

  ASSERT_EQ(law.findings.size(), 1U);
  EXPECT_EQ(law.findings[0].step, 2);
  EXPECT_EQ(id_of(law.findings[0].cause), "resume-replays");
  EXPECT_THAT(law.findings[0].message, HasSubstr("stopped after 1 and again after 2 steps"));
  EXPECT_EQ(law_of("resume-equal", shuffled_job("every_steps = 1")).verdict, Verdict::kHolds);
}

// Snapshots after three, six and nine steps; the epoch ends after four.
TEST_F(RepeatLawsTest, AJobIsResumedAtTheEndOfAnEpoch) {
  const LawResult law = law_of("resume-equal", shuffled_job("every_steps = 3"));

  EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
  // Two ranks and four tensors; 7 + 4 + 1 steps follow the cuts, 6 the epoch, 4 the second resume.
  EXPECT_EQ(law.n_checked, (7 + 4 + 1 + 6 + 4) * 2 * 4);
}

TEST_F(RepeatLawsTest, ForgottenMomentaShowInTheNextStep) {
  const LawResult law = law_of("resume-equal", saved_job(4, 2, "\"model\""));

  ASSERT_EQ(law.findings.size(), 1U);
  EXPECT_EQ(law.findings[0].step, 2);
  EXPECT_EQ(law.findings[0].ranks, kBothRanks);
  EXPECT_EQ(id_of(law.findings[0].cause), "scaler-sched-missing");
  EXPECT_THAT(law.findings[0].message, HasSubstr("stopped after 2 steps"));
}

// Its weight starts from 1 again: what a rank computes after the cut is what it had computed
// first.
TEST_F(RepeatLawsTest, AForgottenModelShowsInTheNextStep) {
  const LawResult law = law_of("resume-equal", saved_job(4, 2, "\"optimizer\""));

  ASSERT_EQ(law.findings.size(), 1U);
  EXPECT_EQ(law.findings[0].step, 2);
}

TEST_F(RepeatLawsTest, SaysWhatAResumedRunNeeds) {
  EXPECT_EQ(law_of("resume-equal", small_job()).missing, "a job with loop.snapshot");
  EXPECT_EQ(law_of("resume-equal", saved_job(2, 2)).missing, "a snapshot before the last step");
  const LawResult law =
      law_of("resume-equal",
             saved_job(4, 2) + "bug = [ { kind = \"throw\", ranks = [1], at = { step = 3 } } ]\n");
  EXPECT_EQ(law.verdict, Verdict::kNotCheckable);
  EXPECT_EQ(law.missing, "a run that ends without a restart");
}

TEST_F(RepeatLawsTest, AJobIsTheSameUnderOtherSchedulesAndAtOtherAddresses) {
  const LawResult law = law_of("deterministic", small_job());

  EXPECT_EQ(law.verdict, Verdict::kHolds);
  EXPECT_EQ(law.n_checked, 1 + 3);
}

/// Rank 1 sets its 1 to 0 while the sum of both is under way: 1, or 2 and then 0.
std::string racing_program(const std::string& between) {
  const std::string reduce = "{ op = \"all_reduce\", tensor = \"x\", async = \"w\" }, ";
  return "format = 1\nworld = { ranks = 2 }\ntensor.x = { shape = [1], fill = 1 }\n"
         "program = [ { ranks = [0], body = [ " +
         reduce +
         "{ op = \"wait\", work = \"w\" } ] }, "
         "{ ranks = [1], body = [ " +
         reduce + between +
         "{ op = \"wait\", work = \"w\" }, "
         "{ op = \"expect\", tensor = \"x\", equals = [1] } ] } ]\n";
}

TEST_F(RepeatLawsTest, ARaceHasAnotherResultUnderAnotherSchedule) {
  const LawResult law =
      law_of("deterministic",
             racing_program(
                 "{ op = \"compute\", ns = 1 }, { op = \"write\", tensor = \"x\", value = 0 }, "));

  ASSERT_EQ(law.findings.size(), 1U);
  EXPECT_EQ(law.findings[0].field, "result");
  EXPECT_THAT(law.findings[0].message, HasSubstr("it depends on which rank came first"));
}

// A trace that differs each time, like that of a program that reads addresses or a clock.
TEST_F(RepeatLawsTest, ATraceThatCannotBeRepeatedIsFound) {
  const Result<Scenario> scenario = load(small_job());
  ASSERT_TRUE(scenario.ok());
  Result<ScenarioResult> run = run_scenario(scenario.value(), {});
  ASSERT_TRUE(run.ok());
  run.value().report.trace_digest ^= 1U;

  sim::Session session;
  const LawResult law = check_deterministic(scenario.value(), run.value(), session);

  ASSERT_EQ(law.findings.size(), 1U);
  EXPECT_EQ(law.findings[0].field, "trace");
}

/// Whether `call`, on another thread, finds `session` in use while a program runs on it.
bool uses(sim::Session& session, const std::function<void()>& call) {
  bool is_used = false;
  const auto ran = session.run({}, [&](RankContext& /*context*/) {
    std::thread([&] {
      try {
        call();
      } catch (const ContractViolation& busy) {
        is_used = std::string_view(busy.what()).find("already running") != std::string_view::npos;
      }
    }).join();
  });
  EXPECT_TRUE(ran.ok());
  return is_used;
}

TEST_F(RepeatLawsTest, TheRunAndItsCompanionsAreMadeByTheCallersSession) {
  const Result<Scenario> scenario = load(saved_job(6, 2));
  ASSERT_TRUE(scenario.ok());
  const Result<ScenarioResult> run = run_scenario(scenario.value(), {});
  ASSERT_TRUE(run.ok());
  sim::Session session;
  RunChoices warm;
  warm.session = &session;

  EXPECT_TRUE(uses(session, [&] { static_cast<void>(run_scenario(scenario.value(), warm)); }));
  EXPECT_TRUE(uses(session, [&] { check_resume_equal(scenario.value(), run.value(), session); }));
  EXPECT_TRUE(uses(session, [&] { check_deterministic(scenario.value(), run.value(), session); }));
  EXPECT_FALSE(uses(session, [&] { static_cast<void>(run_scenario(scenario.value(), {})); }));
}

// A program that fails in the same way each time is deterministic; how others would do it is not
// checked.
TEST_F(RepeatLawsTest, ARunThatFailsIsOnlyRepeated) {
  const LawResult law = law_of("deterministic", racing_program(""));

  EXPECT_EQ(law.verdict, Verdict::kHolds);
  EXPECT_EQ(law.n_checked, 1);
}

TEST_F(RepeatLawsTest, OnlyAScenarioThatNamesALawPaysForIt) {
  const Result<Scenario> plain = load(small_job());
  const Result<Scenario> named = load(small_job() + "expect = { quiet = [\"deterministic\"] }\n");
  ASSERT_TRUE(plain.ok() && named.ok());
  EXPECT_FALSE(names_law(plain.value(), LawId::kDeterministic));
  EXPECT_TRUE(names_law(named.value(), LawId::kDeterministic));
  EXPECT_FALSE(names_law(named.value(), LawId::kResumeEqual));
}

}  // namespace
}  // namespace lockstep
