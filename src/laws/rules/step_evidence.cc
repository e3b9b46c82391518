#include "lockstep/laws/rules/detail/parameters/step_evidence.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

#include "lockstep/laws/detail/alignment.h"

namespace lockstep::laws {

namespace {

constexpr std::size_t kMaxVariants = 4;

constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();

void keep_variant(std::vector<GradientsSeen>& variants, const GradEvent& grad) {
  const auto same = [&](const GradientsSeen& seen) {
    return seen.layout == grad.layout && std::ranges::equal(seen.digests, grad.digests);
  };
  if (variants.size() == kMaxVariants || std::ranges::any_of(variants, same)) return;
  variants.emplace_back().keep(grad);
}

}  // namespace

void StepEvidences::on_event(const Event& event, RankRange who) {
  const StepPlace place = step_place_of(event);
  if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
    on_gradient(place, *grad, who);
  } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
    on_step(place, *step, who);
  } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
    StepEvidence& evidence = at(place);
    evidence.wrapped_forward = evidence.wrapped_forward || forward->through_wrapper;
    evidence.synchronizing = evidence.synchronizing || forward->synchronizing;
  } else if (const auto* backward = std::get_if<BackwardEvent>(&event.body)) {
    StepEvidence& evidence = at(place);
    StepEvidence::Backward& last = backward->reduced ? evidence.reduced : evidence.local;
    last = std::max(last, {event.at.micro, event.index});
  } else if (const auto* clip = std::get_if<ClipEvent>(&event.body)) {
    at(place).clippings.add(*clip, who);
  } else if (const auto* options = std::get_if<OptimizerEvent>(&event.body)) {
    on_options(place.wrapper, *options, who);
  } else if (std::holds_alternative<ZeroGradEvent>(event.body)) {
    on_zero_grad(place);
  } else if (const auto* state = std::get_if<StateEvent>(&event.body)) {
    const bool of_step = state->kind == StateKind::kOptimizer && state->point == StatePoint::kStep;
    if (of_step) at(place).optimizer.add(state->digests, who);
  }
}

void StepEvidences::on_options(WrapperKey wrapper, const OptimizerEvent& options, RankRange who) {
  const auto take = [&](std::uint64_t& hash) {
    const auto fold = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x9E3779B97F4A7C15U; };
    fold(static_cast<std::uint64_t>(options.group));
    fold(static_cast<std::uint64_t>(options.layout));
    fold(static_cast<std::uint64_t>(options.options));
    for (const double value : options.values) fold(std::bit_cast<std::uint64_t>(value));
  };
  if (options_.shares(wrapper, who)) return take(options_.at(wrapper, who));
  for (std::int32_t rank = who.first; rank < who.first + who.n; ++rank) {
    take(options_[{rank, wrapper}]);
  }
}

void StepEvidences::on_step(const StepPlace& place, const StepEvent& step, RankRange who) {
  StepEvidence& evidence = at(place);
  const std::uint64_t rate[] = {std::bit_cast<std::uint64_t>(step.lr),
                                step.skipped ? 1U : 0U,
                                std::bit_cast<std::uint64_t>(step.scale)};
  evidence.rates.add(rate, who);
  evidence.rates_differ = evidence.rates.differs(0);
  evidence.skips_differ = evidence.rates.differs(1);
  evidence.scales_differ = evidence.rates.differs(2);
  evidence.scaled = evidence.scaled || step.scale != 1.0;
  evidence.scale = step.scale;
}

// Gradients are cleared before a step's first forward, too: then nothing of the step is known yet.
void StepEvidences::on_zero_grad(const StepPlace& place) {
  const auto found = steps_.find(place);
  if (found != steps_.end() && found->second.post.known()) found->second.cleared = true;
}

void StepEvidences::on_gradient(const StepPlace& place, const GradEvent& grad, RankRange who) {
  if (grad.point == GradPoint::kPost) {
    StepEvidence& evidence = at(place);
    evidence.post_layout = grad.layout;
    evidence.post.add(grad.digests, who);
    if (!evidence.averaged.any()) evidence.averaged.keep(grad);
  } else if (grad.point == GradPoint::kUsed) {
    StepEvidence& evidence = at(place);
    evidence.used_layout = grad.layout;
    evidence.used.add(grad.digests, who);
    keep_variant(evidence.variants, grad);
    evidence.unused.add(unused_words(grad), who);
  }
}

std::span<const std::uint64_t> StepEvidences::unused_words(const GradEvent& grad) {
  words_.resize(grad.digests.size());
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] = bit(grad.undefined, i) ? 1U : 0U;
  return words_;
}

StepEvidence& StepEvidences::at(const StepPlace& place) {
  if (last_ == nullptr || place != last_place_) {
    last_place_ = place;
    last_ = &steps_[place];
  }
  return *last_;
}

const StepEvidence* StepEvidences::find(const StepPlace& place) const {
  const auto found = steps_.find(place);
  return found == steps_.end() ? nullptr : &found->second;
}

bool StepEvidences::options_differ(WrapperKey wrapper) const {
  const std::uint64_t* first = nullptr;
  for (const auto& [place, hash] : options_.all()) {
    if (place.key != wrapper) continue;
    if (first != nullptr && *first != hash) return true;
    first = &hash;
  }
  return false;
}

bool StepEvidences::keeps_any_of(WrapperKey wrapper, std::int32_t sync) const {
  const auto kept = kept_.lower_bound({wrapper, sync, kLowest});
  return kept != kept_.end() && kept->wrapper == wrapper && kept->sync == sync;
}

void StepEvidences::forget_before(const StepPlace& here) {
  last_ = nullptr;
  auto place = steps_.lower_bound({here.wrapper, kLowest, kLowest});
  while (place != steps_.end() && place->first < here) {
    place = kept_.contains(place->first) ? std::next(place) : steps_.erase(place);
  }
}

}  // namespace lockstep::laws
