#include "lockstep/laws/rules/detail/samples/evaluations.h"

#include <utility>

namespace lockstep::laws {

void Evaluations::on_event(const Event& event, const NameTable& names) {
  if (std::holds_alternative<MetricEvent>(event.body)) {
    padded_.on_metric();
    apart_.on_metric();
  } else if (const auto* samples = std::get_if<SampleEvent>(&event.body)) {
    padded_.on_samples(event, *samples);
    apart_.on_samples(event, *samples);
  } else if (const auto* epoch = std::get_if<EpochEvent>(&event.body)) {
    if (!is_train_split(names.text(epoch->split))) padded_.on_epoch(event, *epoch);
    apart_.on_epoch(event, *epoch);
  } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
    padded_.on_phase(event, *phase);
    apart_.on_phase(event, *phase);
  } else if (const auto* snapshot = std::get_if<SnapshotEvent>(&event.body)) {
    apart_.on_snapshot(event, *snapshot);
  } else if (const auto* end = std::get_if<EndEvent>(&event.body)) {
    padded_.on_end(event);
    apart_.on_end(event, *end);
  } else if (const auto* loss = std::get_if<LossEvent>(&event.body)) {
    padded_.on_loss(event, *loss);
  }
}

void Evaluations::on_call(const CollectiveEvent& call, RankRange who) {
  padded_.on_collective(call, who);
  apart_.on_collective(call, who);
}

std::vector<Advice> Evaluations::advice(const NameTable& names) const {
  std::vector<Advice> all = padded_.advice(names);
  if (more_follows_) return all;
  for (Advice& advice : apart_.advice(names)) all.push_back(std::move(advice));
  return all;
}

}  // namespace lockstep::laws
