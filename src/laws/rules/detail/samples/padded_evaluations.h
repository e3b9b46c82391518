// Evaluations whose samplers repeat samples, and what is added up after them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A sampler makes ranks even by repeating samples. A sum over the ranks counts these twice, unless the
/// program leaves them out of what it adds, which no event shows; hence advice. One that evaluates fewer rows on some rank
/// than the sampler has given that is spared.
///
///   epoch (pads)   eval   sample ... sample   all_reduce
///                         all that the rank draws
///
/// Ranks do the same in an evaluation: of what they draw, one of them is looked at.
class PaddedEvaluations {
 public:
  void on_epoch(const Event& event, const EpochEvent& epoch);
  void on_phase(const Event& event, const PhaseEvent& phase);
  void on_samples(const Event& event, const SampleEvent& samples);
  /// Rows of a forward, or of a loss that is only looked at.
  void on_loss(const Event& event, const LossEvent& loss);

  void on_end(const Event& event) { close(to_int(event.rank)); }

  void on_collective(const CollectiveEvent& collective, RankRange who);

  /// The program reports its metrics: these are judged, and there is nothing to advise.
  void on_metric() { reports_ = true; }

  /// "A-padding-counted".
  std::vector<Advice> advice(const NameTable& names) const;

 private:
  using Pass = std::tuple<NameId, std::int32_t>;  // Split, wrapper.

  /// An evaluation, and the call that adds up what it found.
  struct Counted {
    EpochEvent epoch;
    CallSite site;
  };

  /// What a rank does in an evaluation.
  struct Rows {
    std::map<NameId, std::int64_t> drawn;  ///< By split.
    std::map<NameId, std::int64_t>
        n_evaluated;  ///< By what has evaluated them: the model, a loss function.
  };

  bool watches(const Event& event) const;
  void close(std::int32_t rank);

  std::optional<Rank> watched_;
  bool evaluates_ = false;
  bool reports_ = false;
  std::map<NameId, EpochEvent> padded_;   // By split: the last pass.
  std::map<Pass, std::int64_t> n_drawn_;  // In the current evaluation.
  std::map<NameId, Counted> counted_;     // By split: the first one.
  std::map<std::int32_t, Rows> rows_;     // By rank that evaluates.
  std::set<NameId> left_out_of_;          // Splits of which a rank has evaluated less than it drew.
};

}  // namespace lockstep::laws
