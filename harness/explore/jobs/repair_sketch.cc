// Which choices go together: the rest of a sketch gives way.
#include <algorithm>

#include "lockstep/harness/explore/jobs/detail/repair.h"

namespace lockstep::detail {

namespace {

bool quantizes(HookKind hook) {
  return hook == HookKind::kQuantizePerTensor || hook == HookKind::kQuantizePerChannel;
}

bool has_batch_norm(const JobSketch& s) { return s.model == ModelKind::kBn; }

void mend_layers(JobSketch& s) {
  if (s.model == ModelKind::kScalar || s.model == ModelKind::kLinear) s.hidden.clear();
  if (s.model == ModelKind::kScalar) {
    s.features = 1;
    s.outputs = 1;
    s.classes = false;
  }
  if (s.model == ModelKind::kMlp && s.hidden.empty()) s.model = ModelKind::kLinear;
  if ((s.model == ModelKind::kBn || s.model == ModelKind::kTwoHead) && s.hidden.empty())
    s.hidden = {2};
  if (s.model == ModelKind::kTwoHead) s.hidden.resize(1);
  if (s.model == ModelKind::kCnn) {
    s.features = 16;  // 1 x 4 x 4
    s.hidden = {2};
  }
  if (s.model == ModelKind::kGpt) {
    s.classes = true;
    s.hidden.clear();
    s.dtype = DType::kF32;
    s.augment = false;
  }
}

void mend_model(JobSketch& s) {
  mend_layers(s);
  if (s.model != ModelKind::kMlp && s.model != ModelKind::kBn) s.checkpoint = CheckpointKind::kNone;
  if (s.model != ModelKind::kTwoHead) s.head = HeadChoice::kBoth;
  if (s.model != ModelKind::kMlp && s.model != ModelKind::kLinear) s.freeze = false;
  if (s.classes) s.outputs = std::max<std::int64_t>(s.outputs, 2);
  if (!s.classes && s.loss != LossKind::kL1) s.loss = LossKind::kMse;
}

void mend_data(JobSketch& s) {
  // Batch norm needs two rows in every batch.
  if (has_batch_norm(s)) {
    s.batch = std::max<std::int64_t>(s.batch, 2);
    s.extra = 0;
    // Each rank would evaluate with its own statistics.
    if (!s.broadcast_buffers) s.eval = false;
  }
  if (s.join) {
    if (s.sampler == SamplerKind::kDistributed) s.sampler = SamplerKind::kBatchesByRank;
  } else if (s.sampler == SamplerKind::kBatchesByRank) {
    s.extra = 0;
  }
  if (s.sampler != SamplerKind::kDistributed) {
    s.drop_last = false;
    s.augment = false;
  }
  if (s.sampler == SamplerKind::kBatchesByRank) {
    s.shuffle = false;
    s.workers = 0;
    s.extra = 0;
  }
  if (s.sampler == SamplerKind::kStream) s.extra = 0;
  if (s.workers == 0) s.persistent = false;
  // Persistent workers of a stream keep the epoch they were started with.
  if (s.sampler == SamplerKind::kStream && s.shuffle) s.persistent = false;
}

void mend_optimizer(JobSketch& s) {
  const bool sgd = s.optimizer == OptimizerKind::kSgd;
  if (!sgd && s.optimizer != OptimizerKind::kRmsprop) s.momentum = false;
  if (sgd && !s.momentum) s.variant = false;
  if (s.optimizer == OptimizerKind::kAdagrad) s.variant = false;
}

void mend_scheduler(JobSketch& s) {
  if (s.scheduler == ScheduleKind::kPlateau && !s.eval) s.scheduler.reset();
  if (s.scheduler == ScheduleKind::kOnecycle && s.optimizer != OptimizerKind::kSgd)
    s.scheduler.reset();
  // A cycle is as long as it says, and a metric comes with an epoch.
  const bool by_epoch = !s.scheduler || s.scheduler == ScheduleKind::kOnecycle ||
                        s.scheduler == ScheduleKind::kPlateau;
  if (by_epoch) s.per_step = false;
}

void mend_averaging(JobSketch& s) {
  if (s.join) s.averager = false;
  if (s.zero) s.snapshot_every = 0;
  if (s.ranks == 1) s.averager = false;
  // Each rank would evaluate its own model.
  if (s.hook == HookKind::kPostLocalSgd || s.averager) s.eval = false;
}

void mend_wrapper(JobSketch& s) {
  if (s.join) s.wrap = true;
  if (!s.wrap) {
    s.seed_by_rank = false;
    s.broadcast_buffers = true;
    s.bucket_bytes = 0;
    s.find_unused = s.view = s.static_graph = s.no_sync = false;
    s.hook = HookKind::kNone;
    s.zero = s.averager = false;
    if (s.model == ModelKind::kBn || s.model == ModelKind::kTwoHead) s.model = ModelKind::kMlp;
  }
  if (s.model == ModelKind::kTwoHead && s.head != HeadChoice::kBoth && !s.static_graph)
    s.find_unused = true;
  // A reentrant checkpoint makes parameters ready twice if unused ones are searched for.
  if (s.find_unused && s.checkpoint == CheckpointKind::kReentrant)
    s.checkpoint = CheckpointKind::kNonReentrant;
  if (quantizes(s.hook)) s.dtype = DType::kF32;
  if (s.accumulate == 1) s.no_sync = false;
  // A static graph may not begin with a backward that is not reduced.
  if (s.static_graph) s.no_sync = false;
  if (s.hook != HookKind::kNone) s.join = s.join && s.hook == HookKind::kAllReduce;
}

void mend_precision(JobSketch& s) {
  if (is_narrow(s.dtype) && s.hook == HookKind::kPowerSgd) s.dtype = DType::kF32;
  // Norms refuse parameters of the other 16 bits, and autocast leaves f64 alone.
  if (s.autocast && s.dtype != DType::kF32) s.autocast = s.dtype;
  if (s.dtype == DType::kF64) s.autocast.reset();
}

void mend_loop(JobSketch& s) {
  s.nodes = s.ranks % s.nodes == 0 ? s.nodes : 1;
  if (s.join) {
    s.static_graph = false;
    s.snapshot_every = 0;
    s.accumulate = 1;
    s.no_sync = false;
    s.per_step = false;  // Its scheduler would move less often.
    // A rank without inputs takes no steps: what others' steps leave in an optimizer it misses.
    s.optimizer = OptimizerKind::kSgd;
    s.momentum = s.variant = false;
  }
  // What these hooks do depends on the buckets, which a resumed job builds again.
  if (s.hook == HookKind::kPowerSgd || quantizes(s.hook)) s.snapshot_every = 0;
  // No snapshot has the generators that persistent workers draw from.
  if (s.augment && s.snapshot_every > 0) s.persistent = false;
  if (s.fault == SketchFault::kCrash && s.snapshot_every == 0) s.fault = SketchFault::kNone;
  if (s.fault == SketchFault::kCrash) {
    s.zero = s.averager = false;
    s.hook = HookKind::kNone;
  }
  s.fault_rank %= s.ranks;
  if (s.fault == SketchFault::kSlow) s.timed = true;
}

}  // namespace

void repair(JobSketch& sketch) {
  // Each pass may remove what another one relied on; nothing is ever added twice.
  for (int pass = 0; pass < 3; ++pass) {
    mend_model(sketch);
    mend_data(sketch);
    mend_optimizer(sketch);
    mend_scheduler(sketch);
    mend_averaging(sketch);
    mend_wrapper(sketch);
    mend_precision(sketch);
    mend_loop(sketch);
  }
}

}  // namespace lockstep::detail
