#include "lockstep/harness/explore/search/detail/tally.h"

#include <algorithm>
#include <iterator>

namespace lockstep::explore::detail {

void Tally::count(const MadeRun& run) {
  ++result_.n_runs;
  result_.coverage.add(*run.reached);
  add_actions(result_.coverage.actions, run.actions);
}

bool Tally::add_kept(const MadeRun& run) {
  if (!run.was_made) return true;
  count(run);
  return run.failure.empty();
}

bool Tally::add(const MadeRun& run) {
  count(run);
  result_.n_steps = std::max(result_.n_steps, run.n_choices);
  result_.n_processes = std::max(result_.n_processes, run.n_processes);
  if (all_ends_.insert(run.end).second) ++result_.n_ends;
  std::map<std::uint64_t, std::string>& ends = ends_[run.input];
  ends.emplace(run.end, run.schedule);
  if (!run.failure.empty()) return false;
  if (ends.size() < 2 || may_differ_ || result_.diverging_runs) return true;
  const std::string& other =
      ends.begin()->first == run.end ? std::next(ends.begin())->second : ends.begin()->second;
  result_.diverging_runs = DivergingRuns{inputs_->settings[run.input], other, run.schedule};
  return true;
}

}  // namespace lockstep::explore::detail
