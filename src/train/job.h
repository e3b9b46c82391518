// What to train, as plain values: no files, no ranks, no backend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/autograd/autocast.h"
#include "lockstep/data/dataset.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/hooks/hook_catalog.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/lr_rules.h"
#include "lockstep/optim/reduce_lr_on_plateau.h"
#include "lockstep/parallel/model_averaging.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/train/job_words.h"

namespace lockstep {

/// How parameters get their first values.
struct InitSpec {
  InitKind kind = InitKind::kPytorch;
  double value = 0.0;            ///< constant
  std::vector<double> values{};  ///< values: all parameters' elements in order
  std::uint64_t seed = 0;        ///< pytorch, grid: torch.manual_seed before construction
  bool seed_by_rank = false;     ///< seed + rank, as scripts that seed per process do
  int grid = 3;                  ///< grid: multiples of 2^-grid in [-1, 1]
};

/// Sizes of a gpt; its tokens are the columns of a row of x.
struct GptSpec {
  std::int64_t vocab = 0;    ///< In scenarios 0 = as many as the data have.
  std::int64_t context = 0;  ///< In scenarios 0 = the data's columns.
  std::int64_t layers = 1;
  std::int64_t heads = 1;
  std::int64_t width = 16;
  double dropout = 0.0;
  /// Masks come from a stream of their own, which rank r starts at this seed plus r. Absent: from
  /// the stream of the initial values, where it ended.
  std::optional<std::uint64_t> dropout_seed{};
  bool tied = true;  ///< The head's weight is the token table.
};

struct ModelSpec {
  ModelKind kind = ModelKind::kMlp;
  std::vector<std::int64_t> widths = {4, 4, 1};
  std::vector<std::int64_t> image{};  ///< cnn: channels, height, width of what a row of x holds.
  std::int64_t kernel = 3;            ///< cnn: height and width of the filters, odd.
  bool batch_norm = false;            ///< cnn: a batch norm after each convolution.
  ActivationKind activation = ActivationKind::kRelu;
  CheckpointKind checkpoint = CheckpointKind::kNone;  ///< mlp, bn
  bool bias = true;
  DType dtype = DType::kF32;
  HeadChoice head = HeadChoice::kA;   ///< twohead
  std::vector<std::string> freeze{};  ///< Names of parameters without gradient.
  GptSpec gpt{};
  InitSpec init{};
};

/// Random augmentation: each row's features change sign or not, drawn where the row is read.
struct AugmentSpec {
  AugmentStream stream = AugmentStream::kNone;
  std::uint64_t seed = 0;    ///< Of the rank's process, from which base seeds of workers come.
  bool seed_by_rank = true;  ///< seed + rank, as scripts do that seed per process.
};

struct LoaderSpec {
  std::int64_t batch = 1;  ///< Samples per rank and micro-step.
  SamplerKind sampler = SamplerKind::kDistributed;
  std::int64_t rank = -1;  ///< distributed: the number it is given, -1 = the rank's own.
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool set_epoch = true;
  std::int64_t first_epoch = 0;  ///< What set_epoch is given first: 1 where a script counts from 1.
  bool drop_last = false;
  std::int64_t workers = 0;  ///< Only a stream's order depends on them.
  bool persistent = false;   ///< Workers, and their copies of a stream, last over epochs.
  StreamShard shard = StreamShard::kNone;  ///< stream
  AugmentSpec augment{};
  /// batches_by_rank: sizes of each rank's consecutive batches; rank r reads the rows after rank
  /// r-1's.
  std::vector<std::vector<std::int64_t>> batches_by_rank{};
};

struct LossSpec {
  LossKind kind = LossKind::kMse;
  LossDivisor normalize = LossDivisor::kLocalSamples;  ///< What it does.
  DeclaredLoss declared = DeclaredLoss::kSampleMean;   ///< What was meant.
};

/// Parameters with their own optimizer options.
struct GroupSpec {
  std::vector<std::string> tensors{};  ///< Names of parameters.
  std::optional<double> lr{};
  std::optional<double> weight_decay{};
  std::optional<double> momentum{};  ///< adam, adamw: beta1
};

/// Averages parameters now and then: post-local SGD's other half.
struct AveragerSpec {
  std::int64_t period = 1;  ///< Where there are no levels.
  std::int64_t warmup_steps = 0;
  std::vector<AveragingLevel> levels{};  ///< Small groups often, large groups seldom.
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 0.1;
  double momentum = 0.0;   ///< sgd, rmsprop
  double dampening = 0.0;  ///< sgd
  double weight_decay = 0.0;
  bool nesterov = false;  ///< sgd
  bool maximize = false;
  double beta1 = 0.9;                      ///< adam, adamw
  double beta2 = 0.999;                    ///< adam, adamw
  double eps = 1e-8;                       ///< all but sgd
  bool amsgrad = false;                    ///< adam, adamw
  double alpha = 0.99;                     ///< rmsprop
  bool centered = false;                   ///< rmsprop
  double lr_decay = 0.0;                   ///< adagrad
  double initial_accumulator_value = 0.0;  ///< adagrad
  std::vector<GroupSpec> groups{};         ///< Parameters that no group names form the first one.
  bool zero = false;                       ///< Its state is divided among the ranks: ZeRO-1.
  bool parameters_as_bucket_view = false;  ///< zero
  std::optional<AveragerSpec> averager{};  ///< After each step: post-local SGD.
};

struct SchedulerSpec {
  RatePace per = RatePace::kEpoch;
  std::vector<optim::LrRule> rules{};  ///< None: constant rates. Several: sequential or chained.
  std::vector<std::int64_t> milestones{};  ///< Sequential: one less than rules.
  bool chained = false;
  std::optional<optim::PlateauOptions> plateau{};  ///< Instead of rules.
  PlateauMetric metric = PlateauMetric::kLoss;     ///< plateau
  /// How often the rates move each time they do: wrappers that step a schedule once per process.
  std::int64_t times = 1;
  std::int64_t declared_times = 1;  ///< How often they are meant to: what one process does.
};

struct ClipSpec {
  std::optional<double> norm{};
  double norm_type = 2.0;
  std::optional<double> value{};
  bool before_sync = false;  ///< Hand-written loops: each rank clips its own gradients.
  bool unscale = true;       ///< False: a scaler's gradients are clipped while still scaled.
  /// The norm of averaged gradients is summed up over the ranks once more, as of shards.
  bool recount = false;
};

struct ScalerSpec {
  optim::GradScalerOptions options{};
  bool update = true;  ///< After each step; false: forgotten, so the second step is an error.
};

struct EvalSpec {
  std::int64_t every_epochs = 0;  ///< 0 = never
  EvalMetric metric = EvalMetric::kAccuracy;
  EvalRows rows = EvalRows::kHeldOut;
  bool dedup = true;  ///< Count padded repeats once.
  ForwardThrough forward = ForwardThrough::kWrapper;
  bool drop_last = false;  ///< Leave out the rows that do not divide evenly, instead of padding.
  EvalAverage average = EvalAverage::kSamples;
};

/// Snapshots: all that a restarted job needs to continue as if nothing had happened (snapshot.h).
struct SnapshotSpec {
  std::int64_t every_steps = 0;    ///< 0 = never
  std::string path = "snapshots";  ///< A folder that all ranks share.
  std::string looks_in{};          ///< Where a start looks for one; empty: in `path`.
  std::int64_t keep = 2;           ///< Older ones are removed; 0 = keep all.
  bool resume = true;              ///< Start from the newest whole one, if there is one.
  /// What they hold. Leaving something out is how many scripts come to resume differently.
  std::vector<SnapshotPart> include = {SnapshotPart::kModel,
                                       SnapshotPart::kOptimizer,
                                       SnapshotPart::kScheduler,
                                       SnapshotPart::kScaler,
                                       SnapshotPart::kSampler,
                                       SnapshotPart::kRng,
                                       SnapshotPart::kHook};
  /// What this rank takes over from one, where it is there.
  std::vector<SnapshotPart> load = include;
  SnapshotRng rng = SnapshotRng::kOwn;
  SnapshotWriter writer = SnapshotWriter::kRank0;
  SnapshotResize resize = SnapshotResize::kRestartEpoch;
  SnapshotEpoch epoch = SnapshotEpoch::kSaved;
  BatchCount batches = BatchCount::kSinceEpoch;
  PublishManner publish = PublishManner::kAtomic;
};

struct LoopSpec {
  std::optional<std::int64_t> steps;  ///< Optimizer steps; ends mid-epoch if need be.
  std::int64_t epochs = 1;            ///< When steps is not given (steps restart epochs as needed).
  std::int64_t accumulate = 1;        ///< Micro-steps an optimizer step.
  bool no_sync = false;               ///< Skip synchronisation on all but the last micro-step.
  WindowRest rest = WindowRest::kStep;
  ZeroGrad zero_grad = ZeroGrad::kNone;
  ForwardThrough forward = ForwardThrough::kWrapper;
  bool redo = false;  ///< Compute each micro-step twice, for law redo-equal.
  EvalSpec eval{};
  std::vector<BarrierPlace> barriers{};  ///< Where ranks wait for one another.
  SnapshotSpec snapshot{};
  /// Uneven inputs: each epoch's batches run in a join context. Needs a wrapper, and epochs.
  std::optional<JoinOptions> join{};
};

/// Exact mode: nothing rounds but the declared grid rounding after each step (docs/determinism.md).
struct ExactSpec {
  bool on = false;
  int grid = 4;
  double clamp = 8.0;
  /// Multiply local losses by N: averages stay exact for other N.
  bool scale_loss_by_world = false;
};

struct DdpSpec {
  DdpOptions options{};
  bool wrap = true;                                   ///< False: a hand-written loop.
  AverageBy average = AverageBy::kDdp;                ///< wrap = false: kManual or kNone.
  AverageOrder average_order = AverageOrder::kModel;  ///< kManual
  HookSpec hook{};
};

/// A training job, whole. The same value runs on every backend.
struct Job {
  ModelSpec model;
  std::shared_ptr<const data::Dataset> train;
  std::shared_ptr<const data::Dataset> holdout;  ///< May be null.
  std::vector<std::int64_t> train_ids{};  ///< Row ids of `train` in the original file, or empty.
  std::vector<std::int64_t> holdout_ids{};
  LoaderSpec loader;
  LossSpec loss;
  OptimizerSpec optimizer;
  SchedulerSpec scheduler;
  ClipSpec clip{};
  AutocastOptions autocast{.enabled = false};  ///< Around each forward with its loss.
  std::optional<ScalerSpec> scaler{};
  LoopSpec loop;
  ExactSpec exact;
  DdpSpec ddp;
};

}  // namespace lockstep
