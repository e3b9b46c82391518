// Ranks that compute gradients which nothing reduces, or no step of theirs uses, as far as a trace shows.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Backward passes of several ranks in an attempt in which no model is wrapped, no loop was seen that reduces gradients
/// by itself, and no step was recorded: without this word, a program that forgot its wrapper would pass all laws like
/// one that did everything right. A model that is shared out (FSDP) is wrapped in a way that is not checked. Where steps
/// are recorded, as the simulator does, what they leave is compared.
///
/// And ranks that send their gradients into what a loop of other ranks reduces and steps with, without a step of their
/// own. One that gets as much from others as a model in return is a worker of a parameter server.
class UnwrappedBackwards {
 public:
  void on_event(const Event& event);
  /// Of losses.
  void on_cohort(const CohortEvent& event);
  void on_wrap(const Event& event, const WrapEvent& wrap, RankRange who);
  void on_step(const Event& event, RankRange who);
  void on_call(const Event& event, const CollectiveEvent& call, RankRange who);

  /// "A-nothing-wrapped" or, where sums are of parts or of some ranks, "A-shared-out", about what was checked: ranks may
  /// train models of their own, or share one; "A-same-losses" and "A-never-steps".
  std::vector<Advice> advice() const;

 private:
  /// What a rank without a step has sent into sums, and what it has been given, since it computes gradients. Events of
  /// one rank alone may come late, so nothing is known of what other ranks do meanwhile.
  struct Elements {
    std::int64_t n_sums = 0;
    std::int64_t summed = 0;
    std::int64_t given = 0;
    std::int64_t n_in_parts = 0;   ///< Sums of which it gets a part;
    std::int64_t n_averaged = 0;   ///< of them, averages over all ranks.
    std::int64_t n_in_groups = 0;  ///< Sums within a smaller group.

    void add(const CollectiveEvent& call);
  };

  struct Attempt {
    std::set<Rank> compute;    ///< Losses outside of wrappers that a backward may follow.
    std::set<Rank> step;       ///< With or without a wrapper.
    bool followed = false;     ///< A wrapper, or a step.
    std::set<Rank> loops;      ///< Where a loop was seen that reduces by itself.
    std::int64_t n_steps = 0;  ///< Of those.
    std::map<Rank, Elements> idle;
    std::map<Rank, std::vector<double>> losses;  ///< The first of each rank that computes.
  };

  static bool all_have(const Attempt& attempt, std::int64_t Elements::*calls);
  static bool adds_up_tensors(const Attempt& attempt);
  static bool reads_alike(const Attempt& attempt);
  static Advice unchecked(const Attempt& attempt);
  static Advice same_losses(const Attempt& attempt);
  static bool is_worker(const Elements& elements);
  static std::vector<Rank> without_steps(const Attempt& attempt);

  std::map<std::int32_t, Attempt> attempts_;
};

}  // namespace lockstep::laws
