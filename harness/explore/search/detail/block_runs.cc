#include "lockstep/harness/explore/search/detail/block_runs.h"

#include <memory>
#include <utility>

namespace lockstep::explore::detail {

BlockRuns::BlockRuns(std::string path, std::uint64_t n_threads)
    : path_(std::move(path)), crew_(n_threads, [this]() -> Work {
        return [this, own = std::make_shared<const TrialRunner>(path_)](std::size_t i) {
          const Planned& run = (*block_)[i];
          trials_[i] = own->run(*run.scenario, {.strategy = run.strategy});
        };
      }) {}

std::vector<Result<Trial>> BlockRuns::make(const std::vector<Planned>& block) {
  block_ = &block;
  trials_.assign(block.size(), Result<Trial>(Trial{}));
  crew_.run(block.size());
  return std::move(trials_);
}

}  // namespace lockstep::explore::detail
