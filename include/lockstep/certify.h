// Certifies the averaging of a training loop: does every step use the gradient that one process
// with the whole window (all ranks, all micro-steps) would use?
//
//   const Certificate certificate = lockstep::certify(
//       {.ranks = 2, .objective = Objective::token_mean()},
//       [](lockstep::RankContext& rank, lockstep::Probe& probe) {
//         lockstep::DistributedDataParallel ddp(probe.model(), rank.world());
//         lockstep::optim::Sgd optimizer(probe.model().parameters(), {.lr = 0.1});
//         const auto batch = probe.sequences({rank.rank() == 0 ? 1 : 9});
//         lockstep::mse_loss(ddp(batch.x), batch.y).backward();  // a mean over this rank's tokens
//         optimizer.step();
//       });
//   std::cout << certificate;  // Not certified: 9 x ...
//
// The loop is the program's own: its accumulation, reduction, scaling and optimizer. Model, batches
// and targets come from the probe (docs/certify.md).
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/comm/rank_context.h"
#include "lockstep/harness/certify/certificate.h"
#include "lockstep/harness/certify/objective.h"
#include "lockstep/harness/certify/probe.h"

namespace lockstep {

/// How many ranks, and what is meant.
struct CertifyOptions {
  std::int32_t ranks = 2;  ///< Of the simulated world. Requires: one or more.
  Objective objective{};   ///< Default: the mean over the samples of a window.
};

/// Runs `loop` on every rank, twice: first to count its samples, then with one element of the
/// gradient per sample. A window ends with an optimizer's step, or where gradients are cleared.
///
/// Requires: a loop that takes the same batches each time it is called, and ends with no gradients
///     that a later step would use. It should not clip: a clipped gradient is not an average.
/// Errors: std::invalid_argument for fewer than one rank or an objective that does not fit them;
///     std::runtime_error where the loop throws, hangs or takes no samples.
/// Deterministic: equal loops give equal certificates.
Certificate certify(const CertifyOptions& options,
                    const std::function<void(RankContext&, Probe&)>& loop);

}  // namespace lockstep
