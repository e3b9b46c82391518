#include "lockstep/laws/rules/detail/contributions.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

namespace lockstep::laws {

SketchSum OwnReduction::sum_of(const Share& share, std::size_t i) {
  SketchSum sum;
  for (const KeptGradients& one : share.added) {
    if (i >= one.sketches.size() || bit(one.undefined, i)) continue;
    if (sum.n_terms == 0) {
      sum.set(one.sketches[i], one.digests[i]);
    } else {
      sum.add(one.sketches[i], one.digests[i]);
    }
  }
  return sum;
}

std::optional<std::size_t> OwnReduction::used_place(std::size_t i, const NameTable& names) const {
  const NameId name = names.layout(layout)[i];
  const std::span<const NameId> list = names.layout(used_layout);
  const auto at = std::find(list.begin(), list.end(), name);
  if (at == list.end()) return std::nullopt;
  const auto place = static_cast<std::size_t>(at - list.begin());
  const bool everywhere = std::all_of(shares.begin(), shares.end(), [&](const Share& share) {
    return place < share.used.digests.size() && !bit(share.used.undefined, place);
  });
  return everywhere ? std::optional(place) : std::nullopt;
}

bool OwnReduction::is_used_alike(std::size_t i, const NameTable& names) const {
  const std::optional<std::size_t> place = used_place(i, names);
  return place && std::all_of(shares.begin(), shares.end(), [&](const Share& share) {
           return share.used.digests[*place] == shares.front().used.digests[*place];
         });
}

bool OwnReduction::is_added_apart(std::size_t i) const {
  const auto word = [i](const KeptGradients& one) {
    return bit(one.undefined, i) || i >= one.digests.size() ? 0 : one.digests[i];
  };
  return std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
    return !std::equal(
        share.added.begin(),
        share.added.end(),
        shares.front().added.begin(),
        shares.front().added.end(),
        [&](const KeptGradients& a, const KeptGradients& b) { return word(a) == word(b); });
  });
}

std::vector<NameId> OwnReduction::used_alike(const NameTable& names) const {
  const std::span<const NameId> tensors = names.layout(layout);
  std::vector<NameId> alike;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (is_used_alike(i, names)) alike.push_back(tensors[i]);
  }
  return alike;
}

std::vector<NameId> OwnReduction::reduced(const NameTable& names) const {
  for (std::size_t i = 0; i < names.layout(layout).size(); ++i) {
    if (is_used_alike(i, names) && is_added_apart(i)) return used_alike(names);
  }
  return {};
}

bool Contributions::starts_from_mean(const LossEvent& loss) {
  return loss.reduction == LossReduction::kMean && loss.n_terms == 0;
}

void Contributions::on_cohort(const CohortEvent& event,
                              const NameTable& names,
                              std::int32_t n_members) {
  const Event& first = *event.first;
  const auto* loss = std::get_if<LossEvent>(&first.body);
  if (loss != nullptr && !loss->grad) return;
  const WrapperKey wrapper = wrapper_of(first.at);
  const RankRange all = all_ranks(event);
  // Of a loss all but its value counts.
  const bool alike =
      event.equal() || (loss != nullptr && event.similarity <= Similarity::kSameShape);
  bool together =
      windows_.shares(wrapper, all) && (alike || std::holds_alternative<GradEvent>(first.body));
  if (together && std::holds_alternative<GradEvent>(first.body)) {
    // As long as every backward reduces there is nothing to keep.
    const Window* const window = windows_.find(wrapper, all);
    together = window == nullptr || (!window->quiet && !window->inside && window->added.empty());
  }
  deliver(event, together, [&](const Event& own, RankRange who) {
    observe(own, who, names, n_members);
  });
}

