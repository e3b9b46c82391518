// expect.restarts and expect.final_state: what must be left when a job was disturbed.
#include "lockstep/harness/run/fault_expectation.h"

#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep {
namespace {

/// The digests of a rank's parameters as its program ended, or nothing.
std::vector<std::uint64_t> final_digests(const MemoryTrace& trace, Rank rank) {
  std::vector<std::uint64_t> digests;
  for (const Event& event : trace.events(rank)) {
    const auto* state = std::get_if<StateEvent>(&event.body);
    if (state == nullptr || state->point != StatePoint::kEnd) continue;
    digests.assign(state->digests.begin(), state->digests.end());
  }
  return digests;
}

void compare_final_state(const ScenarioResult& result,
                         const ScenarioResult& other,
                         const std::string& name,
                         std::vector<UnmetExpectation>& unmet) {
  for (std::int32_t r = 0; r < other.session.trace->n_ranks(); ++r) {
    const std::vector<std::uint64_t> wanted = final_digests(*other.session.trace, Rank{r});
    if (!wanted.empty() && wanted == final_digests(*result.session.trace, Rank{r})) continue;
    unmet.push_back({"rank " + std::to_string(r) +
                     " does not end with the parameters of variant '" + name + "'"});
    return;
  }
}

}  // namespace

void check_restarts(const Expectation& expect,
                    const ScenarioResult& result,
                    std::vector<UnmetExpectation>& unmet) {
  if (!expect.restarts) return;
  const auto n_restarts = static_cast<std::int64_t>(result.session.attempts.size()) - 1;
  if (n_restarts == *expect.restarts) return;
  unmet.push_back({"the job was restarted " + std::to_string(n_restarts) + " times, expected " +
                   std::to_string(*expect.restarts)});
}

void check_final_state(const Scenario& scenario,
                       const ScenarioResult& result,
                       std::vector<UnmetExpectation>& unmet) {
  if (!scenario.expect.final_state || result.session.trace == nullptr) return;
  const std::string& name = *scenario.expect.final_state;
  const Result<Scenario> other = load_scenario(scenario.path, name, {});
  if (!other.ok()) {
    unmet.push_back({other.error().text()});
    return;
  }
  const Result<ScenarioResult> run = run_scenario(other.value(), {});
  if (!run.ok()) {
    unmet.push_back({run.error().text()});
  } else {
    compare_final_state(result, run.value(), name, unmet);
  }
}

}  // namespace lockstep
