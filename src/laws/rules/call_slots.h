// What the ranks of a group called under each sequence number, and what differences say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws::calls {

/// A call site, or the operation where no site is known: what is counted to distinguish an extra
/// call from a missing one.
struct CallKey {
  std::string site;
  CollectiveOp op = CollectiveOp::kBarrier;
  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};

/// Attempt and group.
using GroupKey = std::pair<std::int32_t, std::int32_t>;

/// Calls that look the same at one sequence number, and the ranks that made them.
struct Variant {
  Signature signature;
  std::int32_t step = 0;
  std::vector<Rank> ranks;
  std::int64_t n_steps = 0;  ///< Of all optimizers of the lowest rank, until then.
  bool evaluates = false;    ///< Its wrapped model was in evaluation mode.
};

/// One sequence number, while its members arrive.
struct Slot {
  std::vector<Variant> variants;
  std::int32_t n_arrived = 0;
  bool mismatch = false;  ///< Some field differs.
  bool sites_differ = false;

  /// What ranks were at when they called it.
  struct Doing {
    std::int32_t step = 0;
    std::int64_t n_steps = 0;  ///< Of all their optimizers, until then.
    bool evaluates = false;
  };

  void arrive(const Signature& signature, const Doing& doing, RankRange who);
};

/// A call that all members made alike.
struct CommonCall {
  CallSite site = {};
  std::int64_t n_steps = 0;
};

/// Where the calls of a group differ.
struct Disagreement {
  std::int64_t seq = 0;
  Slot slot;
  CommonCall before;  ///< The call before, if it was alike.
  /// The calls after it, as long as all ranks make them at the very line of this one: a loop.
  std::vector<Slot> loop = {};
  bool loop_ended = false;
};

/// The calls of one rank at one line.
struct SiteCalls {
  CallSite site;
  std::int64_t n = 0;
  std::int64_t n_steps = 0;   ///< Of all optimizers, until the last of them.
  std::int64_t n_before = 0;  ///< Of them, those that came before the last of these steps.
};

/// What one rank called in one group so far.
struct Caller {
  std::int64_t n_calls = 0;
  std::int64_t next_seq = 0;  ///< After the last one that is recorded, or stood for.
  std::vector<SiteCalls> by_site;
  std::map<CallKey, std::int64_t> by_key;  // Calls without a site.

  /// After this many steps of all optimizers.
  void count(const Signature& signature, std::int64_t n_steps, std::int64_t n = 1);
  std::int64_t n_of(const Signature& signature) const;
  const SiteCalls* find(const CallSite& site) const;
};

/// What the members of one group called.
struct GroupState {
  std::int64_t first_seq = 0;  ///< All calls before it are closed.
  /// Open ones, by sequence number: that of a damaged trace may be any.
  std::map<std::int64_t, Slot> slots;
  CommonCall last;                             ///< The call before the oldest open slot.
  RankWrapperMap<Caller> callers;              ///< Of ranks alone: wrappers do not matter here.
  std::optional<Disagreement> mismatch;        ///< The first one; what follows it is a consequence.
  std::vector<Disagreement> site_differences;  ///< The first of each pair of sites.
  /// By sequence number: how many more ranks leave calls out from there on, fewer where it is
  /// negative. A line of a trace may stand for a million calls.
  std::map<std::int64_t, std::int32_t> left_out;
  std::int32_t n_leaving = 0;  ///< Ranks that left the oldest call out that is not closed.

  /// A rank made these calls and left them out of its trace.
  void leave_out(std::int64_t first_call, std::int64_t last_call);
  /// Closes the oldest slots, as long as all members have arrived at them. Returns how many calls
  /// were compared with another.
  std::int64_t close_complete(std::int32_t n_members);
  /// Closes what is left at the end; as above.
  std::int64_t close_all();

  const Caller* find(Rank rank) const;  ///< Null: it has called nothing.
  std::int64_t n_of(Rank rank, const Signature& signature) const;
};

bool same_site(const CallSite& a, const CallSite& b);

/// How much more often the ranks of `variant` made its call than the ranks of other variants did.
std::int64_t surplus(const GroupState& group, const Slot& slot, const Variant& variant);
/// Rank 0 alone in a call of a wrapper, in evaluation mode, where the others are not; or null.
const Variant* evaluating_alone(const Slot& slot);
/// The side that is out of step: the smaller one; among equals the one whose call the others make
/// less often (an extra call); and without that evidence the one that differs from the lowest
/// rank.
const Variant& offender(const GroupState& group, const Slot& slot);
/// Whether the ranks of `variant` make this call too, sooner or later.
bool makes(const GroupState& group, const Variant& variant, const Signature& call);
/// Whether the ranks of `odd` left out the call of `norm`, which they make at other times, and went on to a later one:
///
///     norm   A B   A B   A          both make A before B, as often as B
///     odd    A B   A B     B        here A is missing
bool is_skipped(const GroupState& group, const Variant& odd, const Variant& norm);
/// Whether all ranks had just made one call, and some of them make it again, without a step of an
/// optimizer in between, while others went on: a loop that goes over different things.
bool went_further(const Disagreement& found);
/// Whether two ranks make the same calls in the loop that `found` is in, one in another order than
/// the other.
bool permutes(const Disagreement& found, Rank one, Rank other);
/// Whether the call of `odd` looks like one too many: the others make none at its line, or fewer,
/// and its own ranks make the call of the others as usual, only later.
bool is_extra(const GroupState& group, const Variant& odd, const Variant& norm);
/// The side whose calls come one later on the ranks of `odd`, or null. Two sites of one collective
/// are a usual idiom. They mean an extra call only if one side made more calls than the other, its
/// site more often, and the other side's site comes on it too, later: in all as often, or, where a rank
/// waits before it has got so far, in each step as often.
const Variant* shifted_against(const GroupState& group, const Slot& slot, const Variant& odd);

}  // namespace lockstep::laws::calls
