// Modules that no wrapper has and nothing trains: whether each rank drew its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A wrapper broadcasts what rank 0 has drawn for its model. A module beside it, such as a random projection that makes
/// targets, is each rank's own where ranks draw from seeds of their own.
class FrozenModules {
 public:
  /// Takes parts kDrawn and kFrozen, and leaves others alone.
  void on_data(const Event& event, const DataEvent& data);

  /// "A-drawn-apart", of modules that hold other values on each of `n_ranks` ranks and keep them, where no two ranks had
  /// drawn the same for the wrapped model.
  std::optional<Advice> advice(std::int32_t n_ranks, const NameTable& names) const;

 private:
  struct Held {
    std::uint64_t digest = 0;
    std::int64_t n = 0;
    bool changed = false;
  };

  using HeldByRank = std::map<std::int32_t, Held>;

  static bool is_apart(const HeldByRank& by_rank, std::int32_t n_ranks, std::int64_t fewest);

  std::map<std::int32_t, HeldByRank> drawn_;  // By attempt.
  std::map<std::pair<std::int32_t, NameId>, HeldByRank> modules_;
};

}  // namespace lockstep::laws
