#include "lockstep/laws/rules/detail/mean/unwrapped_backwards.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

constexpr std::int64_t kFewestSums = 2;       // Steps, and sums that a rank takes part in.
constexpr std::int64_t kFewestElements = 16;  // Of a sum, on average: losses and counts have fewer.
constexpr std::size_t kEnoughLosses = 4;      // Losses that show what a rank reads.

bool gives(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kRecv ||
         op == CollectiveOp::kScatter || op == CollectiveOp::kAllGather;
}

bool adds(const Signature& call) {
  return call.reduce == ReduceOp::kSum || call.reduce == ReduceOp::kAvg;
}

bool sums(const Signature& call) {
  const bool reduces = call.op == CollectiveOp::kAllReduce || call.op == CollectiveOp::kReduce;
  return reduces && adds(call);
}

/// Of which each rank gets a part, as of the gradients of a model that is shared out.
bool sums_in_parts(const Signature& call) {
  return call.op == CollectiveOp::kReduceScatter && adds(call);
}

}  // namespace

void UnwrappedBackwards::on_event(const Event& event) {
  const auto* loss = std::get_if<LossEvent>(&event.body);
  if (loss == nullptr || !loss->grad || event.at.wrapper >= 0) return;
  Attempt& attempt = attempts_[event.at.attempt];
  attempt.compute.insert(event.rank);
  std::vector<double>& losses = attempt.losses[event.rank];
  if (losses.size() < kEnoughLosses) losses.push_back(loss->value);
}

void UnwrappedBackwards::on_cohort(const CohortEvent& event) {
  if (event.first->at.wrapper >= 0) return;
  const auto known = attempts_.find(event.first->at.attempt);
  const bool settled = known != attempts_.end() &&
                       std::ssize(known->second.compute) >= event.n_ranks() &&
                       known->second.losses.begin()->second.size() >= kEnoughLosses;
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
  const Signature& signature = call.signature;
  const bool matters = sums(signature) || sums_in_parts(signature) || gives(signature.op);
  for (std::int32_t rank = who.first; matters && rank < who.first + who.n; ++rank) {
    if (attempt.step.contains(Rank{rank}) || !attempt.compute.contains(Rank{rank})) continue;
    attempt.idle[Rank{rank}].add(call);
  }
}

void UnwrappedBackwards::Elements::add(const CollectiveEvent& call) {
  const Signature& signature = call.signature;
  if (sums_in_parts(signature)) {
    ++n_in_parts;
    n_averaged += call.group == 0 && signature.reduce == ReduceOp::kAvg ? 1 : 0;
    return;
  }
  const bool summed_all = sums(signature);
  n_sums += summed_all ? 1 : 0;
  n_in_groups += summed_all && call.group != 0 ? 1 : 0;
  (summed_all ? summed : given) += signature.count;
}

bool UnwrappedBackwards::is_worker(const Elements& elements) {
  return 2 * elements.given >= elements.summed;
}

std::vector<Rank> UnwrappedBackwards::without_steps(const Attempt& attempt) {
  std::vector<Rank> ranks;
  if (attempt.n_steps < kFewestSums) return ranks;
  for (const auto& [rank, elements] : attempt.idle) {
    const bool takes_part = elements.n_sums >= kFewestSums && !is_worker(elements);
    if (takes_part && !attempt.step.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

bool UnwrappedBackwards::all_have(const Attempt& attempt, std::int64_t Elements::*calls) {
  return std::ranges::all_of(attempt.compute, [&](Rank rank) {
    const auto known = attempt.idle.find(rank);
    return known != attempt.idle.end() && known->second.*calls >= kFewestSums;
  });
}

bool UnwrappedBackwards::adds_up_tensors(const Attempt& attempt) {
  return all_have(attempt, &Elements::n_sums) &&
         std::ranges::all_of(attempt.compute, [&](Rank rank) {
           const Elements& elements = attempt.idle.at(rank);
           return elements.summed >= kFewestElements * elements.n_sums;
         });
}

// An average over all ranks is of what each of them has read: ranks that share out the computation itself add.
bool UnwrappedBackwards::reads_alike(const Attempt& attempt) {
  if (!all_have(attempt, &Elements::n_averaged)) return false;
  const std::vector<double>& first = attempt.losses.begin()->second;
  const bool vary =
      std::ranges::any_of(first, [&](double value) { return value != first.front(); });
  return first.size() == kEnoughLosses && vary &&
         std::ranges::all_of(attempt.losses,
                             [&](const auto& entry) { return entry.second == first; });
}

Advice UnwrappedBackwards::unchecked(const Attempt& attempt) {
  const std::string computing =
      ranks_text(std::vector<Rank>(attempt.compute.begin(), attempt.compute.end()));
  if (all_have(attempt, &Elements::n_in_parts)) {
    return {"A-shared-out",
            computing +
                " reduce-scatter gradients, as FSDP does. Checked: collectives, losses, sharded "
                "samplers and, where fully_shard shards the model over all ranks, optimizer "
                "options, dropout, initial values and clipping factors. Not checked: other "
                "gradients and parameters.",
            AdviceSubject::kChecks};
  }
  if (all_have(attempt, &Elements::n_in_groups)) {
    return {"A-shared-out",
            computing +
                " compute gradients and reduce within subgroups, as model parallelism and staged "
                "averaging do. Checked: collectives, losses and sharded samplers. Not checked: "
                "averages within a group.",
            AdviceSubject::kChecks};
  }
  if (adds_up_tensors(attempt)) {
    return {"A-not-followed",
            computing +
                " compute gradients and all-reduce tensors, but neither a wrapped model nor a loop "
                "that averages gradients was recognised. Checked: collectives, losses and sharded "
                "samplers. Not checked: gradients and parameters.",
            AdviceSubject::kChecks};
  }
  return {"A-nothing-wrapped",
          computing +
              " compute gradients that nothing was seen to reduce: no model is wrapped, and no "
              "manual reduction was recognised. Wrap the model, unless each rank trains its own or "
              "the model is sharded in another way. Most laws check only wrapped models.",
          AdviceSubject::kChecks};
}

Advice UnwrappedBackwards::same_losses(const Attempt& attempt) {
  return {"A-same-losses",
          ranks_text(std::vector<Rank>(attempt.compute.begin(), attempt.compute.end())) +
              " started " + std::to_string(kEnoughLosses) +
              " backward passes from equal losses: they train on the same samples. Give the loader "
              "a DistributedSampler."};
}

std::vector<Advice> UnwrappedBackwards::advice() const {
  std::vector<Advice> found;
  for (const auto& [number, attempt] : attempts_) {
    if (found.empty() && attempt.compute.size() > 1 && !attempt.followed) {
      found.push_back(unchecked(attempt));
      if (reads_alike(attempt)) found.push_back(same_losses(attempt));
    }
    const std::vector<Rank> idle = without_steps(attempt);
    if (idle.empty()) continue;
    const std::vector<Rank> steppers(attempt.loops.begin(), attempt.loops.end());
    const bool is_one = idle.size() == 1;
    found.push_back(
        {"A-never-steps",
         ranks_text(idle) + " computed gradients and took part in the reductions of " +
             ranks_text(steppers) + ", but " + (is_one ? "was" : "were") +
             " not seen to step with the result, and received almost nothing since: " +
             (is_one ? "its" : "their") +
             " copy of the model goes stale. Step on every rank, or broadcast the model."});
    break;
  }
  return found;
}

}  // namespace lockstep::laws
