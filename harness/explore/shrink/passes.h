// The kinds of changes that the shrinker tries, each a pass over the document.
#pragma once

#include "lockstep/harness/explore/shrink/shrinker.h"

namespace lockstep::explore {

/// Fewer deviations of the schedule.
void shrink_schedule(Shrinker& shrinker);
/// Fewer optimizer steps.
void shrink_steps(Shrinker& shrinker);
/// Fewer ranks; then, where nodes matter, fewer nodes and fewer ranks on each.
void shrink_world(Shrinker& shrinker);
/// Plainer data and models, fewer features and outputs.
void shrink_job(Shrinker& shrinker);
/// Keys back to their defaults: whole sections first, then what is in them.
void drop_keys(Shrinker& shrinker);
/// Shorter lists: bugs, faults, overrides, rows, operations of programs, layers.
void shrink_lists(Shrinker& shrinker);
/// Smaller integers that count something.
void shrink_integers(Shrinker& shrinker);

}  // namespace lockstep::explore
