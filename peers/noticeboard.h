// What members of a group tell each other outside their library: small files in the session's
// folder.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/peers/connection.h"

namespace lockstep::peers {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// Small values under names. A value is there whole or not at all.
class Noticeboard {
 public:
  Noticeboard() = default;

  /// `prefix` keeps the names of one group apart from another's, `writer` this rank's unfinished
  /// files from another's.
  Noticeboard(const std::string& folder, const std::string& prefix, std::int32_t writer)
      : start_(folder + "/" + prefix + "."), writer_(writer) {}

  Outcome pin(const std::string& name, std::span<const std::byte> value) const;
  std::optional<Bytes> read(const std::string& name) const;

  /// Returns: whether this call took it down; of several only one does.
  bool take_down(const std::string& name) const;

 private:
  std::string start_;
  std::int32_t writer_ = 0;
};

/// Pauses that grow from nothing to a millisecond, for loops that look at files or devices.
class Patience {
 public:
  void pause();

 private:
  std::int32_t n_pauses_ = 0;
};

/// A group that watches over its members: who gave up, who is gone.
class Watch {
 public:
  /// Requires: `member` outlives it.
  explicit Watch(const Membership& member);

  /// Tells the others that this rank gave up, in words.
  void give_up(const std::string& why) const;

  /// Tells the others that this rank needs the group no more: its end is no loss.
  void sign_out() const;
  bool has_left(std::int32_t world_rank) const;

  /// What keeps the members from going on, or an ending of kOk: one gave up, or its process is
  /// gone. Looks at every process now and then only.
  Ending trouble();

  const Noticeboard& board() const { return board_; }

 private:
  Ending lost_process() const;

  const Membership* member_;
  std::int32_t own_;
  Noticeboard board_;
  std::int32_t n_looks_ = 0;
};

/// The values of all members, rank after rank, or why there is not one from each.
struct RollCall {
  Ending ending;
  Bytes all;
};

/// Exchanges values of one length. `round` is another number each time, the same on all members.
/// Requires: called by all members in the same order.
/// Errors:   kTimedOut names the ranks that did not come, kPeerLost who is gone or gave up.
RollCall call_roll(Watch& watch,
                   const Membership& member,
                   std::int64_t round,
                   std::span<const std::byte> own,
                   std::chrono::milliseconds timeout);

/// "rank 2", "ranks 0, 2 and 3".
std::string listed_ranks(std::span<const std::int32_t> ranks);

}  // namespace lockstep::peers
