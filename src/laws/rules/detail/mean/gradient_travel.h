// In which form gradients go from rank to rank.
#pragma once

#include <map>
#include <optional>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// How a wrapper's gradients travel, as far as its hook says.
struct TravelManner {
  HookEffect effect = HookEffect::kMean;
  std::optional<DType> wire = {};  ///< Less precise than the gradients: their bound is its own.
};

/// What communication hooks announce, and what is sent in fact.
class GradientTravel {
 public:
  /// `hooks_may_lose`: LawPolicy's.
  explicit GradientTravel(bool hooks_may_lose) : hooks_may_lose_(hooks_may_lose) {}

  void on_hook(const Event& event, const CommHookEvent& hook) {
    hooks_[wrapper_of(event.at)] = hook.effect;
  }

  void on_call(const Signature& call) {
    const bool narrow = is_narrow(call.dtype);
    if (narrow && call.op == CollectiveOp::kAllReduce) narrow_ = call.dtype;
    sends_bytes_ = sends_bytes_ || call.dtype == DType::kU8;
  }

  TravelManner manner_of(WrapperKey wrapper) const {
    const auto hook = hooks_.find(wrapper);
    if (hook == hooks_.end() || !hooks_may_lose_) return {};
    const bool rounds = hook->second == HookEffect::kRounded;
    if (!rounds || sends_bytes_) return {.effect = hook->second};
    return {.effect = hook->second, .wire = halves()};
  }

  /// The type of 16 bits in which some gradients were sent, if any were.
  std::optional<DType> halves() const { return narrow_; }

 private:
  bool hooks_may_lose_;
  std::map<WrapperKey, HookEffect> hooks_;
  std::optional<DType> narrow_;
  bool sends_bytes_ = false;  // Some call's numbers are bytes.
};

}  // namespace lockstep::laws
