// The strategies of a search's runs, by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/harness/explore/search/detail/search_inputs.h"
#include "lockstep/harness/explore/search/trial.h"

namespace lockstep::explore::detail {

/// What names the strategy of run `number`: PCT learns from earlier runs how long they are, unless
/// it was given their length, and the uniform walk from two runs of each input that do not count.
class StrategyNames {
 public:
  static Result<StrategyNames> make(const std::string& strategy);

  /// Counts what `name` needs of an input, once. Errors: its run cannot be made.
  Outcome prepare(const TrialRunner& runner, const SearchInputs& inputs, std::size_t input);

  /// Requires: prepare() for this input.
  std::string name(std::uint64_t number, std::size_t input) const;

  /// Names depend on what earlier runs showed.
  bool learns() const { return depth_ > 0 && !knows_steps_; }

  void learn(const std::vector<Result<Trial>>& trials);

  /// What is known about the length of runs in the end.
  void tell(SearchResult& result) const;

 private:
  std::int32_t depth_ = 0;  ///< 0: random, or uniform.
  bool uniform_ = false;
  bool knows_steps_ = false;                    ///< "pct:steps=...".
  std::map<std::size_t, std::string> lengths_;  ///< By input.
  std::uint64_t n_steps_ = 1;
  std::uint64_t n_processes_ = 1;
};

}  // namespace lockstep::explore::detail
