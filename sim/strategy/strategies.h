// The ways to choose the next action.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim {

/// First enabled, first picked.
std::unique_ptr<Strategy> make_round_robin();
/// A rank goes on until it blocks, then first enabled, first picked: the fewest switches.
std::unique_ptr<Strategy> make_run_to_block();
/// Each enabled action with the same probability, from a seeded stream.
std::unique_ptr<Strategy> make_random(std::uint64_t seed);

/// A recorded schedule: the k-th pick is `picks[k]`. Strict: an action that is not enabled then
/// ends the replay (diverged() below); after the last pick it goes on as round robin.
class ReplayStrategy : public Strategy {
 public:
  virtual bool diverged() const = 0;
};

std::unique_ptr<ReplayStrategy> make_replay(std::vector<ActionId> picks);

/// Wraps a strategy and keeps what it picked.
class RecordingStrategy : public Strategy {
 public:
  virtual const std::vector<ActionId>& picks() const = 0;
};

std::unique_ptr<RecordingStrategy> make_recording(Strategy& inner);

/// "round-robin" | "run-to-block" | "random" (+ seed). Errors: unknown name, with a suggestion.
Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name, std::uint64_t seed);

/// A schedule as one printable word: picks in base 36, in runs. A run is a first id, the step to
/// the next and its length: "0,1,2,3" is "0+1*4", "5,5,5" is "5+0*3"; runs are joined by '.'.
std::string encode_schedule(std::span<const ActionId> picks);
/// Errors: anything that encode_schedule does not write, with the place in the text.
Result<std::vector<ActionId>> decode_schedule(std::string_view text);

}  // namespace lockstep::sim
