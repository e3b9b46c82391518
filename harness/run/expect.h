// What a scenario expects, compared with what its run did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// The values `rank` recorded at the place of `asked`; null when there are none. The first ones
/// when it names no step. Valid as long as the result.
const ValueEvent* recorded_value(const ScenarioResult& result,
                                 const ExpectedValue& asked,
                                 Rank rank);

/// How an expectation was not met.
enum class UnmetKind : std::uint8_t {
  kMissed,      ///< A finding, hang or error that was expected did not come.
  kUnexpected,  ///< A law fired, or the run failed, although all was to be quiet.
  kDiffers,     ///< Values, samples, a metric, restarts or the final state are others.
};

/// One expectation that was not met.
struct UnmetExpectation {
  std::string text;  ///< For a reader, with the place of the expectation where it has one.
  UnmetKind kind = UnmetKind::kDiffers;
};

/// What differs between what happened and what the scenario expects; empty = it met its
/// expectations.
std::vector<UnmetExpectation> unmet(const Scenario& scenario, const ScenarioResult& result);

}  // namespace lockstep
