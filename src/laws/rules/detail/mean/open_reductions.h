// The reductions of gradients that are under way.
#pragma once

#include <map>
#include <utility>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/mean/open_reduction.h"

namespace lockstep::laws {

/// By the place where their ranks meet. Once one reduction has been closed, the next one that is
/// opened has its memory; the one that was asked for last is found without a search.
class OpenReductions {
 public:
  /// The one that meets here, opened if nothing of it has been seen.
  OpenReduction& at(const AlignmentKey& alignment) {
    if (alignment == last_at_ && last_ != nullptr) return *last_;
    const auto [found, is_new] = open_.try_emplace(alignment);
    if (is_new) std::swap(found->second, spare_);
    last_at_ = alignment;
    last_ = &found->second;
    return found->second;
  }

  /// Requires: it is open.
  void close(const AlignmentKey& alignment) {
    const auto found = open_.find(alignment);
    std::swap(found->second, spare_);
    spare_.restart();
    open_.erase(found);
    last_ = nullptr;
  }

  std::size_t size() const { return open_.size(); }

 private:
  std::map<AlignmentKey, OpenReduction> open_;
  OpenReduction spare_;  // Empty, with memory.
  AlignmentKey last_at_;
  OpenReduction* last_ = nullptr;  // What open_ holds at last_at_.
};

}  // namespace lockstep::laws
