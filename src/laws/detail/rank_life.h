// What one rank did in one attempt, as far as its calls and its end show.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/laws/rules/detail/calls/left_out.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A stream of numbered calls: a group, or one direction between two ranks with one tag.
struct Channel {
  std::int32_t group = 0;
  std::int32_t source = -1;  ///< -1: a collective of the whole group.
  std::int32_t target = -1;
  std::int32_t tag = 0;
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

struct OpenCall {
  Channel channel;
  std::int64_t seq = 0;
  Signature signature;
  std::int32_t opt = 0;
  VirtualTime posted = {};
  bool failed = false;
  bool timed_out = false;
  VirtualTime gave_up = {};  ///< If it has timed out.
};

/// One rank's life in one attempt.
struct RankLife {
  EndOutcome outcome = EndOutcome::kNone;  ///< kNone: no end event.
  EndReason reason = EndReason::kNone;
  std::string detail;  ///< For messages.
  std::optional<EventKind> last_kind;
  std::int32_t last_opt = 0;
  Signature last_call;
  std::int64_t n_forwards = 0;
  bool is_evaluating = false;   ///< A wrapped model is in evaluation mode.
  std::int32_t last_sync = -1;  ///< The last synchronising forward of any wrapper.
  std::set<std::int32_t> made;  ///< Groups.
  std::map<Channel, std::int64_t> n_posted;
  std::vector<OpenCall> open;  // A handful at a time.

  const OpenCall* find(const Channel& channel, std::int64_t seq) const {
    for (const OpenCall& call : open) {
      if (call.seq == seq && call.channel == channel) return &call;
    }
    return nullptr;
  }

  void close(const Channel& channel, std::int64_t seq) {
    std::erase_if(open,
                  [&](const OpenCall& call) { return call.seq == seq && call.channel == channel; });
  }

  /// It made calls, and the forwards before them, that are not recorded. Returns: how many calls.
  std::int64_t leave_out(const Channel& channel, const CollectiveEvent& call, std::int32_t sync) {
    std::int64_t& n = n_posted[channel];
    const std::int64_t n_more = n_left_out(call, n);
    if (n_more == 0) return 0;
    n += n_more;
    last_call = call.signature;
    n_forwards += std::max(0, sync - last_sync);
    last_sync = std::max(last_sync, sync);
    return n_more;
  }

  /// It was stopped because it and others ran without end, and waits in no call.
  bool is_spinning() const {
    return outcome == EndOutcome::kStuck && open.empty() && reason == EndReason::kLivelock;
  }

  /// By an agent or a world that ends all ranks because another one failed.
  bool was_ended() const { return reason == EndReason::kOtherFailed; }
};

using RankLives = std::map<std::int32_t, RankLife>;

inline bool any_ended(const RankLives& lives) {
  return std::any_of(lives.begin(), lives.end(), [](const auto& entry) {
    return entry.second.outcome != EndOutcome::kNone;
  });
}

/// A rank has left no trace, and all that have ended as they should: it made its calls, or they
/// would have waited for it.
inline bool is_unseen(const RankLives& lives, std::int32_t rank) {
  return !lives.contains(rank) && std::all_of(lives.begin(), lives.end(), [](const auto& entry) {
    return entry.second.outcome == EndOutcome::kOk;
  });
}

}  // namespace lockstep::laws
