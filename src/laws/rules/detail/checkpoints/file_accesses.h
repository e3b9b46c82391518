// Files that one rank reads or writes while another may still be writing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Only after a call that both take part in does a reader know that a writer has finished:
///
///     rank 0   all_reduce 7 | write F | barrier 8
///     rank 1   all_reduce 7 |         | barrier 8 | read F     in order
///     rank 1   all_reduce 7 | read F  | barrier 8              may find an older F, a part of it, or none
///
/// Where the last call of two ranks is the same one, or neither has made one, there is none between them. Where they differ,
/// there may be, by way of other ranks: such reads are not judged. Of two writes the same holds:
///
///     rank 0   all_reduce 7 | write F          what rank 0 wrote is lost,
///     rank 1   all_reduce 7 | write F          or mixed with what rank 1 wrote
class FileAccesses {
 public:
  /// A rank's write or read of a file, after its last call.
  struct Access {
    std::int32_t attempt = 0;
    std::int64_t step = 0;
    std::int32_t rank = 0;
    std::string path;
  };

  void on_call(const Event& event, const CollectiveEvent& call, RankRange who);

  void on_write(Access access) { keep(writes_, std::move(access), false); }

  /// Whatever was in the file is gone.
  void on_overwrite(Access access) { keep(writes_, std::move(access), true); }

  void on_read(Access access) { keep(reads_, std::move(access), false); }

  struct Judged {
    std::int64_t n = 0;  ///< Reads of what another rank has written in the same attempt.
    /// At most one of each: "A-read-early", with the lowest writer, and "A-overwritten".
    std::vector<Advice> advice;
  };

  Judged judged() const;

 private:
  static constexpr std::size_t kMost = 4096;  // Accesses of each kind; of more, the first.

  struct Call {
    std::int32_t attempt = -1;
    std::int32_t group = -1;
    std::int64_t seq = -1;
    CollectiveOp op = CollectiveOp::kBarrier;
    friend bool operator==(const Call&, const Call&) = default;
  };

  struct Made {
    Call call;
    std::uint64_t nth = 0;  ///< Of all that were seen here; 0 = none.
  };

  struct Placed {
    Access access;
    Call after;
    bool anew = false;
  };

  void keep(std::vector<Placed>& accesses, Access access, bool anew) const;
  bool extends(const Placed& write) const;
  std::optional<Advice> overwritten() const;
  Call last_of(std::int32_t rank) const;
  std::vector<const Placed*> writes_of_others(const Placed& read) const;

  Made all_;               // The last that ranks in step made.
  std::vector<Made> own_;  // By rank: the last that it made alone.
  std::uint64_t n_calls_ = 0;
  std::vector<Placed> writes_;
  std::vector<Placed> reads_;
};

}  // namespace lockstep::laws
