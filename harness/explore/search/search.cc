#include "lockstep/harness/explore/search/search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "lockstep/harness/explore/search/in_parallel.h"
#include "lockstep/harness/explore/search/inputs.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/sim/strategy/strategy_kind.h"
#include "lockstep/sim/strategy/uniform.h"

namespace lockstep::explore {
namespace {

/// Runs that are started together. Fixed, so that results do not depend on the number of threads.
constexpr std::uint64_t kBlock = 64;

/// The scenario as it is, under other seeds of its job and with small changes.
struct Inputs {
  std::vector<std::vector<Setting>> settings;
  std::vector<Scenario> scenarios;
};

std::vector<Setting> joined(const std::vector<Setting>& a, const std::vector<Setting>& b) {
  std::vector<Setting> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

/// What the settings of each input are: for each change every seed.
std::vector<std::vector<Setting>> settings_of_inputs(const TomlNode& document,
                                                     const std::string& path,
                                                     const SearchOptions& options,
                                                     SearchResult& result) {
  std::vector<std::vector<Setting>> seeds;
  for (std::uint64_t seed = 0; seed < std::max<std::uint64_t>(options.n_seeds, 1); ++seed) {
    seeds.push_back(seed_settings(document, path, seed));
    if (seed > 0 && seeds.back().empty()) {  // Nothing is drawn in this job.
      seeds.pop_back();
      break;
    }
  }
  std::vector<std::vector<Setting>> changes = {{}};
  if (options.vary) {
    for (std::vector<Setting>& change : small_changes(document, path)) {
      changes.push_back(std::move(change));
    }
  }
  result.n_seeds = seeds.size();
  result.n_changes = changes.size() - 1;
  std::vector<std::vector<Setting>> inputs;
  inputs.reserve(changes.size() * seeds.size());
  for (const std::vector<Setting>& change : changes) {
    for (const std::vector<Setting>& seed : seeds) inputs.push_back(joined(change, seed));
  }
  return inputs;
}

Result<Inputs> load_inputs(const std::string& path,
                           const SearchOptions& options,
                           SearchResult& result) {
  const Result<TomlNode> document = load_document(path, options.variant, options.settings);
  if (!document.ok()) return document.error();
  const Result<Scenario> itself = scenario_of(document.value(), path);
  if (!itself.ok()) return itself.error();
  Inputs inputs;
  for (std::vector<Setting>& settings :
       settings_of_inputs(document.value(), path, options, result)) {
    Result<Scenario> scenario =
        load_scenario(path, options.variant, joined(options.settings, settings));
    if (!scenario.ok()) continue;  // A seed and a change that do not go together.
    inputs.settings.push_back(std::move(settings));
    inputs.scenarios.push_back(std::move(scenario).value());
  }
  return inputs;
}

/// One run to make.
struct Planned {
  const Scenario* scenario = nullptr;
  std::size_t input = 0;  ///< Which of Inputs.
  std::string strategy;   ///< Makes its schedule again; empty: the scenario's own.
};

/// What makes a run's schedule again. The name of "uniform" holds the lengths of all ranks: the schedule
/// itself is shorter, where there is one word for it.
std::string schedule_again(const Planned& run, const Trial& trial) {
  const bool is_uniform = run.strategy.starts_with(name_of(sim::StrategyKind::kUniform));
  return is_uniform && trial.schedule.starts_with('@') ? trial.schedule : run.strategy;
}

/// Collects what runs showed, in the order of their numbers.
class Tally {
 public:
  Tally(const Inputs& inputs, bool may_differ)
      : inputs_(&inputs), may_differ_(may_differ), ends_(inputs.scenarios.size()) {}

  /// False: it failed, and the search is over.
  bool add(const Planned& run, const Trial& trial) {
    ++result_.n_runs;
    result_.coverage.add(trial.coverage);
    if (all_ends_.insert(trial.result_digest).second) ++result_.n_ends;
    std::map<std::uint64_t, std::string>& ends = ends_[run.input];
    const std::string schedule = schedule_again(run, trial);
    ends.emplace(trial.result_digest, schedule);
    if (trial.failure) {
      result_.failure =
          FoundFailure{result_.n_runs, false, {inputs_->settings[run.input], schedule}, trial};
      return false;
    }
    if (ends.size() < 2 || may_differ_ || result_.diverging_runs) return true;
    const std::string& other = ends.begin()->first == trial.result_digest
                                   ? std::next(ends.begin())->second
                                   : ends.begin()->second;
    result_.diverging_runs = DivergingRuns{inputs_->settings[run.input], other, schedule};
    return true;
  }

  SearchResult& result() { return result_; }

 private:
  const Inputs* inputs_;
  bool may_differ_;
  std::set<std::uint64_t> all_ends_;
  std::vector<std::map<std::uint64_t, std::string>> ends_;  ///< Digest -> schedule, by input.
  SearchResult result_;
};

/// Makes the runs of one block, a share of them on each thread.
std::vector<Result<Trial>> run_block(const TrialRunner& runner,
                                     const std::vector<Planned>& block,
                                     std::uint64_t n_jobs) {
  std::vector<Result<Trial>> trials(block.size(), Result<Trial>(Trial{}));
  in_parallel(block.size(), n_jobs, [&](std::size_t i) {
    trials[i] = runner.run(*block[i].scenario, {.strategy = block[i].strategy});
  });
  return trials;
}

/// Counts a block's runs. False: the search is over. Errors: of the first run that could not be
/// made.
Result<bool> add_block(const std::vector<Planned>& block,
                       const std::vector<Result<Trial>>& trials,
                       Tally& tally) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (!trials[i].ok()) return trials[i].error();
    if (!tally.add(block[i], trials[i].value())) return false;
  }
  return true;
}

/// What names the strategy of run `number`: PCT learns from earlier runs how long they are, and the
/// uniform walk from two runs of each input that do not count.
class StrategyNames {
 public:
  static Result<StrategyNames> make(const std::string& strategy) {
    StrategyNames names;
    if (strategy == name_of(sim::StrategyKind::kUniform)) {
      names.uniform_ = true;
      return names;
    }
    const auto made = sim::make_strategy(strategy, 0);
    if (!made.ok()) return Error{made.error().text(), "--strategy"};
    if (const auto* pct = dynamic_cast<const sim::PctStrategy*>(made.value().get())) {
      names.depth_ = pct->options().depth;
      return names;
    }
    if (made.value()->describe().starts_with("random")) return names;
    return Error{
        "'" + strategy + "' makes one schedule; many come from random, pct, uniform or exhaustive",
        "--strategy"};
  }

