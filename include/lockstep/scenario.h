// Scenario files: loaded as values, run with their laws and companion runs, held against what they
// expect.
//
//   const auto scenario = load_scenario("job.toml", /*variant=*/"", /*settings=*/{});
//   const auto run = run_scenario(scenario.value(), {});
//   EXPECT_TRUE(run.value().report.ok());
#pragma once

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/replay.h"
#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"
