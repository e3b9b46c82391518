// Steps of one rank that something overwrites with what was there before them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Ranks that share the steps out send each other what comes of them. If another rank sends a parameter than the
/// one that has stepped it, every rank takes over the value from before the step, and the parameter never trains:
///
///   rank 1   found a   step b   | found a   step c   | found a   ...
///   rank 0   (no step of it, sends a)
///
/// A program that goes back on purpose (a trial step, weights that are put back) does so on all ranks that step the parameter:
/// only those count that a single rank of several steps.
class UndoneUpdates {
 public:
  void on_event(const Event& event, const Wrappers& wrappers, const NameTable& names);
  void on_cohort(const CohortEvent& event, const Wrappers& wrappers, const NameTable& names);

  /// For each parameter of which every step, two or more, was undone: `update-overwritten`.
  std::vector<Finding> findings(const NameTable& names) const;

 private:
  struct Update {
    std::uint64_t now = 0;
    std::optional<std::uint64_t>
        before{};  ///< The last step, until it is known what became of that.
    std::int64_t n_seen = 0;
    std::int64_t n_undone = 0;
    std::int32_t first = 0;
  };

  /// Whether it may say more of what became of parameters that single ranks step.
  bool reads(const StateEvent& state) const;
  void on_state(const Event& event,
                const StateEvent& state,
                const WrapEvent* wrap,
                const NameTable& names);
  /// What a rank sends all others take over.
  void on_call(const CollectiveEvent& call);

  using OfTensor = std::map<std::int32_t, Update>;  // By rank.

  static void step(Update& update, std::uint64_t digest, std::int32_t opt);
  static void find(Update& update, std::uint64_t digest);

  std::map<std::pair<WrapperKey, NameId>, OfTensor> updates_;
  CallSite broadcast_at_;  // The last of the program's own.
};

}  // namespace lockstep::laws
