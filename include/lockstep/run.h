// Runs a training function as N ranks, then checks the laws of data-parallel training on what they
// did.
//
//   const auto run = lockstep::run_ranks({.ranks = 8}, [](lockstep::RankContext& rank) {
//     lockstep::Generator seed(rank.rank());                       // different weights per rank,
//     lockstep::nn::Linear model(rank.runtime(), 16, 1, seed);
//     lockstep::DistributedDataParallel ddp(model, rank.world());  // until rank 0's are broadcast
//     ...
//   });
//   EXPECT_LAWS_HOLD(run);  // lockstep/gtest.h: prints findings, and what replays the run
//
// Ranks are fibers of this thread: no processes, no GPU, no wall clock. Equal options give an equal
// run, bit for bit. Started by `lockstep launch` or torchrun, the same call runs one rank per
// process.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/comm/rank_context.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/functional/functions.h"
#include "lockstep/laws/report.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/sequential.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/sim/fault/agent.h"
#include "lockstep/sim/fault/disks.h"
#include "lockstep/sim/fault/fault.h"
#include "lockstep/sim/group/fidelity.h"
#include "lockstep/sim/net/net_options.h"

namespace lockstep {

/// How to run a world. Two runs with equal options do the same, bit for bit, in the simulator.
struct RunOptions {
  std::int32_t ranks = 2;  ///< World size. Under a launcher: must be its number of ranks.
  /// Where run_ranks runs the ranks: "sim", "gloo", "nccl", or "auto": the backend that this
  /// process's launcher has set (LOCKSTEP_BACKEND), and without one the simulator.
  std::string backend = "auto";
  std::uint64_t schedule_seed = 0;  ///< With strategies "random" and "pct".
  /// "run-to-block" | "round-robin" | "random" | "pct:depth=3" | a schedule: docs/schedules.md.
  std::string strategy = "run-to-block";
  /// The order in which simulated reductions add: docs/determinism.md.
  ReductionOrder reduction_order = ReductionOrder::kRank;
  /// What the simulator does when ranks call different operations.
  sim::Pairing pairing = sim::Pairing::kStrict;
  /// How much of a collective is simulated: its result only, or every message.
  sim::Fidelity fidelity = sim::Fidelity::kRendezvous;
  sim::NetOptions net{};       ///< Simulated links, and when they are down; default: free.
  sim::ComputeSpec compute{};  ///< How long simulated ranks compute; default: no time.
  /// Virtual time after which an operation fails; 0: never.
  std::chrono::nanoseconds watchdog{0};
  std::vector<sim::Fault> faults{};          ///< Injected by the simulator. Requires: `record`.
  std::optional<sim::AgentOptions> agent{};  ///< Restarts a failed job on the same virtual disks.
  /// Which ranks see the files that a simulated rank writes through Host::files(): all, or those of
  /// its node (net.ranks_per_node). A file's folder must exist.
  sim::DiskScope disks = sim::DiskScope::kShared;
  bool exact = false;                ///< Any rounding is an error that names the operation.
  bool record = true;                ///< False: no events and no laws.
  std::vector<std::string> laws{};   ///< Empty: all trace laws.
  std::vector<std::string> allow{};  ///< "LAW" or "LAW@TENSOR": findings that are intended.
  /// Digests cover 1/coverage of each large tensor per step, by rotation. This is cheaper; a
  /// lasting difference is found within that many steps.
  std::int32_t coverage = 1;
  std::string replay{};  ///< A replay_token(): repeats that run's schedule.
  /// Whether run_ranks rethrows an exception of a rank. False: RunResult::failure has it, with the
  /// report of what was recorded before it. A rethrown exception has a report, too: report_of().
  bool rethrow = true;
  /// A folder for the trace, which `lockstep check`, `bisect`, `diff` and `export` read. Empty: that
  /// of the environment variable LOCKSTEP_TRACE, or of the launcher. "%n" in it becomes a new number
  /// in each run.
  std::string trace{};
  /// A file for the report: FILE.html (timeline, curves, heat map), FILE.json, FILE.xml (JUnit),
  /// FILE.perfetto.json, FILE.svg or FILE.dot (who waits for whom). Empty: that of LOCKSTEP_REPORT,
  /// so that a failing test can be run again with pictures without an edit.
  std::string report{};
  /// Simulates the run again at other memory addresses and compares the digests: law deterministic.
  /// If ranks differ, a third run says in which element and by how much. The program is called two
  /// or three times; state that it keeps outside the run is not reset.
  bool twice = false;
  /// Stack of each simulated rank, in bytes; 0: the default (docs/traps.md). A rank that needs more
  /// ends the process, with a message that names it.
  std::size_t stack_bytes = 0;
  std::chrono::milliseconds timeout{60'000};  ///< Real ranks: to connect, and per operation.
  /// Real ranks: after each operation compare what arrived with what was sent; the launcher or
  /// LOCKSTEP_CHECK_ARRIVALS=1 may ask for it, too. It needs twice the connections and more than
  /// twice the traffic (docs/real_ranks.md). The simulator watches memory instead.
  bool check_arrivals = false;
};

namespace detail {

/// Of any attempt: an agent may restart a job with more ranks than it had.
inline std::size_t most_ranks(const RunOptions& options) {
  std::int32_t most = std::max(options.ranks, 0);
  if (!options.agent) return static_cast<std::size_t>(most);
  for (const std::int32_t n : options.agent->n_ranks_later) most = std::max(most, n);
  return static_cast<std::size_t>(most);
}

}  // namespace detail

namespace detail {

/// Whether values of this type hold memory of their rank's world, which ends with the run.
template <typename T>
struct HoldsTensors : std::bool_constant<std::is_base_of_v<nn::Module, T>> {};

template <>
struct HoldsTensors<Tensor> : std::true_type {};

template <>
struct HoldsTensors<Variable> : std::true_type {};

template <template <typename...> typename Holder, typename... Parts>
struct HoldsTensors<Holder<Parts...>> : std::disjunction<HoldsTensors<Parts>...> {};

template <typename T, std::size_t kCount>
struct HoldsTensors<std::array<T, kCount>> : HoldsTensors<T> {};

}  // namespace detail

/// The exception of a rank that ended a run, where RunOptions::rethrow is off.
struct RankFailure {
  std::int32_t rank = 0;         ///< The first by (time, rank) that failed by itself.
  std::exception_ptr exception;  ///< The object that left the program, whatever its type.
};

/// The report of the run that `exception` has left, the last on this thread that ended so; null: it left
/// none. A program that does not catch the exception need not ask: the report is written to the standard
/// error before the process ends.
///
///   try { run_ranks(options, train); } catch (const MyError& error) {
///     if (const Report* report = report_of(std::current_exception())) { ... render_text(*report, {}) ... }
///   }
///
/// Requires: no other run of this thread while the report is used.
const Report* report_of(const std::exception_ptr& exception);

/// What a run ends with. R is the program's return type (void: no results).
///
/// `report` has its verdict, its findings and the line that replays the run: print the whole with
/// operator<<, or let EXPECT_LAWS_HOLD (lockstep/gtest.h) or RC_ASSERT_LAWS_HOLD
/// (lockstep/rapidcheck.h) do it.
template <typename R>
struct RunResult {
  std::vector<std::optional<R>> results;  ///< By rank; empty for a rank that did not finish.
  Report report;                          ///< Verdict per law, findings, digests.
  std::string schedule;                   ///< Which rank went on when: replay_token().
  std::optional<RankFailure> failure;     ///< Only with RunOptions::rethrow off.

