// What one rank's program is given, on every backend.
#pragma once

#include "lockstep/comm/process_group.h"
#include "lockstep/trace/program_record.h"

namespace lockstep {

/// A rank's place, world group and runtime. Programs take it as their only argument, so the same
/// source runs on virtual ranks, on Gloo processes and on GPUs.
class RankContext {
 public:
  RankContext(Rank rank, std::int32_t world_size, Runtime& runtime, ProcessGroup& world)
      : rank_(rank), world_size_(world_size), runtime_(&runtime), world_(&world) {}

  std::int32_t rank() const { return to_int(rank_); }

  Rank world_rank() const { return rank_; }

  std::int32_t world_size() const { return world_size_; }

  Runtime& runtime() const { return *runtime_; }

  Host& host() const { return runtime_->host(); }

  /// What the program says about itself: epochs, metrics, decisions (docs/recording.md).
  ProgramRecord record() const { return ProgramRecord(runtime_->recorder(), &host()); }

  /// The default group: all ranks.
  ProcessGroup& world() const { return *world_; }

 private:
  Rank rank_;
  std::int32_t world_size_;
  Runtime* runtime_;
  ProcessGroup* world_;
};

}  // namespace lockstep