void Contributions::observe(const Event& event,
                            RankRange who,
                            const NameTable& names,
                            std::int32_t n_members) {
  const WrapperKey wrapper = wrapper_of(event.at);
  if (wrapper.wrapper < 0) return;
  if (const auto* loss = std::get_if<LossEvent>(&event.body)) {
    on_loss(*loss, windows_.at(wrapper, who));
  } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
    // A loop may call another method of its module than forward: it never reduces, with or without one.
    if (wrap->synchronizes) return;
    windows_.at(wrapper, who).quiet = true;
    any_ = true;
  } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
    if (!forward->grad || !forward->through_wrapper) return;
    Window& window = windows_.at(wrapper, who);
    window.quiet = !forward->synchronizing;
    window.inside = false;
    any_ = any_ || !forward->synchronizing;
  } else if (const auto* backward = std::get_if<BackwardEvent>(&event.body)) {
    Window& window = windows_.at(wrapper, who);
    window.inside = !window.quiet && !backward->reduced;
    any_ = any_ || window.inside;
  } else if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
    on_grad(event, *grad, windows_.at(wrapper, who), n_members);
  } else if (const auto* clear = std::get_if<ZeroGradEvent>(&event.body)) {
    on_clear(windows_.at(wrapper, who), *clear, names);
  }
}

void Contributions::on_loss(const LossEvent& loss, Window& window) {
  if (!loss.grad) return;
  window.from_mean = window.from_mean || starts_from_mean(loss);
  const bool given = loss.reduction == LossReduction::kGiven;
  const bool divided = given && loss.n_terms > 0;
  // A number that divides one summand of the loss says nothing of the others.
  window.n_terms = given && !divided ? 0.0 : loss.denominator;
  window.divisor = divided ? loss.denominator / static_cast<double>(loss.n_terms) : 1.0;
}

void Contributions::add(const GradEvent& grad, Window& window) {
  if (!window.quiet && !window.inside && window.added.empty()) return;
  if (window.added.empty()) {
    window.started = window.cleared;
    window.layout = grad.layout;
    window.dtype = grad.dtype;
    window.n_elems.assign(grad.n_elems.size(), 0);
  }
  window.cleared = false;
  if (grad.layout != window.layout) return;
  for (std::size_t i = 0; i < grad.n_elems.size() && i < window.n_elems.size(); ++i) {
    window.n_elems[i] = std::max(window.n_elems[i], grad.n_elems[i]);
  }
  window.added.emplace_back().keep(grad);
  window.of_mean = std::exchange(window.from_mean, false);
}

void Contributions::on_grad(const Event& event,
                            const GradEvent& grad,
                            Window& window,
                            std::int32_t n_members) {
  if (grad.point == GradPoint::kInc) {
    add(grad, window);
  } else if (grad.point == GradPoint::kPost) {
    window.inside = false;
    window.added.clear();
    window.cleared = false;
  } else if (grad.point == GradPoint::kUsed) {
    if (!window.added.empty()) on_used(event, grad, window, n_members);
    if (window.quiet) {
      window.used.keep(grad);
      window.used_layout = grad.layout;
    }
    window.added.clear();
    window.cleared = false;
  }
}

void Contributions::on_used(const Event& event,
                            const GradEvent& grad,
                            Window& window,
                            std::int32_t n_members) {
  const std::pair key{wrapper_of(event.at), event.at.opt};
  OwnReduction& own = open_[key];
  const bool fits =
      own.shares.empty() || (own.layout == window.layout && own.used_layout == grad.layout);
  if (own.shares.empty()) {
    own.wrapper = key.first;
    own.step = key.second;
    own.layout = window.layout;
    own.used_layout = grad.layout;
    own.n_elems = window.n_elems;
    own.dtype = window.dtype;
  }
  if (fits) {
    OwnReduction::Share& share = own.shares.emplace_back();
    share.rank = to_int(event.rank);
    share.added = std::move(window.added);
    share.from_nothing = window.started;
    share.of_mean = window.of_mean && share.added.size() == 1;
    share.n_terms = window.n_terms;
    share.divisor = window.divisor;
    share.used.keep(grad);
    if (window.used_layout == grad.layout) share.used_before = std::move(window.used);
  }
  if (std::ssize(own.shares) >= n_members) {
    std::sort(own.shares.begin(), own.shares.end(), [](const auto& a, const auto& b) {
      return a.rank < b.rank;
    });
    complete_.push_back(std::move(own));
    open_.erase(key);
  } else if (open_.size() > kMaxOpen) {
    open_.erase(open_.begin());
  }
}

/// Clearing some of the gradients leaves the others to be added to: their sum is not known then.
void Contributions::on_clear(Window& window, const ZeroGradEvent& clear, const NameTable& names) {
  const bool all = window.layout == kNoLayout ||
                   names.layout(clear.layout).size() >= names.layout(window.layout).size();
  window.added.clear();
  window.cleared = all;
}

}  // namespace lockstep::laws
