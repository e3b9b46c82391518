#include "lockstep/sim/session/session.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <limits>
#include <span>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/kernels/rank_observers.h"
#include "lockstep/laws/finish_report.h"
#include "lockstep/rank_run/rank_run.h"
#include "lockstep/sim/engine/engine.h"
#include "lockstep/sim/fault/injector.h"
#include "lockstep/sim/net/compute_model.h"
#include "lockstep/sim/session/detail/idle.h"
#include "lockstep/sim/session/detail/node_places.h"
#include "lockstep/sim/session/detail/rank_side.h"
#include "lockstep/tensor/contents.h"
#include "lockstep/trace/cohort.h"
#include "lockstep/trace/trace_digest.h"

namespace lockstep::sim {

namespace {

Keeping keeping_of(const SessionOptions& options) {
  return {.trace = options.keep_trace,
          .values = options.values,
          .step_value_bytes = options.step_value_bytes,
          .coverage = options.policy.coverage};
}

/// Who reads the events of one run.
struct Readers {
  Readers(LawSet law_set, Cohort& warm, std::shared_ptr<NameTable> empty)
      : laws(std::move(law_set)), names(std::move(empty)), cohort(&warm) {}

  void start(const SessionOptions& options, std::int32_t n_most) {
    if (!options.record) return;
    // A later attempt with more ranks has some that this one could only wait for.
    cohort->begin(n_most > options.n_ranks ? 1 : options.n_ranks, laws, &digest);
    sinks.add(*cohort);
    if (!options.keep_trace) return;
    trace = std::make_shared<MemoryTrace>(names);
    trace->ensure_ranks(n_most);
    sinks.add(*trace);
  }

  EventSink& sink() { return trace == nullptr ? static_cast<EventSink&>(*cohort) : sinks; }

  /// `injector`: sees events before all others; or null.
  Placed<Recorder> recorder(RankHandle& rank,
                            Pool& pool,
                            FaultInjector* injector,
                            const RecordOptions& options) {
    const auto make = [&](auto& sink) {
      return make_placed<Recorder>(pool, rank.rank(), rank, *names, sink, options);
    };
    if (injector != nullptr) return make(*injector);
    return trace == nullptr ? make(*cohort) : make(sinks);
  }

  LawSet laws;
  std::shared_ptr<NameTable> names;
  TraceDigest digest;
  std::shared_ptr<MemoryTrace> trace;
  Cohort* cohort;
  SinkChain sinks;
};

/// What the world's end leaves in addition to the events.
struct PostMortem {
  bool stuck = false;  // Ranks that end from now on are taken down because none can continue.
  std::string wait_for_graph;
  WaitForGraph wait_for;
  std::string timeouts;
  std::vector<FailureOrigin> failures;  // By rank.
};

/// The rank whose own failure came first by (time, rank); of failed collectives, which are how the
/// others learn of it, only if there is no other.
std::size_t failed_first(const WorldResult& world, const std::vector<FailureOrigin>& failures) {
  std::optional<std::size_t> first;
  for (std::size_t rank = 0; rank < world.ends.size(); ++rank) {
    if (world.ends[rank].outcome != RankOutcome::kThrew) continue;
    if (failures[rank] == FailureOrigin::kOfGroup) continue;
    if (!first || world.ends[rank].time < world.ends[*first].time) first = rank;
  }
  return first.value_or(static_cast<std::size_t>(world.first_failure.value_or(0)));
}

bool has_finished(const WorldResult& world) {
  return std::all_of(world.ends.begin(), world.ends.end(), [](const RankEnd& end) {
    return end.outcome == RankOutcome::kFinished;
  });
}

std::int32_t most_ranks(const SessionOptions& options) {
  std::int32_t most = options.n_ranks;
  if (!options.agent) return most;
  for (const std::int32_t n : options.agent->n_ranks_later) most = std::max(most, n);
  return most;
}

std::vector<Fault> faults_of(const SessionOptions& options, std::int32_t attempt) {
  std::vector<Fault> faults;
  for (const Fault& fault : options.faults) {
    if (fault.attempt == attempt) faults.push_back(fault);
  }
  return faults;
}

/// The options of one attempt: how many ranks, and where they sit.
SessionOptions options_of(const SessionOptions& options, std::int32_t attempt) {
  SessionOptions own = options;
  own.n_ranks = options.agent->n_ranks_of(attempt, options.n_ranks);
  const std::vector<std::int32_t> places = options.agent->places_of(attempt, own.n_ranks);
  own.group.net.places = places;
  own.compute.slow.clear();
  for (ComputeSpec::Slow slow : options.compute.slow) {
    const auto place = std::find(places.begin(), places.end(), slow.rank);
    if (place != places.end()) slow.rank = static_cast<std::int32_t>(place - places.begin());
    if (slow.rank < own.n_ranks) own.compute.slow.push_back(slow);
  }
  return own;
}

/// Otherwise one that never crashes does.
bool has_virtual_disks(const SessionOptions& options) {
  return options.agent || !options.faults.empty() || options.disks != nullptr ||
         options.disk_scope == DiskScope::kNode;
}

/// What outlives an attempt.
struct PersistentState {
  explicit PersistentState(const SessionOptions& options)
      : disks(options.disks != nullptr ? *options.disks : own_disks) {}

