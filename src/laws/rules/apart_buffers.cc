#include "lockstep/laws/rules/detail/buffers/apart_buffers.h"

#include <string>

namespace lockstep::laws {

namespace {

bool is_loop(const WrapEvent* wrap) {
  return wrap != nullptr && !wrap->synchronizes && wrap->n_ranks > 1;
}

/// A sum or a mean over the ranks that the program asks for by itself.
bool sums_over_ranks(const CollectiveEvent& collective) {
  const Signature& call = collective.signature;
  const bool reduces = call.op == CollectiveOp::kAllReduce || call.op == CollectiveOp::kReduce;
  const bool by_program = call.site.scope == nullptr || *call.site.scope == '\0';
  return collective.phase == CollectivePhase::kPosted && reduces && by_program &&
         (call.reduce == ReduceOp::kSum || call.reduce == ReduceOp::kAvg);
}

}  // namespace

void ApartBuffers::on_wrap(const WrapEvent& wrap, const NameTable& names) {
  any_ = any_ || (is_loop(&wrap) && !names.layout(wrap.buffers).empty());
}

void ApartBuffers::on_event(const Event& event, const Wrappers& wrappers, const NameTable& names) {
  if (!any_) return;
  const std::int32_t rank = to_int(event.rank);
  if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
    open_.erase(rank);
    const WrapperKey wrapper = wrapper_of(event.at);
    if (phase->kind == PhaseKind::kEval && is_loop(wrappers.find(wrapper))) {
      open_[rank].wrapper = wrapper;
    }
  } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
    const auto open = open_.find(rank);
    if (open != open_.end() && sums_over_ranks(*call)) open->second.adds_up = true;
  } else if (const auto* state = std::get_if<StateEvent>(&event.body)) {
    if (state->kind == StateKind::kBuffer) keep(event, *state, names);
  }
}

void ApartBuffers::keep(const Event& event, const StateEvent& state, const NameTable& names) {
  const auto open = open_.find(to_int(event.rank));
  const WrapperKey wrapper = wrapper_of(event.at);
  const bool used = state.point == StatePoint::kEval || state.point == StatePoint::kEnd;
  if (!used || open == open_.end() || !open->second.adds_up || open->second.wrapper != wrapper) {
    return;
  }
  const std::span<const NameId> layout = names.layout(state.layout);
  Buffers& buffers = evaluations_[{wrapper, event.at.opt}];
  for (std::size_t i = 0; i < layout.size() && i < state.digests.size(); ++i) {
    Held& held = buffers[layout[i]];
    ++held.n_ranks;
    if (!held.digest) held.digest = state.digests[i];
    held.apart = held.apart || *held.digest != state.digests[i];
  }
}

std::vector<Advice> ApartBuffers::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  std::set<WrapperKey> advised;
  for (const auto& [place, buffers] : evaluations_) {
    std::vector<NameId> apart;
    for (const auto& [name, held] : buffers) {
      if (held.apart && !declared_.contains({place.first, name})) apart.push_back(name);
    }
    if (apart.empty() || !advised.insert(place.first).second) continue;
    const std::string others = apart.size() == 1
                                   ? ""
                                   : " (and " + std::to_string(apart.size() - 1) +
                                         (apart.size() == 2 ? " more buffer)" : " more buffers)");
    advice.push_back(
        {"A-buffers-apart",
         "in the evaluation after " + std::to_string(place.second) + " steps, `" +
             std::string(names.text(apart.front())) + "`" + others + " differs between the " +
             std::to_string(buffers.at(apart.front()).n_ranks) +
             " ranks although their results are summed: each rank evaluates a different model. "
             "Broadcast or average the buffers first, unless they should differ."});
  }
  return advice;
}

}  // namespace lockstep::laws
