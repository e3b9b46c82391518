// loop.join: what it takes, and what does not go with it.
#include <gmock/gmock.h>

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class JoinReaderTest : public ScenarioFiles {
 protected:
  /// Line 8 is the loop.
  static std::string joined(const std::string& join) {
    return replaced(small_job(), "steps = 1", "epochs = 1, join = { " + join + " }");
  }
};

TEST_F(JoinReaderTest, OptionsHaveTheirNamesAndDefaultsInPyTorch) {
  EXPECT_FALSE(load(small_job()).value().jobs[0]->loop.join);
  const auto plain = load(joined(""));
  ASSERT_TRUE(plain.ok()) << plain.error().text();
  EXPECT_TRUE(plain.value().jobs[0]->loop.join->enable);
  EXPECT_TRUE(plain.value().jobs[0]->loop.join->divide_by_initial_world_size);
  EXPECT_FALSE(plain.value().jobs[0]->loop.join->throw_on_early_termination);
  const auto changed =
      load(joined("divide_by_initial_world_size = false, throw_on_early_termination = true"));
  ASSERT_TRUE(changed.ok()) << changed.error().text();
  EXPECT_FALSE(changed.value().jobs[0]->loop.join->divide_by_initial_world_size);
  EXPECT_TRUE(changed.value().jobs[0]->loop.join->throw_on_early_termination);
}

TEST_F(JoinReaderTest, MisspeltOptionsAreReportedAtTheirPlace) {
  EXPECT_EQ(error_of(joined("throw_on_early_terminaton = true")),
            "job.toml:8:31: unknown key 'throw_on_early_terminaton' in 'loop.join'; did you mean "
            "'throw_on_early_termination'?");
  EXPECT_EQ(error_of(replaced(joined(""), "join = {  }", "join = true")),
            "job.toml:8:29: 'loop.join' must be a table, not true or false");
}

TEST_F(JoinReaderTest, RanksWithinItHaveNoCommonNumberOfSteps) {
  EXPECT_EQ(error_of(replaced(joined(""), "epochs = 1", "steps = 3")),
            "job.toml:8:28: 'loop.join' needs 'epochs', because ranks take different "
            "numbers of steps");
  EXPECT_THAT(error_of(replaced(joined(""), "epochs = 1", "snapshot = {}")),
              HasSubstr("does not support snapshots"));
}

TEST_F(JoinReaderTest, JoinNeedsAWrapperWithoutAStaticGraph) {
  EXPECT_THAT(error_of(joined("") + "ddp = { wrap = false, average = \"manual\" }\n"),
              HasSubstr("'loop.join' shadows a wrapper's collectives: set ddp.wrap = true"));
  EXPECT_THAT(error_of(joined("") + "ddp = { static_graph = true }\n"),
              HasSubstr("'loop.join' cannot shadow a static graph"));
}

}  // namespace
}  // namespace lockstep
