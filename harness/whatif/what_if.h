// What a step of a job would cost under other settings.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/timing/run_times.h"
#include "lockstep/harness/whatif/cost_fit.h"
#include "lockstep/harness/whatif/sweep.h"

namespace lockstep {

class JsonText;

/// What is asked.
struct Question {
  std::string file;
  std::string variant;
  std::vector<Setting> settings;        ///< In all runs.
  std::vector<SweptKey> sweep;          ///< Empty: kUsualBucketCaps.
  std::vector<MeasuredCalls> measured;  ///< Not empty: links within a node are fitted to it.
  std::optional<RunTimes> steps;        ///< As measured: computing is fitted to it.
};

/// How fast a rank computes.
struct ComputeFit {
  double gflops = 0.0;      ///< 10^9 operations per second.
  double contention = 0.0;  ///< sim.compute.contention.
};

/// Bucket sizes in MB that are tried where nothing is asked for.
inline constexpr std::string_view kUsualBucketCaps = "ddp.bucket_cap_mb=0.1,1,5,25,100";

/// One combination of settings and what its steps cost.
struct Setup {
  std::vector<Setting> settings;
  RunTimes times;
};

struct Answer {
  std::string title;                  ///< Of the scenario.
  std::vector<Setup> setups;          ///< In the order of the sweep.
  std::size_t best = 0;               ///< The first one with the shortest median step.
  std::vector<std::string> rests_on;  ///< Sentences: which costs the runs had, and which none.
  std::optional<LinkFit> link;        ///< What was fitted,
  std::optional<ComputeFit> compute;  ///< and computing.
};

/// Runs the scenario once with each combination of the sweep's values and measures its steps.
///
/// Errors: those of reading the scenario with these settings; a scenario without a job; one in which
///     nothing takes time and to which nothing is fitted; a run that does not end well or has no
///     step, with its settings.
/// Deterministic: simulated runs, in turn.
Result<Answer> what_if(const Question& question,
                       const std::function<void(std::size_t done, std::size_t of)>& progress = {});

/// A table with a bar per row, the best row, and what it rests on.
std::string answer_text(const Answer& answer);

/// One object (docs/commands.md, "lockstep whatif").
void write_answer(JsonText& out, const Answer& answer);

}  // namespace lockstep