  Disks own_disks;
  Disks& disks;
  std::vector<std::uint64_t> n_recorded{};  // By rank.
};

/// One attempt's settings, number and go-between; the last is null where nothing can go wrong.
struct AttemptContext {
  const SessionOptions& options;
  std::int32_t number = 0;
  FaultInjector* injector = nullptr;
  std::span<VirtualDisk* const> disks;  // By rank.
  const std::vector<std::uint64_t>& n_recorded;
};

}  // namespace

class Session::Impl final : private FaultTargets {
 public:
  Result<SessionResult> run(const SessionOptions& options, Strategy& strategy, const Body& body);

  std::int64_t bytes_peak() const { return pool_.get().bytes_peak(); }

 private:
  void attempt(const SessionOptions& options,
               PersistentState& persistent,
               Readers& readers,
               Strategy& strategy,
               const Body& body);
  WorldResult run_world(const AttemptContext& now,
                        const Body& body,
                        Readers& readers,
                        Strategy& strategy);
  void run_rank(const AttemptContext& now,
                const Body& body,
                Readers& readers,
                SimGroups& groups,
                RankHandle& rank);
  void run_program(const AttemptContext& now,
                   const Body& body,
                   Readers& readers,
                   SimGroups& groups,
                   const RunningRank& running);
  void watch_ranks(const AgentOptions& agent);
  void listen_for_hangs(SimGroups& groups);
  void fill_report(const SessionOptions& options, Readers& readers, SessionResult& result) const;
  void set_pace(Rank rank, std::int64_t permille) override;

  void tamper(const ContributionFault& fault) override { groups_->plan(fault); }

  KernelPair kernels_of(const SessionOptions& options, Rank rank);

  RunPool pool_;
  std::unique_ptr<Kernels> cpu_ = make_cpu_kernels();
  std::unique_ptr<Kernels> watched_cpu_ = make_cpu_kernels();
  RankObservers observers_;
  std::optional<ComputeModel> compute_;        // Timed runs.
  std::vector<std::unique_ptr<Kernels>> own_;  // Each rank's, in timed runs; transfers may outlive
                                               // the rank that began them.
  Contents contents_;
  World world_;
  Cohort cohort_;  // Begun again for each run.
  RunNames names_;

