// Random correct training jobs: what they may be made of, how one is drawn, how one gets simpler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// The choices that make one job, its world and its schedule. Every value of this type that
/// draw_job or simpler returned is a job that PyTorch's users would call healthy: all laws must
/// hold.
///
/// Words are those of scenario files (docs/scenario_format.md).
struct JobSketch {
  // -- world and schedule
  std::int32_t ranks = 2;
  std::int32_t nodes = 1;  ///< Divides the ranks.
  std::string strategy = "run-to-block";
  std::uint64_t schedule_seed = 0;
  std::string order = "rank";
  std::string pairing = "strict";
  std::string fidelity = "rendezvous";
  bool timed = false;  ///< Links and products take time.
  // -- model
  std::string model = "mlp";  ///< "scalar" | "linear" | "mlp" | "bn" | "twohead" | "cnn" | "gpt"
  std::int64_t features = 3;
  std::vector<std::int64_t> hidden{};  ///< Widths between the features and the outputs.
  std::int64_t outputs = 1;
  std::string activation = "relu";
  std::string checkpoint = "none";
  std::string head = "both";  ///< twohead
  std::string dtype = "f32";
  bool bias = true;
  bool freeze = false;        ///< The first layer's weight.
  bool seed_by_rank = false;  ///< Each rank draws other initial values, which DDP makes equal.
  std::uint64_t seed = 0;     ///< Of the initial values, the data and the order of the samples.
  // -- data
  bool classes = false;                 ///< Labels and cross-entropy instead of numbers.
  std::int64_t batches = 2;             ///< Per rank and epoch.
  std::int64_t batch = 2;               ///< Rows of each.
  std::int64_t extra = 0;               ///< Rows beyond that, which make samplers pad or drop.
  std::string sampler = "distributed";  ///< | "batches_by_rank" | "stream"
  bool shuffle = false;
  bool drop_last = false;
  std::int64_t workers = 0;
  bool persistent = false;
  bool augment = false;
  std::string loss = "mse";  ///< | "l1"; labels have cross-entropy.
  bool eval = false;
  // -- optimization
  std::string optimizer = "sgd";
  bool momentum = false;
  bool weight_decay = false;
  bool variant = false;  ///< sgd: nesterov; adam, adamw: amsgrad; rmsprop: centered
  bool zero = false;
  bool averager = false;
  std::string scheduler = "none";
  bool per_step = false;  ///< The scheduler steps after each step, not epoch.
  bool scaler = false;
  std::string clip = "none";  ///< "none" | "norm" | "value"
  // -- loop
  std::int64_t epochs = 1;
  std::int64_t accumulate = 1;
  bool no_sync = false;
  bool redo = false;  ///< Micro-steps are computed twice.
  std::string zero_grad = "none";
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
  std::string hook = "none";
  // -- what happens to it, none of which a correct job may suffer from
  std::string fault = "none";  ///< "none" | "late" | "slow" | "delay" | "clock-skew" | "crash"
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
