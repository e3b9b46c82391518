#include "lockstep/harness/explore/search/detail/strategy_names.h"

#include <algorithm>

#include "lockstep/sim/strategy/strategy_kind.h"
#include "lockstep/sim/strategy/uniform.h"

namespace lockstep::explore::detail {

Result<StrategyNames> StrategyNames::make(const std::string& strategy) {
  StrategyNames names;
  if (strategy == name_of(sim::StrategyKind::kUniform)) {
    names.uniform_ = true;
    return names;
  }
  const auto made = sim::make_strategy(strategy, 0);
  if (!made.ok()) return Error{made.error().text(), "--strategy"};
  if (const auto* pct = dynamic_cast<const sim::PctStrategy*>(made.value().get())) {
    names.depth_ = pct->options().depth;
    names.knows_steps_ = strategy.find("steps=") != std::string::npos;
    if (names.knows_steps_) names.n_steps_ = pct->options().steps;
    return names;
  }
  if (made.value()->describe().starts_with("random")) return names;
  return Error{
      "'" + strategy + "' makes one schedule; many come from random, pct, uniform or exhaustive",
      "--strategy"};
}

Outcome StrategyNames::prepare(const TrialRunner& runner,
                               const SearchInputs& inputs,
                               std::size_t input) {
  if (!uniform_ || lengths_.contains(input)) return success();
  const auto counted = sim::count_lengths([&](sim::LengthCounter& counter) -> Outcome {
    const Result<Trial> trial = runner.run(inputs.scenarios[input], counter);
    return trial.ok() ? success() : Outcome(trial.error());
  });
  if (!counted.ok()) return counted.error();
  lengths_[input] = sim::encode_lengths(counted.value());
  return success();
}

std::string StrategyNames::name(std::uint64_t number, std::size_t input) const {
  const std::string seed = "seed=" + std::to_string(number);
  if (uniform_) return "uniform:" + seed + ",lengths=" + lengths_.at(input);
  if (depth_ == 0) return "random:" + seed;
  return "pct:depth=" + std::to_string(depth_) + ",steps=" + std::to_string(n_steps_) + "," + seed;
}

void StrategyNames::learn(const std::vector<Result<Trial>>& trials) {
  if (!learns()) return;
  for (const Result<Trial>& trial : trials) {
    if (!trial.ok()) continue;
    n_steps_ = std::max(n_steps_, trial.value().n_choices);
    n_processes_ = std::max(n_processes_, trial.value().n_processes);
  }
}

void StrategyNames::tell(SearchResult& result) const {
  if (depth_ == 0) {
    result.n_steps = 0;
    result.n_processes = 0;
    return;
  }
  if (learns()) {
    result.n_steps = n_steps_;
    result.n_processes = n_processes_;
  }
  // Priorities change among the first `steps` picks only: of longer runs nothing is promised.
  const bool short_enough = learns() || result.n_steps <= n_steps_;
  result.n_steps = std::max(result.n_steps, n_steps_);
  result.n_processes = std::max<std::uint64_t>(result.n_processes, 1);
  if (short_enough) result.bound = sim::pct_bound(result.n_processes, result.n_steps, depth_);
}

}  // namespace lockstep::explore::detail