  // One run.
  SimGroups* groups_ = nullptr;  // Of the attempt that runs.
  RecordOptions required_;       // By the laws.
  PostMortem post_mortem_;       // Of the last attempt.
  std::vector<Attempt> attempts_;
  WorldResult last_;
};

// In timed runs the rank's own, which know whose time they take.
KernelPair Session::Impl::kernels_of(const SessionOptions& options, Rank rank) {
  const bool watches = options.record && required_.touches;
  KernelObserver* const calm = observers_.get({.exact = options.exact, .watched = false});
  KernelObserver* const watching = observers_.get({.exact = options.exact, .watched = watches});
  if (compute_) {
    own_.push_back(make_timed_kernels(*compute_, rank));
    own_.back()->observe(watching);
    return {.calm = *own_.back(), .watched = *own_.back()};
  }
  cpu_->observe(calm);
  watched_cpu_->observe(watching);
  return {.calm = *cpu_, .watched = *watched_cpu_};
}

void Session::Impl::set_pace(Rank rank, std::int64_t permille) {
  if (compute_) compute_->set_pace(rank, permille);
}

// The agent's next check after a rank has failed ends the others.
void Session::Impl::watch_ranks(const AgentOptions& agent) {
  world_.on_rank_end([this, &agent, armed = false](Rank rank) mutable {
    if (armed || world_.end_of(rank).outcome == RankOutcome::kFinished) return;
    armed = true;
    world_.at(world_.now() + agent.monitor_interval, [this] {
      for (std::int32_t r = 0; r < world_.n_ranks(); ++r) {
        if (!world_.has_ended(Rank{r})) world_.kill(Rank{r}, "ended by the agent");
      }
    });
  });
}

void Session::Impl::listen_for_hangs(SimGroups& groups) {
  world_.on_stuck([this, &groups](const StuckVerdict& verdict) {
    post_mortem_.stuck = verdict.livelock || !groups.awaits_timeout();
    post_mortem_.wait_for_graph = groups.explain(verdict);
    post_mortem_.wait_for = groups.wait_for();
  });
}

void Session::Impl::run_rank(const AttemptContext& now,
                             const Body& body,
                             Readers& readers,
                             SimGroups& groups,
                             RankHandle& rank) {
  const SessionOptions& options = now.options;
  const KeptRuntime kept(pool_, kernels_of(options, rank.rank()), rank);
  run_program(now, body, readers, groups, {rank, kept.get()});
  kept.expect_all_gone();
}

// Whatever surrounds the program ends before the runtime is looked at.
void Session::Impl::run_program(const AttemptContext& now,
                                const Body& body,
                                Readers& readers,
                                SimGroups& groups,
                                const RunningRank& running) {
  const auto& [rank, runtime] = running;
  const SessionOptions& options = now.options;
  // On the heap: stacks of ranks that record nothing stay within a page.
  Placed<Recorder> recorder;
  if (options.record) {
    const RecordOptions own = record_options(required_, keeping_of(options), rank.rank());
    recorder = readers.recorder(rank, runtime.pool(), now.injector, own);
    if (now.number > 0) recorder->continue_run(now.number, now.n_recorded[to_index(rank.rank())]);
    runtime.set_recorder(recorder.get());
  }
  if (now.injector != nullptr) now.injector->open(rank.rank(), runtime.recorder());
  const MemoryWatch watch(runtime, runtime.recorder(), contents_);
  // Declared before the group: what a dropped work still completes is recorded before the end.
  RankRun run(
      runtime.recorder(), post_mortem_.failures[to_index(rank.rank())], &post_mortem_.stuck);
  const std::unique_ptr<ProcessGroup> group = groups.world_group(rank, runtime);
  RankContext context(rank.rank(), options.n_ranks, runtime, *group);
  run.play(body, context);
}

WorldResult Session::Impl::run_world(const AttemptContext& now,
                                     const Body& body,
                                     Readers& readers,
                                     Strategy& strategy) {
  const SessionOptions& options = now.options;
  const bool computes = options.timed && !options.compute.is_free();
  own_.clear();
  compute_.reset();
  if (computes) compute_.emplace(options.compute, options.n_ranks);
  SimGroups groups(world_, options.group);
  groups_ = &groups;
  if (compute_) groups.report_to(compute_->traffic());
  for (const Fault& fault : options.faults) {
    if (fault.kind == FaultKind::kStale) groups.remember(Rank{fault.rank});
  }
  contents_.open();
  post_mortem_ = {};
  post_mortem_.failures.resize(static_cast<std::size_t>(std::max(options.n_ranks, 0)));
  listen_for_hangs(groups);
  if (options.on_world) options.on_world(world_, groups);
  WorldOptions world{.n_ranks = options.n_ranks,
                     .timed = options.timed,
                     .keep_going = options.keep_going || now.injector != nullptr,
                     .livelock_points = options.livelock_points,
                     .rank_environment = environment_of(options),
                     .clock_skews = options.clock_skews};
  if (options.stack_bytes > 0) world.stack_bytes = options.stack_bytes;
  if (now.injector != nullptr) {
    world.files_by_rank = now.injector->files();
  } else {
    world.files_by_rank.assign(now.disks.begin(), now.disks.end());
  }
  if (options.agent) {
    watch_ranks(*options.agent);
    world.environment = {
        {"TORCHELASTIC_RESTART_COUNT", std::to_string(now.number)},
        {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options.agent->max_restarts)}};
  }
  WorldResult result = world_.run(
      world, strategy, [&](RankHandle& rank) { run_rank(now, body, readers, groups, rank); });
  post_mortem_.timeouts = groups.timeouts();
  return result;
}

