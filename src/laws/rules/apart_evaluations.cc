#include "lockstep/laws/rules/detail/samples/apart_evaluations.h"

#include <iterator>
#include <string>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

constexpr std::size_t kMostLines = 64;

/// Whether values of several ranks meet in it.
bool combines(const Signature& call) {
  switch (call.op) {
    case CollectiveOp::kBarrier:
    case CollectiveOp::kScatter:
      return false;
    case CollectiveOp::kBroadcast:
      return call.root > 0;  // By turns, what each rank found.
    default:
      return true;
  }
}

bool is_by_program(const CollectiveEvent& collective) {
  const char* const scope = collective.signature.site.scope;
  return collective.phase == CollectivePhase::kPosted && (scope == nullptr || *scope == '\0');
}

}  // namespace

void ApartEvaluations::on_epoch(const Event& event, const EpochEvent& epoch) {
  if (!watched_) watched_ = event.rank;
  if (event.rank != *watched_ || trained_.contains(epoch.split)) return;
  const bool divides = epoch.n_replicas > 1 && epoch.per_rank < epoch.dataset_size;
  if (divides) {
    Share& share = shares_[epoch.split];
    share.epoch = epoch;
    share.n_drawn = 0;
  } else {
    shares_.erase(epoch.split);
  }
}

void ApartEvaluations::on_phase(const Event& event, const PhaseEvent& phase) {
  if (phase.kind == PhaseKind::kSave) return;  // What it keeps is what it goes by.
  if (event.rank == watched_) {
    for (auto& [split, share] : shares_) share.n_drawn = 0;
  }
  if (phase.kind == PhaseKind::kEval) {
    evaluating_.insert(event.rank);
    return;
  }
  evaluating_.erase(event.rank);
  if (event.rank == watched_) go_on();
}

void ApartEvaluations::on_samples(const Event& event, const SampleEvent& samples) {
  if (evaluating_.contains(event.rank)) evaluators_[samples.split].insert(event.rank);
  if (event.rank != watched_) return;
  const auto share = shares_.find(samples.split);
  if (share == shares_.end()) return;
  if (evaluating_.contains(event.rank)) {
    share->second.n_drawn += std::ssize(samples.ids);
    if (share->second.n_drawn >= share->second.epoch.per_rank) share->second.evaluated = true;
  } else {
    trained_.insert(samples.split);
    shares_.erase(share);
  }
}

void ApartEvaluations::on_collective(const CollectiveEvent& collective, RankRange who) {
  if (!is_by_program(collective) || !combines(collective.signature)) return;
  if (watched_ && !who.contains(*watched_)) return;
  const CallSite& site = collective.signature.site;
  if (!watched_ || !evaluating_.contains(*watched_)) {
    const Line line(site.file, site.line);
    if (lines_of_training_.contains(line)) return;
    if (lines_of_training_.size() < kMostLines) lines_of_training_.insert(line);
  }
  for (auto& [split, share] : shares_) share.combined = share.evaluated;
}

void ApartEvaluations::on_snapshot(const Event& event, const SnapshotEvent& snapshot) {
  const bool writes = snapshot.action == SnapshotAction::kWrite ||
                      snapshot.action == SnapshotAction::kExtend ||
                      snapshot.action == SnapshotAction::kPart;
  if (writes && event.rank != watched_.value_or(event.rank) && evaluating_.contains(event.rank))
    writes_ = true;
}

void ApartEvaluations::on_end(const Event& event, const EndEvent& end) {
  if (event.rank == watched_ && end.outcome == EndOutcome::kOk) go_on();
}

void ApartEvaluations::go_on() {
  for (auto& [split, share] : shares_) share.over = share.evaluated;
}

std::vector<Advice> ApartEvaluations::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  if (reports_ || writes_) return advice;
  for (const auto& [split, share] : shares_) {
    if (!share.over || share.combined) continue;
    const std::set<Rank>& who = evaluators_.at(split);
    advice.push_back(
        {"A-evaluated-apart",
         ranks_text({who.begin(), who.end()}) +
             (who.size() > 1 ? " each evaluate " : " evaluates ") +
             std::to_string(share.epoch.per_rank) + " of the " +
             std::to_string(share.epoch.dataset_size) + " samples of '" +
             std::string(names.text(split)) + "', which a sampler shards over " +
             std::to_string(share.epoch.n_replicas) + " ranks" +
             ". The results are never reduced: a metric that is printed, or used for checkpointing "
             "or early stopping, covers one shard only. Reduce sums and counts over the ranks."});
  }
  return advice;
}

}  // namespace lockstep::laws
