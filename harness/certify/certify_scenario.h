// The certificate of a scenario's job.
#pragma once

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/harness/certify/certificate.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// Whether every step of the scenario's job uses the gradient of the objective over its window, as
/// one process with the whole window would compute it.
///
/// The job is run with a probe in the place of its model and data: one linear parameter, samples
/// that are the columns of the identity, and a loss whose derivative by each output is 1. The
/// gradient's elements then are the samples' weights, whatever the loop does with them. Everything
/// that decides about weights stays the job's own: sampler, batches, the loss's normalisation,
/// accumulation, no_sync, wrapper, hand-written averages, join, and planted bugs.
///
/// `objective`: nothing = what the scenario declares as its loss.
/// Returns: a certificate whose `set_aside` names what of the job was left out.
/// Errors: a scenario without a job; one whose ranks exchange something other than gradients'
///     means, such as compressed gradients or averaged parameters; one that does not finish.
/// Deterministic: equal scenarios give equal certificates.
Result<Certificate> certify_scenario(const Scenario& scenario,
                                     const std::optional<Objective>& objective);

}  // namespace lockstep
