// What went wrong, in a closed list: the likely causes that findings name, each with a sentence, a
// remedy and the place in the documentation that shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep {

/// The likely cause of a finding, in the order of the ids: files and reports contain these.
enum class Cause : std::uint8_t {
  kNone,  ///< The evidence does not tell.
  kAbsentGradientsSkipped,
  kAccumulateDiffers,
  kAccumulatedTwice,
  kAsyncNoWait,
  kAutocastOnOneRank,
  kBatchNormUneven,
  kBf16HopRounding,
  kBnLocalEval,
  kBranchNoGraph,
  kBucketOrderDiffers,
  kBufferCameLate,
  kBufferOverwrittenBy0,
  kBufferReassigned,
  kBypassWrapper,
  kCallSetDiffers,
  kCallSkipped,
  kCheckpointDecisionDiffers,
  kCkptDirClock,
  kClassesDiffer,
  kClearedBeforeStep,
  kClipBeforeSync,
  kClipBeforeUnscale,
  kClipNormRecounted,
  kClipNotApplied,
  kClipOneRank,
  kClipOwnPart,
  kCodeSkew,
  kCollectiveOutsideAutograd,
  kCollectiveResultDropped,
  kConfigurationDiffers,
  kContributionLost,
  kDataOrderDiffers,
  kDoubleAverage,
  kDtypeRedopRootMismatch,
  kDuplicateDevice,
  kEarlyStopOneRank,
  kElasticWorldChange,
  kEmaDrift,
  kEnvMissingSolo,
  kEvalModeOneRank,
  kEvaluationTouchesGradients,
  kFp16SumOverflow,
  kFrozenDevice,
  kGatherOwnShare,
  kHookStateMissing,
  kIgnoredSetDiffers,
  kInitBroadcastPartial,
  kInitBuffersSkipped,
  kInitNoBroadcast,
  kIterableUnsharded,
  kJoinExtraCall,
  kLastBatchEvaluated,
  kLastMicroUnsynced,
  kLinkFlap,
  kLivelock,
  kLoadRank0Only,
  kLocalMetricLogged,
  kLocalRankAsRank,
  kLrPerRank,
  kLrStepsTimesWorld,
  kManyWriters,
  kMissingRecv,
  kMissingSend,
  kModelDiffers,
  kNanSkipOneRank,
  kNoDistributedSampler,
  kNoSetEpoch,
  kNoSyncOneRank,
  kNongradParamDrift,
  kOptStateRootOnly,
  kOptimizerOptionsDiffer,
  kOptimizerStale,
  kOrderSwap,
  kOuterStepDenominator,
  kOuterStepReversed,
  kOverlapRace,
  kPadDuplicatesEval,
  kParamReplaced,
  kParameterNudged,
  kPartialWindow,
  kPartition,
  kPersistentWorkerEpoch,
  kPrereducedMetric,
  kRankCrash,
  kRank0OnlyCollective,
  kReadBeforeCommit,
  kReducedAgain,
  kReplicaDrift,
  kResumeElsewhere,
  kResumePathDisagrees,
  kResumeReplays,
  kResumeReshuffle,
  kRngNotRestored,
  kRngNotShared,
  kRngRank0Restored,
  kRngSameDropout,
  kSamplerSeedDiffers,
  kScalerInfLocal,
  kScalerSchedMissing,
  kSdcAfterReduce,
  kSdcBeforeReduce,
  kSendSend,
  kShapeMismatchCompletes,
  kShardsAlike,
  kSignalStopOneRank,
  kSlowRank0Timeout,
  kSplitLeak,
  kSubgroupOnSomeRanks,
  kSumVsMean,
  kTagMismatch,
  kTailDroppedEval,
  kTokenWeightedMean,
  kTwoCommCycle,
  kTwoRankZeros,
  kUnevenBatches,
  kUnfreezeAfterWrap,
  kUnusedBucketUnfired,
  kUnusedNoneVsZero,
  kUpdateOverwritten,
  kWeightedNotSharded,
  kWorkerSeedClones,
  kWorldFromDevices,
  kZeroGradForgotten,
};

/// What a user of PyTorch reads about a cause.
struct CauseInfo {
  Cause cause = Cause::kNone;
  std::string_view id;  ///< "rank0-only-collective": in reports, scenarios and docs/causes.md.
  std::string_view sentence;  ///< What happened.
  std::string_view remedy;    ///< What to change.
  std::string_view page;      ///< "docs/zoo.md#bypass-wrapper": an anchor of a page in docs.
};

/// Every cause but kNone, sorted by id.
std::span<const CauseInfo> all_causes();
/// Requires: not kNone.
const CauseInfo& describe(Cause cause);
/// "rank-crash"; empty for kNone.
std::string_view id_of(Cause cause);
/// The cause with this id. Nothing for an unknown id and for an empty one.
std::optional<Cause> parse_cause(std::string_view id);

}  // namespace lockstep
