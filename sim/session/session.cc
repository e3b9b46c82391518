#include "lockstep/sim/session/session.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>

#include "lockstep/sim/net/compute_model.h"
#include "lockstep/tensor/cpu_kernels.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/trace/touch_recorder.h"
#include "lockstep/trace/trace_digest.h"

namespace lockstep::sim {

namespace {

// Writes the rank's last event however its program ends. A guard, because exceptions that are not
// std::exception (a property-test library's) must pass through untouched.
class EndOfRank {
 public:
  EndOfRank(Recorder* recorder, const bool& stuck) : recorder_(recorder), stuck_(&stuck) {}

  EndOfRank(const EndOfRank&) = delete;
  EndOfRank& operator=(const EndOfRank&) = delete;
  EndOfRank(EndOfRank&&) = delete;
  EndOfRank& operator=(EndOfRank&&) = delete;

  ~EndOfRank() {
    if (recorder_ == nullptr) return;
    NameTable& names = recorder_->names();
    const std::string_view outcome =
        outcome_.empty() ? (*stuck_ ? "stuck" : "exception") : outcome_;
    recorder_->record(EndEvent{.outcome = names.intern(outcome), .detail = names.intern(detail_)});
  }

  void note(std::string_view outcome, std::string detail) {
    outcome_ = outcome;
    detail_ = std::move(detail);
  }

  bool stuck() const { return *stuck_; }

 private:
  Recorder* recorder_;
  const bool* stuck_;
  std::string_view outcome_;
  std::string detail_;
};

// Where the rank was in its training, for errors that happen far from any event.
std::string place_of(Recorder* recorder) {
  if (recorder == nullptr || recorder->n_wrappers() == 0) return {};
  return "step " + std::to_string(recorder->position(0).opt) + ": ";
}

// Returns through exceptions only; `comm_error` tells the caller which kind it was.
void run_body(const Session::Body& body,
              RankContext& context,
              EndOfRank& end,
              std::uint8_t& comm_error) {
  try {
    body(context);
    end.note("ok", "");
  } catch (const RankKilled& killed) {
    end.note(end.stuck() ? "stuck" : "killed", killed.reason());
    throw;
  } catch (const CommError& error) {
    comm_error = 1;
    end.note("exception", error.what());
    throw;
  } catch (const InexactOperation& inexact) {
    const std::string text = place_of(context.runtime().recorder()) + inexact.what();
    end.note("exception", text);
    throw InexactOperation(text);
  } catch (const std::exception& error) {
    end.note("exception", error.what());
    throw;
  }
}

std::string outcome_of(const WorldResult& world, const Report& report, bool comm_error) {
  if (world.stuck) return "hang";
  if (world.first_failure && !comm_error) return "error";
  if (report.n_findings() > 0) return "findings";
  return world.first_failure ? "error" : "ok";
}

// The record options that these sinks need, and nothing else.
RecordOptions record_options(const SessionOptions& options, const LawSet& laws) {
  RecordOptions record = laws.required();
  if (options.keep_trace) {
    record.grad_local = record.grad_post = record.grad_used = true;
    record.states = record.collectives = record.samples = true;
  }
  record.values = options.values;
  return record;
}

/// Sees to it that accesses to memory in flight are recorded, if somebody reads of them.
class MemoryWatch {
 public:
  MemoryWatch(Runtime& runtime, Recorder* recorder) {
    if (recorder == nullptr || !recorder->options().touches) return;
    pen_.emplace(*recorder);
    in_flight_.listen(&*pen_);
    runtime.set_in_flight(&in_flight_);
  }

 private:
  InFlight in_flight_;
  std::optional<TouchRecorder> pen_;
};

/// Who reads the events of one run.
struct Readers {
  explicit Readers(LawSet law_set) : laws(std::move(law_set)) {}

  void start(const SessionOptions& options) {
    if (!options.record) return;
    sinks.add(digest);
    sinks.add(laws);
    if (!options.keep_trace) return;
    trace = std::make_shared<MemoryTrace>(names);
    trace->ensure_ranks(options.n_ranks);
    sinks.add(*trace);
  }

