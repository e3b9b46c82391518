#include "lockstep/laws/detail/wrong_mean.h"

#include <algorithm>
#include <string>

namespace lockstep::laws {

bool hits_values(const std::optional<Fit>& found, const Judged& judged, bool exact) {
  return std::any_of(judged.right.begin(), judged.right.end(), [&](const OneReduction& one) {
    if (one.reduced->l1 == 0.0) return false;
    return !found || (!found->weights.numerators.empty() && !explains(found->weights, one, exact));
  });
}

bool is_certain(const Judged& judged, const Weights& declared, bool exact) {
  const std::optional<Fit> found = fit(judged.wrong, declared, exact);
  const bool plain = found && !found->weights.numerators.empty() &&
                     (found->culprit || found->cause != Cause::kNone);
  return plain && judged.wrong.size() > 1 && !hits_values(found, judged, exact);
}

Finding wrong_mean(const AlignmentKey& alignment,
                   const OpenReduction& open,
                   const Published& published,
                   NameId tensor,
                   const NameTable& names) {
  Finding finding;
  finding.attempt = alignment.wrapper.attempt;
  finding.event = "grad.post";
  finding.tensor = names.text(tensor);
  finding.step = open.opt;
  finding.message = "the reduced gradient is not the declared mean of the local gradients";
  if (open.published.size() > 1) finding.ranks = published.ranks;
  return finding;
}

std::optional<Rank> culprit_of(const Fit& found, const OpenReduction& open) {
  if (!found.culprit) return std::nullopt;
  return Rank{open.locals[static_cast<std::size_t>(*found.culprit)].rank};
}

void explain_mean(const Fit& found, std::optional<Rank> culprit, Finding& finding) {
  finding.weights = found.weights.values();
  finding.cause = found.cause;
  finding.message += ": " + found.message;
  if (!culprit) return;
  finding.message += " (rank " + std::to_string(to_int(*culprit)) + ")";
  if (finding.ranks.empty()) finding.ranks = {*culprit};
}

}  // namespace lockstep::laws
