#include "lockstep/harness/explore/search/detail/shelf.h"

#include "lockstep/formats/json_text.h"
#include "lockstep/sim/strategy/strategy_kind.h"

namespace lockstep::explore::detail {
namespace {

/// What makes a run's schedule again. The name of "uniform" holds the lengths of all ranks: the schedule
/// itself is shorter, where there is one word for it.
std::string schedule_again(const Planned& run, const Trial& trial) {
  const bool is_uniform = run.strategy.starts_with(name_of(sim::StrategyKind::kUniform));
  return is_uniform && trial.schedule.starts_with('@') ? trial.schedule : run.strategy;
}

}  // namespace

MadeRun record_of(const Planned& run, const Trial& trial) {
  MadeRun made;
  made.number = run.number;
  made.input = run.input;
  made.schedule = schedule_again(run, trial);
  made.end = trial.result_digest;
  made.n_choices = trial.n_choices;
  made.n_processes = trial.n_processes;
  if (trial.failure) made.failure = trial.sentence.empty() ? "it failed" : trial.sentence;
  made.reached =
      std::shared_ptr<const Coverage>(std::shared_ptr<const Coverage>(), &trial.coverage);
  return made;
}

MadeRun Shelf::keep(const Planned& run, const Trial& trial) {
  MadeRun made = record_of(run, trial);
  made.actions = trial.coverage.actions;
  auto reached = std::make_shared<Coverage>(trial.coverage);
  reached->actions = {};
  JsonText text;
  text.open_object();
  write_coverage(text, *reached);
  made.reached = known_.emplace(text.close_object().str(), std::move(reached)).first->second;
  return made;
}

}  // namespace lockstep::explore::detail
