#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/compare/bisect.h"
#include "lockstep/compare/first_difference.h"
#include "lockstep/harness/run/detail/check_options.h"
#include "lockstep/harness/run/detail/follow_loops.h"
#include "lockstep/harness/run/detail/run_files.h"
#include "lockstep/harness/run/detail/uncaught.h"
#include "lockstep/harness/run/place_values.h"
#include "lockstep/laws/finish_report.h"
#include "lockstep/real/host/launch_environment.h"
#include "lockstep/run.h"
#include "lockstep/sim/session/session.h"

namespace lockstep {

namespace {

sim::SessionOptions to_session(const RunOptions& options) {
  detail::check_options(options);
  sim::SessionOptions session;
  session.n_ranks = options.ranks;
  session.stack_bytes = options.stack_bytes;
  session.strategy = options.strategy;
  session.schedule_seed = options.schedule_seed;
  session.group.order = options.reduction_order;
  if (!session.group.order.fits(options.ranks)) {
    throw std::invalid_argument(
        "the rings of reduction order '" + std::string(options.reduction_order.name()) +
        "' do not name the world's ranks 0 to " + std::to_string(options.ranks - 1) +
        "; each ring names all of them");
  }
  session.group.pairing = options.pairing;
  session.group.fidelity = options.fidelity;
  session.group.net = options.net;
  session.group.watchdog = Duration{options.watchdog.count()};
  session.compute = options.compute;
  session.timed = !options.net.is_free() || !options.compute.is_free();
  session.faults = options.faults;
  session.agent = options.agent;
  session.disk_scope = options.disks;
  session.exact = options.exact;
  session.record = options.record;
  session.keep_trace = false;
  session.laws = options.laws;
  session.policy.allow = options.allow;
  session.policy.coverage = options.coverage;
  if (!options.replay.empty()) {
    session.strategy = options.replay;
  }
  return session;
}

/// What leaves the run: what a contract refuses says on which rank, anything else is what was thrown.
std::exception_ptr leaving(const RankFailure& failure) {
  try {
    std::rethrow_exception(failure.exception);
  } catch (const ContractViolation& refused) {
    return std::make_exception_ptr(
        ContractViolation("rank " + std::to_string(failure.rank) + ": " + refused.what()));
  } catch (...) {
    return failure.exception;
  }
}

// A CommError or a fault is a misfortune of the run and stays in the report; anything else belongs
// to the caller.
bool is_foreign(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const CommError&) {
    return false;
  } catch (const sim::InjectedFault&) {
    return false;
  } catch (...) {
    return true;
  }
}

/// How to repeat a run of run_ranks, as text.
std::string repeat_text(const std::string& schedule) {
  return "the same options with RunOptions::replay = \"" + schedule + "\"";
}

/// Law deterministic: the same schedule at other addresses leaves the same trace.
LawResult compare_with_repetition(sim::Session& session,
                                  sim::SessionOptions options,
                                  const std::function<void(RankContext&)>& body,
                                  const sim::SessionResult& first) {
  constexpr std::size_t kElsewhere = 4096 + 576;
  options.address_shift = kElsewhere;
  LawResult law;
  law.law = "deterministic";
  const Result<sim::SessionResult> again = session.run(options, body);
  if (!again.ok()) {
    law.verdict = Verdict::kNotCheckable;
    law.missing = again.error().text();
    return law;
  }
  ++law.n_checked;
  if (again.value().report.trace_digest == first.report.trace_digest) return law;
  const auto place = cli::first_difference(*first.trace, *again.value().trace);
  Finding finding;
  finding.law = law.law;
  finding.event = "end";
  finding.field = "trace";
  finding.message = "a second run of the same schedule differs: " +
                    (place ? place->text : std::string("the same events in another order"));
  law.findings.push_back(std::move(finding));
  law.verdict = Verdict::kBroken;
  return law;
}

/// Of one more run of the same schedule; null where it cannot be had.
std::shared_ptr<const MemoryTrace> trace_with_values(
    sim::Session& session,
    sim::SessionOptions options,
    const std::function<void(RankContext&)>& body) {
  options.values = true;
  const Result<sim::SessionResult> again = session.run(options, body);
  return again.ok() ? again.value().trace : nullptr;
}

/// Where the contract's numbers have it.
void insert_law(LawResult law, Report& report) {
  const auto place =
      std::find_if(report.laws.begin(), report.laws.end(), [&](const LawResult& other) {
        return find_law(other.law)->number > find_law(law.law)->number;
      });
  report.laws.insert(place, std::move(law));
}

}  // namespace

