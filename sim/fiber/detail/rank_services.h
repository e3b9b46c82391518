// What each rank is given besides its turns: files, a memo, a clock that may be wrong.
#pragma once

#include "lockstep/sim/fiber/memory_files.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

class RankServices {
 public:
  /// Requires: `options` outlives the run.
  void start(const WorldOptions& options) {
    options_ = &options;
    own_files_.clear();
    own_memo_.clear();
  }

  FileSystem& files_of(Rank rank) {
    const std::size_t index = to_index(rank);
    if (index < options_->files_by_rank.size()) return *options_->files_by_rank[index];
    return options_->files != nullptr ? *options_->files : own_files_;
  }

  Memo& memo() { return options_->memo != nullptr ? *options_->memo : own_memo_; }

  Duration clock_skew_of(Rank rank) const {
    const std::size_t index = to_index(rank);
    return index < options_->clock_skews.size() ? options_->clock_skews[index] : Duration{};
  }

 private:
  const WorldOptions* options_ = nullptr;
  MemoryFiles own_files_;
  MemoryMemo own_memo_;
};

}  // namespace lockstep::sim
