// The ways to choose the next action.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/sim/fiber/action.h"
#include "lockstep/sim/strategy/schedule.h"

namespace lockstep::sim {

/// First enabled, first picked.
std::unique_ptr<Strategy> make_round_robin();
/// A rank continues until it blocks, then first enabled, first picked: the fewest switches.
std::unique_ptr<Strategy> make_run_to_block();
/// Each enabled action with the same probability, from a seeded stream.
std::unique_ptr<Strategy> make_random(std::uint64_t seed);

/// What the stated probability of PCT depends on.
struct PctOptions {
  std::int32_t depth = 3;      ///< Order constraints a bug needs: depth - 1 priorities change.
  std::uint64_t steps = 1000;  ///< Picks of a run, estimated: the changes fall among them.
  std::uint64_t seed = 0;
};

/// Probabilistic concurrency testing: every process (a rank, a transfer, a message) has a random
/// priority and the highest runs; at depth - 1 random picks the one that runs falls below all
/// others. A rank that polls falls below all others, or they would never run.
///
/// Source: Burckhardt, Kothari, Musuvathi, Nagarakatte: "A Randomized Scheduler with Probabilistic
///     Guarantees of Finding Bugs", ASPLOS 2010.
class PctStrategy : public Strategy {
 public:
  virtual const PctOptions& options() const = 0;  ///< As it was made.
  virtual std::uint64_t n_processes() const = 0;  ///< Of the last run.
  virtual std::uint64_t n_steps() const = 0;      ///< Of the last run.
};

std::unique_ptr<PctStrategy> make_pct(const PctOptions& options);

/// 1 / (n * k^(depth - 1)): the least probability that one run hits a bug of this depth in a
/// program of n processes and k steps that does not poll.
double pct_bound(std::uint64_t n_processes, std::uint64_t n_steps, std::int32_t depth);

/// Makes a recorded schedule again.
///
/// Strict or lenient is up to the caller: a run that skipped something is not the recorded one, but
/// may still be what a shrinker looks for.
class ReplayStrategy : public Strategy {
 public:
  /// Deviations without effect so far: the default never came to their place, or what they pick was
  /// not enabled there.
  virtual std::vector<Deviation> skipped() const = 0;
};

/// Errors: `then` is not a strategy.
Result<std::unique_ptr<ReplayStrategy>> make_replay(const Schedule& schedule);

/// Wraps a strategy and writes down where it departs from the default.
class RecordingStrategy : public Strategy {
 public:
  virtual const Schedule& schedule() const = 0;  ///< n_picks: of the run so far.
};

std::unique_ptr<RecordingStrategy> make_recording(Strategy& inner);

/// "round-robin" | "run-to-block" | "random[:seed=7]" | "pct[:depth=3,steps=1000,seed=7]" |
/// "uniform:lengths=3.2x4/5[,seed=7]" (uniform.h) | a schedule ("@..."). What describe() says is
/// understood; `seed` serves names that give none.
/// Errors: an unknown name or key, with a suggestion.
Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name, std::uint64_t seed);

}  // namespace lockstep::sim
