// Evaluations of shares whose results stay apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A sampler divides the data of an evaluation, and no call brings together what the ranks find: whatever is printed, kept or
/// stopped by it is true of one rank's share alone.
///
///   epoch (n_replicas > 1)   eval   sample ... sample   train         advice, unless a call of the program's own
///                                                                     follows that combines values of several ranks
///
/// The calls of one rank are looked at: the first that evaluates. A call of a line that ran in training before counts only between an
/// evaluation and what follows it. Programs may add up later what several evaluations found, or have each rank write a file. A batch or
/// two between steps do not evaluate: a model may label what it is trained on next.
class ApartEvaluations {
 public:
  void on_epoch(const Event& event, const EpochEvent& epoch);
  void on_phase(const Event& event, const PhaseEvent& phase);
  void on_samples(const Event& event, const SampleEvent& samples);
  void on_collective(const CollectiveEvent& collective, RankRange who);
  void on_snapshot(const Event& event, const SnapshotEvent& snapshot);
  void on_end(const Event& event, const EndEvent& end);

  /// The program reports its metrics: these are judged, and there is nothing to advise.
  void on_metric() { reports_ = true; }

  /// "A-evaluated-apart", once per split.
  std::vector<Advice> advice(const NameTable& names) const;

 private:
  /// The rank's part of a split.
  struct Share {
    EpochEvent epoch;
    std::int64_t n_drawn = 0;  ///< In one evaluation.
    bool evaluated = false;    ///< All of it.
    bool over = false;         ///< The program went on, or ended well.
    bool combined = false;     ///< Also if only once.
  };

  using Line = std::pair<std::string, std::int32_t>;

  void go_on();

  std::optional<Rank> watched_;
  std::set<Rank> evaluating_;
  std::set<Line> lines_of_training_;
  std::map<NameId, Share> shares_;
  std::map<NameId, std::set<Rank>> evaluators_;  // By split: who draws of it in evaluation.
  std::set<NameId> trained_;                     // Splits that are drawn in training, too.
  bool reports_ = false;
  bool writes_ = false;  // Several ranks, as they evaluate.
};

}  // namespace lockstep::laws