// Runs the job once more. What faults do to the disk happens between two attempts.
void Session::Impl::attempt(const SessionOptions& options,
                            PersistentState& persistent,
                            Readers& readers,
                            Strategy& strategy,
                            const Body& body) {
  const auto number = static_cast<std::int32_t>(attempts_.size());
  std::vector<VirtualDisk*> disks;
  if (has_virtual_disks(options)) {
    for (std::int32_t rank = 0; rank < options.n_ranks; ++rank) {
      disks.push_back(&persistent.disks.of_node(disk_of(options, rank)));
    }
  }
  std::optional<FaultInjector> injector;
  if (options.agent || !options.faults.empty()) {
    injector.emplace(world_, faults_of(options, number), readers.sink());
    injector->prepare(disks);
    injector->set_targets(this);
  }
  persistent.n_recorded.resize(
      std::max(persistent.n_recorded.size(), static_cast<std::size_t>(options.n_ranks)));
  last_ =
      run_world({options, number, injector ? &*injector : nullptr, disks, persistent.n_recorded},
                body,
                readers,
                strategy);
  Attempt& attempt = attempts_.emplace_back();
  attempt.n_ranks = options.n_ranks;
  attempt.stuck = last_.stuck.has_value();
  attempt.finished = has_finished(last_);
  attempt.root_cause = root_cause(last_);
  if (!injector) return;
  attempt.struck = injector->struck();
  for (std::int32_t rank = 0; rank < options.n_ranks; ++rank) {
    attempt.n_events.push_back(injector->n_events(Rank{rank}));
    attempt.n_file_steps.push_back(injector->n_file_steps(Rank{rank}));
    persistent.n_recorded[static_cast<std::size_t>(rank)] += injector->n_recorded(Rank{rank});
  }
  for (auto& [node, disk] : persistent.disks.by_node()) {
    disk.set_capacity(std::numeric_limits<std::int64_t>::max());
  }
  for (const Fault& fault : attempt.struck) {
    disks[static_cast<std::size_t>(fault.rank)]->crash(
        fault.fate, options.disk_seed + static_cast<std::uint64_t>(number));
  }
}

