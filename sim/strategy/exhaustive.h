// All schedules of a small program, or one of each kind.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

struct ExhaustiveOptions {
  /// One schedule for each way to order actions that touch a common object: all others end in the
  /// same state. False: every schedule there is.
  bool reduce = true;
};

struct ExhaustiveCounts {
  std::uint64_t n_explored = 0;   ///< Schedules that ran and showed something new.
  std::uint64_t n_redundant = 0;  ///< Schedules that ran and turned out to repeat an earlier one.
  std::uint64_t n_pruned = 0;     ///< Alternatives that were possible and need not run.
};

/// A strategy that makes a different schedule in each run, depth first, until there is none left:
///
///   while (strategy->next()) world.run(options, *strategy, program);
///
/// Requires: the program is a function of the schedule; runs end. What ranks share in addition to
///     groups and files, their points announce (Point::object), or they World::touch it.
/// Deterministic: the order of schedules depends only on the program.
/// Source: stateless search with source sets and sleep sets: Abdulla, Aronis, Jonsson, Sagonas:
///     "Optimal Dynamic Partial Order Reduction", POPL 2014, algorithm 1; races are looked for when
///     a run has ended, in what its actions have touched.
class Exhaustive : public Strategy {
 public:
  /// Prepares the next run. False: all schedules have run.
  virtual bool next() = 0;
  virtual const ExhaustiveCounts& counts() const = 0;
  /// Of the last run.
  virtual const Schedule& schedule() const = 0;
};

std::unique_ptr<Exhaustive> make_exhaustive(const ExhaustiveOptions& options);

}  // namespace lockstep::sim