  /// Every rank finished, and every law that could be checked holds.
  bool ok() const { return report.ok(); }

  /// Put it in RunOptions::replay to repeat the run, in this process or another.
  const std::string& replay_token() const { return schedule; }
};

/// The same for a program that returns nothing.
template <>
struct RunResult<void> {
  Report report;                       ///< Verdict per law, findings, digests.
  std::string schedule;                ///< Which rank went on when: replay_token().
  std::optional<RankFailure> failure;  ///< Only with RunOptions::rethrow off.

  /// Every rank finished, and every law that could be checked holds.
  bool ok() const { return report.ok(); }

  /// Put it in RunOptions::replay to repeat the run, in this process or another.
  const std::string& replay_token() const { return schedule; }
};

/// The report as `lockstep run` prints it, without colours.
template <typename R>
std::ostream& operator<<(std::ostream& out, const RunResult<R>& run) {
  return out << render_text(run.report, TextOptions{});
}

namespace detail {
class LentSimulator;
}  // namespace detail

/// Owns stacks and memory and is reused between runs. run_ranks keeps one for small worlds; a program that
/// runs large ones again and again makes its own, and decides when its memory goes.
///
/// Requires: one thread at a time; never used inside a rank.
/// Errors: options that make no sense throw std::invalid_argument with a suggestion. A foreign
///     exception of a rank (RapidCheck's, GoogleTest's, the program's) stops the others; the
///     first by (time, rank) is rethrown as the very object that the rank threw. So
///     EXPECT_THROW(run_ranks(...), MyError) holds, and libraries that speak through
///     their own exceptions keep working. Nothing is wrapped around it, and therefore it
///     does not carry its rank, but for a ContractViolation, which is thrown again with the rank
///     before its text: with RunOptions::rethrow off the run returns instead, with the
///     rank and the exception in RunResult::failure, and "error: rank 1: ..." in a report
///     that holds all findings until then and the replay line. A CommError is a finding of
///     the run and never rethrown.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  Simulator(Simulator&&) = delete;
  Simulator& operator=(Simulator&&) = delete;

