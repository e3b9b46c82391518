// What to train, as plain values: no files, no ranks, no backend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/hooks/hook_catalog.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/lr_rules.h"
#include "lockstep/optim/reduce_lr_on_plateau.h"
#include "lockstep/parallel/model_averaging.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep {

/// How parameters get their first values.
struct InitSpec {
  std::string kind = "pytorch";  ///< "pytorch" | "constant" | "grid" | "values"
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
  std::string kind = "mlp";  ///< "scalar" | "linear" | "mlp" | "twohead" | "bn" | "cnn" | "gpt"
  std::vector<std::int64_t> widths = {4, 4, 1};
  std::vector<std::int64_t> image{};  ///< cnn: channels, height, width of what a row of x holds.
  std::int64_t kernel = 3;            ///< cnn: height and width of the filters, odd.
  bool batch_norm = false;            ///< cnn: a batch norm after each convolution.
  std::string activation = "relu";    ///< "relu" | "tanh" | "none"
  std::string checkpoint = "none";    ///< mlp, bn: "none" | "reentrant" | "non-reentrant"
  bool bias = true;
  DType dtype = DType::kF32;
  std::string head = "a";             ///< twohead: which heads the forward uses: "a" | "b" | "both"
  std::vector<std::string> freeze{};  ///< Names of parameters without gradient.
  GptSpec gpt{};
  InitSpec init{};
};

/// Where random augmentation draws from: see Augmentation.
enum class AugmentStream : std::uint8_t { kNone, kWorker, kInherited };

/// Random augmentation: each row's features change sign or not, drawn where the row is read.
struct AugmentSpec {
  AugmentStream stream = AugmentStream::kNone;
  std::uint64_t seed = 0;    ///< Of the rank's process, from which base seeds of workers come.
  bool seed_by_rank = true;  ///< seed + rank, as scripts do that seed per process.
};

struct LoaderSpec {
  std::int64_t batch = 1;  ///< Samples per rank and micro-step.
  /// "distributed" | "random" | "sequential" | "batches_by_rank" | "stream"
  std::string sampler = "distributed";
  std::int64_t rank = -1;  ///< distributed: the number it is given, -1 = the rank's own.
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool set_epoch = true;
  bool drop_last = false;
  std::int64_t workers = 0;    ///< Only a stream's order depends on them.
  bool persistent = false;     ///< Workers, and their copies of a stream, last over epochs.
  std::string shard = "none";  ///< stream: who divides it: "none" | "rank" | "rank*worker"
  AugmentSpec augment{};
  /// batches_by_rank: sizes of each rank's consecutive batches; rank r reads the rows after rank
  /// r-1's.
  std::vector<std::vector<std::int64_t>> batches_by_rank{};
};

struct LossSpec {
  std::string kind = "mse";  ///< "mse" | "l1" | "cross-entropy"
  /// What it does: "local-samples" | "local-tokens" | "global-tokens" | "sum"
  std::string normalize = "local-samples";
  std::string declared = "sample-mean";  ///< What was meant: | "token-mean" | "sum"
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
  std::string kind = "sgd";  ///< "sgd" | "adam" | "adamw" | "adagrad" | "rmsprop"
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
  std::string per = "epoch";           ///< "epoch" | "step": when the rates move on
  std::vector<optim::LrRule> rules{};  ///< None: constant rates. Several: sequential or chained.
  std::vector<std::int64_t> milestones{};  ///< Sequential: one less than rules.
  bool chained = false;
  std::optional<optim::PlateauOptions> plateau{};  ///< Instead of rules.
  std::string metric = "loss";  ///< plateau: "loss" (each rank's own) | "eval" (of all ranks)
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

struct EvalSpec {
  std::int64_t every_epochs = 0;    ///< 0 = never
  std::string metric = "accuracy";  ///< "accuracy" | "mse" | "l1" | "cross-entropy"
  bool dedup = true;                ///< Count padded repeats once.
  /// "wrapper" (which broadcasts buffers first, if it keeps them equal) | "inner": the module that
  /// is wrapped, with the buffers each rank has.
  std::string forward = "wrapper";
  bool drop_last = false;  ///< Leave out the rows that do not divide evenly, instead of padding.
  /// What is reported: "samples": the mean over all ranks' rows | "ranks": the mean of the ranks'
  /// means | "none": each rank's own mean.
  std::string average = "samples";
};

/// Snapshots: all that a restarted job needs to continue as if nothing had happened (snapshot.h).
struct SnapshotSpec {
  std::int64_t every_steps = 0;    ///< 0 = never
  std::string path = "snapshots";  ///< A folder that all ranks share.
  std::int64_t keep = 2;           ///< Older ones are removed; 0 = keep all.
  bool resume = true;              ///< Start from the newest whole one, if there is one.
  /// What they hold. Leaving something out is how many scripts come to resume differently.
  std::vector<std::string> include = {
      "model", "optimizer", "scheduler", "scaler", "sampler", "rng", "hook"};
  /// What this rank takes over from one, where it is there.
  std::vector<std::string> load = include;
  std::string rng = "own";       ///< "own" | "rank0": whose generators each rank continues with.
  std::string writer = "rank0";  ///< "rank0" | "local-rank0": who writes what ranks have in common.
  /// With a different number of ranks "restart-epoch" (its division differs) | "keep-batches":
  /// the count of batches continues, though they have a different size now.
  std::string resize = "restart-epoch";
  std::string epoch = "saved";  ///< "saved" | "first": the epoch a resumed rank continues with.
  /// "epoch" | "resume": since when the batches of an epoch in progress are counted.
  std::string batches = "epoch";
  /// "atomic" | "unsynced" (renamed, but not synced) | "in-place" (neither).
  std::string publish = "atomic";
};

struct LoopSpec {
  std::optional<std::int64_t> steps;  ///< Optimizer steps; ends mid-epoch if need be.
  std::int64_t epochs = 1;            ///< When steps is not given (steps restart epochs as needed).
  std::int64_t accumulate = 1;        ///< Micro-steps an optimizer step.
  bool no_sync = false;               ///< Skip synchronisation on all but the last micro-step.
  std::string rest = "step";          ///< "step" | "drop": what an epoch leaves of a window.
  std::string zero_grad = "none";     ///< "none" | "zero" | "never"
  std::string forward = "wrapper";    ///< "wrapper" | "inner" (calls the wrapped module directly)
  bool redo = false;                  ///< Compute each micro-step twice, for law redo-equal.
  EvalSpec eval{};
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
  bool wrap = true;             ///< False: a hand-written loop.
  std::string average = "ddp";  ///< wrap = false: "manual" (all-reduce each gradient) | "none"
  /// "manual": gradients in the order of the "model" | "arrival", last layer first.
  std::string average_order = "model";
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
  std::optional<optim::GradScalerOptions> scaler{};
  LoopSpec loop;
  ExactSpec exact;
  DdpSpec ddp;
};

}  // namespace lockstep
