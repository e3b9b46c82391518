// Makes planned faults happen in one attempt of a run.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "lockstep/sim/fault/fault.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/sim_group.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::sim {

/// What faults of the world act on, in addition to its ranks.
class FaultTargets {
 public:
  virtual ~FaultTargets() = default;
  /// From now on the rank's computing takes this many thousandths of its time.
  virtual void set_pace(Rank rank, std::int64_t permille) = 0;
  /// Something happens to a contribution that is about to be posted.
  virtual void tamper(const ContributionFault& fault) = 0;
};

/// Stands between the ranks and what they do: it reads their events on the way to `next`, and does
/// their file operations on their disks. What it does is recorded as `fault` events.
///
/// Requires: one attempt; everything given outlives it.
class FaultInjector final : public EventSink {
 public:
  FaultInjector(World& world, std::vector<Fault> faults, EventSink& next);

  /// Before the attempt: the disk of each rank. Requires: faults name ranks of it, or do not happen.
  void prepare(std::span<VirtualDisk* const> disks);

  void set_targets(FaultTargets* targets) { targets_ = targets; }

  ~FaultInjector() override;
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;
  FaultInjector(FaultInjector&&) = delete;
  FaultInjector& operator=(FaultInjector&&) = delete;

  void on_event(const Event& event, const NameTable& names) override;

  /// The disk as each rank sees it, by rank.
  std::vector<FileSystem*> files();
  /// Called by each rank as it starts: its pen for `fault` events.
  void open(Rank rank, Recorder* recorder);

  /// Called by each rank as it ends.
  void close(Rank rank) { recorders_.erase(rank); }

  /// Those that have happened, in that order.
  const std::vector<Fault>& struck() const { return struck_; }

  std::uint64_t n_recorded(Rank rank) const { return ranks_[to_index(rank)].n_recorded; }

  std::uint64_t n_events(Rank rank) const { return ranks_[to_index(rank)].n_events; }

  std::uint64_t n_file_steps(Rank rank) const { return ranks_[to_index(rank)].n_file_steps; }

 private:
  class Files;

  struct PerRank {
    std::uint64_t first_index = 0;  ///< Of its events in this attempt.
    std::uint64_t n_recorded = 0;
    std::uint64_t n_events = 0;  ///< Of these all but `fault` events.
    std::uint64_t n_file_steps = 0;
    VirtualDisk* disk = nullptr;
    bool killed = false;  ///< It runs on to its next scheduling point, unrecorded.
  };

  /// Lets file faults happen. True: the operation that follows must not.
  bool before_file_step(Rank rank);
  bool tears(Rank rank) const;
  void strike(std::size_t index);
  void strike_rank(const Fault& fault);
  void terminate(const Fault& fault);
  void slow_down(const Fault& fault);
  void tamper(const Fault& fault);

  World* world_;
  std::vector<Fault> faults_;
  std::vector<std::uint8_t> done_;      ///< By fault.
  std::vector<std::int64_t> n_places_;  ///< By fault: events so far at which it might have struck.
  EventSink* next_;
  std::vector<PerRank> ranks_;
  std::deque<Files> files_;
  std::map<Rank, Recorder*> recorders_;
  std::vector<Fault> struck_;
  FaultTargets* targets_ = nullptr;
  const CollectiveEvent* call_ = nullptr;  ///< That of the event at hand, if it is one.
  bool timers_set_ = false;
};

}  // namespace lockstep::sim
