// A search split over processes: the runs of one of them, and what the runs of all come to.
#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/harness/explore/search/detail/block_runs.h"
#include "lockstep/harness/explore/search/detail/shelf.h"
#include "lockstep/harness/explore/search/detail/strategy_names.h"
#include "lockstep/harness/explore/search/detail/tally.h"
#include "lockstep/harness/explore/search/search.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/sim/strategy/strategy_kind.h"

namespace lockstep::explore {
namespace {

using detail::BlockRuns;
using detail::joined;
using detail::Planned;
using detail::SearchInputs;
using detail::Shelf;
using detail::StrategyNames;
using detail::Tally;

/// Runs of one shard that are started together: enough for all of its threads.
constexpr std::uint64_t kShardBlock = 64;

/// Errors: also a strategy whose runs depend on what earlier ones showed.
Result<StrategyNames> names_of_shards(const std::string& strategy) {
  if (strategy == name_of(sim::StrategyKind::kExhaustive)) {
    return Error{
        "exhaustive cannot be split: it leaves out schedules that are like those it has run, so "
        "one process must see all of them",
        "--strategy"};
  }
  Result<StrategyNames> names = StrategyNames::make(strategy);
  if (names.ok() && names.value().learns()) {
    return Error{
        "pct learns from earlier runs how many picks a run has, which shards do not see; say "
        "it: " +
            strategy + (strategy.find(':') == std::string::npos ? ":" : ",") + "steps=400",
        "--strategy"};
  }
  return names;
}

/// A search of one shard.
struct Sharing {
  const std::string& path;
  const SearchOptions& options;
  const Shard& shard;
  const SearchInputs& inputs;
  const TrialRunner runner{path};
  BlockRuns blocks{path, options.n_jobs};
  Shelf shelf{};
  std::vector<MadeRun> runs{};

  std::uint64_t n_kept() const { return options.first.size(); }

