// A schedule in few words: where it departs from the default one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim {

/// One choice that the default schedule would have made otherwise. The default: a rank continues
/// until it blocks or polls, then the enabled action with the lowest id (ranks first), then the
/// ranks that poll, round robin.
struct Deviation {
  ActionId expected{};   ///< What the default picks here.
  std::uint64_t op = 0;  ///< expected is a rank: how often it was picked before.
  ActionId picked{};     ///< What happens instead.

  friend bool operator==(const Deviation&, const Deviation&) = default;
};

/// The default with deviations; after `n_picks` picks, if `then` is not empty, a different
/// strategy.
///
/// A deviation is found again by its rank and that rank's own progress, not by its place in the
/// whole: leaving out some, or changing what other ranks do, moves none of the rest.
struct Schedule {
  std::vector<Deviation> deviations{};
  std::uint64_t n_picks = 0;
  std::string then{};  ///< For make_strategy.

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// One printable word, safe in a shell: "@0-5=1,t3=2,1-2=t0/40/random:seed=7" is: instead of
/// operation 5 of rank 0, rank 1; instead of transfer 3, rank 2; instead of operation 2 of rank 1,
/// transfer 0; after 40 picks random. Actions that are not ranks are a letter (t transfer, d
/// delivery, m timer, f fault) and a number in base 36. "@" is the default itself.
std::string encode_schedule(const Schedule& schedule);
/// Errors: anything that encode_schedule does not write, with the place in the text.
Result<Schedule> decode_schedule(std::string_view text);

}  // namespace lockstep::sim