  LawSet laws;
  std::shared_ptr<NameTable> names = std::make_shared<NameTable>();
  TraceDigest digest;
  std::shared_ptr<MemoryTrace> trace;
  SinkChain sinks;
};

/// What the world's end leaves behind beside the events.
struct Aftermath {
  bool stuck = false;
  std::string wait_for_graph;
  WaitForGraph wait_for;
  std::vector<std::uint8_t> comm_errors;  // By rank: it ended with a CommError.
};

/// The rank whose own failure came first by (time, rank); of failed collectives, which are how the
/// others learn of it, only if there is no other.
std::size_t failed_first(const WorldResult& world, const std::vector<std::uint8_t>& comm_errors) {
  std::optional<std::size_t> first;
  for (std::size_t rank = 0; rank < world.ends.size(); ++rank) {
    if (world.ends[rank].outcome != RankOutcome::kThrew || comm_errors[rank] != 0) continue;
    if (!first || world.ends[rank].time < world.ends[*first].time) first = rank;
  }
  return first.value_or(static_cast<std::size_t>(world.first_failure.value_or(0)));
}

}  // namespace

class Session::Impl {
 public:
  Result<SessionResult> run(const SessionOptions& options, Strategy& strategy, const Body& body);

 private:
  WorldResult run_world(const SessionOptions& options,
                        const Body& body,
                        Readers& readers,
                        Strategy& strategy,
                        Aftermath& aftermath);
  static void fill_report(const SessionOptions& options,
                          Readers& readers,
                          const Aftermath& aftermath,
                          SessionResult& result);

  Kernels& kernels_for(const SessionOptions& options, const RecordOptions& record) const {
    if (options.record && record.touches) return options.exact ? *watching_exact_ : *watching_;
    return options.exact ? *exact_ : *cpu_;
  }

  Kernels& timed_kernels(const SessionOptions& options, bool watches, Rank rank);