  /// Counts what `name` needs of an input, once. Errors: its run cannot be made.
  Outcome prepare(const TrialRunner& runner, const Inputs& inputs, std::size_t input) {
    if (!uniform_ || lengths_.contains(input)) return success();
    const auto counted = sim::count_lengths([&](sim::LengthCounter& counter) -> Outcome {
      const Result<Trial> trial = runner.run(inputs.scenarios[input], counter);
      return trial.ok() ? success() : Outcome(trial.error());
    });
    if (!counted.ok()) return counted.error();
    lengths_[input] = sim::encode_lengths(counted.value());
    return success();
  }

  /// Requires: prepare() for this input.
  std::string name(std::uint64_t number, std::size_t input) const {
    const std::string seed = "seed=" + std::to_string(number);
    if (uniform_) return "uniform:" + seed + ",lengths=" + lengths_.at(input);
    if (depth_ == 0) return "random:" + seed;
    return "pct:depth=" + std::to_string(depth_) + ",steps=" + std::to_string(n_steps_) + "," +
           seed;
  }

  void learn(const std::vector<Result<Trial>>& trials) {
    for (const Result<Trial>& trial : trials) {
      if (!trial.ok()) continue;
      n_steps_ = std::max(n_steps_, trial.value().n_choices);
      n_processes_ = std::max(n_processes_, trial.value().n_processes);
    }
  }

  void tell(SearchResult& result) const {
    if (depth_ == 0) return;
    result.n_steps = n_steps_;
    result.n_processes = n_processes_;
    result.bound = sim::pct_bound(n_processes_, n_steps_, depth_);
  }

