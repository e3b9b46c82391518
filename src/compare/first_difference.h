// Where two traces begin to differ.
#pragma once

#include <optional>
#include <string>

#include "lockstep/compare/recorded_distance.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep::cli {

/// Whether two traces must also agree on when things happened.
enum class Timing {
  kCompared,  ///< Times, and where among a rank's own events a collective completed.
  kIgnored,  ///< Neither, nor call sites, nor what recorders log: what equal runs of real processes
             ///< agree on.
};

struct Difference {
  Position at = {};
  Rank rank{};
  std::string event = {};   ///< Its kind.
  std::string tensor = {};  ///< The first one that differs, where the event has tensors.
  std::optional<RecordedDistance> distance = {};  ///< Of that tensor.
  /// "sync 3, event 17 (grad), tensor `fc2.weight`, rank 3", then both lines, then the distance.
  std::string text = {};
};

/// The earliest differing event by (attempt, sync, optimizer step, index, rank); nothing when the
/// traces say the same. Event by event within a rank, whatever the interleaving was. Recorded values
/// count only where both traces have some; digests stand for them otherwise.
std::optional<Difference> first_difference(const MemoryTrace& left,
                                           const MemoryTrace& right,
                                           Timing timing = Timing::kCompared);

}  // namespace lockstep::cli
