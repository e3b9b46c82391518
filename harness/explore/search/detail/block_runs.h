// The runs of a search, many at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/harness/explore/search/crew.h"
#include "lockstep/harness/explore/search/detail/shelf.h"
#include "lockstep/harness/explore/search/trial.h"

namespace lockstep::explore::detail {

/// Makes runs, a block at a time, on threads that find their worlds warm from block to block.
class BlockRuns {
 public:
  /// `path` as in TrialRunner.
  BlockRuns(std::string path, std::uint64_t n_threads);

  /// Returns the trials of a block, in its order.
  std::vector<Result<Trial>> make(const std::vector<Planned>& block);

 private:
  std::string path_;
  const std::vector<Planned>* block_ = nullptr;
  std::vector<Result<Trial>> trials_;
  Crew crew_;
};

}  // namespace lockstep::explore::detail
