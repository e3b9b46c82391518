// Reductions that are not what they were meant to be, and how a finding says so.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/mean_fit.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/mean/open_reduction.h"

namespace lockstep::laws {

/// What some ranks were given, tensor by tensor.
struct Judged {
  std::vector<OneReduction> wrong;
  std::vector<NameId> tensors;  ///< Of those.
  std::vector<OneReduction> right;
};

/// A wrong factor or weight is wrong for all tensors of a reduction. What hit only some of them hit
/// values, not the averaging.
bool hits_values(const std::optional<Fit>& found, const Judged& judged, bool exact);

/// Of a hook that loses more than any bound says, only a fault that it does not blur is certain: all
/// tensors tell alike, and as precisely as without it, that a rank is missing or the division.
bool is_certain(const Judged& judged, const Weights& declared, bool exact);

/// A finding about one tensor, without an explanation. `published`: one of the reduction's.
Finding wrong_mean(const AlignmentKey& alignment,
                   const OpenReduction& open,
                   const Published& published,
                   NameId tensor,
                   const NameTable& names);

/// The rank that was lost, or counted twice.
std::optional<Rank> culprit_of(const Fit& found, const OpenReduction& open);

/// Adds what explains it. `culprit`: the rank at fault, where the explanation has one.
void explain_mean(const Fit& found, std::optional<Rank> culprit, Finding& finding);

}  // namespace lockstep::laws
