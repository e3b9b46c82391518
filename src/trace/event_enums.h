// The closed sets in events, with the words that trace files have for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/enum_names.h"

namespace lockstep {

/// Kinds of events, in the order of EventBody; a StateEvent has one for each StateKind.
enum class EventKind : std::uint8_t {
  kWrap,
  kForward,
  kBackward,
  kBatch,
  kGrad,
  kParam,
  kBuffer,
  kOptimizer,
  kAuxiliary,
  kStep,
  kCollective,
  kBucket,
  kSample,
  kEpoch,
  kPhase,
  kMetric,
  kDecision,
  kFault,
  kLog,
  kValue,
  kEnd,
  kSnapshot,
  kRng,
  kTouch,
  kGroup,
  kEnvironment,
  kLoss,
  kClip,
  kOptions,  ///< An OptimizerEvent: "optimizer" is what the events of its state are called.
  kOuterStep,
  kZeroGrad,
  kBufferPolicy,
  kConfiguration,
  kCommHook,
  kExchange,
  kLone,
  kTraining,
  kData,
  kInput,
};
template <>
inline constexpr EnumNames<39> kEnumNames<EventKind> = {
    "wrap",      "forward",       "backward",      "batch",     "grad",       "param",
    "buffer",    "optimizer",     "auxiliary",     "step",      "collective", "bucket",
    "sample",    "epoch",         "phase",         "metric",    "decision",   "fault",
    "log",       "value",         "end",           "snapshot",  "rng",        "touch",
    "group",     "environment",   "loss",          "clip",      "options",    "outer_step",
    "zero_grad", "buffer_policy", "configuration", "comm_hook", "exchange",   "lone",
    "training",  "data",          "input"};

/// Where a gradient was looked at. In one backward kInc is recorded before kPre and kPost: what
/// comes after kPost counts as not reduced.
enum class GradPoint : std::uint8_t {
  kBase,  ///< Found in .grad before the backward.
  kInc,   ///< This backward's own contribution.
  kPre,   ///< The whole .grad, just before the reduction takes it.
  kPost,  ///< Just after the reduction published it.
  kUsed,  ///< What the optimizer step consumes.
  kRedo,  ///< The contribution once more: what computing the micro-step again gives.
};
template <>
inline constexpr EnumNames<6> kEnumNames<GradPoint> = {
    "base", "inc", "pre", "post", "used", "redo"};

/// When replicated state was looked at.
enum class StatePoint : std::uint8_t {
  kWrap,     ///< After construction of the wrapper.
  kForward,  ///< As the first synchronising forward begins.
  kStep,     ///< After an optimizer step, at that step's own number (as its StepEvent).
  kEval,     ///< Entering evaluation.
  kLoad,     ///< After a checkpoint was loaded.
  kSave,     ///< Before a snapshot is written.
  kEnd,      ///< At the end of the run.
  kOuter,    ///< After an outer step: ranks that trained alone agree again.
  kFound,    ///< As a forward found it: a parameter rewritten, a buffer that rank 0's replaces.
};
template <>
inline constexpr EnumNames<9> kEnumNames<StatePoint> = {
    "wrap", "forward", "step", "eval", "load", "save", "end", "outer", "found"};

enum class StateKind : std::uint8_t {
  kParam,
  kBuffer,
  kOptimizer,
  kAuxiliary,  ///< What a program keeps equal by itself: moving averages, queues, target networks.
};
template <>
inline constexpr EnumNames<4> kEnumNames<StateKind> = {"param", "buffer", "optimizer", "auxiliary"};

enum class CollectivePhase : std::uint8_t { kPosted, kCompleted, kFailed };
template <>
inline constexpr EnumNames<3> kEnumNames<CollectivePhase> = {"posted", "completed", "failed"};

/// How a call ended, as its rank saw it.
enum class CallStatus : std::uint8_t {
  kNone,  ///< It has only been posted.
  kOk,
  kTimedOut,
  kPeerLost,
  kMismatch,
  kAborted,
  kStuck,
  kFailed,   ///< For a reason that the recorder does not know.
  kLeftOut,  ///< It stands for all calls since the last recorded one, which were made.
};
template <>
inline constexpr EnumNames<9> kEnumNames<CallStatus> = {
    "", "ok", "timed_out", "peer_lost", "mismatch", "aborted", "stuck", "failed", "left_out"};

/// Which values of a tensor were recorded: those of a gradient, in the order of GradPoint, then
/// those of state, in the order of StatePoint.
enum class ValuePoint : std::uint8_t {
  kGradBase,
  kGradInc,
  kGradPre,
  kGradPost,
  kGradUsed,
  kGradRedo,
  kWrap,
  kForward,
  kStep,
  kEval,
  kLoad,
  kSave,
  kEnd,
  kOuter,
  kFound,
};
template <>
inline constexpr EnumNames<15> kEnumNames<ValuePoint> = {"grad.base",
                                                         "grad.inc",
                                                         "grad.pre",
                                                         "grad.post",
                                                         "grad.used",
                                                         "grad.redo",
                                                         "wrap",
                                                         "forward",
                                                         "step",
                                                         "eval",
                                                         "load",
                                                         "save",
                                                         "end",
                                                         "outer",
                                                         "found"};

constexpr ValuePoint value_point(GradPoint point) { return static_cast<ValuePoint>(point); }

constexpr ValuePoint value_point(StatePoint point) {
  return static_cast<ValuePoint>(kEnumNames<GradPoint>.size() + static_cast<std::size_t>(point));
}

enum class PhaseKind : std::uint8_t { kTrain, kEval, kSave, kEnd };
template <>
inline constexpr EnumNames<4> kEnumNames<PhaseKind> = {"train", "eval", "save", "end"};

/// How a metric follows from what its samples are worth, taken together.
enum class MetricFormula : std::uint8_t {
  kNone,      ///< The mean over samples of one number each.
  kPearson,   ///< The correlation of a prediction and a target per sample,
  kSpearman,  ///< that of their ranks (ties share the mean of theirs),
  kR2,        ///< the share of the target's variance that predictions explain,
  kRmse,      ///< the root of their mean squared difference,
  kAuc,       ///< the area under the curve of a score per sample and a label of 0 or 1.
};
template <>
inline constexpr EnumNames<6> kEnumNames<MetricFormula> = {
    "", "pearson", "spearman", "r2", "rmse", "auc"};

/// What a line of a log is about.
enum class LogKind : std::uint8_t {
  kNone,          ///< What a program said.
  kMissed,        ///< Something that this rank's recorder could not record.
  kNotLoaded,     ///< A state that was loaded into a model which has not one of its names.
  kWrappedAgain,  ///< A model that holds a wrapper of its own was wrapped.
  kBatchesKept,   ///< A sampler's batches were kept, and trained on again in their order.
  kTakenElsewhere,  ///< Gradients were taken out of a buffer at other places than they had been put in.
  kResultsOverlap,  ///< A collective writes what it receives of several ranks into the same memory.
  kResultDropped,   ///< A collective has written its result into a tensor that nothing holds.
};
template <>
inline constexpr EnumNames<8> kEnumNames<LogKind> = {"",
                                                     "missed",
                                                     "not_loaded",
                                                     "wrapped_again",
                                                     "batches_kept",
                                                     "taken_elsewhere",
                                                     "results_overlap",
                                                     "result_dropped"};

/// The type that autocast has operations compute in, where it is on.
enum class AutocastType : std::uint8_t { kNone, kF16, kBF16 };
template <>
inline constexpr EnumNames<3> kEnumNames<AutocastType> = {"", "f16", "bf16"};

/// How memory was touched. In the order of the names.
enum class TouchManner : std::uint8_t {
  kNone,   ///< By an operation on it.
  kValue,  ///< A value was found elsewhere that only that memory held, while a transfer owned it.
  kAbandoned,  ///< The handle was dropped without a wait: what it wrote must not be used.
};
template <>
inline constexpr EnumNames<3> kEnumNames<TouchManner> = {"", "value", "abandoned"};

/// How a loss made one number of its terms.
enum class LossReduction : std::uint8_t {
  kMean,   ///< Divided by the number of terms.
  kSum,    ///< Not divided.
  kGiven,  ///< Divided by a number that the caller gave.
};
template <>
inline constexpr EnumNames<3> kEnumNames<LossReduction> = {"mean", "sum", "given"};

enum class ClipKind : std::uint8_t {
  kNorm,
  kValue,
  kPart,  ///< A rank's shards of gradients were multiplied by `factor`, whatever for.
};
template <>
inline constexpr EnumNames<3> kEnumNames<ClipKind> = {"norm", "value", "part"};

enum class DataPart : std::uint8_t {
  kRows,   ///< Which rows of its data set a pass divides among the ranks, in order.
  kBatch,  ///< The values of the batch that the next forward consumes.
  kSet,    ///< A data set that nothing divides among the ranks: by what it holds, as a pass begins.
  kEntries,  ///< Which samples a data set holds that a pass divides among the ranks, in any order, ...
  kOrder,    ///< ... in which order, ...
  kClasses,  ///< ... and the same with classes numbered as they come, where samples have classes.
  kVocabulary,  ///< Which words a table of the program numbers, in any order, ...
  kNumbering,   ///< ... and how it numbers them.
  kDrawn,       ///< What a model held before a wrapper broadcast it.
  kFrozen,      ///< What a module holds that no wrapper has and nothing trains, as it is used.
};
template <>
inline constexpr EnumNames<10> kEnumNames<DataPart> = {"rows",
                                                       "batch",
                                                       "set",
                                                       "entries",
                                                       "order",
                                                       "classes",
                                                       "vocabulary",
                                                       "numbering",
                                                       "drawn",
                                                       "frozen"};

/// What a communication hook makes of gradients.
enum class HookEffect : std::uint8_t {
  kMean,     ///< What the reducer would: their mean.
  kRounded,  ///< The mean, with less precision: 16 bits, 8 bits, a low rank.
  kOther,    ///< Something else on purpose: nothing, the mean of a part of the ranks.
};
template <>
inline constexpr EnumNames<3> kEnumNames<HookEffect> = {"mean", "rounded", "other"};

/// How the result of a collective joined the graph of a loss.
enum class ExchangeJoin : std::uint8_t {
  kConstant,  ///< As plain numbers: no gradient reaches it.
  kInPlace,   ///< The graph's own tensor was overwritten: its gradient passes on as if it were not.
  kFunction,  ///< As the result of a differentiable function.
};
template <>
inline constexpr EnumNames<3> kEnumNames<ExchangeJoin> = {"constant", "in-place", "function"};

/// When a rank's parameters are looked at although no reduction keeps them equal.
enum class LonePoint : std::uint8_t {
  kStepped,  ///< A step that used gradients no reduction had made has left them so.
  kFound,    ///< What comes next (a forward, an evaluation, the end) found them so.
};
template <>
inline constexpr EnumNames<2> kEnumNames<LonePoint> = {"stepped", "found"};

/// What a step's gradient is meant to be the gradient of.
enum class DeclaredLoss : std::uint8_t {
  kSampleMean,
  kTokenMean,
  kSum,
  kRankMean,  ///< Each rank's mean counts the same.
};
template <>
inline constexpr EnumNames<4> kEnumNames<DeclaredLoss> = {
    "sample-mean", "token-mean", "sum", "rank-mean"};

/// What buffers of a model are meant to be, or what a wrapper makes of them.
enum class BufferPolicy : std::uint8_t {
  kNone,        ///< Not said.
  kBroadcast0,  ///< Rank 0's, from the next synchronising forward on.
  kMean,        ///< Averaged over the ranks.
  kSynced,      ///< Equal, however that is done.
  kLocal,       ///< Each rank's own.
};
template <>
inline constexpr EnumNames<5> kEnumNames<BufferPolicy> = {
    "", "broadcast0", "mean", "synced", "local"};

/// What became of a snapshot.
enum class SnapshotAction : std::uint8_t {
  kPart,   ///< A rank wrote its file.
  kSave,   ///< The snapshot was published: it is whole.
  kRead,   ///< A rank read a file of it.
  kLoad,   ///< A rank continues from it, or has found none.
  kFresh,  ///< Training begins anew on purpose: what was there no longer counts.
  kFail,   ///< Writing or loading it failed.
  kWrite,  ///< No snapshot's: a rank was about to open a file of the program's to write it anew, ...
  kOpen,   ///< ... to read it, ...
  kExtend,  ///< ... or to add to it, to change it, or to make it if there is none.
};
template <>
inline constexpr EnumNames<9> kEnumNames<SnapshotAction> = {
    "part", "save", "read", "load", "fresh", "fail", "write", "open", "extend"};

/// A file that may be anything.
constexpr bool is_of_the_program(SnapshotAction action) {
  return action == SnapshotAction::kWrite || action == SnapshotAction::kOpen ||
         action == SnapshotAction::kExtend;
}

/// How a rank came to the samples of a pass, as EpochEvent::sampler and DataEvent::source say.
/// Programs may use samplers and splits of their own, which have names of their own.
enum class KnownSampler : std::uint8_t {
  kDistributed,  ///< All ranks share one order and read disjoint parts of it.
  kRandom,       ///< The rank alone reads the whole set, each sample once, in an order of its own.
  kSequential,   ///< The same, in the set's order.
  kStream,       ///< A data set that is iterated over.
  kSubset,       ///< The rank alone reads the rows that it has taken of the set, each sample once.
};
template <>
inline constexpr EnumNames<5> kEnumNames<KnownSampler> = {
    "distributed", "random", "sequential", "stream", "subset"};

/// The split that is trained on; any other is evaluated.
inline constexpr std::string_view kTrainSplit = "train";

constexpr bool is_train_split(std::string_view split) { return split == kTrainSplit; }

}  // namespace lockstep
