// Budgets of worlds in which something happens and nothing comes of it.
#pragma once

#include <cstdint>

namespace lockstep::sim {

/// Counts since a rank blocked, woke, ended or an action happened.
class Progress {
 public:
  void note() { n_points_ = n_polls_ = 0; }

  /// A rank came to a scheduling point. False: the budget is spent, a livelock.
  bool spend_point(std::uint64_t budget) { return ++n_points_ <= budget; }

  /// Ranks only poll: time may pass. Asked at each point, after spend_point.
  bool only_polls(bool is_poll, std::size_t n_ready) {
    n_polls_ = is_poll ? n_polls_ + 1 : 0;
    return n_polls_ > kMinPolls + kPollsPerRank * n_ready;
  }

  /// After the verdict, watchdogs may still restart something; a heartbeat that re-arms itself must
  /// not keep a dead world alive.
  bool may_wait_for_daemons() const { return n_idle_daemons_ < kMaxIdleDaemons; }

  void note_daemons() { ++n_idle_daemons_; }

  void note_end() { n_idle_daemons_ = 0; }

 private:
  // This many polls a runnable rank, then the next timer fires.
  static constexpr std::uint64_t kPollsPerRank = 4;
  static constexpr std::uint64_t kMinPolls = 64;
  static constexpr std::int32_t kMaxIdleDaemons = 1000;

  std::uint64_t n_points_ = 0;
  std::uint64_t n_polls_ = 0;        // Of these, polls in a row.
  std::int32_t n_idle_daemons_ = 0;  // Timers since the verdict that changed nothing.
};

}  // namespace lockstep::sim