  bool has_failed() const { return !runs.empty() && !runs.back().failure.empty(); }
};

/// Runs again what failed before.
void run_kept(Sharing& sharing) {
  for (std::uint64_t i = sharing.shard.next(0); i < sharing.n_kept(); i += sharing.shard.count) {
    const Attempt& attempt = sharing.options.first[i];
    const Result<Scenario> scenario = load_scenario(
        sharing.path, sharing.options.variant, joined(sharing.options.settings, attempt.settings));
    Result<Trial> trial = Error{};
    if (scenario.ok()) {
      trial = sharing.runner.run(scenario.value(), {.strategy = attempt.schedule});
    }
    MadeRun run;
    run.was_made = trial.ok();
    if (trial.ok()) run = sharing.shelf.keep({}, trial.value());
    run.number = i;
    sharing.runs.push_back(std::move(run));
    if (sharing.has_failed()) return;
  }
}

/// Runs one block. Errors: of the first run that could not be made.
Outcome run_shard_block(const std::vector<Planned>& block, Sharing& sharing) {
  const auto trials = sharing.blocks.make(block);
  for (std::size_t i = 0; i < block.size() && !sharing.has_failed(); ++i) {
    if (!trials[i].ok()) return trials[i].error();
    sharing.runs.push_back(sharing.shelf.keep(block[i], trials[i].value()));
  }
  return success();
}

Outcome run_own(StrategyNames& names, Sharing& sharing) {
  const std::uint64_t n_kept = sharing.n_kept();
  const std::uint64_t n_all = n_kept + sharing.options.n_runs;
  const std::uint64_t step = sharing.shard.count;
  std::uint64_t number = sharing.shard.next(n_kept);
  while (number < n_all && !sharing.has_failed()) {
    std::vector<Planned> block;
    for (; block.size() < kShardBlock && number < n_all; number += step) {
      const std::uint64_t own = number - n_kept;
      const auto input = static_cast<std::size_t>(own % sharing.inputs.scenarios.size());
      const Outcome prepared = names.prepare(sharing.runner, sharing.inputs, input);
      if (!prepared.ok()) return prepared;
      block.push_back({number,
                       &sharing.inputs.scenarios[input],
                       input,
                       own == 0 ? "" : names.name(own - 1, input)});
    }
    const Outcome done = run_shard_block(block, sharing);
    if (!done.ok()) return done;
    if (sharing.options.progress) {
      sharing.options.progress(sharing.runs.size(), (n_all + step - 1) / step);
    }
  }
  return success();
}

std::string name_of_run(const MadeRun& run) { return "run " + std::to_string(run.number + 1); }

Result<FoundFailure> failure_of_run(const std::string& path,
                                    const SearchOptions& options,
                                    const SearchInputs& inputs,
                                    const MadeRun& run) {
  const bool is_kept = run.number < options.first.size();
  Attempt attempt =
      is_kept ? options.first[run.number] : Attempt{inputs.settings[run.input], run.schedule};
  const Result<Scenario> scenario =
      load_scenario(path, options.variant, joined(options.settings, attempt.settings));
  if (!scenario.ok()) return scenario.error();
  Result<Trial> trial = TrialRunner(path).run(scenario.value(), {.strategy = attempt.schedule});
  if (!trial.ok()) return trial.error();
  const Trial& shown = trial.value();
  if (!shown.failure || detail::record_of({}, shown).failure != run.failure ||
      shown.result_digest != run.end) {
    return Error{name_of_run(run) + " does not fail here as its part says: '" +
                     printable(run.failure) + "'; the scenario's data or Lockstep itself differ",
                 {}};
  }
  return FoundFailure{run.number + 1, is_kept, std::move(attempt), std::move(trial).value()};
}

/// Counts the runs in their order. Returns: the one that failed, or null.
Result<const MadeRun*> count(const SearchOptions& options,
                             const SearchInputs& inputs,
                             const std::vector<MadeRun>& runs,
                             Tally& tally) {
  const std::uint64_t n_kept = options.first.size();
  const std::uint64_t n_all = n_kept + options.n_runs;
  std::uint64_t number = 0;
  for (const MadeRun& run : runs) {
    if (number == n_all || run.number != number) break;
    if (run.input >= inputs.scenarios.size() || (run.was_made && run.reached == nullptr)) {
      return Error{name_of_run(run) + " is of inputs that this scenario does not have", {}};
    }
    const bool holds = run.number < n_kept ? tally.add_kept(run) : tally.add(run);
    if (!holds) return &run;
    ++number;
  }
  if (number == n_all) return nullptr;
  return Error{
      "run " + std::to_string(number + 1) + " is missing, although no run before it failed", {}};
}

}  // namespace

Result<std::vector<MadeRun>> make_runs(const std::string& path,
                                       const SearchOptions& options,
                                       const Shard& shard) {
  Result<StrategyNames> names = names_of_shards(options.strategy);
  if (!names.ok()) return names.error();
  const Result<SearchInputs> inputs = detail::load_inputs(path, options);
  if (!inputs.ok()) return inputs.error();
  Sharing sharing{path, options, shard, inputs.value()};
  run_kept(sharing);
  const Outcome done = run_own(names.value(), sharing);
  if (!done.ok()) return done.error();
  return std::move(sharing.runs);
}

Result<SearchResult> put_together(const std::string& path,
                                  const SearchOptions& options,
                                  const std::vector<MadeRun>& runs) {
  Result<StrategyNames> names = names_of_shards(options.strategy);
  if (!names.ok()) return names.error();
  const Result<SearchInputs> inputs = detail::load_inputs(path, options);
  if (!inputs.ok()) return inputs.error();
  const Scenario& scenario = inputs.value().scenarios.front();
  Tally tally(inputs.value(), !scenario.session.faults.empty());
  SearchResult& result = tally.result();
  result.timed = scenario.session.timed;
  result.n_seeds = inputs.value().n_seeds;
  result.n_changes = inputs.value().n_changes;
  const Result<const MadeRun*> failed = count(options, inputs.value(), runs, tally);
  if (!failed.ok()) return failed.error();
  if (const MadeRun* run = failed.value()) {
    Result<FoundFailure> failure = failure_of_run(path, options, inputs.value(), *run);
    if (!failure.ok()) return failure.error();
    result.failure = std::move(failure).value();
    result.failure->number = result.n_runs;
    if (result.failure->was_kept) return result;
  }
  names.value().tell(result);
  return result;
}

Result<FoundFailure> failure_again(const std::string& path,
                                   const SearchOptions& options,
                                   const MadeRun& run) {
  const Result<SearchInputs> inputs = detail::load_inputs(path, options);
  if (!inputs.ok()) return inputs.error();
  if (run.input >= inputs.value().scenarios.size()) {
    return Error{name_of_run(run) + " is of inputs that this scenario does not have", {}};
  }
  return failure_of_run(path, options, inputs.value(), run);
}

}  // namespace lockstep::explore