 private:
  std::int32_t depth_ = 0;  ///< 0: random, or uniform.
  bool uniform_ = false;
  std::map<std::size_t, std::string> lengths_;  ///< By input.
  std::uint64_t n_steps_ = 1;
  std::uint64_t n_processes_ = 1;
};

/// One search: what it reads, runs and counts.
struct Searching {
  const SearchOptions& options;
  const TrialRunner& runner;
  const Inputs& inputs;
  Tally& tally;
};

void show_progress(const Searching& searching) {
  if (searching.options.progress) {
    searching.options.progress(searching.tally.result().n_runs, searching.options.n_runs);
  }
}

Outcome run_seeded(const Searching& searching, const StrategyNames& made) {
  StrategyNames names = made;
  const SearchOptions& options = searching.options;
  const std::size_t n_inputs = searching.inputs.scenarios.size();
  std::uint64_t number = 0;
  // The scenario as it is comes first, alone: it also shows how long a run is.
  for (std::uint64_t size = 1; number < options.n_runs; size = kBlock) {
    std::vector<Planned> block;
    for (std::uint64_t i = 0; i < size && number < options.n_runs; ++i, ++number) {
      const auto input = static_cast<std::size_t>(number % n_inputs);
      const Outcome prepared = names.prepare(searching.runner, searching.inputs, input);
      if (!prepared.ok()) return prepared.error();
      const std::string strategy = number == 0 ? "" : names.name(number - 1, input);
      block.push_back({&searching.inputs.scenarios[input], input, strategy});
    }
    const auto trials = run_block(searching.runner, block, options.n_jobs);
    names.learn(trials);
    const Result<bool> goes_on = add_block(block, trials, searching.tally);
    if (!goes_on.ok()) return goes_on.error();
    show_progress(searching);
    if (!goes_on.value()) break;
  }
  names.tell(searching.tally.result());
  return success();
}

/// All schedules of the scenario itself.
Outcome run_all_schedules(const Searching& searching) {
  const auto search = sim::make_exhaustive({});
  SearchResult& result = searching.tally.result();
  bool failed = false;
  // A budget that ends with the last schedule leaves nothing out, so more is asked for first.
  bool more = search->next();
  while (more && !failed && result.n_runs < searching.options.n_runs) {
    const Result<Trial> trial = searching.runner.run(searching.inputs.scenarios[0], *search);
    if (!trial.ok()) return trial.error();
    failed = !searching.tally.add({&searching.inputs.scenarios[0], 0, trial.value().schedule},
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
    SearchResult& result = searching.tally.result();
    ++result.n_runs;
    result.coverage.add(trial.value().coverage);
    if (!trial.value().failure) continue;
    result.failure = FoundFailure{result.n_runs, true, attempt, trial.value()};
    return true;
  }
  return false;
}

}  // namespace

Result<SearchResult> search(const std::string& path, const SearchOptions& options) {
  const bool exhaustive = options.strategy == name_of(sim::StrategyKind::kExhaustive);
  const auto names = StrategyNames::make(exhaustive ? "random" : options.strategy);
  if (!names.ok()) return names.error();
  SearchResult counted;
  const Result<Inputs> inputs = load_inputs(path, options, counted);
  if (!inputs.ok()) return inputs.error();
  const Scenario& scenario = inputs.value().scenarios.front();
  const TrialRunner runner(path);
  Tally tally(inputs.value(), !scenario.session.faults.empty());
  const Searching searching{options, runner, inputs.value(), tally};
  SearchResult& result = tally.result();
  result.timed = scenario.session.timed;
  result.n_seeds = exhaustive ? 1 : counted.n_seeds;
  result.n_changes = exhaustive ? 0 : counted.n_changes;
  const Result<bool> failed = run_first(path, searching);
  if (!failed.ok()) return failed.error();
  if (failed.value()) return result;
  const Outcome done =
      exhaustive ? run_all_schedules(searching) : run_seeded(searching, names.value());
  if (!done.ok()) return done.error();
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
