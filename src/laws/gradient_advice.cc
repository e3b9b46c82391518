#include "lockstep/laws/rules/detail/gradient_advice.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "lockstep/laws/rules/detail/precision.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kTakenElsewhere =
    "The step uses other parameters' gradients: unpack them in the order in which they were "
    "packed.";

/// One value that is not finite leaves none of its average finite.
bool is_average_finite(const OpenReduction& open) {
  return !open.published.empty() &&
         std::ranges::all_of(open.published, [](const Published& published) {
           return std::ranges::all_of(published.sketches, is_finite);
         });
}

}  // namespace

std::optional<GradientAdvice::NonFinite> GradientAdvice::non_finite(const AlignmentKey& alignment,
                                                                    const OpenReduction& open,
                                                                    const NameTable& names) {
  const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(alignment.layout));
  if (is_average_finite(open)) return std::nullopt;
  for (const Local& local : open.locals) {
    for (std::size_t i = 0; i < layout.size(); ++i) {
      const Sketch* const sketch = open.sketch(local, i);
      if (sketch == nullptr || is_finite(*sketch)) continue;
      return NonFinite{alignment.wrapper, open.opt, local.rank, layout[i]};
    }
  }
  for (const Published& published : open.published) {
    for (std::size_t i = 0; i < layout.size(); ++i) {
      if (bit(published.undefined, i) || is_finite(published.sketches[i])) continue;
      return NonFinite{alignment.wrapper, open.opt, -1, layout[i]};
    }
  }
  return std::nullopt;
}

/// Whether all ranks put in the same, and not nothing.
bool GradientAdvice::are_same(const OpenReduction& open) {
  for (const Local& local : open.locals) {
    for (std::size_t i = 0; i < open.n_tensors; ++i) {
      const Sketch* const first = open.sketch(open.locals.front(), i);
      const Sketch* const own = open.sketch(local, i);
      if ((first == nullptr) != (own == nullptr)) return false;
      if (first != nullptr && !(*first == *own)) return false;
    }
  }
  return true;
}

void GradientAdvice::on_reduction(const AlignmentKey& alignment,
                                  const OpenReduction& open,
                                  const NameTable& names) {
  if (!used_ && !suspect_) suspect_ = non_finite(alignment, open, names);
  if (open.locals.size() < 2) return;
  const bool any = std::any_of(
      open.sketches.begin(), open.sketches.end(), [](const Sketch& s) { return s.l1 > 0.0; });
  if (!any) return;
  Reductions& all = reductions_[alignment.wrapper];
  if (all.n++ == 0) {
    const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(alignment.layout));
    all.first = layout.empty() ? kNoName : layout.front();
  }
  if (are_same(open)) ++all.n_same;
}

void GradientAdvice::on_step(const Event& event, const StepEvent& step, RankRange who) {
  unwrapped_.on_step(event, who);
  if (!suspect_ || wrapper_of(event.at) != suspect_->wrapper || event.at.opt < suspect_->step)
    return;
  if (!step.skipped && !used_) used_ = suspect_;
  suspect_.reset();
}

std::vector<Advice> GradientAdvice::same_gradients(const NameTable& names) const {
  std::vector<Advice> found;
  for (const auto& [wrapper, all] : reductions_) {
    if (all.n < kFewest || all.n_same < all.n) continue;
    const std::string which =
        reductions_.size() == 1 ? ""
                                : " of the wrapper of `" + std::string(names.text(all.first)) + "`";
    found.push_back(
        {"A-same-gradients",
         "in all " + std::to_string(all.n) + " reductions" + which +
             " every rank contributed the same gradient: the ranks train on the same samples, with "
             "the same masks, noise or environments. Shard the data, and seed noise by rank."});
  }
  return found;
}

std::vector<Advice> GradientAdvice::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  if (used_) {
    const std::string where = used_->rank < 0
                                  ? "the local gradients are finite, but their reduction is not"
                                  : "it came from rank " + std::to_string(used_->rank);
    advice.push_back({"A-non-finite",
                      "step " + std::to_string(used_->step) + " used a non-finite gradient of `" +
                          std::string(names.text(used_->tensor)) + "`: " + where +
                          ". Skip such a step on all ranks."});
  }
  std::ranges::move(same_gradients(names), std::back_inserter(advice));
  std::ranges::move(unwrapped_.advice(), std::back_inserter(advice));
  if (auto taken = taken_elsewhere_.advice("A-taken-elsewhere", kTakenElsewhere, names)) {
    advice.push_back(*std::move(taken));
  }
  return advice;
}

}  // namespace lockstep::laws
