#include "lockstep/laws/rules/detail/trained/undone_updates.h"

#include <utility>

namespace lockstep::laws {

namespace {

constexpr std::int64_t kFewestSteps = 2;

/// A step of some of the wrapper's parameters only.
bool is_of_a_share(LayoutId stepped, const WrapEvent* wrap, const NameTable& names) {
  return wrap != nullptr && wrap->n_ranks > 1 && wrap->params != kNoLayout &&
         names.layout(stepped).size() < names.layout(wrap->params).size();
}

}  // namespace

void UndoneUpdates::step(Update& update, std::uint64_t digest, std::int32_t opt) {
  if (update.before) ++update.n_seen;  // Nothing has written to it since that step.
  update.before.reset();
  if (update.now != 0 && update.now != digest) update.before = update.now;
  if (update.n_undone == 0) update.first = opt;
  update.now = digest;
}

void UndoneUpdates::find(Update& update, std::uint64_t digest) {
  if (update.before) {
    ++update.n_seen;
    if (digest == *update.before) ++update.n_undone;
  }
  update.before.reset();
  update.now = digest;
}

void UndoneUpdates::on_state(const Event& event,
                             const StateEvent& state,
                             const WrapEvent* wrap,
                             const NameTable& names) {
  const bool steps = state.point == StatePoint::kStep;
  if (steps && !is_of_a_share(state.layout, wrap, names)) return;
  const std::span<const NameId> layout = names.layout(state.layout);
  const std::int32_t rank = to_int(event.rank);
  for (std::size_t i = 0; i < layout.size() && i < state.digests.size(); ++i) {
    const std::pair key{wrapper_of(event.at), layout[i]};
    if (steps) {
      step(updates_[key][rank], state.digests[i], event.at.opt);
      continue;
    }
    const auto known = updates_.find(key);
    if (known == updates_.end()) continue;
    const auto own = known->second.find(rank);
    if (own != known->second.end()) find(own->second, state.digests[i]);
  }
}

bool UndoneUpdates::reads(const StateEvent& state) const {
  return state.kind == StateKind::kParam && (state.point == StatePoint::kStep || !updates_.empty());
}

void UndoneUpdates::on_event(const Event& event, const Wrappers& wrappers, const NameTable& names) {
  if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) return on_call(*call);
  const auto* state = std::get_if<StateEvent>(&event.body);
  if (state == nullptr || !reads(*state)) return;
  on_state(event, *state, wrappers.find(wrapper_of(event.at)), names);
}

void UndoneUpdates::on_cohort(const CohortEvent& event,
                              const Wrappers& wrappers,
                              const NameTable& names) {
  const Event& first = *event.first;
  if (const auto* call = std::get_if<CollectiveEvent>(&first.body)) return on_call(*call);
  const auto* state = std::get_if<StateEvent>(&first.body);
  if (state == nullptr || !reads(*state)) return;
  // What all ranks step is not a share of one.
  const bool alike = event.similarity <= Similarity::kSameShape;
  if (alike && state->point == StatePoint::kStep) return;
  each(event, [&](const Event& own) { on_event(own, wrappers, names); });
}

void UndoneUpdates::on_call(const CollectiveEvent& call) {
  if (updates_.empty()) return;
  const CallSite& site = call.signature.site;
  const bool by_program = site.scope == nullptr || *site.scope == '\0';
  const bool sends = call.signature.op == CollectiveOp::kBroadcast;
  if (sends && by_program && call.phase == CollectivePhase::kPosted) broadcast_at_ = site;
}

std::vector<Finding> UndoneUpdates::findings(const NameTable& names) const {
  std::vector<Finding> findings;
  for (const auto& [place, by_rank] : updates_) {
    const auto& [rank, update] = *by_rank.begin();
    const bool is_each = update.n_undone >= kFewestSteps && update.n_undone == update.n_seen;
    if (by_rank.size() > 1 || !is_each) continue;
    Finding& finding = findings.emplace_back();
    finding.attempt = place.first.attempt;
    finding.event = "step";
    finding.step = update.first;
    finding.ranks = {Rank{rank}};
    finding.cause = Cause::kUpdateOverwritten;
    finding.tensor = names.text(place.second);
    finding.field = "optimised";
    finding.message = "only this rank steps the parameter, and each of its " +
                      std::to_string(update.n_undone) +
                      " recorded steps was overwritten with the value from before it";
    if (broadcast_at_.known())
      finding.message += ", as by a broadcast from another rank at " + broadcast_at_.text();
  }
  return findings;
}

}  // namespace lockstep::laws
