#include "lockstep/laws/rules/detail/mean/local_sources.h"

#include <algorithm>

namespace lockstep::laws {

namespace {

/// A batch that was recorded outside any wrapper feeds all of them.
WrapperKey outside(const Event& event) { return {event.at.attempt, -1}; }

}  // namespace

void LocalSources::on_batch(const Event& event, const BatchEvent& batch, RankRange who) {
  if (evaluating_.contains(event.rank)) return;
  Batches& batches = batches_.at(wrapper_of(event.at), who);
  if (batches.reduced) batches = {};
  batches.add(batch);
}

void LocalSources::on_phase(const Event& event, const PhaseEvent& phase) {
  if (phase.kind == PhaseKind::kEval) evaluating_.insert(event.rank);
  if (phase.kind == PhaseKind::kTrain) evaluating_.erase(event.rank);
}

void LocalSources::on_reduction(const Event& event, LayoutId layout, RankRange who) {
  const WrapperKey wrapper = wrapper_of(event.at);
  Reductions& last = last_.at(wrapper, who);
  const auto known = std::find_if(
      last.begin(), last.end(), [&](const auto& entry) { return entry.first == layout; });
  if (known == last.end()) {
    last.emplace_back(layout, event.at.opt);
  } else {
    known->second = event.at.opt;
  }
  for (const WrapperKey key : {wrapper, outside(event)}) {
    if (Batches* const batches = batches_.find(key, who)) batches->reduced = true;
  }
}

Local LocalSources::source_of(OpenReduction& open,
                              const Event& event,
                              const GradEvent& grad,
                              RankRange who) {
  const WrapperKey wrapper = wrapper_of(event.at);
  const Batches* known = batches_.find(wrapper, who);
  if (known == nullptr) known = batches_.find(outside(event), who);
  const Batches none;
  const Batches& batches = known == nullptr ? none : *known;
  if (open.batches.empty() || open.batches.back() != batches) open.batches.push_back(batches);
  Local source{.batches = open.batches.size() - 1};
  for (const auto& [layout, opt] : last_.at(wrapper, who)) {
    if (layout == grad.layout) source.adds_to_earlier = opt == event.at.opt;
  }
  return source;
}

bool LocalSources::shares(const Event& event, RankRange who) const {
  const WrapperKey wrapper = wrapper_of(event.at);
  return evaluating_.empty() && last_.shares(wrapper, who) && batches_.shares(wrapper, who) &&
         batches_.shares(outside(event), who);
}

}  // namespace lockstep::laws
