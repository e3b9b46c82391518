// What surrounds the program of one rank: its runtime, the watch over its memory.
#pragma once

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/memory/placed.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/trace/recorder.h"
#include "lockstep/trace/touch_recorder.h"

namespace lockstep::sim {

/// The memory of one run's ranks after another. Where a program has kept some of it beyond a run, it
/// lives on as long as what was kept, and later runs have their own.
class RunPool {
 public:
  RunPool() = default;
  ~RunPool();
  RunPool(const RunPool&) = delete;
  RunPool& operator=(const RunPool&) = delete;
  RunPool(RunPool&&) = delete;
  RunPool& operator=(RunPool&&) = delete;

  Pool& get() const { return *pool_; }

  /// A program has kept something that was made with this runtime, which lies in this pool.
  void keep(Placed<Runtime> runtime) { kept_.push_back(std::move(runtime)); }

  /// Before a run: it has a pool to itself, whose blocks lie `bytes` further from where the system put
  /// them. The pool of the runs before rests, so that none of its addresses comes again.
  void move_by(std::size_t bytes);

  /// Between two runs: the pool that rested serves again. One from which a program has kept something
  /// goes on only for that.
  void renew();

 private:
  using Runtimes = std::vector<Placed<Runtime>>;

  /// A pool without a run, and the runtimes of what is left in it. Nothing else in it: nothing is left.
  struct Left {
    std::unique_ptr<Pool> pool;
    Runtimes runtimes;  // They go before their memory.
  };

  /// Puts aside what was kept, and drops what nothing is left of.
  void leave_kept();

  std::unique_ptr<Pool> pool_ = std::make_unique<Pool>();
  std::unique_ptr<Pool> resting_;
  Runtimes kept_;         // In pool_.
  std::list<Left> left_;  // Assigning one to another would drop memory before what lies in it.
};

/// The names of one run after another. A trace that was kept has those of its run to itself.
class RunNames {
 public:
  /// Between two runs: a table without names.
  std::shared_ptr<NameTable> cleared();

 private:
  std::shared_ptr<NameTable> names_ = std::make_shared<NameTable>();
};

/// A rank's kernels while nothing has to be watched, and those of the rest of the time. They compute
/// the same.
struct KernelPair {
  Kernels& calm;
  Kernels& watched;
};

/// A rank's runtime, which lives on where the program has kept something that was made with it: that
/// something then still finds its memory when it goes.
class KeptRuntime {
 public:
  KeptRuntime(RunPool& pool, const KernelPair& kernels, RankHandle& rank)
      : pool_(&pool),
        runtime_(make_placed<Runtime>(pool.get(), pool.get(), kernels.calm, rank)),
        rank_(rank.rank()) {
    runtime_->set_watched_kernels(kernels.watched);
  }

  ~KeptRuntime();
  KeptRuntime(const KeptRuntime&) = delete;
  KeptRuntime& operator=(const KeptRuntime&) = delete;
  KeptRuntime(KeptRuntime&&) = delete;
  KeptRuntime& operator=(KeptRuntime&&) = delete;

  Runtime& get() const { return *runtime_; }

  /// The program has ended well, and nothing else uses the runtime.
  /// Errors: ContractViolation where something of it is alive.
  void expect_all_gone() const;

 private:
  RunPool* pool_;
  Placed<Runtime> runtime_;
  Rank rank_;
};

/// A rank while its program runs.
struct RunningRank {
  RankHandle& rank;
  Runtime& runtime;
};

/// Records accesses to memory in flight if anything reads those records. Then `contents` can be
/// trusted, too.
class MemoryWatch {
 public:
  MemoryWatch(Runtime& runtime, Recorder* recorder, Contents& contents);

 private:
  /// Larger than all frames of a waiting rank, whose stack they are kept out of.
  struct Parts {
    Parts(Runtime& runtime, Recorder& recorder);

    InFlight in_flight;
    ExchangeWatch exchanges;
    TouchRecorder pen;
    ExchangeRecorder exchange_pen;
  };

  Placed<Parts> parts_;
};

}  // namespace lockstep::sim
