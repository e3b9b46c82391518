// What one rank's program is given, on every backend.
#pragma once

#include <string>

#include "lockstep/base/check.h"
#include "lockstep/base/intrusive.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/trace/annotations.h"

namespace lockstep {

/// A rank's place, world group and runtime. Programs take it as their only argument, so the same
/// source runs on virtual ranks, on Gloo processes and on GPUs.
///
/// Copies serve the same rank, as long as its program runs: what needs more than the rank's number
/// throws ContractViolation later.
class RankContext {
 public:
  RankContext(Rank rank, std::int32_t world_size, Runtime& runtime, ProcessGroup& world)
      : life_(new Life), rank_(rank), world_size_(world_size), runtime_(&runtime), world_(&world) {}

  ~RankContext() {
    if (!is_copy_) life_->ended = true;
  }

  RankContext(const RankContext& other)
      : life_(other.life_),
        rank_(other.rank_),
        world_size_(other.world_size_),
        is_copy_(true),
        runtime_(other.runtime_),
        world_(other.world_) {}

  RankContext& operator=(const RankContext& other) = delete;
  RankContext(RankContext&&) = delete;
  RankContext& operator=(RankContext&&) = delete;

  std::int32_t rank() const { return to_int(rank_); }

  Rank world_rank() const { return rank_; }

  std::int32_t world_size() const { return world_size_; }

  Runtime& runtime() const {
    check_life();
    return *runtime_;
  }

  Host& host() const { return runtime().host(); }

  /// What the program says about itself: epochs, metrics, decisions (docs/recording.md).
  Annotations annotate() const { return Annotations(runtime().recorder(), &host()); }

  /// The default group: all ranks.
  ProcessGroup& world() const {
    check_life();
    return *world_;
  }

 private:
  struct Life final : Counted {
    bool ended = false;
  };

  void check_life() const {
    LOCKSTEP_CHECK(
        !life_->ended,
        "the context of rank " + std::to_string(rank()) + " is used after its function returned");
  }

  Ref<Life> life_;
  Rank rank_;
  std::int32_t world_size_;
  bool is_copy_ = false;
  Runtime* runtime_;
  ProcessGroup* world_;
};

}  // namespace lockstep
