// A rank that throws in the middle of a reduction leaves the memory of others and of later runs alone.
#include <string>

#include <gtest/gtest.h>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/laws/report.h"

namespace lockstep {
namespace {

/// The first backward of a static graph posts which parameters were used and then divides the gradients:
/// one of rank 1 is NaN, which exact mode refuses. What it has posted was ready, and its wrapper is gone by then.
constexpr const char* kThrows = R"(
format = 1
title = "a rank throws in its reducer"
world = { ranks = 2 }
exact = { grid = 4, clamp = 8.0 }
model = { kind = "twohead", widths = [1, 1, 1], bias = false, head = "a", init = { kind = "constant", value = 1.0 } }
data = { rows = [ { x = [1], y = [0] }, { x = [2], y = [nan] } ] }
loss = { kind = "mse" }
optimizer = { kind = "sgd", lr = 0.25 }
ddp = { static_graph = true }
loop = { steps = 1 }
)";

TEST(ThrownInReducerTest, LaterRunsFindTheirMemoryAsItWas) {
  const Result<Scenario> scenario = read_scenario_text(kThrows, "throws.toml");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  std::string first;
  for (int i = 0; i < 8; ++i) {
    const Result<ScenarioResult> run = run_scenario(scenario.value(), {});
    ASSERT_TRUE(run.ok()) << run.error().text();
    const std::string text = render_text(run.value().report, false);
    EXPECT_NE(text.find("rank 1: step 0: operation 'average_into_bucket' rounded"),
              std::string::npos)
        << text;
    if (i == 0) first = text;
    EXPECT_EQ(text, first);
  }
}

}  // namespace
}  // namespace lockstep
