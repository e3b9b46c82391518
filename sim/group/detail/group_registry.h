// All groups of one world, from inside: the parts that work together.
//
//   a rank's call ──► SimProcessGroup ──► Matcher   collectives: members meet at a sequence number
//                                    └──► Mailbox   send and recv: pairs of one channel
//
//   on its way          ContributionFaults, MessageNetwork
//   too long            Deadlines, Watchdog
//   nothing can run     RankStates ──► HangReport
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "lockstep/sim/group/detail/contribution_faults.h"
#include "lockstep/sim/group/detail/deadlines.h"
#include "lockstep/sim/group/detail/group_table.h"
#include "lockstep/sim/group/detail/mailbox.h"
#include "lockstep/sim/group/detail/matcher.h"
#include "lockstep/sim/group/detail/memory/memory_guard.h"
#include "lockstep/sim/group/detail/verdict/hang_report.h"
#include "lockstep/sim/group/detail/verdict/rank_states.h"
#include "lockstep/sim/group/sim_group.h"

namespace lockstep::sim {

class MessageNetwork;

/// Holds the parts, leads from one to the other, and keeps what has no better place.
class GroupRegistry {
 public:
  GroupRegistry(World& world, const GroupOptions& options);
  ~GroupRegistry();
  GroupRegistry(const GroupRegistry&) = delete;
  GroupRegistry& operator=(const GroupRegistry&) = delete;
  GroupRegistry(GroupRegistry&&) = delete;
  GroupRegistry& operator=(GroupRegistry&&) = delete;

  World& world() const { return *world_; }

  const GroupOptions& options() const { return options_; }

  // -- the parts
  GroupTable& groups() { return groups_; }

  Matcher& matcher() { return matcher_; }

  Mailbox& mailbox() { return mailbox_; }

  ContributionFaults& faults() { return faults_; }

  Deadlines& deadlines() { return deadlines_; }

  Watchdog& watchdog() { return watchdog_; }

  RankStates& ranks() { return ranks_; }

  HangReport& hang_report() { return hang_report_; }

  /// Whom messages under way are reported to; null: not.
  Traffic* traffic() { return traffic_; }

  /// Requires: there is no world group yet.
  void report_to(Traffic* traffic) { traffic_ = traffic; }

  /// Null where operations meet and take no time.
  MessageNetwork* network() { return network_.get(); }

  // -- what concerns several of them
  /// Also decides whether operations take time: all ranks are known now.
  GroupState& world_group();
  /// A call fails for all that take part in it. Requires: not done, and not ready.
  void fail(SimWork& work, CommStatus status, const std::string* detail);
  /// The same, since it took too long. What could complete at this very moment does: false.
  bool time_out(SimWork& work, const std::string& text);
  /// A rank drops its side of a group: what can still complete does, the rest is lost to the
  /// others.
  void leave(SimProcessGroup& group);
  /// The same for all groups of a rank whose memory is about to go, while it keeps its side.
  void abandon(Rank rank);
  /// And for one operation.
  void give_up(SimWork& work);

  /// Works point into what is kept here.
  const std::string* keep(std::string text) { return &details_.emplace_back(std::move(text)); }

  std::uint64_t next_loan() { return ++n_loans_; }

  /// What transfers work on instead of this rank's own memory.
  StandIns& stand_ins(Rank rank) { return stand_ins_[rank]; }

 private:
  void give_up_all(SimProcessGroup& group);

  World* world_;
  GroupOptions options_;
  GroupTable groups_;
  Matcher matcher_;
  Mailbox mailbox_;
  ContributionFaults faults_;
  Deadlines deadlines_;
  Watchdog watchdog_;
  RankStates ranks_;
  HangReport hang_report_;
  Traffic* traffic_ = nullptr;
  std::unique_ptr<MessageNetwork> network_;
  std::deque<std::string> details_;
  std::uint64_t n_loans_ = 0;
  std::map<Rank, StandIns> stand_ins_;
};

}  // namespace lockstep::sim
