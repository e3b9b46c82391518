#include "lockstep/real/session/rank_session.h"

#include <filesystem>

#include "lockstep/base/disk_files.h"
#include "lockstep/compare/bisect.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/kernels/rank_observers.h"
#include "lockstep/laws/finish_report.h"
#include "lockstep/real/host/real_host.h"
#include "lockstep/trace/touch_recorder.h"

namespace lockstep {

namespace {

Keeping keeping_of(const RankSessionOptions& options) {
  return {.values = options.values,
          .step_value_bytes = options.step_value_bytes,
          .coverage = options.policy.coverage};
}

/// What left the body, or null: the others must hear of it before anything else is done with it.
std::exception_ptr play(RankRun& run,
                        const std::function<void(RankContext&)>& body,
                        RankContext& context) {
  try {
    run.play(body, context);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

/// Everything one rank of a process runs on.
struct RankOfProcess {
  /// `opened`: the backend's device, or null. `watches`: what losses are made of is followed.
  RankOfProcess(const RankSessionOptions& options,
                std::unique_ptr<Accelerator> opened,
                bool watches)
      : rank(options.backend.place.rank),
        host(Rank{rank}, files, torchrun_variables(options.backend.place)),
        device(std::move(opened)),
        watched(watches),
        runtime(pool, kernels(options.exact), host, device.get()) {}

  /// Only the processor can say that nothing rounded, so exact jobs compute there, in the device's
  /// memory if there is one.
  Kernels& kernels(bool proven) {
    Kernels& chosen = proven || device == nullptr ? *cpu : device->kernels();
    chosen.observe(observers.get({.exact = proven, .watched = watched}));
    return chosen;
  }

  /// Records from now on what the rank does.
  void record_with(Recorder& recorder) {
    runtime.set_recorder(&recorder);
    if (!watched) return;
    exchange_pen.emplace(recorder);
    exchanges.listen(&*exchange_pen);
    runtime.set_exchanges(&exchanges);
  }

  void stop_recording() {
    runtime.set_recorder(nullptr);
    runtime.set_exchanges(nullptr);
  }

  std::int32_t rank;
  DiskFiles files;
  RealHost host;
  Pool pool;
  std::unique_ptr<Accelerator> device;
  std::unique_ptr<Kernels> cpu = make_cpu_kernels();
  RankObservers observers;
  bool watched;
  ExchangeWatch exchanges;
  std::optional<ExchangeRecorder> exchange_pen;
  Runtime runtime;
  NameTable names;
};

TraceHeader header_of(const Backend& backend, const RankSessionOptions& options) {
  TraceHeader header = options.header;
  header.coverage = options.policy.coverage;
  header.run_id = options.backend.place.run_id;
  header.backend = backend.name;
  header.n_ranks = options.backend.place.world_size;
  header.exact = options.exact;
  return header;
}

std::string trace_folder(const RankSessionOptions& options) {
  return options.trace.empty() ? options.backend.rendezvous + "/trace" : options.trace;
}

/// What an earlier run left where this one writes. No rank writes yet: the ranks connect
/// afterwards, which takes all of them.
void forget_earlier_trace(const RankSessionOptions& options) {
  if (!options.trace.empty() || options.backend.place.rank != 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(trace_folder(options), ignored);
}

/// All ranks have left their bodies, their traces are complete, and this is how they ended.
struct Rendezvous {
  bool all_came = false;
  bool all_well = false;
};

Rendezvous meet(RankContext& context, bool well) {
  const Tensor failed = Tensor::full(context.runtime(), {1}, DType::kI64, well ? 0.0 : 1.0);
  const Work work = context.world().all_reduce(Memory::of(failed), ReduceOp::kMax);
  const bool came = work.wait() == CommStatus::kOk;
  return {came, came && failed.at(0) == 0.0};
}

Result<Report> judge(const RankSessionOptions& options, const RankSessionResult& result) {
  const Result<LoadedTrace> loaded = read_jsonl(result.trace);
  if (!loaded.ok()) return loaded.error();
  Result<Report> report = check_trace(loaded.value(), options.policy, options.laws);
  if (report.ok()) {
    finish_report(report.value(),
                  {.title = options.title,
                   .replay = options.replay,
                   .first_divergence = first_divergence_of(loaded.value().trace.get())});
  }
  return report;
}

Result<RankSessionResult> finish(const RankSessionOptions& options,
                                 RankContext& context,
                                 RankSessionResult result) {
  const Rendezvous meeting = meet(context, result.exception == nullptr);
  if (meeting.all_well && options.afterwards) options.afterwards(context);
  const bool judges = options.record && options.judge;
  if (judges) {
    Result<Report> report = judge(options, result);
    if (!report.ok()) return report.error();
    result.report = std::move(report).value();
  }
  const bool well = judges ? meeting.all_came : meeting.all_well;
  if (!well && result.report.ok()) {
    result.report.error = "at least one rank did not finish";
    finish_report(result.report, {.title = options.title, .replay = options.replay});
  }
  return result;
}

}  // namespace

Result<RankSessionResult> run_this_rank(const Backend& backend,
                                        const RankSessionOptions& options,
                                        const std::function<void(RankContext&)>& body) {
  const Result<LawSet> laws = LawSet::make(options.policy, options.laws);
  if (!laws.ok()) return laws.error();
  Result<std::unique_ptr<Accelerator>> device = std::unique_ptr<Accelerator>();
  if (backend.open_device != nullptr) device = backend.open_device(options.backend);
  if (!device.ok()) return device.error();
  const bool watches = options.record && laws.value().required().exchanges;
  RankOfProcess self(options, std::move(device).value(), watches);
  forget_earlier_trace(options);
  Result<std::unique_ptr<ProcessGroup>> connected = backend.connect(options.backend, self.runtime);
  if (!connected.ok()) return connected.error();
  ProcessGroup& group = *connected.value();

  RankSessionResult result;
  result.trace = trace_folder(options);
  std::unique_ptr<JsonlStream> file;
  std::optional<Recorder> recorder;
  if (options.record) {
    const std::int32_t attempt = options.backend.place.restart_count;
    auto opened =
        JsonlStream::open(result.trace, header_of(backend, options), attempt, Rank{self.rank});
    if (!opened.ok()) return opened.error();
    file = std::move(opened).value();
    recorder.emplace(Rank{self.rank},
                     self.host,
                     self.names,
                     *file,
                     record_options(laws.value().required(), keeping_of(options), Rank{self.rank}));
    recorder->set_attempt(attempt);
    self.record_with(*recorder);
  }
  RankContext context(Rank{self.rank}, options.backend.place.world_size, self.runtime, group);
  {
    RankRun run(recorder ? &*recorder : nullptr, result.failure);
    result.exception = play(run, body, context);
  }
  if (recorder) {
    self.stop_recording();
    if (Outcome closed = file->close(); !closed.ok()) return closed.error();
  }
  return finish(options, context, std::move(result));
}

}  // namespace lockstep
