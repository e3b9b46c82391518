#include "lockstep/laws/rules/detail/samples/padded_evaluations.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "lockstep/base/call_site.h"

namespace lockstep::laws {

namespace {

std::int64_t n_repeated(const EpochEvent& epoch) {
  return epoch.pads ? epoch.per_rank * epoch.n_replicas - epoch.dataset_size : 0;
}

/// A sum over ranks that the program calls by itself.
bool adds_up(const CollectiveEvent& collective) {
  const Signature& call = collective.signature;
  const bool reduces = call.op == CollectiveOp::kAllReduce || call.op == CollectiveOp::kReduce;
  const bool by_program = call.site.scope == nullptr || *call.site.scope == '\0';
  return collective.phase == CollectivePhase::kPosted && reduces && by_program &&
         (call.reduce == ReduceOp::kSum || call.reduce == ReduceOp::kAvg);
}

}  // namespace

bool PaddedEvaluations::watches(const Event& event) const { return event.rank == watched_; }

void PaddedEvaluations::on_epoch(const Event& event, const EpochEvent& epoch) {
  if (!watched_) watched_ = event.rank;
  if (!watches(event)) return;
  padded_.erase(epoch.split);
  if (n_repeated(epoch) > 0) padded_.emplace(epoch.split, epoch);
  std::erase_if(n_drawn_, [&](const auto& one) { return std::get<0>(one.first) == epoch.split; });
}

void PaddedEvaluations::on_phase(const Event& event, const PhaseEvent& phase) {
  close(to_int(event.rank));
  if (phase.kind == PhaseKind::kEval) rows_[to_int(event.rank)] = {};
  if (!watches(event)) return;
  evaluates_ = phase.kind == PhaseKind::kEval;
  n_drawn_.clear();
}

void PaddedEvaluations::on_samples(const Event& event, const SampleEvent& samples) {
  const auto rows = rows_.find(to_int(event.rank));
  if (rows != rows_.end()) rows->second.drawn[samples.split] += std::ssize(samples.ids);
  if (!evaluates_ || !watches(event) || !padded_.contains(samples.split)) return;
  n_drawn_[{samples.split, event.at.wrapper}] += std::ssize(samples.ids);
}

void PaddedEvaluations::on_loss(const Event& event, const LossEvent& loss) {
  if (loss.grad || loss.n_rows <= 0) return;
  const auto rows = rows_.find(to_int(event.rank));
  if (rows != rows_.end()) rows->second.n_evaluated[loss.function] += loss.n_rows;
}

/// An evaluation is over. One of several data sets shows nothing of a single one.
void PaddedEvaluations::close(std::int32_t rank) {
  const auto found = rows_.find(rank);
  if (found == rows_.end()) return;
  const Rows& rows = found->second;
  std::int64_t most = 0;
  for (const auto& [function, n_rows] : rows.n_evaluated) most = std::max(most, n_rows);
  if (rows.drawn.size() == 1 && most > 0 && most < rows.drawn.begin()->second) {
    left_out_of_.insert(rows.drawn.begin()->first);
  }
  rows_.erase(found);
}

void PaddedEvaluations::on_collective(const CollectiveEvent& collective, RankRange who) {
  if (n_drawn_.empty() || !who.contains(*watched_) || !adds_up(collective)) return;
  for (const auto& [pass, n_drawn] : n_drawn_) {
    const EpochEvent& epoch = padded_.at(std::get<0>(pass));
    if (n_drawn == epoch.per_rank) {
      counted_.try_emplace(epoch.split, Counted{epoch, collective.signature.site});
    }
  }
}

std::vector<Advice> PaddedEvaluations::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  if (reports_) return advice;
  for (const auto& [split, counted] : counted_) {
    if (left_out_of_.contains(split)) continue;
    const EpochEvent& epoch = counted.epoch;
    advice.push_back(
        {"A-padding-counted",
         fmt::format("the sampler of '{}' repeats {} of its {} samples to give each of {} ranks "
                     "{}, and the sum at {} counts the repeats. Drop them before the sum, unless "
                     "the program already does.",
                     names.text(split),
                     n_repeated(epoch),
                     epoch.dataset_size,
                     epoch.n_replicas,
                     epoch.per_rank,
                     counted.site.known() ? counted.site.text() : "an unknown place")});
  }
  return advice;
}

}  // namespace lockstep::laws
