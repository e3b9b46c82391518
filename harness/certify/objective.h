// What a step's gradient is meant to be: which weight each sample of a window has in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/certify/fraction.h"

namespace lockstep {

enum class ObjectiveKind : std::uint8_t {
  kSampleMean,   ///< Each sample of the window counts 1 / samples.
  kTokenMean,    ///< Each token of the window counts 1 / tokens.
  kSum,          ///< Each sample counts 1.
  kRankMean,     ///< Each rank's mean over its samples counts 1 / ranks.
  kRankWeights,  ///< Each rank's mean over its samples counts as given.
};

/// The gradient of a window as one process with all its samples would compute it.
///
///   Objective::token_mean()
///   Objective::rank_weights({Fraction(1, 4), Fraction(3, 4)})
struct Objective {
  ObjectiveKind kind = ObjectiveKind::kSampleMean;
  std::vector<Fraction> by_rank{};  ///< kRankWeights: one per rank.

  /// The mean over the samples of a window.
  static Objective sample_mean() { return {ObjectiveKind::kSampleMean, {}}; }

  /// The mean over its tokens.
  static Objective token_mean() { return {ObjectiveKind::kTokenMean, {}}; }

  /// The sum over its samples.
  static Objective sum() { return {ObjectiveKind::kSum, {}}; }

  /// The mean of the ranks' means.
  static Objective rank_mean() { return {ObjectiveKind::kRankMean, {}}; }

  /// A weight for each rank, shared by its samples. Requires: one per rank.
  static Objective rank_weights(std::vector<Fraction> by_rank) {
    return {ObjectiveKind::kRankWeights, std::move(by_rank)};
  }

  std::string text() const;  ///< "token-mean", "1/4,3/4": what parse_objective reads.

  bool counts_tokens() const { return kind == ObjectiveKind::kTokenMean; }
};

/// Reads "sample-mean", "token-mean", "sum", "rank-mean", or one weight per rank: "1/4,3/4".
///
/// Errors: an unknown word, with the closest one; weights that are not one fraction per rank, or
///     are negative.
Result<Objective> parse_objective(const std::string& text, std::int32_t n_ranks);

}  // namespace lockstep
