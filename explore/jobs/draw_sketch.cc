// Drawing a sketch: plain jobs often, every feature now and then.
#include <string>

#include "lockstep/explore/jobs/detail/dice.h"
#include "lockstep/explore/jobs/detail/mend.h"

namespace lockstep {

namespace {

using detail::Dice;

void draw_world(Dice& dice, JobSketch& s) {
  s.ranks = static_cast<std::int32_t>(dice.chance(80) ? dice.between(1, 4) : dice.between(5, 9));
  s.nodes = dice.chance(20) ? 2 : 1;
  s.strategy = dice.one_of({"run-to-block", "round-robin", "random", "random", "pct:depth=3"});
  s.schedule_seed = static_cast<std::uint64_t>(dice.below(1'000'000));
  s.order = dice.one_of({"rank", "gloo-ring", "pairwise", "nccl-ring", "nccl-tree"});
  if (dice.chance(30)) s.pairing = dice.one_of({"nccl_like", "gloo_like"});
  if (dice.chance(30)) s.fidelity = "message";
  s.timed = dice.chance(30);
}

void draw_model(Dice& dice, JobSketch& s) {
  s.model =
      dice.one_of({"mlp", "mlp", "mlp", "mlp", "linear", "scalar", "bn", "twohead", "cnn", "gpt"});
  s.features = dice.between(1, 6);
  const std::int64_t n_hidden = dice.between(1, 3);
  for (std::int64_t i = 0; i < n_hidden; ++i) s.hidden.push_back(dice.between(1, 6));
  s.outputs = dice.between(1, 3);
  s.activation = dice.one_of({"relu", "tanh", "none"});
  if (dice.chance(20)) s.checkpoint = dice.one_of({"reentrant", "non-reentrant"});
  s.head = dice.one_of({"a", "b", "both"});
  if (dice.chance(30)) s.dtype = "f64";
  s.bias = dice.chance(80);
  s.freeze = dice.chance(10);
  s.seed_by_rank = dice.chance(40);
  s.seed = static_cast<std::uint64_t>(dice.below(1'000'000));
}

void draw_data(Dice& dice, JobSketch& s) {
  s.classes = dice.chance(30);
  s.batches = dice.between(1, 4);
  s.batch = dice.between(1, 4);
  if (dice.chance(40)) s.extra = dice.between(1, 5);
  s.sampler =
      dice.one_of({"distributed", "distributed", "distributed", "batches_by_rank", "stream"});
  s.shuffle = dice.chance(60);
  s.drop_last = dice.chance(30);
  if (dice.chance(30)) s.workers = dice.between(1, 3);
  s.persistent = dice.chance(30);
  s.augment = dice.chance(15);
  if (dice.chance(25)) s.loss = "l1";
  s.eval = dice.chance(30);
}

void draw_optimization(Dice& dice, JobSketch& s) {
  s.optimizer = dice.one_of({"sgd", "sgd", "sgd", "adam", "adamw", "adagrad", "rmsprop"});
  s.momentum = dice.chance(40);
  s.weight_decay = dice.chance(30);
  s.variant = dice.chance(30);
  s.zero = dice.chance(10);
  s.averager = dice.chance(8);
  if (dice.chance(40)) {
    s.scheduler = dice.one_of({"step",
                               "multistep",
                               "exponential",
                               "linear",
                               "polynomial",
                               "cosine",
                               "restarts",
                               "onecycle",
                               "plateau",
                               "sequential"});
  }
  s.scaler = dice.chance(15);
  if (dice.chance(25)) s.clip = dice.one_of({"norm", "value"});
}

void draw_loop(Dice& dice, JobSketch& s) {
  s.epochs = dice.between(1, 3);
  if (dice.chance(30)) s.accumulate = dice.between(2, 3);
  s.no_sync = dice.chance(60);
  if (dice.chance(40)) s.zero_grad = "zero";
  s.join = dice.chance(12);
  s.divide_by_initial = dice.chance(60);
  if (dice.chance(20)) s.snapshot_every = dice.between(1, 2);
}

void draw_wrapper(Dice& dice, JobSketch& s) {
  s.wrap = dice.chance(92);
  s.broadcast_buffers = dice.chance(75);
  if (dice.chance(60)) s.bucket_bytes = dice.between(1, 120);
  s.find_unused = dice.chance(20);
  s.view = dice.chance(40);
  s.static_graph = dice.chance(15);
  if (dice.chance(25)) {
    s.hook = dice.one_of({"allreduce",
                          "fp16",
                          "bf16",
                          "quantize-per-tensor",
                          "quantize-per-channel",
                          "powersgd",
                          "post-local-sgd"});
  }
}

void draw_mishap(Dice& dice, JobSketch& s) {
  if (dice.chance(40)) s.mishap = dice.one_of({"late", "slow", "delay", "clock-skew", "crash"});
  s.mishap_rank = static_cast<std::int32_t>(dice.below(s.ranks));
  s.mishap_step = dice.below(3);
  s.redo = dice.chance(25);
}

}  // namespace

JobSketch draw_job(std::uint64_t seed, std::uint64_t index) {
  Dice dice(seed, index);
  JobSketch sketch;
  draw_world(dice, sketch);
  draw_model(dice, sketch);
  draw_data(dice, sketch);
  draw_optimization(dice, sketch);
  draw_loop(dice, sketch);
  draw_wrapper(dice, sketch);
  draw_mishap(dice, sketch);
  sketch.per_step = dice.chance(30);
  detail::mend(sketch);
  return sketch;
}

}  // namespace lockstep
