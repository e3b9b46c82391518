#include "lockstep/sim/fault/agent.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "lockstep/sim/fault/injector.h"
#include "lockstep/sim/strategy/strategies.h"
#include "lockstep/tensor/cpu_kernels.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::sim {

namespace {

class NoSink final : public EventSink {
 public:
  void on_event(const Event& /*event*/, const NameTable& /*names*/) override {}
};

RecordOptions cheap_record() {
  RecordOptions record;
  record.sketches = false;
  return record;
}

std::vector<Fault> faults_of(const AgentOptions& options, std::int32_t attempt) {
  std::vector<Fault> faults;
  for (const Fault& fault : options.faults) {
    if (fault.attempt == attempt) faults.push_back(fault);
  }
  return faults;
}

std::int32_t n_ranks_of(const AgentOptions& options, std::int32_t attempt) {
  const auto& later = options.n_ranks_later;
  if (attempt == 0 || later.empty()) return options.n_ranks;
  return later[std::min(static_cast<std::size_t>(attempt) - 1, later.size() - 1)];
}

}  // namespace

bool Attempt::ok() const {
  return !world.stuck && std::all_of(world.ends.begin(), world.ends.end(), [](const RankEnd& end) {
    return end.outcome == RankOutcome::kFinished;
  });
}

std::string Attempt::root_cause() const {
  const RankEnd* first = nullptr;
  std::size_t rank = 0;
  for (std::size_t r = 0; r < world.ends.size(); ++r) {
    const RankEnd& end = world.ends[r];
    if (end.outcome == RankOutcome::kFinished) continue;
    if (first == nullptr || end.time < first->time) {
      first = &end;
      rank = r;
    }
  }
  if (first == nullptr) return {};
  return "rank " + std::to_string(rank) + ": " + first->detail;
}

class Agent::Impl {
 public:
  Result<AgentResult> run(const AgentOptions& options, VirtualDisk& disk, const Body& body);

 private:
  Attempt attempt(const AgentOptions& options,
                  std::int32_t number,
                  Strategy& strategy,
                  FaultInjector& injector,
                  const Body& body);
  void watch(const AgentOptions& options);
  void end_all();

  Pool pool_;
  std::unique_ptr<Kernels> cpu_ = make_cpu_kernels();
  std::unique_ptr<Kernels> exact_ = make_exact_kernels(*cpu_);
  World world_;

  // One run.
  std::shared_ptr<NameTable> names_;
  std::vector<std::uint64_t> n_recorded_;  ///< By rank, over all attempts.
};

// The next look after a rank has failed ends the others.
void Agent::Impl::watch(const AgentOptions& options) {
  world_.on_rank_end([this, &options, armed = false](Rank rank) mutable {
    if (armed || world_.end_of(rank).outcome == RankOutcome::kFinished) return;
    armed = true;
    world_.at(world_.now() + options.monitor_interval, [this] { end_all(); });
  });
}

void Agent::Impl::end_all() {
  for (std::int32_t rank = 0; rank < world_.n_ranks(); ++rank) {
    if (!world_.has_ended(Rank{rank})) world_.kill(Rank{rank}, "ended by the agent");
  }
}

Attempt Agent::Impl::attempt(const AgentOptions& options,
                             std::int32_t number,
                             Strategy& strategy,
                             FaultInjector& injector,
                             const Body& body) {
  const std::int32_t n_ranks = n_ranks_of(options, number);
  n_recorded_.resize(std::max(n_recorded_.size(), static_cast<std::size_t>(n_ranks)));
  injector.prepare(n_ranks);
  GroupHub hub(world_, options.group);
  watch(options);
  Kernels& kernels = options.exact ? *exact_ : *cpu_;
  const auto program = [&](RankHandle& handle) {
    Runtime runtime(pool_, kernels, handle);
    std::optional<Recorder> recorder;
    if (options.record) {
      recorder.emplace(handle.rank(), handle, *names_, injector, cheap_record());
      recorder->continue_run(number, n_recorded_[to_index(handle.rank())]);
      runtime.set_recorder(&*recorder);
    }
    injector.open(handle.rank(), runtime.recorder());
    const std::unique_ptr<ProcessGroup> group = hub.world_group(handle, runtime);
    RankContext context(handle.rank(), n_ranks, runtime, *group);
    body(context);
  };
  WorldOptions world;
  world.n_ranks = n_ranks;
  world.timed = options.timed;
  world.keep_going = true;
  world.files_by_rank = injector.files();
  world.environment = {{"TORCHELASTIC_RESTART_COUNT", std::to_string(number)},
                       {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options.max_restarts)}};
  Attempt result;
  result.world = world_.run(world, strategy, program);
  result.struck = injector.struck();
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
    result.n_events.push_back(injector.n_events(Rank{rank}));
    result.n_file_steps.push_back(injector.n_file_steps(Rank{rank}));
    n_recorded_[static_cast<std::size_t>(rank)] += injector.n_recorded(Rank{rank});
  }
  return result;
}

Result<AgentResult> Agent::Impl::run(const AgentOptions& options,
                                     VirtualDisk& disk,
                                     const Body& body) {
  auto strategy = make_strategy(options.strategy, options.schedule_seed);
  if (!strategy.ok()) return strategy.error();
  names_ = std::make_shared<NameTable>();
  n_recorded_.clear();
  AgentResult result;
  NoSink nobody;
  if (options.record) {
    result.trace = std::make_shared<MemoryTrace>(names_);
    std::int32_t n_most = options.n_ranks;
    for (const std::int32_t n : options.n_ranks_later) n_most = std::max(n_most, n);
    result.trace->ensure_ranks(n_most);
  }
  EventSink& sink = result.trace ? static_cast<EventSink&>(*result.trace) : nobody;
  for (std::int32_t number = 0;; ++number) {
    FaultInjector injector(world_, disk, faults_of(options, number), sink);
    result.attempts.push_back(attempt(options, number, *strategy.value(), injector, body));
    const Attempt& last = result.attempts.back();
    disk.set_capacity(std::numeric_limits<std::int64_t>::max());
    for (const Fault& fault : last.struck) {
      disk.crash(fault.fate, options.seed + static_cast<std::uint64_t>(number));
    }
    const bool given_up = last.world.stuck && !options.watchdog;
    if (last.ok() || given_up || number >= options.max_restarts) return result;
  }
}

Agent::Agent() : impl_(std::make_unique<Impl>()) {}

Agent::~Agent() = default;

Result<AgentResult> Agent::run(const AgentOptions& options, VirtualDisk& disk, const Body& body) {
  return impl_->run(options, disk, body);
}

}  // namespace lockstep::sim
