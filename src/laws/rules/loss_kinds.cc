#include "lockstep/laws/rules/detail/loss_kinds.h"

#include <string>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

void LossKinds::on_event(const Event& event) {
  const auto* loss = std::get_if<LossEvent>(&event.body);
  if (loss == nullptr || !loss->grad || event.at.wrapper < 0) return;
  first_[wrapper_of(event.at)].try_emplace(to_int(event.rank),
                                           Kind{loss->function, loss->reduction});
}

void LossKinds::on_cohort(const CohortEvent& event) {
  const auto known = first_.find(wrapper_of(event.first->at));
  if (known != first_.end() && std::ssize(known->second) >= event.n_ranks()) return;
  each(event, [this](const Event& own) { on_event(own); });
}

std::vector<Advice> LossKinds::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  for (const auto& [wrapper, by_rank] : first_) {
    std::map<Kind, std::vector<Rank>> sides;
    for (const auto& [rank, kind] : by_rank) {
      if (kind.reduction != LossReduction::kGiven) sides[kind].push_back(Rank{rank});
    }
    if (sides.size() < 2) continue;
    std::string text;
    for (const auto& [kind, ranks] : sides) {
      text += text.empty() ? "" : "; ";
      text += std::string(names.text(kind.function)) + " (" + std::string(name_of(kind.reduction)) +
              ") on " + ranks_text(ranks);
    }
    advice.push_back({"A-losses-differ",
                      "the ranks' first backward passes start from different losses: " + text +
                          "; their gradients are averaged with equal weights"});
  }
  return advice;
}

}  // namespace lockstep::laws
