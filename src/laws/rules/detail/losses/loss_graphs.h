// Which operations the ranks' first backward passes go through.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Ranks that run the same program go through the same operations. Those of one rank may vary with its data; where
/// none do, and some rank goes through others than the rest every time, the programs differ: another activation, a loss
/// that one rank scales, a term that it lacks. Ranks may train different tasks on purpose, hence advice.
class LossGraphs {
 public:
  void on_loss(const Event& event, const LossEvent& loss);

  /// "A-operations-differ".
  std::vector<Advice> advice(const NameTable& names) const;

 private:
  struct Seen {
    NameId graph = kNoName;
    int n = 1;
    bool varies = false;
  };

  using SeenByRank = std::map<std::int32_t, Seen>;

  /// By graph; empty where a rank's vary or have been seen once only.
  static std::map<NameId, std::vector<Rank>> sides_of(const SeenByRank& by_rank);

  std::map<WrapperKey, SeenByRank> seen_;
};

}  // namespace lockstep::laws
