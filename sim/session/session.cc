#include "lockstep/sim/session/session.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>

#include "lockstep/tensor/cpu_kernels.h"
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
    const std::string_view outcome = outcome_.empty() ? (*stuck_ ? "stuck" : "exception") : outcome_;
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
void run_body(const Session::Body& body, RankContext& context, EndOfRank& end,
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

}  // namespace

class Session::Impl {
 public:
  Result<SessionResult> run(const SessionOptions& options, const Body& body);

 private:
  Pool pool_;
  std::unique_ptr<Kernels> cpu_ = make_cpu_kernels();
  std::unique_ptr<Kernels> exact_ = make_exact_kernels(*cpu_);
  World world_;
};

Result<SessionResult> Session::Impl::run(const SessionOptions& options, const Body& body) {
  auto strategy = options.schedule.empty()
                      ? make_strategy(options.strategy, options.schedule_seed)
                      : Result<std::unique_ptr<Strategy>>(
                            std::unique_ptr<Strategy>(make_replay(options.schedule)));
  if (!strategy.ok()) return strategy.error();
  const std::unique_ptr<RecordingStrategy> recording = make_recording(*strategy.value());

  LawPolicy policy = options.policy;
  policy.n_ranks = options.n_ranks;
  policy.exact = options.exact;
  Result<LawSet> laws = LawSet::make(policy, options.laws);
  if (!laws.ok()) return laws.error();

  if (options.address_shift > 0) pool_.shift_addresses(options.address_shift);
  SessionResult result;
  auto names = std::make_shared<NameTable>();
  TraceDigest digest;
  SinkChain sinks;
  if (options.record) {
    sinks.add(digest);
    sinks.add(laws.value());
    if (options.keep_trace) {
      result.trace = std::make_shared<MemoryTrace>(names);
      result.trace->ensure_ranks(options.n_ranks);
      sinks.add(*result.trace);
    }
  }
  const RecordOptions record = record_options(options, laws.value());
  Kernels& kernels = options.exact ? *exact_ : *cpu_;

  GroupHub hub(world_, options.group);
  bool stuck = false;
  std::vector<std::uint8_t> comm_errors(static_cast<std::size_t>(std::max(options.n_ranks, 0)));
  std::string wait_for_graph;
  world_.on_stuck([&](const StuckVerdict& verdict) {
    stuck = true;
    wait_for_graph = hub.explain(verdict);
  });
  result.world = world_.run(
      {.n_ranks = options.n_ranks, .timed = options.timed}, *recording, [&](RankHandle& handle) {
        Runtime runtime(pool_, kernels, handle);
        std::optional<Recorder> recorder;
        if (options.record) {
          recorder.emplace(handle.rank(), handle, *names, sinks, record);
          runtime.set_recorder(&*recorder);
        }
        // Declared before the group: what a dropped work still completes is recorded before the end.
        EndOfRank end(runtime.recorder(), stuck);
        const std::unique_ptr<ProcessGroup> group = hub.world_group(handle, runtime);
        RankContext context(handle.rank(), options.n_ranks, runtime, *group);
        run_body(body, context, end, comm_errors[to_index(handle.rank())]);
      });

  Report& report = result.report;
  report.n_ranks = options.n_ranks;
  if (options.record) report.laws = laws.value().finish(*names);
  report.trace_digest = digest.trace();
  report.result_digest = digest.result();
  report.n_events = digest.n_events();
  report.wait_for_graph = wait_for_graph;
  bool comm_error = false;
  if (result.world.first_failure) {
    const auto rank = static_cast<std::size_t>(*result.world.first_failure);
    const RankEnd& end = result.world.ends[rank];
    comm_error = comm_errors[rank] != 0;
    report.error = "rank " + std::to_string(rank) + ": " + end.detail;
  }
  report.outcome = outcome_of(result.world, report, comm_error);
  result.schedule = encode_schedule(recording->picks());
  return result;
}

Session::Session() : impl_(std::make_unique<Impl>()) {}
Session::~Session() = default;

Result<SessionResult> Session::run(const SessionOptions& options, const Body& body) {
  return impl_->run(options, body);
}

}  // namespace lockstep::sim
