#include "lockstep/harness/explore/search/critical_step.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/sim/strategy/schedule.h"
#include "lockstep/sim/strategy/strategies.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep::explore {
namespace {

constexpr int kOtherSeeds = 16;

/// Tries schedules of one document.
class Schedules {
 public:
  Schedules(const TrialRunner& runner, const TomlNode& document, const Failure& failure)
      : runner_(&runner), document_(&document), failure_(&failure) {}

  /// The schedule that `strategy` makes, if the run passes.
  std::optional<sim::Schedule> passing(const std::string& strategy) const {
    const std::optional<Trial> trial = attempt(strategy);
    if (!trial || trial->failure) return std::nullopt;
    return decoded(trial->schedule);
  }

  std::optional<sim::Schedule> failing() const {
    const std::optional<Trial> trial = attempt("");
    if (!trial || trial->failure != *failure_) return std::nullopt;
    return decoded(trial->schedule);
  }

  /// Without one deviation of `schedule`, the last one first.
  std::optional<sim::Schedule> passing_without_one(const sim::Schedule& schedule) const {
    for (std::size_t i = schedule.deviations.size(); i-- > 0;) {
      if (auto found = passing(sim::encode_schedule(without(schedule, i)))) return found;
    }
    return std::nullopt;
  }

  /// The longest beginning of `schedule` that passes, where one deviation more shows the failure;
  /// that one becomes `schedule`.
  std::optional<sim::Schedule> passing_beginning(sim::Schedule& schedule) const {
    while (!schedule.deviations.empty()) {
      sim::Schedule shorter = without(schedule, schedule.deviations.size() - 1);
      const std::optional<Trial> trial = attempt(sim::encode_schedule(shorter));
      if (!trial) return std::nullopt;
      if (!trial->failure) return shorter;
      if (*trial->failure != *failure_) return std::nullopt;
      schedule = std::move(shorter);
    }
    return std::nullopt;
  }

  /// Any that passes, with as few deviations as it takes.
  std::optional<sim::Schedule> nearest_to_default() const {
    std::optional<sim::Schedule> found;
    for (const char* name : {"@", "run-to-block", "round-robin"}) {
      if (!found) found = passing(name);
    }
    for (int seed = 0; !found && seed < kOtherSeeds; ++seed) {
      found = passing("random:seed=" + std::to_string(seed));
    }
    if (!found) return std::nullopt;
    for (std::size_t i = found->deviations.size(); i-- > 0;) {
      if (i >= found->deviations.size()) continue;  // Others went with one that was dropped.
      if (auto smaller = passing(sim::encode_schedule(without(*found, i)))) found = smaller;
    }
    return found;
  }

 private:
  std::optional<Trial> attempt(const std::string& strategy) const {
    return runner_->attempt(*document_, {.strategy = strategy});
  }

  static std::optional<sim::Schedule> decoded(const std::string& word) {
    if (word.empty() || word.front() != '@') return std::nullopt;  // A job that was restarted.
    Result<sim::Schedule> schedule = sim::decode_schedule(word);
    if (!schedule.ok()) return std::nullopt;
    return std::move(schedule).value();
  }

  static sim::Schedule without(sim::Schedule schedule, std::size_t i) {
    schedule.deviations.erase(schedule.deviations.begin() + static_cast<std::ptrdiff_t>(i));
    return schedule;
  }

