// What can go wrong on purpose: kinds of faults, and where they strike.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/types.h"
#include "lockstep/sim/fault/virtual_disk.h"
#include "lockstep/trace/event.h"

namespace lockstep::sim {

enum class FaultKind : std::uint8_t {
  kException,    ///< The rank's code throws at its next scheduling point, and unwinds.
  kExit,         ///< It ends itself with an error code: as an uncaught exception.
  kSigkill,      ///< It is gone: nothing it does from now on has an effect.
  kSigterm,      ///< The same, by a signal that it does not handle.
  kOutOfMemory,  ///< The same, by the kernel.
  kHang,         ///< It stops without ending.
  kLate,         ///< It pauses for `delay`.
  kSlow,         ///< From now on its computing takes `permille` / 1000 as long, for `lasting`.
  kLost,         ///< Its contribution to a collective never arrives.
  kDelayed,      ///< It arrives `delay` later.
  kDuplicated,   ///< Sums and averages count it twice.
  kCorrupted,    ///< A bit of it flips, or of the `result` that the rank is given.
  kStale,        ///< What arrives is its contribution to the call before of this kind.
  kDiskFull,     ///< From now on the disk takes no byte more, until the next attempt.
  kTornWrite,    ///< Killed in the middle of a write: half of the bytes are in the file.
};
/// Whether it is injected into a rank's contribution to a collective.
bool is_contribution(FaultKind kind);

/// The events that a fault may wait for: those of a kind, or the calls of an operation.
class Occasion {
 public:
  // Places are written as what they are: `.at = EventKind::kForward`.
  Occasion(EventKind kind) : kind_(kind) {}  // NOLINT(google-explicit-constructor)

  Occasion(CollectiveOp op) : op_(op), any_op_(false) {}  // NOLINT(google-explicit-constructor)

  /// The one with this name(); nothing if there is none.
  static std::optional<Occasion> named(std::string_view word);
  /// "forward", "collective", "all_reduce", ...
  std::string_view name() const;

  /// Whether the event is of that kind, or of a call of that operation.
  bool includes(const Event& event) const;
  /// Whether each of them is a call in which all members of a group have a part.
  bool is_of_groups() const;

  friend bool operator==(const Occasion&, const Occasion&) = default;

 private:
  EventKind kind_ = EventKind::kCollective;
  CollectiveOp op_ = CollectiveOp::kBarrier;  // If it is not any.
  bool any_op_ = true;
};

/// One planned fault. `event`, `file_step`, `time`, or else `step`, `at`, `when` and `nth` say
/// where.
struct Fault {
  FaultKind kind = FaultKind::kSigkill;
  std::int32_t rank = 0;
  std::int32_t attempt = 0;  ///< The run of the job it belongs to, 0 = the first.

  std::optional<std::uint64_t> event{};  ///< As this attempt's event of that number is recorded.
  std::optional<std::uint64_t>
      file_step{};  ///< Before this attempt's file operation of that number.
  std::optional<VirtualTime> time{};
  std::optional<std::int64_t> step{};  ///< In this optimizer step (absent: any) ...
  std::optional<Occasion> at{};        ///< ... at one of these events; absent: nowhere ...
  /// ... collectives: as it is posted, or kCompleted: as it ends ...
  CollectivePhase when = CollectivePhase::kPosted;
  std::int64_t nth = 0;  ///< ... of this number among those.

  Duration delay{};                   ///< kLate
  Duration grace{};                   ///< kSigterm: how long it continues before it is killed.
  std::int64_t permille = 1000;       ///< kSlow
  Duration lasting{};                 ///< kSlow: 0 = to the end.
  std::int64_t element = 0;           ///< kCorrupted
  std::int32_t bit = 0;               ///< kCorrupted
  bool result = false;                ///< kCorrupted
  std::int32_t code = 1;              ///< kExit
  CrashFate fate = CrashFate::kKept;  ///< What the crash leaves of what was not synced.
};

/// What a rank throws that a fault makes throw.
class InjectedFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "rank 1: sigkill at event 12".
std::string describe(const Fault& fault);

/// What a swarm draws from.
struct SwarmOptions {
  std::uint64_t seed = 0;
  std::int32_t n_faults = 3;
  std::int32_t n_ranks = 1;
  /// They strike in optimizer steps below it, as the rank records an event of the step:
  /// contributions at an all_reduce, torn writes at one of the first file operations. 0: at events
  /// below `n_events`.
  std::int64_t n_steps = 0;
  std::uint64_t n_events = 0;
  std::vector<FaultKind> kinds{};  ///< Empty: whatever a rank may do at any event.
  bool by_attempt = true;          ///< Fault i strikes in attempt i; false: all in the first.
};

/// A plan drawn from a seed: any of the kinds, on any rank, at any of the places.
/// Requires: n_steps > 0 where `kinds` has contributions (kLost to kStale).
std::vector<Fault> swarm(const SwarmOptions& options);

}  // namespace lockstep::sim

namespace lockstep {

template <>
inline constexpr EnumNames<15> kEnumNames<sim::FaultKind> = {"exception",
                                                             "exit",
                                                             "sigkill",
                                                             "sigterm",
                                                             "out-of-memory",
                                                             "hang",
                                                             "late",
                                                             "slow",
                                                             "lose",
                                                             "delay",
                                                             "duplicate",
                                                             "corrupt",
                                                             "stale",
                                                             "disk-full",
                                                             "torn-write"};

}  // namespace lockstep
