// Drawing a sketch: plain jobs often, every feature now and then.
#include <string>

#include "lockstep/harness/explore/jobs/detail/random_draws.h"
#include "lockstep/harness/explore/jobs/detail/repair.h"

namespace lockstep {

namespace {

using detail::RandomDraws;

void draw_world(RandomDraws& draws, JobSketch& s) {
  s.ranks = static_cast<std::int32_t>(draws.chance(80) ? draws.between(1, 4) : draws.between(5, 9));
  s.nodes = draws.chance(20) ? 2 : 1;
  s.strategy = draws.one_of({"run-to-block", "round-robin", "random", "random", "pct:depth=3"});
  s.schedule_seed = static_cast<std::uint64_t>(draws.below(1'000'000));
  s.order = draws.one_of({ReductionOrder::kRank,
                          ReductionOrder::kGlooRing,
                          ReductionOrder::kPairwise,
                          ReductionOrder::kNcclRing,
                          ReductionOrder::kNcclTree});
  if (draws.chance(30))
    s.pairing = draws.one_of({sim::Pairing::kNcclLike, sim::Pairing::kGlooLike});
  if (draws.chance(30)) s.fidelity = sim::Fidelity::kMessage;
  s.timed = draws.chance(30);
}

void draw_model(RandomDraws& draws, JobSketch& s) {
  s.model = draws.one_of({ModelKind::kMlp,
                          ModelKind::kMlp,
                          ModelKind::kMlp,
                          ModelKind::kMlp,
                          ModelKind::kLinear,
                          ModelKind::kScalar,
                          ModelKind::kBn,
                          ModelKind::kTwoHead,
                          ModelKind::kCnn,
                          ModelKind::kGpt});
  s.features = draws.between(1, 6);
  const std::int64_t n_hidden = draws.between(1, 3);
  for (std::int64_t i = 0; i < n_hidden; ++i) s.hidden.push_back(draws.between(1, 6));
  s.outputs = draws.between(1, 3);
  s.activation =
      draws.one_of({ActivationKind::kRelu, ActivationKind::kTanh, ActivationKind::kNone});
  if (draws.chance(20))
    s.checkpoint = draws.one_of({CheckpointKind::kReentrant, CheckpointKind::kNonReentrant});
  s.head = draws.one_of({HeadChoice::kA, HeadChoice::kB, HeadChoice::kBoth});
  if (draws.chance(30)) s.dtype = DType::kF64;
  s.bias = draws.chance(80);
  s.freeze = draws.chance(10);
  s.seed_by_rank = draws.chance(40);
  s.seed = static_cast<std::uint64_t>(draws.below(1'000'000));
}

void draw_data(RandomDraws& draws, JobSketch& s) {
  s.classes = draws.chance(30);
  s.batches = draws.between(1, 4);
  s.batch = draws.between(1, 4);
  if (draws.chance(40)) s.extra = draws.between(1, 5);
  s.sampler = draws.one_of({SamplerKind::kDistributed,
                            SamplerKind::kDistributed,
                            SamplerKind::kDistributed,
                            SamplerKind::kBatchesByRank,
                            SamplerKind::kStream});
  s.shuffle = draws.chance(60);
  s.drop_last = draws.chance(30);
  if (draws.chance(30)) s.workers = draws.between(1, 3);
  s.persistent = draws.chance(30);
  s.augment = draws.chance(15);
  if (draws.chance(25)) s.loss = LossKind::kL1;
  s.eval = draws.chance(30);
}

void draw_optimization(RandomDraws& draws, JobSketch& s) {
  s.optimizer = draws.one_of({OptimizerKind::kSgd,
                              OptimizerKind::kSgd,
                              OptimizerKind::kSgd,
                              OptimizerKind::kAdam,
                              OptimizerKind::kAdamW,
                              OptimizerKind::kAdagrad,
                              OptimizerKind::kRmsprop});
  s.momentum = draws.chance(40);
  s.weight_decay = draws.chance(30);
  s.variant = draws.chance(30);
  s.zero = draws.chance(10);
  s.averager = draws.chance(8);
  if (draws.chance(40)) {
    s.scheduler = draws.one_of({ScheduleKind::kStep,
                                ScheduleKind::kMultistep,
                                ScheduleKind::kExponential,
                                ScheduleKind::kLinear,
                                ScheduleKind::kPolynomial,
                                ScheduleKind::kCosine,
                                ScheduleKind::kRestarts,
                                ScheduleKind::kOnecycle,
                                ScheduleKind::kPlateau,
                                ScheduleKind::kSequential});
  }
  s.scaler = draws.chance(15);
  if (draws.chance(25)) s.clip = draws.one_of({ClipKind::kNorm, ClipKind::kValue});
}

void draw_loop(RandomDraws& draws, JobSketch& s) {
  s.epochs = draws.between(1, 3);
  if (draws.chance(30)) s.accumulate = draws.between(2, 3);
  s.no_sync = draws.chance(60);
  if (draws.chance(40)) s.zero_grad = ZeroGrad::kZero;
  s.join = draws.chance(12);
  s.divide_by_initial = draws.chance(60);
  if (draws.chance(20)) s.snapshot_every = draws.between(1, 2);
}

void draw_wrapper(RandomDraws& draws, JobSketch& s) {
  s.wrap = draws.chance(92);
  s.broadcast_buffers = draws.chance(75);
  if (draws.chance(60)) s.bucket_bytes = draws.between(1, 120);
  s.find_unused = draws.chance(20);
  s.view = draws.chance(40);
  s.static_graph = draws.chance(15);
  if (draws.chance(25)) {
    s.hook = draws.one_of({HookKind::kAllReduce,
                           HookKind::kFp16,
                           HookKind::kBf16,
                           HookKind::kQuantizePerTensor,
                           HookKind::kQuantizePerChannel,
                           HookKind::kPowerSgd,
                           HookKind::kPostLocalSgd});
  }
}

void draw_fault(RandomDraws& draws, JobSketch& s) {
  if (draws.chance(40))
    s.fault = draws.one_of({SketchFault::kLate,
                            SketchFault::kSlow,
                            SketchFault::kDelay,
                            SketchFault::kClockSkew,
                            SketchFault::kCrash});
  s.fault_rank = static_cast<std::int32_t>(draws.below(s.ranks));
  s.fault_step = draws.below(3);
  s.redo = draws.chance(25);
}

void draw_precision(RandomDraws& draws, JobSketch& s) {
  if (draws.chance(15)) s.dtype = draws.one_of({DType::kBF16, DType::kF16});
  if (draws.chance(20)) s.autocast = draws.one_of({DType::kBF16, DType::kF16});
}

}  // namespace

JobSketch draw_job(std::uint64_t seed, std::uint64_t index) {
  RandomDraws draws(seed, index);
  JobSketch sketch;
  draw_world(draws, sketch);
  draw_model(draws, sketch);
  draw_data(draws, sketch);
  draw_optimization(draws, sketch);
  draw_loop(draws, sketch);
  draw_wrapper(draws, sketch);
  draw_fault(draws, sketch);
  sketch.per_step = draws.chance(30);
  draw_precision(draws, sketch);
  detail::repair(sketch);
  return sketch;
}

}  // namespace lockstep
