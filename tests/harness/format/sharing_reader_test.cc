// optimizer.zero and optimizer.averager.
#include <gmock/gmock.h>

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class SharingReaderTest : public ScenarioFiles {
 protected:
  /// Line 7 is the optimizer.
  static std::string with(const std::string& keys) {
    return replaced(small_job(), "lr = 0.25", "lr = 0.25, " + keys);
  }
};

TEST_F(SharingReaderTest, AnOptimizerMayBeDividedAndAveraged) {
  EXPECT_FALSE(load(small_job()).value().jobs[0]->optimizer.zero);
  const auto zero = load(with("zero = 1, parameters_as_bucket_view = true"));
  ASSERT_TRUE(zero.ok()) << zero.error().text();
  EXPECT_TRUE(zero.value().jobs[0]->optimizer.zero);
  EXPECT_TRUE(zero.value().jobs[0]->optimizer.parameters_as_bucket_view);
  const auto periodic = load(with("averager = { period = 4, warmup_steps = 2 }"));
  ASSERT_TRUE(periodic.ok()) << periodic.error().text();
  EXPECT_EQ(periodic.value().jobs[0]->optimizer.averager->period, 4);
  EXPECT_EQ(periodic.value().jobs[0]->optimizer.averager->warmup_steps, 2);
  const auto levels = load(with("averager = { levels = [ { period = 3, group_size = 2 } ] }"));
  ASSERT_TRUE(levels.ok()) << levels.error().text();
  EXPECT_EQ(levels.value().jobs[0]->optimizer.averager->levels[0].period, 3);
}

TEST_F(SharingReaderTest, MistakesAreReportedAtTheirPlace) {
  EXPECT_EQ(error_of(with("averager = { perod = 4 }")),
            "job.toml:7:53: unknown key 'perod' in 'optimizer.averager'; did you mean 'period'?");
  EXPECT_THAT(error_of(with("parameters_as_bucket_view = true")),
              HasSubstr("unknown key 'parameters_as_bucket_view' in 'optimizer'"));
  EXPECT_THAT(error_of(with("averager = { levels = [ { period = 3, group_size = 1 } ] }")),
              HasSubstr("divide the 2 ranks, the last one has all of them"));
  EXPECT_THAT(error_of(replaced(with("zero = 1"), "steps = 1", "steps = 1, snapshot = {}")),
              HasSubstr("snapshots do not collect the shares of 'optimizer.zero = 1'"));
  EXPECT_THAT(error_of(replaced(with("averager = {}"), "steps = 1", "epochs = 1, join = {}")),
              HasSubstr("no joined rank shadows 'optimizer.averager'"));
}

}  // namespace
}  // namespace lockstep
