#include "lockstep/laws/rules/detail/mean/unwrapped_backwards.h"

#include <string>
#include <vector>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

constexpr std::int64_t kFewest = 2;  // Steps, and sums that a rank takes part in.

bool gives(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kRecv ||
         op == CollectiveOp::kScatter || op == CollectiveOp::kAllGather;
}

bool sums(const Signature& call) {
  const bool adds = call.op == CollectiveOp::kAllReduce || call.op == CollectiveOp::kReduce;
  return adds && (call.reduce == ReduceOp::kSum || call.reduce == ReduceOp::kAvg);
}

}  // namespace

void UnwrappedBackwards::on_event(const Event& event) {
  const auto* loss = std::get_if<LossEvent>(&event.body);
  if (loss != nullptr && loss->grad && event.at.wrapper < 0)
    attempts_[event.at.attempt].compute.insert(event.rank);
}

void UnwrappedBackwards::on_cohort(const CohortEvent& event) {
  if (event.first->at.wrapper >= 0) return;
  const auto known = attempts_.find(event.first->at.attempt);
  const bool settled =
      known != attempts_.end() && std::ssize(known->second.compute) >= event.n_ranks();
  if (!settled) each(event, [this](const Event& own) { on_event(own); });
}

void UnwrappedBackwards::on_wrap(const Event& event, const WrapEvent& wrap, RankRange who) {
  Attempt& attempt = attempts_[event.at.attempt];
  attempt.followed = true;
  for (std::int32_t rank = who.first; rank < who.first + who.n; ++rank) {
    attempt.step.insert(Rank{rank});
    if (!wrap.synchronizes && wrap.n_ranks > 1) attempt.loops.insert(Rank{rank});
  }
}

void UnwrappedBackwards::on_step(const Event& event, RankRange who) {
  Attempt& attempt = attempts_[event.at.attempt];
  attempt.followed = true;
  if (event.at.wrapper >= 0 && attempt.loops.contains(Rank{who.first})) ++attempt.n_steps;
  if (who.all() && std::ssize(attempt.step) >= who.n) return;
  for (std::int32_t rank = who.first; rank < who.first + who.n; ++rank) {
    attempt.step.insert(Rank{rank});
  }
}

void UnwrappedBackwards::on_call(const Event& event, const CollectiveEvent& call, RankRange who) {
  if (call.phase != CollectivePhase::kPosted) return;
  const auto known = attempts_.find(event.at.attempt);
  if (known == attempts_.end()) return;
  Attempt& attempt = known->second;
  if (who.all() && std::ssize(attempt.step) >= who.n) return;
  const bool summed = sums(call.signature);
  if (!summed && !gives(call.signature.op)) return;
  for (std::int32_t rank = who.first; rank < who.first + who.n; ++rank) {
    if (attempt.step.contains(Rank{rank}) || !attempt.compute.contains(Rank{rank})) continue;
    Elements& elements = attempt.idle[Rank{rank}];
    elements.n_sums += summed ? 1 : 0;
    (summed ? elements.summed : elements.given) += call.signature.count;
  }
}

bool UnwrappedBackwards::is_worker(const Elements& elements) {
  return 2 * elements.given >= elements.summed;
}

std::vector<Rank> UnwrappedBackwards::without_steps(const Attempt& attempt) {
  std::vector<Rank> ranks;
  if (attempt.n_steps < kFewest) return ranks;
  for (const auto& [rank, elements] : attempt.idle) {
    const bool takes_part = elements.n_sums >= kFewest && !is_worker(elements);
    if (takes_part && !attempt.step.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Advice> UnwrappedBackwards::advice() const {
  std::vector<Advice> found;
  for (const auto& [number, attempt] : attempts_) {
    const std::vector<Rank> computing(attempt.compute.begin(), attempt.compute.end());
    if (found.empty() && computing.size() > 1 && !attempt.followed) {
      found.push_back(
          {"A-nothing-wrapped",
           ranks_text(computing) +
               " compute gradients, and nothing was seen to reduce them: no model is "
               "wrapped, and no loop was recognised that does it by itself. Wrap the "
               "model, unless each rank trains one of its own or the ranks share one in "
               "another way; most laws check only what is wrapped",
           AdviceSubject::kChecks});
    }
    const std::vector<Rank> idle = without_steps(attempt);
    if (idle.empty()) continue;
    const std::vector<Rank> steppers(attempt.loops.begin(), attempt.loops.end());
    found.push_back({"A-never-steps",
                     ranks_text(idle) +
                         " computed gradients and took part in the reductions that " +
                         ranks_text(steppers) +
                         " stepped with, but no step of theirs was seen that used the result, and "
                         "hardly anything was sent to them since: their model falls behind"});
    break;
  }
  return found;
}

}  // namespace lockstep::laws
