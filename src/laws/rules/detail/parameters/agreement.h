// Whether ranks agreed on what led to their parameters: the evidence for why they differ.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/norm_bounds.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Whether ranks agreed on something, kept small: the first rank's words and which of them were
/// contradicted.
class Agreement {
 public:
  void add(std::span<const std::uint64_t> words, RankRange who) {
    n_ranks_ += who.n;
    if (n_ranks_ == who.n) {
      first_.assign(words.begin(), words.end());
      differs_.assign(words.size(), 0);
    } else if (words.size() == first_.size()) {
      // Words differ where any bit of this is set.
      for (std::size_t i = 0; i < words.size(); ++i) differs_[i] |= words[i] ^ first_[i];
    }
  }

  bool known() const { return n_ranks_ > 1; }

  bool differs(std::size_t i) const { return i < differs_.size() && differs_[i] != 0; }

  bool differs() const {
    return std::any_of(
        differs_.begin(), differs_.end(), [](std::uint64_t bits) { return bits != 0; });
  }

 private:
  std::int32_t n_ranks_ = 0;
  std::vector<std::uint64_t> first_;
  std::vector<std::uint64_t> differs_;
};

/// How ranks clipped between a reduction and a step: the number of ranks for each kind of call, of
/// which a step has a handful. By what factor is left out: with one limit and order, it differs where
/// gradients did before.
class Clippings {
 public:
  void add(const ClipEvent& clip, RankRange who) {
    const Call call{clip.kind, clip.layout, clip.limit, clip.norm_type};
    const auto found = std::find_if(
        calls_.begin(), calls_.end(), [&](const Counted& one) { return one.call == call; });
    if (found == calls_.end()) {
      calls_.push_back({call, who.n});
    } else {
      found->n_ranks += who.n;
    }
  }

  /// Whether some of that many ranks clipped, and not all of them alike.
  bool differ(std::int32_t n_ranks) const {
    const auto by_some = [&](const Counted& one) { return one.n_ranks % n_ranks != 0; };
    return n_ranks > 0 && std::any_of(calls_.begin(), calls_.end(), by_some);
  }

 private:
  struct Call {
    ClipKind kind = ClipKind::kNorm;
    LayoutId layout = kNoLayout;
    double limit = 0.0;
    double norm_type = 2.0;
    friend bool operator==(const Call&, const Call&) = default;
  };

  struct Counted {
    Call call;
    std::int32_t n_ranks = 0;
  };

  std::vector<Counted> calls_;
};

/// What happened on the ranks before they were compared: the evidence for a cause.
struct StepEvidence {
  Agreement post;
  Agreement used;
  Agreement unused;  ///< Which parameters had no gradient to use.
  LayoutId post_layout = kNoLayout;
  LayoutId used_layout = kNoLayout;
  Agreement optimizer;
  Agreement rates;  ///< lr, skipped and loss scale of the step.
  bool rates_differ = false;
  bool skips_differ = false;
  bool scales_differ = false;
  bool scaled = false;
  double scale = 1.0;  ///< Of any rank: asked for where the ranks agree.
  bool wrapped_forward = false;
  bool synchronizing = false;  ///< A forward was to be followed by a reduction.
  Clippings clippings;
  GradientsSeen averaged{};  ///< The first rank's, as the reduction left them.
  /// What steps used instead, each once: where many ranks are at odds, the first few tell enough.
  std::vector<GradientsSeen> variants{};
  bool cleared = false;  ///< Gradients were forgotten after a reduction, on any rank.

  /// A backward: its micro-step, and where it stands among its rank's events.
  struct Backward {
    std::int32_t micro = -1;
    std::uint64_t index = 0;
    friend auto operator<=>(const Backward&, const Backward&) = default;
  };

  Backward reduced{};  ///< The last one that reduced, on any rank.
  Backward local{};    ///< The last one that did not.

  /// A contribution came after the last reduction.
  bool is_late() const { return reduced.micro >= 0 && local > reduced; }

  /// No contribution was to be reduced.
  bool is_local() const { return reduced.micro < 0 && local.micro >= 0 && !synchronizing; }
};

}  // namespace lockstep::laws
