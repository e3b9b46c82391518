// The front door: write a PyTorch-shaped training loop, run it as N virtual ranks, ask what the
// laws say.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/autograd/functions.h"
#include "lockstep/autograd/variable.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/dist/ddp.h"
#include "lockstep/dist/rank_context.h"
#include "lockstep/laws/report.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/sequential.h"
#include "lockstep/optim/sgd.h"

namespace lockstep {

/// How to run a world. Everything that varies is here; the program draws nothing else.
struct RunOptions {
  std::int32_t ranks = 2;
  std::uint64_t schedule_seed = 0;        ///< With strategy "random".
  std::string strategy = "run-to-block";  ///< "run-to-block" | "round-robin" | "random"
  /// "rank" | "gloo-ring" | "pairwise" | "nccl-ring" | "nccl-tree", with NCCL's channels and rings:
  /// docs/determinism.md.
  std::string reduction_order = "rank";
  std::string pairing = "strict";         ///< "strict" | "nccl_like" | "gloo_like"
  bool exact = false;                     ///< Any rounding is an error naming the operation.
  bool record = true;                ///< False: no events, no laws; only what the program checks.
  std::vector<std::string> laws{};   ///< Empty: all trace laws.
  std::vector<std::string> allow{};  ///< "LAW" or "LAW@TENSOR" exempted on purpose.
  std::string replay{};              ///< A replay_token(): repeats that run's schedule.
};

/// What a run ends with. R is the program's return type (void: no results).
template <typename R>
struct RunResult {
  std::vector<std::optional<R>> results;  ///< By rank; empty for a rank that did not finish.
  Report report;
  std::string schedule;

  bool ok() const { return report.ok(); }

  /// Put it in RunOptions::replay to repeat the run, in this process or another.
  const std::string& replay_token() const { return schedule; }
};

template <>
struct RunResult<void> {
  Report report;
  std::string schedule;

  bool ok() const { return report.ok(); }

  const std::string& replay_token() const { return schedule; }
};

/// Owns stacks and memory and is reused between runs: a property test that runs a million small
/// worlds makes one Simulator.
///
/// Requires: one thread at a time; never used inside a rank.
/// Errors:   options that make no sense throw std::invalid_argument with a suggestion. A foreign
/// exception
///           of a rank (RapidCheck's, GoogleTest's, the program's) stops the others and is
///           rethrown, first by (time, rank). A CommError is a finding of the run, not rethrown.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  Simulator(Simulator&&) = delete;
  Simulator& operator=(Simulator&&) = delete;

  struct Untyped {
    Report report;
    std::string schedule;
  };

  Untyped run_untyped(const RunOptions& options, const std::function<void(RankContext&)>& body);

  template <typename F>
  auto run(const RunOptions& options, F fn) {
    using R = std::invoke_result_t<F&, RankContext&>;
    RunResult<R> result;
    if constexpr (std::is_void_v<R>) {
      Untyped run = run_untyped(options, [&fn](RankContext& context) { fn(context); });
      result.report = std::move(run.report);
      result.schedule = std::move(run.schedule);
    } else {
      result.results.resize(static_cast<std::size_t>(options.ranks > 0 ? options.ranks : 0));
      Untyped run = run_untyped(options, [&fn, &result](RankContext& context) {
        result.results[static_cast<std::size_t>(context.rank())] = fn(context);
      });
      result.report = std::move(run.report);
      result.schedule = std::move(run.schedule);
    }
    return result;
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs `fn` once a rank and checks the laws: Simulator().run(options, fn).
template <typename F>
auto run_ranks(const RunOptions& options, F fn) {
  Simulator simulator;
  return simulator.run(options, std::move(fn));
}

}  // namespace lockstep
