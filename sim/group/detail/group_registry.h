// All groups of one world, from inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/sim/group/detail/matching.h"
#include "lockstep/sim/group/detail/memory_guard.h"
#include "lockstep/sim/group/detail/transfer.h"
#include "lockstep/sim/group/sim_group.h"

namespace lockstep::sim {

struct WaitForDrawing;  // wait_for_drawing.cc
class MessageNetwork;

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

  std::uint64_t next_loan() { return ++n_loans_; }

  /// What transfers work on instead of this rank's own memory.
  StandIns& stand_ins(Rank rank) { return stand_ins_[rank]; }

  // -- groups
  GroupState& world_group();
  /// The k-th split of `parent`.
  /// Errors: a different list from the first caller's = ContractViolation.
  GroupState& split(const GroupState& parent, std::int64_t k, std::vector<std::int32_t> members);
  /// The group that `rank` opens by name (named_groups.cc). See SimGroups::open.
  Result<GroupState*> open(Rank rank, std::string_view name, std::span<const std::int32_t> members);
  /// A rank drops its side of a group: what can still complete does, the rest is lost to the
  /// others.
  void leave(SimProcessGroup& group);
  /// The same for all groups of a rank whose memory is about to go, while it keeps its side.
  void abandon(Rank rank);

  // -- matching (matching.cc)
  void arrive(GroupState& group, SimWork& work);
  /// It is due: offers the transfer to the strategy.
  void make_ready(MatchSlot& slot);
  void transfer(MatchSlot& slot);
  void on_member_done(MatchSlot& slot, std::int32_t member);
  /// A message's addition rounded in exact mode.
  void on_inexact(MatchSlot& slot, std::exception_ptr problem);
  /// The same while a member arrives; the last one closes the slot.
  void fail_inexact(MatchSlot& slot, std::exception_ptr problem);

  // -- faults of contributions on their way (contribution_faults.cc)
  void plan(const ContributionFault& fault);
  void remember(Rank rank);

  void forget_delay(SimWork& work) { delayed_.erase(work.delay); }

  void forget_lost(SimWork& work) { std::erase(lost_, &work); }

  // -- deadlines (deadlines.cc)
  void set_deadline(SimWork& work, Duration timeout);
  void forget_deadline(SimWork& work);
  /// From now on a watchdog waits for it, if there is one.
  void watch(SimWork& work);
  void forget_watch(SimWork& work);

  const std::string& timeouts() const { return timeouts_; }

  bool awaits_timeout() const { return !watched_.empty(); }

  // -- messages (messages.cc)
  std::int64_t next_message(GroupState& group, const Signature& signature, std::int32_t self);
  void arrive_message(GroupState& group, SimWork& work);
  void make_ready(SimWork& send);
  void deliver(SimWork& send);

  // -- waiting and verdicts (verdict.cc)
  void set_waiting(Rank rank, SimWork* work);
  /// Lets the rank of a completed work continue, if it waits for it and is not dying.
  void wake_waiter(const SimWork& work);
  void on_stuck(const StuckVerdict& verdict);

  const std::string& explanation() const { return explanation_; }

  const std::vector<Rank>& missing() const { return missing_; }

  const WaitForGraph& wait_for() const { return wait_for_; }

