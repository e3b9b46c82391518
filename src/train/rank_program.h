// The one training loop: what every rank of every backend runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/ddp/ddp.h"
#include "lockstep/nn/module.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/train/job.h"

namespace lockstep {

/// Places in the loop that the outside can hook into.
enum class LoopPoint : std::uint8_t {
  kWrap,      ///< Construction of the wrapper (before: the model exists; after: it is wrapped).
  kEpoch,     ///< An epoch's sampler is set up.
  kForward,   ///< One micro-step's forward.
  kBackward,  ///< One micro-step's backward.
  kStep,      ///< optimizer.step() (before: gradients final; after: parameters new).
  kZeroGrad,
  kEval,
  kEnd,
  kSave,  ///< A snapshot is due.
};
template <>
inline constexpr EnumNames<9> kEnumNames<LoopPoint> = {
    "wrap", "epoch", "forward", "backward", "step", "zero-grad", "eval", "end", "save"};

/// What a hook may look at and change.
struct LoopState {
  const Job* job = nullptr;
  RankContext* context = nullptr;
  nn::Module* model = nullptr;  ///< The inner module.
  Ddp* ddp = nullptr;           ///< Null before wrapping or without a wrapper.
  optim::Optimizer* optimizer = nullptr;
  std::int64_t step = 0;  ///< Optimizer step in progress, from 0.
  std::int64_t micro = 0;
  std::int64_t epoch = 0;
  bool skip = false;               ///< A `before` hook sets it to leave the operation out.
  bool through_wrapper = true;     ///< kForward: clear to call the inner module directly.
  std::int64_t sampler_epoch = 0;  ///< kEpoch: what set_epoch will be given.
};

/// Acts from outside on a healthy loop: scenario bugs are hooks, the loop knows none of them.
class LoopHook {
 public:
  virtual ~LoopHook() = default;

  virtual void before(LoopPoint /*point*/, LoopState& /*state*/) {}

  virtual void after(LoopPoint /*point*/, LoopState& /*state*/) {}
};

struct EvalResult {
  std::int64_t epoch = 0;
  double value = 0.0;  ///< The metric over all ranks.
  double numerator = 0.0;
  double denominator = 0.0;
};

/// What one rank ends with.
struct RankOutcomeValues {
  std::vector<double> losses;  ///< One an optimizer step: this rank's own loss.
  std::vector<EvalResult> evals;
  std::int64_t n_steps = 0;
  std::int64_t n_samples = 0;
  std::int64_t first_step = 0;  ///< More than 0: resumed from a snapshot of that step.
};

/// Trains `job` as one rank: build, wrap, epochs, steps, evaluation, end. Records every event of
/// docs/trace_format.md through the context's recorder.
///
/// With `loop.snapshot` it saves its state periodically, and begins where the newest whole
/// snapshot ended (snapshot.h). A restarted rank says which attempt it is by the environment
/// variable TORCHELASTIC_RESTART_COUNT, as under torchrun.
///
/// Errors: what DDP, groups, snapshots and hooks throw.
/// Deterministic: everything drawn comes from the job's seeds.
RankOutcomeValues run_job(const Job& job, RankContext& context, std::span<LoopHook* const> hooks);

/// Builds the job's model with its initial values as rank `rank` would.
std::unique_ptr<nn::Module> build_model(const ModelSpec& spec, Runtime& runtime, std::int32_t rank);

}  // namespace lockstep
