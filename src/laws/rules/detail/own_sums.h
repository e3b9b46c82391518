// The sums over ranks that a program makes by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// The calls of each rank since its last reduction or step, as far as they are of one group: another
/// group's begin anew. They belong to no wrapper.
class OwnSums {
 public:
  struct Calls {
    std::int32_t group = -1;
    std::vector<std::int64_t> counts;  ///< Elements of each call.
  };

  /// A sum over ranks that the program asked for, and no wrapper.
  static bool is_one(const CollectiveEvent& call) {
    const Signature& signature = call.signature;
    const bool own = signature.site.scope == nullptr || *signature.site.scope == '\0';
    return own && call.phase == CollectivePhase::kPosted &&
           signature.op == CollectiveOp::kAllReduce && signature.reduce == ReduceOp::kSum;
  }

  /// Takes no notice of calls that are none.
  void on_call(const Event& event, const CollectiveEvent& call, RankRange who) {
    if (!is_one(call)) return;
    Calls& calls = calls_.at(outside(event), who);
    if (calls.group != call.group) calls.counts.clear();
    calls.group = call.group;
    calls.counts.push_back(call.signature.count);
  }

  void restart(const Event& event, RankRange who) {
    if (Calls* const calls = calls_.find(outside(event), who)) calls->counts.clear();
  }

  /// Null: there were none.
  const Calls* find(const Event& event, RankRange who) {
    const Calls* const calls = calls_.find(outside(event), who);
    return calls == nullptr || calls->counts.empty() ? nullptr : calls;
  }

  /// Whether these ranks have made the same sums until now.
  bool shares(const Event& event, RankRange who) const {
    return calls_.shares(outside(event), who);
  }

 private:
  static WrapperKey outside(const Event& event) { return {event.at.attempt, -1}; }

  RankWrapperMap<Calls> calls_;
};

}  // namespace lockstep::laws
