// The laws' names, one for each entry of the contract.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"

namespace lockstep {

/// In the order of their numbers (law_table.cc). Ids are stable: reports, policies and scenarios
/// have them.
enum class LawId : std::uint8_t {
  kInitEqual,
  kReplicasEqual,
  kOptimizerEqual,
  kGradientMean,
  kReducedOnce,
  kCollectivesMatch,
  kProgress,
  kBuffersPolicy,
  kSamplesCovered,
  kEpochReshuffled,
  kRngScopes,
  kSingleProcessEqual,
  kResumeEqual,
  kMetricTrue,
  kInFlightUntouched,
  kDeterministic,
  kEnvironmentBijective,
  kCheckpointWhole,
  kRedoEqual,
  kDecisionsUniform,
  kAccumulatedOnce,
  kNormTrue,
  kOuterStep,
  kTrainedSet,
};
template <>
inline constexpr EnumNames<24> kEnumNames<LawId> = {"init-equal",
                                                    "replicas-equal",
                                                    "optimizer-equal",
                                                    "gradient-mean",
                                                    "reduced-once",
                                                    "collectives-match",
                                                    "progress",
                                                    "buffers-policy",
                                                    "samples-covered",
                                                    "epoch-reshuffled",
                                                    "rng-scopes",
                                                    "single-process-equal",
                                                    "resume-equal",
                                                    "metric-true",
                                                    "in-flight-untouched",
                                                    "deterministic",
                                                    "environment-bijective",
                                                    "checkpoint-whole",
                                                    "redo-equal",
                                                    "decisions-uniform",
                                                    "accumulated-once",
                                                    "norm-true",
                                                    "outer-step",
                                                    "trained-set"};

}  // namespace lockstep
