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
#include "lockstep/real/group/connection.h"

namespace lockstep::peers {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// Small values under names. A value is present whole or not at all.
class FileStore {
 public:
  FileStore() = default;

  /// `prefix` keeps the names of one group apart from another's, `writer` this rank's unfinished
  /// files from another's.
  FileStore(const std::string& folder, const std::string& prefix, std::int32_t writer)
      : start_(folder + "/" + prefix + "."), writer_(writer) {}

  Outcome set(const std::string& name, std::span<const std::byte> value) const;
  std::optional<Bytes> read(const std::string& name) const;

  /// Returns: whether this call took it down; of several only one does.
  bool remove(const std::string& name) const;

 private:
  std::string start_;
  std::int32_t writer_ = 0;
};

/// Pauses that grow from nothing to a millisecond, for loops that look at files or devices.
class Backoff {
 public:
  void pause();

 private:
  std::int32_t n_pauses_ = 0;
};

/// A group that watches over its members: who gave up, who is gone.
class PeerMonitor {
 public:
  /// Requires: `member` outlives it.
  explicit PeerMonitor(const Membership& member);

  /// Notifies the others that this rank gave up, and why.
  void report_failure(const std::string& why) const;

  /// Notifies the others that this rank no longer needs the group: its exit is not a loss.
  void announce_leaving() const;
  bool has_left(std::int32_t world_rank) const;

  /// What keeps the members from going on, or an ending of kOk: one gave up, or its process is
  /// gone. Looks at every process now and then only.
  Completion failure();

  const FileStore& store() const { return store_; }

 private:
  Completion exited_peer() const;

  const Membership* member_;
  std::int32_t own_;
  FileStore store_;
  std::int32_t n_checks_ = 0;
};

/// The values of all members, rank after rank, or why there is not one from each.
struct GatheredBytes {
  Completion completion;
  Bytes all;
};

/// Exchanges values of one length. `round` differs each time and is the same on all members.
/// Requires: called by all members in the same order.
/// Errors: kTimedOut names the ranks that did not arrive, kPeerLost those that are gone or gave up.
GatheredBytes all_gather_bytes(PeerMonitor& monitor,
                               const Membership& member,
                               std::int64_t round,
                               std::span<const std::byte> own,
                               std::chrono::milliseconds timeout);

/// "rank 2", "ranks 0, 2 and 3".
std::string listed_ranks(std::span<const std::int32_t> ranks);

}  // namespace lockstep::peers
