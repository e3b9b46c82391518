#include "lockstep/laws/rules/detail/reduced/unreduced_tensors.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::laws {

void UnreducedTensor::add(const Suspect& suspect) {
  if (ranks.empty() || suspect.step < step) {
    *this = {suspect.step, suspect.sync, {suspect.rank}, suspect.evidence};
  } else if (suspect.step == step && ranks.back() != suspect.rank) {
    ranks.push_back(suspect.rank);
    if (suspect.rank < ranks.front()) {
      std::swap(ranks.front(), ranks.back());
      evidence = suspect.evidence;
    }
  }
}

Finding UnreducedTensor::finding(const UnreducedKey& key,
                                 bool by_hand,
                                 const NameTable& names) const {
  Finding finding;
  finding.attempt = key.wrapper.attempt;
  finding.event = "step";
  finding.tensor = names.text(key.tensor);
  finding.step = step;
  finding.ranks = ranks;
  std::sort(finding.ranks.begin(), finding.ranks.end());
  finding.cause = evidence.cause;
  finding.message = "the step used a local gradient that was never reduced";
  if (by_hand) {
    finding.message =
        "the ranks stepped with different gradients: the program's manual reduction did not make "
        "them equal";
  } else if (evidence.cause == Cause::kBypassWrapper) {
    finding.message += ": the forward bypassed the wrapper, so the reduction was never armed";
  } else if (evidence.cause == Cause::kLastMicroUnsynced) {
    finding.message = "the step used a contribution that came after the last reduction";
  } else if (evidence.cause == Cause::kUnusedBucketUnfired) {
    finding.message += ": a parameter that got no gradient kept the buckets from firing";
  } else if (evidence.cause == Cause::kBranchNoGraph) {
    finding.message +=
        ": `" + std::string(names.text(evidence.unused)) + "` got a gradient on other ranks only";
  }
  return finding;
}

void UnreducedTensors::suspect(const Suspect& suspect) {
  steps_[{suspect.key.wrapper, suspect.step}].suspects.push_back(suspect);
  if (steps_.size() > kMaxSteps) settle(steps_.begin());
}

void UnreducedTensors::reduced_by_program(WrapperKey wrapper,
                                          std::int32_t step,
                                          std::vector<NameId> tensors) {
  if (!tensors.empty()) steps_[{wrapper, step}].reduced = std::move(tensors);
}

void UnreducedTensors::stepped(WrapperKey wrapper,
                               std::int32_t step,
                               RankRange who,
                               std::int32_t n_members) {
  const auto known = steps_.find({wrapper, step});
  if (known == steps_.end()) return;
  known->second.n_stepped += who.n;
  if (known->second.n_stepped >= n_members) settle(known);
}

void UnreducedTensors::forgive(const ParameterAverages::Ended& ended, std::int32_t n_members) {
  std::erase_if(broken_, [&](const auto& entry) {
    return entry.first.wrapper == ended.wrapper && entry.first.interval == ended.interval &&
           Wrappers::contains(ended.tensors, entry.first.tensor) &&
           std::ssize(entry.second.ranks) >= n_members;
  });
}

std::map<UnreducedKey, UnreducedTensor>& UnreducedTensors::settled() {
  while (!steps_.empty()) settle(steps_.begin());
  return broken_;
}

void UnreducedTensors::settle(Steps::iterator at) {
  Step step = std::move(at->second);
  steps_.erase(at);
  for (Suspect& one : step.suspects) {
    one.key.interval = averages_.common_interval(one.key.wrapper);
    if (!Wrappers::contains(step.reduced, one.key.tensor)) broken_[one.key].add(one);
  }
}

}  // namespace lockstep::laws
