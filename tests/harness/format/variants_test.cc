// Variants, settings and overrides: three ways to change a scenario before it is read.
#include <gmock/gmock.h>

#include "lockstep/harness/format/load.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VariantsTest : public ScenarioFiles {};

TEST_F(VariantsTest, AreListedInFileOrderAfterTheBase) {
  const std::string path = write(small_job() + "variant.zebra = {}\nvariant.apple = {}\n");

  const auto names = list_variants(path);

  ASSERT_TRUE(names.ok());
  EXPECT_THAT(names.value(), ElementsAre("", "zebra", "apple"));
}

TEST_F(VariantsTest, MergeIntoTheBase) {
  const std::string job = small_job() + "variant.fast = { optimizer = { lr = 0.5 } }\n";

  const auto base = load(job);
  const auto fast = load(job, "fast");

  ASSERT_TRUE(base.ok() && fast.ok());
  EXPECT_EQ(base.value().jobs[0]->optimizer.lr, 0.25);
  EXPECT_EQ(fast.value().jobs[0]->optimizer.lr, 0.5);
  EXPECT_EQ(fast.value().jobs[0]->optimizer.kind, OptimizerKind::kSgd);
}

TEST_F(VariantsTest, CanUnsetABeforeTheyMerge) {
  const std::string job = small_job() + "variant.plain = { unset = [\"exact\"] }\n";

  const auto plain = load(job, "plain");

  ASSERT_TRUE(plain.ok()) << plain.error().text();
  EXPECT_FALSE(plain.value().session.exact);
  EXPECT_EQ(error_of(small_job() + "variant.plain = { unset = [\"exat\"] }\n", "plain"),
            "job.toml:9:28: nothing to unset at 'exat'; did you mean 'exact'?");
}

TEST_F(VariantsTest, UnknownNamesGetASuggestionAndAllThereAre) {
  const std::string job = small_job() + "variant.fixed = {}\nvariant.late = {}\n";

  EXPECT_EQ(error_of(job, "fixd"),
            "job.toml: unknown variant 'fixd'; did you mean 'fixed'? (this file has: fixed, late)");
  EXPECT_EQ(error_of(job, "else"), "job.toml: unknown variant 'else'; this file has: fixed, late");
  EXPECT_EQ(error_of(small_job(), "fixed"),
            "job.toml: unknown variant 'fixed'; this file has no variants");
}

TEST_F(VariantsTest, AVariantsErrorsAreReportedInTheVariant) {
  EXPECT_EQ(error_of(small_job() + "variant.v = { optimizer = { rl = 1 } }\n", "v"),
            "job.toml:9:29: unknown key 'rl' in 'optimizer'; did you mean 'lr'?");
}

TEST_F(VariantsTest, SettingsComeLastAndNameThemselvesInErrors) {
  const auto set = load(small_job(), "", {{"optimizer.lr", "2"}, {"loss.kind", "l1"}});

  ASSERT_TRUE(set.ok()) << set.error().text();
  EXPECT_EQ(set.value().jobs[0]->optimizer.lr, 2.0);
  EXPECT_EQ(set.value().jobs[0]->loss.kind, LossKind::kL1);
  EXPECT_EQ(error_of(small_job(), "", {{"optimizer.rl", "2"}}),
            "--set optimizer.rl: unknown key 'rl' in 'optimizer'; did you mean 'lr'?");
}

TEST_F(VariantsTest, OverridesGiveSomeRanksAnotherJob) {
  const auto scenario =
      load(replaced(small_job(), "ranks = 2", "ranks = 4") +
           "override = [ { ranks = [1, 3], set = { \"model.init.value\" = 200.0 } } ]\n"
           "loader = { batch = 1 }\n");

  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const auto& jobs = scenario.value().jobs;
  EXPECT_EQ(jobs[0]->model.init.value, 1.0);
  EXPECT_EQ(jobs[1]->model.init.value, 200.0);
  EXPECT_EQ(jobs[0], jobs[2]);
  EXPECT_EQ(jobs[1], jobs[3]);
}

TEST_F(VariantsTest, AnOverrideWithoutRanksReachesAllOfThem) {
  for (const std::string ranks : {"", "ranks = \"all\", ", "ranks = [0, 1, 2], "}) {
    const auto scenario =
        load(replaced(small_job(), "ranks = 2", "ranks = 3") + "override = [ { " + ranks +
             "set = { \"model.init.value\" = 200.0 } } ]\nloader = { batch = 1 }\n");
    ASSERT_TRUE(scenario.ok()) << scenario.error().text();
    for (const auto& job : scenario.value().jobs) EXPECT_EQ(job->model.init.value, 200.0);
  }
}

TEST_F(VariantsTest, OverridesReachOnlyWhatMayDiffer) {
  EXPECT_EQ(
      error_of(small_job() + "override = [ { ranks = [1], set = { \"world.ranks\" = 3 } } ]\n"),
      "job.toml:9:37: 'world.ranks' cannot differ between ranks");
  EXPECT_THAT(
      error_of(small_job() + "override = [ { ranks = [1], set = { \"loss.knd\" = 3 } } ]\n"),
      HasSubstr("unknown key 'knd' in 'loss'"));
}

}  // namespace
}  // namespace lockstep