class Simulator::Impl {
 public:
  sim::Session session;
};

Simulator::Simulator() : impl_(std::make_unique<Impl>()) {}

Simulator::~Simulator() = default;

Simulator::Untyped Simulator::run_untyped(const RunOptions& options,
                                          const std::function<void(RankContext&)>& body) {
  const detail::RunFiles files = detail::run_files(options, process_environment());
  sim::SessionOptions session = to_session(options);
  session.keep_trace = options.record && (files.any() || options.twice);
  const auto followed = [&body](RankContext& context) { detail::follow_loops(body, context); };
  Result<sim::SessionResult> run = impl_->session.run(session, followed);
  if (!run.ok()) throw std::invalid_argument(run.error().text());
  sim::SessionResult& result = run.value();
  Untyped end;
  if (const std::optional<std::int32_t> rank = result.world.first_failure) {
    const auto& exception = result.world.ends[static_cast<std::size_t>(*rank)].exception;
    if (is_foreign(exception)) end.failure = {*rank, exception};
  }
  const bool leaves = end.failure && options.rethrow;
  end.report = std::move(result.report);
  end.schedule = std::move(result.schedule);
  const bool repeats = options.twice && !leaves;
  if (repeats && options.record) {
    insert_law(compare_with_repetition(impl_->session, session, followed, result), end.report);
  }
  const MemoryTrace* const trace = result.trace.get();
  if (repeats && trace != nullptr) {
    add_values(
        [&] { return trace_with_values(impl_->session, session, followed); }, *trace, end.report);
  }
  finish_report(end.report,
                {.title = "run_ranks",
                 .replay = repeat_text(end.schedule),
                 .first_divergence = files.any() ? first_divergence_of(trace) : nullptr});
  if (trace != nullptr) {
    const detail::FinishedRun finished{
        .report = end.report, .trace = *trace, .wait_for = &result.wait_for};
    detail::write_trace(files, options, finished);
    detail::write_report(files, finished);
  }
  if (leaves) detail::leave_with(leaving(*end.failure), std::move(end.report));
  return end;
}

namespace detail {
namespace {

constexpr std::int32_t kMostKeptRanks = 64;
constexpr std::int64_t kMostKeptBytes = std::int64_t{16} << 20U;

/// Whether kept() is there. Outside of ranks, as all of this.
bool& keeps_one() {
  thread_local bool keeps = false;
  return keeps;
}

/// First called after a run, so that it is made after what engines keep for the thread, and goes before that.
std::unique_ptr<Simulator>& kept() {
  thread_local std::unique_ptr<Simulator> simulator;  // Whom it is lent to ends on this thread.
  return simulator;
}

std::unique_ptr<Simulator> kept_or_new() {
  if (!std::exchange(keeps_one(), false)) return std::make_unique<Simulator>();
  return std::move(kept());
}

}  // namespace

LentSimulator::LentSimulator(const RunOptions& options)
    : simulator_(kept_or_new()),
      is_small_(options.ranks <= kMostKeptRanks),
      n_exceptions_(std::uncaught_exceptions()) {}

LentSimulator::~LentSimulator() {
  const bool throws = std::uncaught_exceptions() > n_exceptions_;
  if (throws || !is_small_) return;
  if (simulator_->impl_->session.bytes_peak() > kMostKeptBytes) return;
  kept() = std::move(simulator_);
  keeps_one() = true;
}

}  // namespace detail
}  // namespace lockstep
