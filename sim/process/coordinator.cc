#include "lockstep/sim/process/coordinator.h"

#include <array>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/sim/process/call_fault.h"
#include "lockstep/sim/process/detail/serving.h"
#include "lockstep/sim/process/rank_server.h"
#include "lockstep/sim/session/session.h"
#include "lockstep/sim/strategy/schedule.h"
#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

namespace {

std::vector<std::unique_ptr<RankProcess>> take_over(const std::vector<ProcessHandles>& handles) {
  std::vector<std::unique_ptr<RankProcess>> processes;
  processes.reserve(handles.size());
  for (const ProcessHandles& one : handles) processes.push_back(std::make_unique<RankProcess>(one));
  return processes;
}

}  // namespace

/// One run.
class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options)
      : options_(std::move(options)),
        processes_(take_over(options_.processes)),
        interrupts_(options_.take_signals),
        outside_(processes_, options_.outside, interrupts_),
        serving_(outside_, std::move(options_.store), processes_.size()),
        stacks_(processes_.size()) {
    serving_.serial = options_.serial;
    serving_.expires = options_.expires;
    serving_.most_naps = options_.most_naps;
  }

  Result<Coordination> run() {
    SessionOptions session;
    session.n_ranks = static_cast<std::int32_t>(processes_.size());
    session.keep_going = true;
    session.group = options_.group;
    session.laws = {"collectives-match", "progress"};
    session.keep_trace = false;
    const std::vector<std::string_view> faults(options_.faults.begin(), options_.faults.end());
    Result<CallFaults> planned = parse_call_faults(faults, session.n_ranks);
    if (!planned.ok()) return planned.error();
    session.faults = std::move(planned.value().faults);
    serving_.slow = std::move(planned.value().slow);
    session.on_world = [this](World& world, SimGroups& groups) { join(world, groups); };
    Result<std::unique_ptr<Strategy>> strategy = make_strategy(options_.strategy, options_.seed);
    if (!strategy.ok()) return strategy.error();
    // A replay is strict, which the session sees to; it is its own recording.
    const bool replays = dynamic_cast<ReplayStrategy*>(strategy.value().get()) != nullptr;
    const std::unique_ptr<RecordingStrategy> recording =
        replays ? nullptr : make_recording(*strategy.value());
    Strategy& decides = recording ? *recording : *strategy.value();
    Session runs;
    Result<SessionResult> result = runs.run(session, decides, [this](RankContext& context) {
      RankServer(serving_, context, *processes_[to_index(context.world_rank())]).run();
    });
    outside_.see_off(serving_.stopped);
    if (!result.ok()) return result.error();
    Coordination found = assemble(std::move(result).value());
    found.schedule = strategy.value()->describe();
    found.token = recording ? encode_schedule(recording->schedule()) : found.schedule;
    return found;
  }

 private:
  void join(World& world, SimGroups& groups);
  void on_verdict(const StuckVerdict& verdict);
  Coordination assemble(SessionResult result);
  RankEnding ending(std::size_t rank, const RankEnd& end) const;
  CoordinationOutcome outcome_of(const WorldResult& world, const Coordination& found) const;
  void find_first_failure(const WorldResult& world, Coordination& found) const;

  CoordinatorOptions options_;
  std::vector<std::unique_ptr<RankProcess>> processes_;
  Interrupts interrupts_;
  Outside outside_;
  Serving serving_;
  World* world_ = nullptr;
  std::vector<std::string> stacks_;
  std::vector<Rank> missing_;
};

void Coordinator::join(World& world, SimGroups& groups) {
  world_ = &world;
  serving_.groups = &groups;
  outside_.join(world);
  serving_.store.on_arrival([&world](Rank rank) {
    // One that a fault makes late looks again when it comes.
    if (world.is_blocked(rank)) world.wake(rank);
  });
  world.on_stuck([this](const StuckVerdict& verdict) { on_verdict(verdict); });
}