  Pool pool_;
  std::unique_ptr<Kernels> cpu_ = make_cpu_kernels();
  std::unique_ptr<Kernels> exact_ = make_exact_kernels(*cpu_);
  std::unique_ptr<Kernels> watching_ = make_watching_kernels(*cpu_);
  std::unique_ptr<Kernels> watching_exact_ = make_watching_kernels(*exact_);
  std::optional<ComputeModel> compute_;        // Timed runs.
  std::vector<std::unique_ptr<Kernels>> own_;  // Each rank's, in timed runs; transfers may outlive
                                               // the rank that began them.
  World world_;
};

// The rank's own kernels, which know whose time they take.
Kernels& Session::Impl::timed_kernels(const SessionOptions& options, bool watches, Rank rank) {
  own_.push_back(make_timed_kernels(*compute_, rank));
  if (options.exact) own_.push_back(make_exact_kernels(*own_.back()));
  if (watches) own_.push_back(make_watching_kernels(*own_.back()));
  return *own_.back();
}

WorldResult Session::Impl::run_world(const SessionOptions& options,
                                     const Body& body,
                                     Readers& readers,
                                     Strategy& strategy,
                                     Aftermath& aftermath) {
  if (options.address_shift > 0) pool_.shift_addresses(options.address_shift);
  const RecordOptions record = record_options(options, readers.laws);
  Kernels& shared_kernels = kernels_for(options, record);
  const bool computes = options.timed && !options.compute.is_free();
  own_.clear();
  compute_.reset();
  if (computes) compute_.emplace(options.compute, options.n_ranks);
  GroupHub hub(world_, options.group);
  aftermath.comm_errors.assign(static_cast<std::size_t>(std::max(options.n_ranks, 0)), 0);
  world_.on_stuck([&](const StuckVerdict& verdict) {
    aftermath.stuck = true;
    aftermath.wait_for_graph = hub.explain(verdict);
    aftermath.wait_for = hub.wait_for();
  });
  const auto program = [&](RankHandle& handle) {
    Kernels& kernels = computes
                           ? timed_kernels(options, options.record && record.touches, handle.rank())
                           : shared_kernels;
    Runtime runtime(pool_, kernels, handle);
    std::optional<Recorder> recorder;
    if (options.record) {
      RecordOptions own = record;
      own.step_values = handle.rank() == Rank{0} && options.step_value_bytes > 0;
      own.step_value_bytes = options.step_value_bytes;
      recorder.emplace(handle.rank(), handle, *readers.names, readers.sinks, own);
      runtime.set_recorder(&*recorder);
    }
    const MemoryWatch watch(runtime, runtime.recorder());
    // Declared before the group: what a dropped work still completes is recorded before the end.
    EndOfRank end(runtime.recorder(), aftermath.stuck);
    const std::unique_ptr<ProcessGroup> group = hub.world_group(handle, runtime);
    RankContext context(handle.rank(), options.n_ranks, runtime, *group);
    run_body(body, context, end, aftermath.comm_errors[to_index(handle.rank())]);
  };
  return world_.run({.n_ranks = options.n_ranks,
                     .timed = options.timed,
                     .keep_going = options.keep_going,
                     .livelock_points = options.livelock_points},
                    strategy,
                    program);
}

void Session::Impl::fill_report(const SessionOptions& options,
                                Readers& readers,
                                const Aftermath& aftermath,
                                SessionResult& result) {
  Report& report = result.report;
  report.n_ranks = options.n_ranks;
  if (options.record) report.laws = readers.laws.finish(*readers.names);
  report.trace_digest = readers.digest.trace();
  report.result_digest = readers.digest.result();
  report.n_events = readers.digest.n_events();
  report.wait_for_graph = aftermath.wait_for_graph;
  report.wait_for_dot = render_dot(aftermath.wait_for);
  result.wait_for = aftermath.wait_for;
  bool comm_error = false;
  if (result.world.first_failure) {
    const std::size_t rank = failed_first(result.world, aftermath.comm_errors);
    comm_error = aftermath.comm_errors[rank] != 0;
    report.error = "rank " + std::to_string(rank) + ": " + result.world.ends[rank].detail;
  }
  report.outcome = outcome_of(result.world, report, comm_error);
}

Result<SessionResult> Session::Impl::run(const SessionOptions& options,
                                         Strategy& strategy,
                                         const Body& body) {
  LawPolicy policy = options.policy;
  policy.n_ranks = options.n_ranks;
  policy.exact = options.exact;
  policy.watched = options.record;
  Result<LawSet> laws = LawSet::make(policy, options.laws);
  if (!laws.ok()) return laws.error();

  Readers readers(std::move(laws).value());
  readers.start(options);
  Aftermath aftermath;
  SessionResult result;
  result.world = run_world(options, body, readers, strategy, aftermath);
  const auto* replay = dynamic_cast<const ReplayStrategy*>(&strategy);
  if (replay != nullptr) {
    Schedule skipped;
    skipped.deviations = replay->skipped();
    if (!skipped.deviations.empty()) {
      return Error{"the recorded schedule does not fit: in this program it cannot do " +
                       encode_schedule(skipped),
                   {}};
    }
  }
  fill_report(options, readers, aftermath, result);
  result.trace = std::move(readers.trace);
  result.schedule = strategy.describe();
  return result;
}

Session::Session() : impl_(std::make_unique<Impl>()) {}

Session::~Session() = default;

Result<SessionResult> Session::run(const SessionOptions& options, const Body& body) {
  auto strategy = make_strategy(options.strategy, options.schedule_seed);
  if (!strategy.ok()) return strategy.error();
  return impl_->run(options, *strategy.value(), body);
}

Result<SessionResult> Session::run(const SessionOptions& options,
                                   Strategy& strategy,
                                   const Body& body) {
  return impl_->run(options, strategy, body);
}

}  // namespace lockstep::sim
