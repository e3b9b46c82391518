// What a scheduler can choose next, and the interface that chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/types.h"

namespace lockstep::sim {

enum class ActionId : std::uint64_t {};

/// No action has this id.
inline constexpr ActionId kNoAction{~std::uint64_t{0}};

enum class ActionKind : std::uint8_t {
  kResume,    ///< A rank continues until its next point.
  kTransfer,  ///< A step of a collective: contributions read in, results written out, completion.
  kDeliver,   ///< A message arrives.
  kTimer,     ///< A timer fires.
  kFault,     ///< A planned fault strikes.
};

/// One thing that may happen next. Its id is stable (the same in every run that reaches it) and its
/// footprint is known before it happens, which partial-order reduction needs.
struct Action {
  ActionId id{};
  ActionKind kind = ActionKind::kResume;
  Rank rank{};  ///< kResume: that rank; otherwise the rank whose operation enabled it.
  std::uint64_t footprint = 0;  ///< What it touches: group slot, storage, file; 0 = nothing shared.
  bool polls = false;  ///< kResume: it polls; continuing at once would show it nothing new.
};

/// Resuming rank r always has this id.
constexpr ActionId resume_id(Rank rank) {
  return static_cast<ActionId>(static_cast<std::uint64_t>(to_int(rank)));
}

/// The id of an action that is not a resumption: `number` (below 2^60) must identify it among the
/// actions of its kind and be the same in every run that reaches it.
constexpr ActionId action_id(ActionKind kind, std::uint64_t number) {
  return static_cast<ActionId>((static_cast<std::uint64_t>(kind) << 60U) | number);
}

/// What actions touch is given as numbers: objects of the caller's choice (a slot, a channel, a
/// variable that ranks share in a test) and these. Two actions that touch no common object commute.
constexpr std::uint64_t kEverything = ~std::uint64_t{0};
constexpr std::uint64_t kAllFiles = 0x66696c65'00000000U;

/// A rank's memory and whatever else only its own resumptions use.
constexpr std::uint64_t rank_object(Rank rank) {
  return 0x72616e6b'00000000U | static_cast<std::uint32_t>(to_int(rank));
}

/// Decides which enabled action happens next.
///
/// Every source of variety in a run (which rank resumes, when a transfer completes, which message,
/// timer or fault comes first) is an action, so the answers of `pick` *are* the schedule. A
/// strategy is notified of what becomes possible; it never receives the whole set, which would cost
/// microseconds at 10,000 ranks.
///
/// Requires: called outside the scheduler's noexcept hooks; must not throw.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// A new world of `n_ranks` begins: forget everything.
  virtual void start(std::int32_t n_ranks) = 0;
  virtual void on_enabled(const Action& action) = 0;
  virtual void on_disabled(ActionId id) = 0;

  /// Requires: at least one enabled action.
  /// Returns: the id of an enabled action, which is disabled thereby.
  virtual ActionId pick() = 0;

  /// What pick() will return after `ahead` other picks, if each rank that is picked before becomes
  /// enabled again at once. kNoAction: it cannot be said. Only prefetching goes by it, so a wrong
  /// answer changes no schedule.
  ///
  /// No std::optional: GCC writes its two halves to the stack and reads them as one, and such a read
  /// waits for all writes before it, which have just missed the caches.
  virtual ActionId expected(std::size_t /*ahead*/) const { return kNoAction; }

  /// "round-robin", "random:seed=7", ...: enough to make it again.
  virtual std::string describe() const = 0;

  // -- for strategies that compare schedules; asked once per run, silent otherwise
  virtual bool watches() const { return false; }

  /// The action picked last touched `object`; in addition, a resumption touches its rank, any other
  /// action its footprint and its rank, and a timer or fault everything.
  virtual void on_touch(std::uint64_t /*object*/) {}

  /// Nothing was enabled: time passes, or a stuck world is taken care of. What happens from now on
  /// comes after everything before.
  virtual void on_quiet() {}
};

}  // namespace lockstep::sim
