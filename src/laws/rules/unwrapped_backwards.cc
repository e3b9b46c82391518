#include "lockstep/laws/rules/detail/mean/unwrapped_backwards.h"

#include <string>
#include <vector>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

void UnwrappedBackwards::on_event(const Event& event) {
  const auto* loss = std::get_if<LossEvent>(&event.body);
  if (loss != nullptr && loss->grad && event.at.wrapper < 0)
    ranks_[event.at.attempt].insert(event.rank);
}

void UnwrappedBackwards::on_followed(const Event& event) { followed_.insert(event.at.attempt); }

void UnwrappedBackwards::on_cohort(const CohortEvent& event) {
  if (event.first->at.wrapper >= 0) return;
  const auto known = ranks_.find(event.first->at.attempt);
  const bool settled = known != ranks_.end() && std::ssize(known->second) >= event.n_ranks();
  if (!settled) each(event, [this](const Event& own) { on_event(own); });
}

std::optional<Advice> UnwrappedBackwards::advice() const {
  for (const auto& [attempt, ranks] : ranks_) {
    if (ranks.size() < 2 || followed_.contains(attempt)) continue;
    return Advice{"A-nothing-wrapped",
                  ranks_text(std::vector<Rank>(ranks.begin(), ranks.end())) +
                      " compute gradients, and nothing was seen to reduce them: no model is "
                      "wrapped, and no loop was recognised that does it by itself. Wrap the model, "
                      "unless each rank trains one of its own or the ranks share one in another "
                      "way; most laws check only what is wrapped",
                  AdviceSubject::kChecks};
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