void Session::Impl::fill_report(const SessionOptions& options,
                                Readers& readers,
                                SessionResult& result) const {
  Report& report = result.report;
  report.n_ranks = options.n_ranks;
  if (options.record) {
    readers.cohort->flush(*readers.names);
    report.laws = readers.laws.finish(*readers.names);
  }
  report.trace_digest = readers.digest.trace();
  report.result_digest = readers.digest.result();
  report.n_events = readers.digest.n_events();
  report.wait_for_graph = post_mortem_.wait_for_graph;
  report.wait_for_dot = render_dot(post_mortem_.wait_for);
  report.timeouts = post_mortem_.timeouts;
  result.wait_for = post_mortem_.wait_for;
  for (std::size_t i = 0; i + 1 < result.attempts.size(); ++i) {
    report.attempts.push_back(result.attempts[i].root_cause);
  }
  bool comm_error = false;
  if (result.world.first_failure) {
    const std::size_t rank = failed_first(result.world, post_mortem_.failures);
    comm_error = post_mortem_.failures[rank] == FailureOrigin::kOfGroup;
    report.error = "rank " + std::to_string(rank) + ": " + result.world.ends[rank].detail;
  }
  const Attempt& last = result.attempts.back();
  const bool killed = !last.finished && !last.stuck && !last.struck.empty();
  if (killed && (report.error.empty() || comm_error)) report.error = last.root_cause;
  report.stuck = result.world.stuck.has_value();
  report.own_failure = result.world.first_failure && !comm_error;
  finish_report(report);
}

Result<SessionResult> Session::Impl::run(const SessionOptions& options,
                                         Strategy& strategy,
                                         const Body& body) {
  LOCKSTEP_CHECK(options.faults.empty() || options.record, "faults strike at recorded events");
  LawPolicy policy = options.policy;
  policy.n_ranks = options.n_ranks;
  policy.exact = options.exact;
  policy.watched = options.record;
  Result<LawSet> laws = LawSet::make(policy, options.laws);
  if (!laws.ok()) return laws.error();

  Readers readers(std::move(laws).value(), cohort_, names_.cleared());
  readers.start(options, most_ranks(options));
  required_ = readers.laws.required();
  if (options.address_shift > 0) pool_.move_by(options.address_shift);
  attempts_.clear();
  PersistentState persistent(options);
  const std::int32_t n_attempts = options.agent ? options.agent->max_restarts + 1 : 1;
  for (std::int32_t number = 0; number < n_attempts; ++number) {
    if (options.agent) {
      attempt(options_of(options, number), persistent, readers, strategy, body);
    } else {
      attempt(options, persistent, readers, strategy, body);
    }
    const Attempt& last = attempts_.back();
    const bool hangs = last.stuck && options.group.watchdog.ns == 0;
    if (last.finished || hangs) break;
  }
  pool_.renew();
  const auto* replay = dynamic_cast<const ReplayStrategy*>(&strategy);
  if (replay != nullptr && attempts_.size() == 1) {
    Schedule skipped;
    skipped.deviations = replay->skipped();
    if (!skipped.deviations.empty()) {
      return Error{"the recorded schedule does not fit: in this program it cannot do " +
                       encode_schedule(skipped),
                   {}};
    }
  }
  SessionResult result;
  result.attempts = std::move(attempts_);
  result.world = std::move(last_);
  fill_report(options, readers, result);
  result.trace = std::move(readers.trace);
  result.schedule = strategy.describe();
  return result;
}

Session::Session() : impl_(std::make_unique<Impl>()) {}

Session::~Session() = default;

std::int64_t Session::bytes_peak() const { return impl_->bytes_peak(); }

Result<SessionResult> Session::run(const SessionOptions& options, const Body& body) {
  auto strategy = make_strategy(options.strategy, options.schedule_seed);
  if (!strategy.ok()) return strategy.error();
  return run(options, *strategy.value(), body);
}

Result<SessionResult> Session::run(const SessionOptions& options,
                                   Strategy& strategy,
                                   const Body& body) {
  LOCKSTEP_CHECK(!inside_fiber(),
                 "a simulation was started inside a rank: run it after the other, or next to it");
  LOCKSTEP_CHECK(
      !__atomic_exchange_n(&busy_, true, __ATOMIC_ACQUIRE),
      "this simulator is already running on another thread: use one simulator per thread");
  const detail::Idle idle(busy_);
  return impl_->run(options, strategy, body);
}

}  // namespace lockstep::sim