  /// What a run ends with, beside what the program returned.
  struct Untyped {
    Report report;                       ///< As of RunResult.
    std::string schedule;                ///< As of RunResult.
    std::optional<RankFailure> failure;  ///< As of RunResult.
  };

  /// As run(), for a program that returns nothing.
  Untyped run_untyped(const RunOptions& options, const std::function<void(RankContext&)>& body);

  /// Calls `fn(context)` once on every rank, as a fiber of this thread, and checks the laws.
  ///
  /// Requires: what `fn` returns holds no tensors of the rank, which end with the run.
  /// Returns: RunResult of what `fn` returns.
  /// Errors: those of the class.
  /// Deterministic: equal options and an equal program give an equal run, bit for bit.
  template <typename F>
  auto run(const RunOptions& options, F fn) {
    using R = std::invoke_result_t<F&, RankContext&>;
    static_assert(!detail::HoldsTensors<R>::value,
                  "a rank's tensors end with the run: return their values");
    RunResult<R> result;
    if constexpr (std::is_void_v<R>) {
      Untyped run = run_untyped(options, [&fn](RankContext& context) { fn(context); });
      result.report = std::move(run.report);
      result.schedule = std::move(run.schedule);
      result.failure = std::move(run.failure);
    } else {
      result.results.resize(detail::most_ranks(options));
      Untyped run = run_untyped(options, [&fn, &result](RankContext& context) {
        result.results[static_cast<std::size_t>(context.rank())] = fn(context);
      });
      result.report = std::move(run.report);
      result.schedule = std::move(run.schedule);
      result.failure = std::move(run.failure);
    }
    return result;
  }

