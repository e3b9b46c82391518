#include "lockstep/harness/explore/search/search.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/harness/explore/search/detail/block_runs.h"
#include "lockstep/harness/explore/search/detail/shelf.h"
#include "lockstep/harness/explore/search/detail/strategy_names.h"
#include "lockstep/harness/explore/search/detail/tally.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/sim/strategy/strategy_kind.h"

namespace lockstep::explore {
namespace {

using detail::BlockRuns;
using detail::joined;
using detail::Planned;
using detail::SearchInputs;
using detail::StrategyNames;
using detail::Tally;

/// Runs that are started together. Fixed, so that results do not depend on the number of threads.
constexpr std::uint64_t kBlock = 64;

/// One search: what it reads, runs and counts.
struct Searching {
  const SearchOptions& options;
  const TrialRunner& runner;
  const SearchInputs& inputs;
  Tally& tally;

  SearchResult& result() const { return tally.result(); }

  /// Counts a run. False: it failed, and the search is over.
  bool add(const Planned& run, const Trial& trial) const {
    const MadeRun made = detail::record_of(run, trial);
    if (tally.add(made)) return true;
    result().failure =
        FoundFailure{result().n_runs, false, {inputs.settings[run.input], made.schedule}, trial};
    return false;
  }
};

/// Counts a block's runs. False: the search is over. Errors: of the first run that could not be
/// made.
Result<bool> add_block(const std::vector<Planned>& block,
                       const std::vector<Result<Trial>>& trials,
                       const Searching& searching) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (!trials[i].ok()) return trials[i].error();
    if (!searching.add(block[i], trials[i].value())) return false;
  }
  return true;
}

void show_progress(const Searching& searching) {
  if (searching.options.progress) {
    searching.options.progress(searching.result().n_runs, searching.options.n_runs);
  }
}

Outcome run_seeded(const Searching& searching, StrategyNames& names) {
  const SearchOptions& options = searching.options;
  const std::size_t n_inputs = searching.inputs.scenarios.size();
  BlockRuns runs(searching.runner.path(), options.n_jobs);
  std::uint64_t number = 0;
  // The scenario as it is comes first, alone: it also shows how long a run is.
  for (std::uint64_t size = 1; number < options.n_runs; size = kBlock) {
    std::vector<Planned> block;
    for (std::uint64_t i = 0; i < size && number < options.n_runs; ++i, ++number) {
      const auto input = static_cast<std::size_t>(number % n_inputs);
      const Outcome prepared = names.prepare(searching.runner, searching.inputs, input);
      if (!prepared.ok()) return prepared.error();
      const std::string strategy = number == 0 ? "" : names.name(number - 1, input);
      block.push_back({number, &searching.inputs.scenarios[input], input, strategy});
    }
    const auto trials = runs.make(block);
    names.learn(trials);
    const Result<bool> goes_on = add_block(block, trials, searching);
    if (!goes_on.ok()) return goes_on.error();
    show_progress(searching);
    if (!goes_on.value()) break;
  }
  return success();
}

/// All schedules of the scenario itself.
Outcome run_all_schedules(const Searching& searching) {
  const auto search = sim::make_exhaustive({});
  SearchResult& result = searching.result();
  bool failed = false;
  // A budget that ends with the last schedule leaves nothing out, so more is asked for first.
  bool more = search->next();
  while (more && !failed && result.n_runs < searching.options.n_runs) {
    const Result<Trial> trial = searching.runner.run(searching.inputs.scenarios[0], *search);
    if (!trial.ok()) return trial.error();
    failed = !searching.add({0, &searching.inputs.scenarios[0], 0, trial.value().schedule},
                            trial.value());
    if (result.n_runs % kBlock == 0) show_progress(searching);
    more = search->next();
    result.exhaustive = search->counts();
  }
  result.complete = !more && !failed;
  return success();
}

/// The runs of options.first, on the scenario as it is now. True: one of them fails.
Result<bool> run_first(const std::string& path, const Searching& searching) {
  for (const Attempt& attempt : searching.options.first) {
    const Result<Scenario> scenario = load_scenario(
        path, searching.options.variant, joined(searching.options.settings, attempt.settings));
    if (!scenario.ok()) continue;  // The file has changed so much that it no longer applies.
    const Result<Trial> trial =
        searching.runner.run(scenario.value(), {.strategy = attempt.schedule});
    if (!trial.ok()) continue;
    SearchResult& result = searching.result();
    if (searching.tally.add_kept(detail::record_of({}, trial.value()))) continue;
    result.failure = FoundFailure{result.n_runs, true, attempt, trial.value()};
    return true;
  }
  return false;
}

}  // namespace

Result<SearchResult> search(const std::string& path, const SearchOptions& options) {
  const bool exhaustive = options.strategy == name_of(sim::StrategyKind::kExhaustive);
  auto names = StrategyNames::make(exhaustive ? "random" : options.strategy);
  if (!names.ok()) return names.error();
  const Result<SearchInputs> inputs = detail::load_inputs(path, options);
  if (!inputs.ok()) return inputs.error();
  const Scenario& scenario = inputs.value().scenarios.front();
  const TrialRunner runner(path);
  Tally tally(inputs.value(), !scenario.session.faults.empty());
  const Searching searching{options, runner, inputs.value(), tally};
  SearchResult& result = tally.result();
  result.timed = scenario.session.timed;
  result.n_seeds = exhaustive ? 1 : inputs.value().n_seeds;
  result.n_changes = exhaustive ? 0 : inputs.value().n_changes;
  const Result<bool> failed = run_first(path, searching);
  if (!failed.ok()) return failed.error();
  if (failed.value()) return result;
  const Outcome done =
      exhaustive ? run_all_schedules(searching) : run_seeded(searching, names.value());
  if (!done.ok()) return done.error();
  names.value().tell(result);
  return result;
}

Result<std::optional<FoundFailure>> as_failure(const std::string& path,
                                               const SearchOptions& options,
                                               const DivergingRuns& ends) {
  std::string others;
  for (const std::string& schedule : {ends.schedule, ends.other}) {
    if (schedule.empty()) continue;
    others += (others.empty() ? "" : ", ") + toml_string(schedule);
  }
  FoundFailure found;
  found.attempt.settings = joined(
      ends.settings, {{"sim.also", "[" + others + "]"}, {"expect.quiet", "[\"deterministic\"]"}});
  const Result<Scenario> scenario =
      load_scenario(path, options.variant, joined(options.settings, found.attempt.settings));
  if (!scenario.ok()) return scenario.error();
  Result<Trial> trial = TrialRunner(path).run(scenario.value(), {});
  if (!trial.ok()) return trial.error();
  if (!trial.value().failure) return std::optional<FoundFailure>();
  found.trial = std::move(trial).value();
  return std::optional<FoundFailure>(std::move(found));
}

}  // namespace lockstep::explore
