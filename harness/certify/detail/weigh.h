// Weights of every sample in every window, from the gradients that a probed run used.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/harness/certify/certificate.h"
#include "lockstep/harness/certify/detail/windows.h"

namespace lockstep {

/// What the probe made of a sample.
struct ProbedSample {
  std::int64_t column = 0;  ///< The element of the gradient that is its weight.
  std::int64_t n_tokens = 1;
};

/// What is known of a probed run.
struct ProbedRun {
  std::vector<std::vector<RankWindow>> ranks;  ///< Windows by rank.
  /// Of a rank's sample, by the id that was recorded.
  std::function<ProbedSample(std::int32_t rank, std::int64_t id)> sample;
};

/// Every weight as an exact fraction, beside the objective's.
///
/// An element of the gradient has one contribution, that of its sample. Up to the step it has been
/// rounded at most (K + 1) (N + 16) times: per micro-step in the loss and its scaling, by up to
/// N additions and a division in the reduction; and as often after the last one. nearest_fraction
/// gets that bound.
///
/// Returns: a certificate without title and faults, or with the one that a weight is not a
///     fraction; windows then end with that one.
Certificate weigh(const ProbedRun& run, const Objective& objective);

/// Adds the ways in which the weights of a certificate are wrong.
void name_faults(Certificate& certificate);

}  // namespace lockstep