 private:
  friend class detail::LentSimulator;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// One rank of a world of processes, in this process.
struct RealRank {
  std::int32_t rank = 0;           ///< This process's.
  Report report;                   ///< About all ranks, and the same on each.
  std::vector<std::byte> results;  ///< Of all ranks, one after the other, when they were gathered.
  std::optional<RankFailure> failure;  ///< Of this rank; only with RunOptions::rethrow off.
};

/// The backend of processes that `options` ask for; nothing: simulate.
/// Errors: an unknown one, one that this build lacks, a launcher's environment that makes no sense
///     or a different world size (std::invalid_argument).
std::optional<std::string> real_backend(const RunOptions& options);

/// Runs `body` as the rank that the launcher made this process. `result` is what `body` left to be
/// gathered from all ranks; empty: nothing.
///
/// Errors: the ranks do not connect (std::runtime_error); a foreign exception of this rank is
///     rethrown when all have ended, unless RunOptions::rethrow is off.
RealRank run_real_rank(const RunOptions& options,
                       const std::string& backend,
                       const std::function<void(RankContext&)>& body,
                       std::span<std::byte> result);

namespace detail {

/// The simulator of this thread, whose stacks and memory the next call finds warm: a property test calls run_ranks thousands
/// of times. What a large world leaves is given back instead, and so is what a run leaves that throws.
///
/// Requires: ends on its thread. One that is made while another lives has a simulator of its own.
class LentSimulator {
 public:
  explicit LentSimulator(const RunOptions& options);
  ~LentSimulator();
  LentSimulator(const LentSimulator&) = delete;
  LentSimulator& operator=(const LentSimulator&) = delete;
  LentSimulator(LentSimulator&&) = delete;
  LentSimulator& operator=(LentSimulator&&) = delete;

  Simulator& get() { return *simulator_; }

 private:
  std::unique_ptr<Simulator> simulator_;
  bool is_small_;
  int n_exceptions_;
};

template <typename F>
auto run_real(const RunOptions& options, const std::string& backend, F fn) {
  using R = std::invoke_result_t<F&, RankContext&>;
  RunResult<R> result;
  if constexpr (std::is_void_v<R>) {
    RealRank run = run_real_rank(options, backend, fn, {});
    result.report = std::move(run.report);
    result.failure = std::move(run.failure);
  } else if constexpr (std::is_trivially_copyable_v<R> && std::is_default_constructible_v<R>) {
    R own{};
    const auto bytes = std::as_writable_bytes(std::span(&own, 1));
    RealRank run = run_real_rank(
        options, backend, [&](RankContext& context) { own = fn(context); }, bytes);
    result.report = std::move(run.report);
    result.failure = std::move(run.failure);
    result.results.resize(static_cast<std::size_t>(options.ranks));
    for (std::size_t i = 0; (i + 1) * sizeof(R) <= run.results.size(); ++i) {
      R& value = result.results[i].emplace();
      std::copy_n(
          run.results.data() + i * sizeof(R), sizeof(R), reinterpret_cast<std::byte*>(&value));
    }
  } else {
    std::optional<R> own;
    RealRank run =
        run_real_rank(options, backend, [&](RankContext& context) { own = fn(context); }, {});
    result.report = std::move(run.report);
    result.failure = std::move(run.failure);
    result.results.resize(static_cast<std::size_t>(options.ranks));
    result.results[static_cast<std::size_t>(run.rank)] = std::move(own);
  }
  return result;
}

}  // namespace detail

/// Calls `fn` once on every rank and checks the laws.
///
/// Simulated: Simulator().run(options, fn), where the thread keeps stacks and memory for its next call, if the world has at
/// most 64 ranks and 16 MiB of tensors. Under a launcher (`lockstep launch --backend gloo`):
/// `fn` runs once in this process, as its rank; the report is about all ranks and the same on each.
/// `results` then holds every rank's when R is trivially copyable, else this rank's alone.
template <typename F>
auto run_ranks(const RunOptions& options, F fn) {
  if (const std::optional<std::string> backend = real_backend(options)) {
    return detail::run_real(options, *backend, std::move(fn));
  }
  detail::LentSimulator simulator(options);
  return simulator.get().run(options, std::move(fn));
}

}  // namespace lockstep
