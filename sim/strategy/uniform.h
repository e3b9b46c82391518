// Every interleaving of the ranks with the same probability, from what one run showed of their lengths.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim {

/// How often each rank of a program resumes, stretch by stretch: a stretch ends where the rank had to
/// wait for something other than its turn, or with its program.
struct RankLengths {
  std::vector<std::vector<std::uint64_t>> stretches{};  ///< By rank.

  friend bool operator==(const RankLengths&, const RankLengths&) = default;
};

/// One printable word, safe in a shell: "3.2x4" is a rank with a stretch of three resumptions and four
/// of two; ranks are separated by "/", and "8r3.2x4" is eight of them.
std::string encode_lengths(const RankLengths& lengths);
/// Errors: anything that is not such a word, or that names more than 2^20 ranks or stretches in all.
Result<RankLengths> decode_lengths(std::string_view text);

/// Lets each rank run until it blocks, and only then anything else happen, so that each rank waits for
/// whatever it can wait for; and counts.
class LengthCounter : public Strategy {
 public:
  virtual RankLengths lengths() const = 0;  ///< Of the last run.
};

/// Which of several ranks runs first. A rank with nothing beside it that could happen is not asked
/// at its points, so the rank that runs last is counted too short: two runs, one of each order, show all.
enum class LengthOrder : std::uint8_t { kLowestFirst, kHighestFirst };

std::unique_ptr<LengthCounter> make_length_counter(LengthOrder order);

/// Stretch by stretch the longer one of the two.
RankLengths longer_of(const RankLengths& first, const RankLengths& second);

/// The lengths that two runs show, one of each order. `run` makes one under the counter.
/// Errors: those of `run`.
Result<RankLengths> count_lengths(const std::function<Outcome(LengthCounter&)>& run);

struct UniformOptions {
  std::uint64_t seed = 0;
  RankLengths lengths{};  ///< Of ranks that are not in it nothing is known: they count as one pick.
};

/// Uniform random walk: a rank is picked with a probability in proportion to the resumptions that it
/// has left until it must wait. With ranks of n_1, ..., n_k resumptions that wait for nothing, each of the
/// (n_1 + ... + n_k)! / (n_1! ... n_k!) interleavings has the same probability; picking each enabled rank
/// equally often (make_random) prefers those that finish short ranks early. It stays so where all ranks
/// meet (an operation that each waits for at once), since each part between meetings is such a world.
///
/// Elsewhere it is an approximation: other actions (transfers, messages, timers) weigh one pick, and a
/// program whose lengths depend on the schedule does as it did in the run that was counted. A rank that
/// runs longer than it did then weighs one pick.
///
/// Source: URW of Zhao, Zou, Zhang, et al.: "Selectively Uniform Concurrency Testing", ASPLOS 2025. There,
///     a thread weighs all that it has left; here, what it has left until it must wait, because what comes
///     after a meeting cannot be interleaved with what comes before it.
std::unique_ptr<Strategy> make_uniform(const UniformOptions& options);

}  // namespace lockstep::sim
