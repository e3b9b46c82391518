// The closed sets of a job's description, with the words that scenarios write for them.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"
#include "lockstep/trace/event_enums.h"

namespace lockstep {

// -- the model

enum class InitKind : std::uint8_t { kPytorch, kConstant, kGrid, kValues };
template <>
inline constexpr EnumNames<4> kEnumNames<InitKind> = {"pytorch", "constant", "grid", "values"};

/// kBn: an mlp with batch norm before each activation.
enum class ModelKind : std::uint8_t { kScalar, kLinear, kMlp, kTwoHead, kBn, kCnn, kGpt };
template <>
inline constexpr EnumNames<7> kEnumNames<ModelKind> = {
    "scalar", "linear", "mlp", "twohead", "bn", "cnn", "gpt"};

enum class ActivationKind : std::uint8_t { kRelu, kTanh, kNone };
template <>
inline constexpr EnumNames<3> kEnumNames<ActivationKind> = {"relu", "tanh", "none"};

/// Which of PyTorch's two ways computes a layer again in the backward pass.
enum class CheckpointKind : std::uint8_t { kNone, kReentrant, kNonReentrant };
template <>
inline constexpr EnumNames<3> kEnumNames<CheckpointKind> = {"none", "reentrant", "non-reentrant"};

/// The heads of a two-headed model that its forward uses.
enum class HeadChoice : std::uint8_t { kA, kB, kBoth };
template <>
inline constexpr EnumNames<3> kEnumNames<HeadChoice> = {"a", "b", "both"};

// -- the data

/// Where rows come from.
enum class DataKind : std::uint8_t {
  kInline,     ///< The scenario itself.
  kSynthetic,  ///< A seed.
  kCsv,
  kNpy,
  kDigits,  ///< The handwritten digits that come with the project.
  kText,
};
template <>
inline constexpr EnumNames<6> kEnumNames<DataKind> = {
    "inline", "synthetic", "csv", "npy", "digits", "text"};

enum class SamplerKind : std::uint8_t {
  kDistributed,
  kRandom,         ///< Knows nothing of ranks: each sees all rows, in an order of its process.
  kSequential,     ///< The same, in their order.
  kBatchesByRank,  ///< As LoaderSpec::batches_by_rank says.
  kStream,         ///< A data set that is iterated over.
};
template <>
inline constexpr EnumNames<5> kEnumNames<SamplerKind> = {
    "distributed", "random", "sequential", "batches_by_rank", "stream"};

/// By what the readers of a stream divide it.
enum class StreamShard : std::uint8_t { kNone, kRank, kRankAndWorker };
template <>
inline constexpr EnumNames<3> kEnumNames<StreamShard> = {"none", "rank", "rank*worker"};

/// Where random augmentation draws from: see Augmentation.
enum class AugmentStream : std::uint8_t { kNone, kWorker, kInherited };
template <>
inline constexpr EnumNames<3> kEnumNames<AugmentStream> = {"none", "worker", "inherited"};

// -- the loss

enum class LossKind : std::uint8_t { kMse, kL1, kCrossEntropy };
template <>
inline constexpr EnumNames<3> kEnumNames<LossKind> = {"mse", "l1", "cross-entropy"};

/// What a loss is divided by.
enum class LossDivisor : std::uint8_t { kLocalSamples, kLocalTokens, kGlobalTokens, kSum };
template <>
inline constexpr EnumNames<4> kEnumNames<LossDivisor> = {
    "local-samples", "local-tokens", "global-tokens", "sum"};

// -- the optimizer

enum class OptimizerKind : std::uint8_t { kSgd, kAdam, kAdamW, kAdagrad, kRmsprop };
template <>
inline constexpr EnumNames<5> kEnumNames<OptimizerKind> = {
    "sgd", "adam", "adamw", "adagrad", "rmsprop"};

/// How learning rates move.
enum class ScheduleKind : std::uint8_t {
  kStep,
  kMultistep,
  kConstant,
  kLinear,
  kExponential,
  kPolynomial,
  kCosine,
  kRestarts,  ///< Cosines again and again.
  kOnecycle,
  kTable,  ///< Factors that are written out.
  kPlateau,
  kSequential,  ///< One after the other, at milestones.
  kChained,     ///< All at once.
};
template <>
inline constexpr EnumNames<13> kEnumNames<ScheduleKind> = {"step",
                                                           "multistep",
                                                           "constant",
                                                           "linear",
                                                           "exponential",
                                                           "polynomial",
                                                           "cosine",
                                                           "restarts",
                                                           "onecycle",
                                                           "table",
                                                           "plateau",
                                                           "sequential",
                                                           "chained"};

/// When learning rates move on.
enum class RatePace : std::uint8_t { kEpoch, kStep };
template <>
inline constexpr EnumNames<2> kEnumNames<RatePace> = {"epoch", "step"};

/// What a plateau is judged by: each rank's own loss, or the evaluation of all ranks.
enum class PlateauMetric : std::uint8_t { kLoss, kEval };
template <>
inline constexpr EnumNames<2> kEnumNames<PlateauMetric> = {"loss", "eval"};

// -- the loop

/// What a forward goes through: the wrapper, which broadcasts buffers first if it keeps them equal,
/// or the module inside it.
enum class ForwardThrough : std::uint8_t { kWrapper, kInner };
template <>
inline constexpr EnumNames<2> kEnumNames<ForwardThrough> = {"wrapper", "inner"};

enum class EvalMetric : std::uint8_t { kAccuracy, kMse, kL1, kCrossEntropy };
template <>
inline constexpr EnumNames<4> kEnumNames<EvalMetric> = {"accuracy", "mse", "l1", "cross-entropy"};

/// What an evaluation reports.
enum class EvalAverage : std::uint8_t {
  kSamples,  ///< The mean over all ranks' rows.
  kRanks,    ///< The mean of the ranks' means.
  kNone,     ///< Each rank's own mean.
};
template <>
inline constexpr EnumNames<3> kEnumNames<EvalAverage> = {"samples", "ranks", "none"};

/// Which rows an evaluation looks at.
enum class EvalRows : std::uint8_t {
  kHeldOut,    ///< Each rank its share of those that no rank trains on.
  kLastBatch,  ///< The batch that training left behind, as a loop does that reuses its variables.
};
template <>
inline constexpr EnumNames<2> kEnumNames<EvalRows> = {"held-out", "last-batch"};

/// Before what all ranks wait for one another.
enum class BarrierPlace : std::uint8_t {
  kEpoch,     ///< The first batch of an epoch.
  kStep,      ///< An optimizer's step.
  kEval,      ///< An evaluation.
  kSchedule,  ///< The rates' move at the end of an epoch.
  kSave,      ///< A snapshot.
};
template <>
inline constexpr EnumNames<5> kEnumNames<BarrierPlace> = {
    "epoch", "step", "eval", "schedule", "save"};

/// What happens to the micro-steps that an epoch leaves of a window.
enum class WindowRest : std::uint8_t { kStep, kDrop };
template <>
inline constexpr EnumNames<2> kEnumNames<WindowRest> = {"step", "drop"};

/// What clearing leaves of gradients: no tensor, zeros, or all of them.
enum class ZeroGrad : std::uint8_t { kNone, kZero, kNever };
template <>
inline constexpr EnumNames<3> kEnumNames<ZeroGrad> = {"none", "zero", "never"};

/// Who averages gradients: the wrapper; a loop over them; none.
enum class AverageBy : std::uint8_t { kDdp, kManual, kNone };
template <>
inline constexpr EnumNames<3> kEnumNames<AverageBy> = {"ddp", "manual", "none"};

/// The order of a hand-written loop: the model's, or that of arrival, last layer first.
enum class AverageOrder : std::uint8_t { kModel, kArrival };
template <>
inline constexpr EnumNames<2> kEnumNames<AverageOrder> = {"model", "arrival"};

// -- snapshots

/// What a snapshot may hold.
enum class SnapshotPart : std::uint8_t {
  kModel,
  kOptimizer,
  kScheduler,
  kScaler,
  kSampler,
  kRng,
  kHook,
};
template <>
inline constexpr EnumNames<7> kEnumNames<SnapshotPart> = {
    "model", "optimizer", "scheduler", "scaler", "sampler", "rng", "hook"};

/// Whose generators each rank continues with.
enum class SnapshotRng : std::uint8_t { kOwn, kRank0 };
template <>
inline constexpr EnumNames<2> kEnumNames<SnapshotRng> = {"own", "rank0"};

/// Who writes what all ranks have in common.
enum class SnapshotWriter : std::uint8_t { kRank0, kLocalRank0 };
template <>
inline constexpr EnumNames<2> kEnumNames<SnapshotWriter> = {"rank0", "local-rank0"};

/// What becomes of the epoch in progress if the number of ranks changes: it begins again, since its
/// division differs, or the count of batches continues, though they have another size.
enum class SnapshotResize : std::uint8_t { kRestartEpoch, kKeepBatches };
template <>
inline constexpr EnumNames<2> kEnumNames<SnapshotResize> = {"restart-epoch", "keep-batches"};

/// The epoch that a resumed rank continues with.
enum class SnapshotEpoch : std::uint8_t { kSaved, kFirst };
template <>
inline constexpr EnumNames<2> kEnumNames<SnapshotEpoch> = {"saved", "first"};

/// Since when the batches of an epoch in progress are counted.
enum class BatchCount : std::uint8_t { kSinceEpoch, kSinceResume };
template <>
inline constexpr EnumNames<2> kEnumNames<BatchCount> = {"epoch", "resume"};

/// How a file takes its name. Only kAtomic survives a crash at any time.
enum class PublishManner : std::uint8_t {
  kAtomic,
  kUnsynced,  ///< Renamed, but not synced.
  kInPlace,   ///< Neither.
};
template <>
inline constexpr EnumNames<3> kEnumNames<PublishManner> = {"atomic", "unsynced", "in-place"};

}  // namespace lockstep
