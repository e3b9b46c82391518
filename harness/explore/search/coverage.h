// What a campaign of runs has reached, and what it has not: actions, faults, laws, and the marks that a
// scenario sets. A campaign that never showed a restart has not tested one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/sim/explore/marks.h"
#include "lockstep/sim/fiber/action.h"

namespace lockstep {
class JsonText;
struct ScenarioResult;
}  // namespace lockstep

namespace lockstep::explore {

/// Resumptions, transfers, messages, timers: what worlds enable. A planned fault strikes within one of these.
inline constexpr std::size_t kActionKinds = 4;

/// How often a strategy picked each kind of action.
struct ActionCounts {
  std::array<std::uint64_t, kActionKinds> picks{};  ///< By ActionKind.
  std::uint64_t choices = 0;                        ///< Picks where something else was possible.
};

void add_actions(ActionCounts& all, const ActionCounts& later);

/// Picks as another strategy does, and counts.
class CountingStrategy : public sim::Strategy {
 public:
  virtual const ActionCounts& counts() const = 0;  ///< Of all runs so far.
};

/// Requires: `inner` outlives it.
std::unique_ptr<CountingStrategy> make_counting(sim::Strategy& inner);

/// Something that was planned, or that a mark asks for, and in how many runs it came.
struct Reached {
  std::string name;
  std::string where;  ///< Of marks: "file:line:column".
  std::uint64_t n_runs = 0;
};

/// What runs have reached. The coverage of one run counts that run.
struct Coverage {
  std::uint64_t n_runs = 0;
  ActionCounts actions;
  std::vector<LawCoverage> laws;  ///< In the contract's order, then of relation laws.
  std::vector<Reached> faults;    ///< In the order of the scenario.
  std::vector<Reached> marks;     ///< In the order of the scenario.

  /// Adds what later runs reached. Faults and marks of other inputs are added to the lists.
  void add(const Coverage& later);

  /// Marks that no run has reached.
  std::vector<Reached> unreached() const;
};

/// What one run of the scenario reached. Requires: the run kept its trace, if the scenario has marks.
Coverage coverage_of(const Scenario& scenario,
                     const ScenarioResult& result,
                     const ActionCounts& actions);

/// Lines for a terminal: what was reached and how often, then what was not, marks with their places.
std::string coverage_text(const Coverage& coverage);

/// Members of one object: `runs`, `actions`, `laws`, `faults`, `marks` (docs/explore.md).
void write_coverage(JsonText& out, const Coverage& coverage);

}  // namespace lockstep::explore