 private:
  MatchSlot& slot_of(GroupState& group, std::int64_t seq);
  MatchSlot* find_slot(const GroupState& group, std::int64_t seq) const;
  MatchSlot& open_slot(GroupState& group, std::int64_t seq);
  void close(MatchSlot& slot);
  void admit(MatchSlot& slot, SimWork& work);
  bool apply_faults(MatchSlot& slot, SimWork& work);
  bool apply_fault(const ContributionFault& fault, SimWork& work);
  void delay(SimWork& work, Duration span);
  void replace_contribution(const ContributionFault& fault, SimWork& work);
  void fail_lost(const MatchSlot& slot);
  std::string losses_text() const;
  bool is_cut_off(const MatchSlot& slot, Rank a, Rank b) const;
  void compare(MatchSlot& slot, SimWork& work);
  void fill(MatchSlot& slot);
  bool hangs_when_paired(MatchSlot& slot) const;
  void finish_member(MatchSlot& slot, std::int32_t member);
  bool finish_now(MatchSlot& slot);
  bool move_data(MatchSlot& slot);
  void fail(MatchSlot& slot, CommStatus status, const std::string* detail);
  void give_up_all(SimProcessGroup& group);
  void give_up(SimWork& work);
  void give_up_message(SimWork& work);
  void pair(SimWork& send, SimWork& recv);
  SimWork* take_send(GroupState& group, SimWork& recv);
  SimWork* take_recv(GroupState& group, const SimWork& send, Channel& channel);
  void on_deadline(std::uint64_t number);
  bool time_out(SimWork& work, const std::string& text);
  void arm_watchdog();
  void on_watchdog();
  void fail_message(SimWork& work, CommStatus status, const std::string* detail);
  const std::string* keep(std::string text);

  SimWork* waiting_on(Rank rank) const;
  std::vector<std::int32_t> missing_for(const SimWork& work) const;
  std::vector<SimWork*> one_per_slot(const StuckVerdict& verdict) const;
  bool fail_calls_to_lost_peers(const StuckVerdict& verdict);
  void end_stuck(const StuckVerdict& verdict);
  void end_stuck(SimWork& work);
  void write_explanation(const StuckVerdict& verdict);
  void draw(const StuckVerdict& verdict);
  void draw_waiting(const StuckVerdict& verdict, WaitForDrawing& drawing);
  void draw_missing(WaitForDrawing& drawing, std::size_t node);
  WaitForNode::State state_in_graph(Rank rank) const;
  std::string state_of(std::int32_t rank) const;
  std::string missing_text(const SimWork& work) const;
  std::string cycle_text(const StuckVerdict& verdict) const;
  GroupState* group_of(std::int32_t id) const;
  std::int32_t free_id(std::string_view name, std::int64_t instance) const;

  World* world_;
  GroupOptions options_;
  Transfer transfer_;
  std::unique_ptr<MessageNetwork> message_network_;  // Null where operations meet and take no time.
  std::map<std::int32_t, std::unique_ptr<GroupState>> groups_;
  std::map<std::pair<std::string, std::int64_t>, std::vector<GroupState*>> named_;  // By opening.
  std::map<std::pair<std::string, Rank>, std::int64_t> n_openings_;
  std::deque<MatchSlot> slots_;  // Stable addresses.
  std::vector<MatchSlot*> free_slots_;
  std::deque<std::string> details_;              // Works point into it.
  std::vector<SimWork*> waiting_;                // By world rank.
  std::map<std::uint64_t, SimWork*> deadlines_;  // Pending works that have one, by number.
  std::uint64_t n_deadlines_ = 0;
  std::deque<std::pair<VirtualTime, std::uint64_t>> watches_;  // When which work is given up.
  std::map<std::uint64_t, SimWork*> watched_;                  // Those that are still pending.
  std::uint64_t n_watched_ = 0;
  bool watchdog_armed_ = false;
  std::string timeouts_;
  std::uint64_t n_loans_ = 0;
  std::map<Rank, StandIns> stand_ins_;
  bool has_contribution_faults_ = false;
  std::vector<ContributionFault> contribution_faults_;  // Planned.
  std::vector<SimWork*> lost_;  // Pending works whose contributions never arrive.
  std::map<std::uint64_t, SimWork*> delayed_;
  std::uint64_t n_delayed_ = 0;
  std::vector<Rank> remembered_;  // Whose contributions are kept, and the last of each call.
  std::map<std::tuple<Rank, std::int32_t, CollectiveOp, std::int64_t, DType>,
           std::vector<std::byte>>
      contributions_;
  std::string explanation_;
  WaitForGraph wait_for_;
  bool livelock_ = false;  // Ranks that do not wait run without making progress.
  std::vector<Rank> missing_;
};

}  // namespace lockstep::sim
