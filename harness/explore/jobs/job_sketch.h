// Random correct training jobs: what they may be made of, how one is drawn, how one gets simpler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/reduction_order.h"
#include "lockstep/hooks/hook_kinds.h"
#include "lockstep/sim/group/fidelity.h"
#include "lockstep/trace/event_enums.h"
#include "lockstep/train/job_words.h"

namespace lockstep {

/// What happens to a job, none of which a correct one may suffer from.
enum class SketchFault : std::uint8_t { kNone, kLate, kSlow, kDelay, kClockSkew, kCrash };
template <>
inline constexpr EnumNames<6> kEnumNames<SketchFault> = {
    "none", "late", "slow", "delay", "clock-skew", "crash"};

/// The choices that make one job, its world and its schedule. Every value of this type that
/// draw_job or simpler returned is a job that PyTorch's users would call healthy: all laws must
/// hold.
struct JobSketch {
  // -- world and schedule
  std::int32_t ranks = 2;
  std::int32_t nodes = 1;  ///< Divides the ranks.
  std::string strategy = "run-to-block";
  std::uint64_t schedule_seed = 0;
  ReductionOrder::Kind order = ReductionOrder::kRank;
  sim::Pairing pairing = sim::Pairing::kStrict;
  sim::Fidelity fidelity = sim::Fidelity::kRendezvous;
  bool timed = false;  ///< Links and products take time.
  // -- model
  ModelKind model = ModelKind::kMlp;
  std::int64_t features = 3;
  std::vector<std::int64_t> hidden{};  ///< Widths between the features and the outputs.
  std::int64_t outputs = 1;
  ActivationKind activation = ActivationKind::kRelu;
  CheckpointKind checkpoint = CheckpointKind::kNone;
  HeadChoice head = HeadChoice::kBoth;  ///< kTwoHead
  DType dtype = DType::kF32;
  bool bias = true;
  bool freeze = false;        ///< The first layer's weight.
  bool seed_by_rank = false;  ///< Each rank draws other initial values, which DDP makes equal.
  std::uint64_t seed = 0;     ///< Of the initial values, the data and the order of the samples.
  // -- data
  bool classes = false;      ///< Labels and cross-entropy instead of numbers.
  std::int64_t batches = 2;  ///< Per rank and epoch.
  std::int64_t batch = 2;    ///< Rows of each.
  std::int64_t extra = 0;    ///< Rows beyond that, which make samplers pad or drop.
  SamplerKind sampler = SamplerKind::kDistributed;  ///< Or kBatchesByRank, kStream.
  bool shuffle = false;
  bool drop_last = false;
  std::int64_t workers = 0;
  bool persistent = false;
  bool augment = false;
  LossKind loss = LossKind::kMse;  ///< Or kL1; labels have cross-entropy.
  bool eval = false;
  // -- optimization
  OptimizerKind optimizer = OptimizerKind::kSgd;
  bool momentum = false;
  bool weight_decay = false;
  bool variant = false;  ///< sgd: nesterov; adam, adamw: amsgrad; rmsprop: centered
  bool zero = false;
  bool averager = false;
  std::optional<ScheduleKind> scheduler{};
  bool per_step = false;            ///< The scheduler steps after each step, not epoch.
  std::optional<DType> autocast{};  ///< What forwards compute in.
  bool scaler = false;
  std::optional<ClipKind> clip{};
  // -- loop
  std::int64_t epochs = 1;
  std::int64_t accumulate = 1;
  bool no_sync = false;
  bool redo = false;  ///< Micro-steps are computed twice.
  ZeroGrad zero_grad = ZeroGrad::kNone;
  bool join = false;                ///< Uneven inputs.
  bool divide_by_initial = true;    ///< join
  std::int64_t snapshot_every = 0;  ///< 0 = never
  // -- wrapper
  bool wrap = true;  ///< False: a hand-written loop.
  bool broadcast_buffers = true;
  std::int64_t bucket_bytes = 0;  ///< 0 = PyTorch's caps.
  bool find_unused = false;
  bool view = false;
  bool static_graph = false;
  HookKind hook = HookKind::kNone;
  // -- what happens to it
  SketchFault fault = SketchFault::kNone;
  std::int32_t fault_rank = 0;
  std::int64_t fault_step = 0;

  bool operator==(const JobSketch&) const = default;
};

/// Job `index` of the space that `seed` spans.
///
/// Deterministic: a function of its arguments.
JobSketch draw_job(std::uint64_t seed, std::uint64_t index);

/// Jobs with one thing less, the largest simplifications first. Empty: there is nothing to leave
/// out. Following any of them repeatedly ends.
std::vector<JobSketch> simpler(const JobSketch& sketch);

/// The same job as a scenario file. `thorough` names the laws that run it several times more.
std::string to_toml(const JobSketch& sketch, bool thorough = false);

}  // namespace lockstep
