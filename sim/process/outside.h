// Where ranks are while their processes compute: outside the world, which waits for them here.
#pragma once

#include <cstdint>
#include <memory>
#include <poll.h>
#include <span>
#include <string>
#include <vector>

#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/process/activity.h"
#include "lockstep/sim/process/interrupts.h"
#include "lockstep/sim/process/rank_process.h"

namespace lockstep::sim {

/// Wall-clock limits, in milliseconds.
struct OutsideLimits {
  std::int32_t asleep_ms = 250;  ///< So long asleep outside our calls: the others go on without it.
  std::int32_t verdict_ms = 0;   ///< So long: it counts as waiting although something outside might
                                 ///< wake it. 0: never.
  std::int32_t grace_ms = 2000;  ///< Between the request to stop and SIGKILL.
};

/// Waits for what processes do next, without leaving the order of their requests to chance:
///
/// In rounds (parallel): when no rank can run, it waits until *every* process that computes has sent
/// a request that it waits for an answer to, or has ended, and only then wakes their ranks, lowest
/// first. So who was faster makes no difference to anything.
///
/// A process that sends nothing is waited for as long as it runs. One that sleeps outside our calls
/// (each of its threads and its children's, for asleep_ms) does not keep the others waiting: they go
/// on, and a note says that from then on the order depends on the machine. When none can go on, it
/// counts as waiting: at once if each of its threads waits for another thread, since those all sleep;
/// otherwise after verdict_ms, if that is set.
///
/// Time is counted in slices of a wait, never read from a clock.
class Outside {
 public:
  /// Requires: one thread; `processes`, by rank, and `interrupts` outlive it.
  Outside(std::span<const std::unique_ptr<RankProcess>> processes,
          const OutsideLimits& limits,
          Interrupts& interrupts);

  /// From now on it belongs to this world. Requires: before its ranks start.
  void join(World& world);

  /// What a rank waits for whose process computes.
  static constexpr std::string_view kWhat = "code outside Lockstep's calls";

  /// In rounds: the rank's process computes; its rank is about to block until it is due.
  void expect(Rank rank);
  /// One at a time (serial): waits for this process alone. False: it sleeps outside, or the run is
  /// interrupted; then as in rounds.
  bool wait_for(Rank rank);

  bool is_outside(Rank rank) const { return seats_[to_index(rank)].expected; }

  /// Some process sleeps outside our calls.
  bool any_asleep() const;

  /// Asks these ranks for their stacks and waits for the answers, though not forever.
  void collect_stacks(std::span<const Rank> ranks);

  /// Waits until all processes have ended, however that takes SIGKILL: those that were stopped after
  /// the grace period, the others after a longer one.
  void see_off(std::span<const std::uint8_t> stopped);

  /// The same for one, which is about to end.
  void see_off(Rank rank);

  int interrupted() const { return interrupted_; }

  std::vector<std::string> take_notes() { return std::move(notes_); }

 private:
  struct Seat {
    bool expected = false;
    bool asleep = false;
    bool noted = false;
    std::int32_t quiet_ms = 0;  ///< Since it was seen to run.
    std::int32_t n_looks = 0;
    Activity before{};
  };

  RankProcess& process(std::size_t index) const { return *processes_[index]; }

  void on_idle(bool at_end);
  bool round(bool at_end);
  bool is_waiting(std::size_t index) const;
  void wake_due();
  bool all_certain() const;
  void pass(std::span<const std::size_t> waited);
  void look(std::size_t index);
  void note_asleep(std::size_t index);
  bool check_interrupt();
  bool let_end(std::size_t index, std::int32_t waited_ms, std::int32_t limit_ms);
  pollfd end_of(std::size_t index) const;

  std::span<const std::unique_ptr<RankProcess>> processes_;
  OutsideLimits limits_;
  Interrupts* interrupts_;
  World* world_ = nullptr;
  std::vector<Seat> seats_;
  std::vector<std::string> notes_;
  int interrupted_ = 0;
};

}  // namespace lockstep::sim