// After the groups have given their explanation, and while every process still waits where it is.
void Coordinator::on_verdict(const StuckVerdict& verdict) {
  std::vector<Rank> ranks;
  for (std::int32_t r = 0; r < world_->n_ranks(); ++r) {
    if (!world_->has_ended(Rank{r})) ranks.push_back(Rank{r});
  }
  outside_.collect_stacks(ranks);
  for (const Rank rank : ranks) {
    stacks_[to_index(rank)] = processes_[to_index(rank)]->stack().value_or(std::string());
  }
  missing_ = serving_.groups->missing_ranks();
  serving_.verdict = fmt::format(
      "{}\n{}",
      verdict.livelock ? "livelock: ranks only sleep and poll" : "deadlock: no rank can continue",
      serving_.groups->explain(verdict));
}

RankEnding Coordinator::ending(std::size_t rank, const RankEnd& end) const {
  RankEnding ending{.outcome = end.outcome,
                    .exit = processes_[rank]->exit().value_or(ProcessExit{}),
                    .stopped = serving_.stopped[rank] != 0,
                    .text = end.detail,
                    .time = end.time,
                    .stack = stacks_[rank]};
  return ending;
}

CoordinationOutcome Coordinator::outcome_of(const WorldResult& world,
                                            const Coordination& found) const {
  if (found.signal != 0) return CoordinationOutcome::kInterrupted;
  if (world.livelock) return CoordinationOutcome::kLivelock;
  if (world.stuck) return CoordinationOutcome::kDeadlock;
  for (const RankEnding& end : found.ends) {
    const bool well =
        end.outcome == RankOutcome::kFinished && !end.exit.signal && end.exit.code.value_or(0) == 0;
    if (!well) return CoordinationOutcome::kFailed;
  }
  return CoordinationOutcome::kOk;
}

void Coordinator::find_first_failure(const WorldResult& world, Coordination& found) const {
  if (!serving_.failures.empty()) {
    found.first_failure = serving_.failures.front();
  } else {
    found.first_failure = world.first_failure;
  }
  for (std::size_t r = 0; r < found.ends.size() && !found.first_failure; ++r) {
    const RankEnding& end = found.ends[r];
    const bool ended_badly =
        end.outcome != RankOutcome::kFinished || end.exit.signal || end.exit.code.value_or(0) != 0;
    if (ended_badly) found.first_failure = static_cast<std::int32_t>(r);
  }
}

Coordination Coordinator::assemble(SessionResult result) {
  Coordination found;
  for (std::size_t r = 0; r < processes_.size(); ++r) {
    found.ends.push_back(ending(r, result.world.ends[r]));
    found.time = std::max(found.time, found.ends.back().time);
    RankEnding& end = found.ends.back();
    if (end.outcome == RankOutcome::kFinished && end.exit.signal) {
      end.text =
          fmt::format("it had finished, and then signal {} ended its process", *end.exit.signal);
    }
  }
  found.signal = outside_.interrupted();
  found.outcome = outcome_of(result.world, found);
  if (found.outcome == CoordinationOutcome::kFailed) {
    find_first_failure(result.world, found);
    if (found.first_failure) {
      const auto rank = static_cast<std::size_t>(*found.first_failure);
      found.error = fmt::format("rank {}: {}", rank, found.ends[rank].text);
    }
  } else if (!serving_.failures.empty()) {
    found.first_failure = serving_.failures.front();
  }
  found.wait_for = result.report.wait_for_graph;
  found.wait_for_graph = std::move(result.wait_for);
  found.missing = missing_;
  found.store = serving_.store.contents();
  for (const Fault& fault : result.attempts.front().struck) found.struck.push_back(describe(fault));
  found.struck.insert(found.struck.end(), serving_.slowed.begin(), serving_.slowed.end());
  found.notes = outside_.take_notes();
  found.report = std::move(result.report);
  found.log = std::move(serving_.log);
  found.n_requests = serving_.n_requests;
  return found;
}

Result<Coordination> coordinate(CoordinatorOptions options) {
  LOCKSTEP_CHECK(!options.processes.empty(), "a run has at least one process");
  const ReductionOrder order = options.group.order;
  const auto n_ranks = static_cast<std::int32_t>(options.processes.size());
  Coordinator coordinator(std::move(options));
  if (!order.fits(n_ranks)) {
    return Error{
        fmt::format("the rings of '{}' do not name the {} ranks there are", order.name(), n_ranks),
        {}};
  }
  return coordinator.run();
}

}  // namespace lockstep::sim
