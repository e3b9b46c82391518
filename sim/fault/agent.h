// A job under an elastic agent: attempt after attempt, on files that outlive them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/dist/rank_context.h"
#include "lockstep/sim/fault/fault.h"
#include "lockstep/sim/fault/virtual_disk.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/sim_group.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep::sim {

struct AgentOptions {
  std::int32_t n_ranks = 1;
  /// Ranks of later attempts, first to last; the last one counts for all that follow. Empty: as
  /// many as in the first. Nodes that are lost or come back.
  std::vector<std::int32_t> n_ranks_later{};
  std::int32_t max_restarts = 0;
  /// How long after a rank's death the agent looks again, and ends the others.
  Duration monitor_interval{100'000'000};
  /// Whether a watchdog ends an attempt in which nobody can go on any more. Without one such a run
  /// ends there.
  bool watchdog = true;
  std::string strategy = "run-to-block";
  std::uint64_t schedule_seed = 0;
  bool timed = false;
  GroupOptions group{};
  bool exact = false;
  std::vector<Fault> faults{};
  std::uint64_t seed = 0;  ///< Of what crashes leave on the disk.
  bool record = true;
};

/// How one attempt went.
struct Attempt {
  WorldResult world;
  std::vector<Fault> struck{};
  std::vector<std::uint64_t> n_events{};      ///< By rank, `fault` events not counted.
  std::vector<std::uint64_t> n_file_steps{};  ///< By rank.

  bool ok() const;
  /// The first failure by (time, rank), as torchrun's report names it; empty when ok().
  std::string root_cause() const;
};

struct AgentResult {
  std::vector<Attempt> attempts;
  std::shared_ptr<MemoryTrace> trace;  ///< Of all attempts; null unless recorded.

  bool ok() const { return attempts.back().ok(); }

  std::int32_t n_restarts() const { return static_cast<std::int32_t>(attempts.size()) - 1; }
};

/// Restarts all ranks when one of them fails, as torchrun does: the others are ended at the next
/// look, every rank starts again with TORCHELASTIC_RESTART_COUNT one higher, until the attempts are
/// used up. What faults do to the disk happens between two attempts.
///
/// Deterministic: a function of the options and the body.
/// Source:        torch.distributed.elastic.agent (torchrun's restart of all workers).
class Agent {
 public:
  Agent();
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  Agent(Agent&&) = delete;
  Agent& operator=(Agent&&) = delete;

  using Body = std::function<void(RankContext&)>;
  /// Errors: an unknown strategy.
  Result<AgentResult> run(const AgentOptions& options, VirtualDisk& disk, const Body& body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::sim
