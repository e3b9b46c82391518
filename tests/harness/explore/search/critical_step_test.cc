// A failure that only some schedules show: what came before what.
#include "lockstep/harness/explore/search/critical_step.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/harness/explore/search/paths.h"

#include "tests/support/scenarios.h"

namespace lockstep::explore {
namespace {

using testing::document_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::optional<CriticalStep> step_of(const TomlNode& document) {
  const TrialRunner runner("job.toml");
  const auto trial = runner.attempt(document, {});
  EXPECT_TRUE(trial && trial->failure) << "the document passes";
  return trial && trial->failure ? critical_step(runner, document, *trial->failure) : std::nullopt;
}

/// That the claim is true: one schedule fails, the other one passes.
void expect_true(const CriticalStep& step, const TomlNode& document) {
  const TrialRunner runner("job.toml");
  EXPECT_TRUE(runner.attempt(document, {.strategy = step.failing})->failure);
  EXPECT_FALSE(runner.attempt(document, {.strategy = step.passing})->failure);
}

// Two ranks poll before they call, and the world's patience ends when they take turns. What
// `lockstep explore` makes of testing::kImpatient.
const char* const kTurns = R"(
format = 1
world = { ranks = 3 }
sim = { livelock_points = 40, strategy = "@0-0=1,0-0=2,2-23=0" }
tensor.x = { }
program = [
  { ranks = [0, 2], body = [ { op = "repeat", times = 22, body = [ { op = "compute", ns = 0 } ] } ] },
  { ranks = "all", body = [ { op = "all_reduce", tensor = "x" } ] },
]
)";

TEST(CriticalStepTest, SaysWhatCameTooEarlyAndBeforeWhat) {
  const TomlNode document = document_of(kTurns);
  const std::optional<CriticalStep> step = step_of(document);
  ASSERT_TRUE(step);
  expect_true(*step, document);
  // The last deviation, without which it passes: rank 0 begins where rank 2 would have called.
  EXPECT_EQ(step->failing, "@0-0=1,0-0=2,2-23=0");
  EXPECT_EQ(step->passing, "@0-0=1,0-0=2");
  EXPECT_THAT(step->first, StartsWith("rank 0 "));
  EXPECT_THAT(step->second, StartsWith("rank 2's all_reduce #0"));
  EXPECT_THAT(sentence(*step), HasSubstr(step->first + " before " + step->second));
}

// A schedule of many deviations: where it is cut, one more makes it fail.
TEST(CriticalStepTest, ALongScheduleIsCutToTheStep) {
  TomlNode document = document_of(testing::kImpatient);
  const TrialRunner runner("job.toml");
  std::string failing;
  for (int seed = 0; failing.empty() && seed < 200; ++seed) {
    const auto trial =
        runner.attempt(document, {.strategy = "random:seed=" + std::to_string(seed)});
    if (trial && trial->failure) failing = trial->schedule;
  }
  ASSERT_THAT(failing, StartsWith("@"));
  put(document, "sim.strategy", text_node(failing));
  const std::optional<CriticalStep> step = step_of(document);
  ASSERT_TRUE(step);
  expect_true(*step, document);
  EXPECT_NE(step->first, step->second);
}

TEST(CriticalStepTest, AFailureOfEveryScheduleHasNone) {
  EXPECT_FALSE(step_of(document_of(testing::kCounts)));
}

}  // namespace
}  // namespace lockstep::explore
