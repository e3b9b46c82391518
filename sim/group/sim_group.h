// Process groups of virtual ranks: matching, named reduction orders, exact verdicts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/laws/wait_for.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/fidelity.h"
#include "lockstep/sim/net/net_options.h"
#include "lockstep/sim/net/traffic.h"

namespace lockstep::sim {

struct GroupOptions {
  ReductionOrder order = ReductionOrder::kRank;
  Pairing pairing = Pairing::kStrict;
  Fidelity fidelity = Fidelity::kRendezvous;
  NetOptions net{};  ///< By default links cost nothing.
  /// How long an operation may take before a watchdog gives it up; 0: no watchdog.
  Duration watchdog{};
};

/// A fault injected into one rank's contribution to one collective.
struct ContributionFault {
  enum class Kind : std::uint8_t {
    kLost,        ///< It never arrives.
    kDelayed,     ///< It arrives `delay` later.
    kDuplicated,  ///< Sums and averages count it twice.
    kCorrupted,   ///< One bit of it flips, or of what the rank is given in the end.
    kStale,       ///< What arrives is what the rank contributed to the call before of this kind.
  };

  Kind kind = Kind::kLost;
  Rank rank{};
  std::int32_t group = 0;
  std::int64_t seq = 0;
  Duration delay{};
  std::int64_t element = 0;  ///< kCorrupted; counted modulo the elements there are.
  std::int32_t bit = 0;      ///< kCorrupted; counted modulo the element's bits.
  bool result = false;       ///< kCorrupted: not what it gives, but what it is given.
};

/// All groups of one world. Makes each rank's ProcessGroup and explains hangs.
///
/// Rendezvous fidelity: the last member to arrive computes for all; a transfer is an action of the
/// strategy, so a completed operation and the resumption of its waiters are separate choices.
/// Message fidelity: the same bits, but members complete one by one; where members call different
/// things (pairings other than strict), they meet.
class SimGroups {
 public:
  SimGroups(World& world, const GroupOptions& options);
  ~SimGroups();
  SimGroups(const SimGroups&) = delete;
  SimGroups& operator=(const SimGroups&) = delete;
  SimGroups(SimGroups&&) = delete;
  SimGroups& operator=(SimGroups&&) = delete;

  /// The world group as `rank` sees it. Requires: called from the rank; runtime outlives the group.
  std::unique_ptr<ProcessGroup> world_group(RankHandle& rank, Runtime& runtime);

  /// The group called `name` as `rank` sees it: world ranks in the group's order. Unlike a split,
  /// it concerns its members only, and none waits for another. The n-th opening of a name by a rank
  /// meets the n-th by the others. Its id is `name` where that is a small number that is not in
  /// use, else a large number: both follow from name and n, not from the schedule.
  /// Requires: called from the rank; runtime outlives the group.
  /// Errors: members that differ from those of the rank that opened it first, with both lists;
  ///     ranks that are listed twice or are not of this world; a list without this rank.
  Result<std::unique_ptr<ProcessGroup>> open(RankHandle& rank,
                                             Runtime& runtime,
                                             std::string_view name,
                                             std::span<const std::int32_t> members);

  /// Requires: before the rank posts that call.
  void plan(const ContributionFault& fault);
  /// Reports when messages of ranks are under way; null: not.
  /// Requires: before a rank has its world group; traffic outlives this.
  void report_to(Traffic* traffic);
  /// Keeps the rank's contributions, for stale ones. Requires: before it posts.
  void remember(Rank rank);

  /// The wait-for graph as text, one line per waiting rank: what it waits for, since when, who is
  /// missing and what that one does instead, the first differing signature field, both call sites.
  std::string explain(const StuckVerdict& verdict) const;
  /// The same as a graph, to be drawn (wait_for.h).
  const WaitForGraph& wait_for() const;
  /// Ranks that never posted what others wait for, ascending.
  std::vector<Rank> missing_ranks() const;
  /// What the watchdog reported: a line per operation that took too long, with missing and late
  /// ranks.
  const std::string& timeouts() const;
  /// A watchdog waits for something: it will eventually end a hang.
  bool awaits_timeout() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::sim
