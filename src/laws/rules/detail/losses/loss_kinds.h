// What the ranks' backward passes start from.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/losses/loss_graphs.h"
#include "lockstep/laws/rules/detail/losses/uneven_means.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// The first loss of each rank. Gradients are averaged with equal weights, so a loss that is a sum over its
/// terms on one rank counts more than a mean on the others. Ranks may train different tasks on purpose, hence no
/// law says that losses must be alike; one with a divisor of its own may weigh ranks on purpose, and is left out.
/// The second loss shows whether a rank's own function varies, as where classes are weighed anew for each batch.
class LossKinds {
 public:
  /// `n_averaged`: ranks over which a wrapper averages the loss's gradients, if it is one.
  void on_event(const Event& event, std::int32_t n_averaged);
  void on_cohort(const CohortEvent& event, std::int32_t n_averaged);

  /// "A-losses-differ", or else what their graphs and their numbers of terms say.
  std::vector<Advice> advice(const NameTable& names) const;

 private:
  struct Kind {
    NameId function = kNoName;
    LossReduction reduction = LossReduction::kMean;
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };

  struct Seen {
    Kind first;
    std::optional<Kind> second;
  };

  using SeenByRank = std::map<std::int32_t, Seen>;

  using Sides = std::map<Kind, std::vector<Rank>>;

  static bool vary(const SeenByRank& by_rank);
  static Sides sides_of(const SeenByRank& by_rank);
  static std::string text(const Kind& kind, const NameTable& names);

  std::map<WrapperKey, SeenByRank> seen_;
  LossGraphs graphs_;
  UnevenMeans means_;
};

}  // namespace lockstep::laws