  const TrialRunner* runner_;
  const TomlNode* document_;
  const Failure* failure_;
};

std::shared_ptr<const MemoryTrace> trace_of(const Scenario& scenario,
                                            const sim::Schedule& schedule) {
  const auto strategy = sim::make_strategy(sim::encode_schedule(schedule), 0);
  if (!strategy.ok()) return nullptr;
  RunChoices choices;
  choices.strategy = strategy.value().get();
  const Result<ScenarioResult> run = run_scenario(scenario, choices);
  return run.ok() ? run.value().session.trace : nullptr;
}

/// One event of a run, recognisable in another run, where its rank may have recorded it earlier or
/// later.
struct Step {
  const Event* event = nullptr;
  /// Rank, kind, and of a collective group, number, operation and phase; how many like it came
  /// before.
  std::array<std::int64_t, 7> key{};
};

const CollectiveEvent* call_in(const Event& event) {
  return std::get_if<CollectiveEvent>(&event.body);
}

/// All events of a run in the order of its schedule.
std::vector<Step> steps_of(const MemoryTrace& trace) {
  std::vector<std::size_t> next(static_cast<std::size_t>(trace.n_ranks()));
  std::map<std::array<std::int64_t, 7>, std::int64_t> counts;
  std::vector<Step> steps;
  for (const Rank rank : trace.order()) {
    const Event& event = trace.events(rank)[next[to_index(rank)]++];
    std::array<std::int64_t, 7> key = {to_int(rank), static_cast<std::int64_t>(event.body.index())};
    if (const CollectiveEvent* call = call_in(event)) {
      key[2] = call->group;
      key[3] = call->seq;
      key[4] = static_cast<std::int64_t>(call->signature.op);
      key[5] = static_cast<std::int64_t>(call->phase);
    }
    key[6] = counts[key]++;
    steps.push_back({&event, key});
  }
  return steps;
}

std::size_t place_of(const std::vector<Step>& steps, const Step& wanted) {
  const auto found = std::find_if(
      steps.begin(), steps.end(), [&](const Step& step) { return step.key == wanted.key; });
  return static_cast<std::size_t>(found - steps.begin());
}

bool completes(const Step& step) {
  const CollectiveEvent* const call = call_in(*step.event);
  return call != nullptr && call->phase == CollectivePhase::kCompleted;
}

/// Two runs that did the same until one of them made `first` next, and the other one `second`.
struct Parting {
  const Event* first = nullptr;
  const Event* second = nullptr;
  bool both = false;
};

/// What came before `first` in the passing run, and not in the failing one: the last completion of
/// a collective among it, or the last of it at all. Where the passing run has no `first`: the next
/// completion for its rank.
const Step* what_came_first(const std::vector<Step>& failing,
                            const std::vector<Step>& passing,
                            std::size_t place) {
  const Step& first = failing[place];
  const std::size_t end = place_of(passing, first);
  const bool has_first = end < passing.size();
  const Step* last = nullptr;
  for (std::size_t i = place; i < end; ++i) {
    const Step& step = passing[i];
    if (place_of(failing, step) <= place) continue;
    if (!has_first && completes(step) && step.key[0] == first.key[0]) return &step;
    if (last == nullptr || (has_first && (completes(step) || !completes(*last)))) last = &step;
  }
  return last;
}

Parting parting_of(const std::vector<Step>& failing, const std::vector<Step>& passing) {
  std::size_t place = 0;
  const std::size_t n = std::min(failing.size(), passing.size());
  while (place < n && failing[place].key == passing[place].key) ++place;
  if (place == n) return {};
  const Step* const second = what_came_first(failing, passing, place);
  if (second == nullptr) return {};
  return {.first = failing[place].event,
          .second = second->event,
          .both = place_of(passing, failing[place]) < passing.size() &&
                  place_of(failing, *second) < failing.size()};
}

std::string words_of(const Event& event) {
  const std::string rank = "rank " + std::to_string(to_int(event.rank));
  if (const CollectiveEvent* call = call_in(event)) {
    std::string text =
        rank + "'s " + std::string(name_of(call->signature.op)) + " #" + std::to_string(call->seq);
    if (call->group != 0) text += " of group " + std::to_string(call->group);
    if (call->signature.site.known()) text += " (" + call->signature.site.text() + ")";
    if (call->phase == CollectivePhase::kFailed) return text + " failed";
    return text + (call->phase == CollectivePhase::kPosted ? " was posted" : " completed");
  }
  if (const auto* touch = std::get_if<TouchEvent>(&event.body)) {
    return rank + (touch->written ? " wrote to" : " read") + " the memory of its " +
           std::string(name_of(touch->call)) + " #" + std::to_string(touch->seq);
  }
  const std::string step = event.at.opt >= 0 ? " of step " + std::to_string(event.at.opt) : "";
  return rank + " recorded '" + std::string(name_of(kind_of(event.body))) + "'" + step;
}

}  // namespace

std::optional<CriticalStep> critical_step(const TrialRunner& runner,
                                          const TomlNode& document,
                                          const Failure& failure) {
  const Schedules schedules(runner, document, failure);
  std::optional<sim::Schedule> failing = schedules.failing();
  if (!failing) return std::nullopt;
  std::optional<sim::Schedule> passing = schedules.passing_without_one(*failing);
  if (!passing) {
    sim::Schedule beginning = *failing;
    passing = schedules.passing_beginning(beginning);
    if (passing) failing = beginning;
  }
  if (!passing) passing = schedules.nearest_to_default();
  if (!passing) return std::nullopt;
  const Result<Scenario> scenario = scenario_of(document, runner.path());
  if (!scenario.ok()) return std::nullopt;
  const auto left = trace_of(scenario.value(), *failing);
  const auto right = trace_of(scenario.value(), *passing);
  if (left == nullptr || right == nullptr) return std::nullopt;
  const Parting parting = parting_of(steps_of(*left), steps_of(*right));
  if (parting.first == nullptr) return std::nullopt;
  return CriticalStep{.failing = sim::encode_schedule(*failing),
                      .passing = sim::encode_schedule(*passing),
                      .first = words_of(*parting.first),
                      .second = words_of(*parting.second),
                      .both = parting.both};
}

std::string sentence(const CriticalStep& step) {
  const std::string text = "critical step: " + step.first + " before " + step.second;
  return text +
         (step.both ? "; the other way round it passes (" : "; it passes where that came first (") +
         step.passing + ")";
}

}  // namespace lockstep::explore
