// PowerSGD: sends each gradient matrix as a product of two thin ones.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lockstep/random/generator.h"
#include "lockstep/reducer/comm_hook.h"

namespace lockstep {

/// The arguments of PyTorch's PowerSGDState.
struct PowerSgdOptions {
  std::int64_t rank = 1;              ///< matrix_approximation_rank
  std::int64_t start_iter = 1000;     ///< start_powerSGD_iter: plain averaging before it.
  double min_compression_rate = 2.0;  ///< Compress where (n + m) r rate < n m.
  bool error_feedback = true;         ///< Add what compression lost to the next gradient.
  bool warm_start = true;             ///< Start from the last Q instead of a random one.
  double orthogonalization_epsilon = 0.0;
  std::uint32_t seed = 0;
  bool batch_same_shapes = false;  ///< batch_tensors_with_same_shape
};

/// What PowerSGD remembers from step to step, to look at and to save. Errors are this rank's own;
/// the rest is equal on all ranks.
struct PowerSgdState {
  /// The draws of numpy's RandomState(seed), from which each random Q takes its seed.
  Generator seeds{0};
  std::int64_t iteration = 0;
  std::map<std::size_t, Tensor> errors;  ///< By bucket index: what compression lost last time.
  std::map<std::size_t, Tensor> ps;      ///< By bucket index: all P of the bucket, flat.
  std::map<std::size_t, Tensor> qs;      ///< By bucket index: all Q of the bucket, flat.
  std::int64_t n_elems_before = 0;       ///< Elements that compression was offered.
  std::int64_t n_elems_after = 0;        ///< Elements it sent instead.
};

/// What `RandomState(seed).randint(1_000_000_000)` of numpy draws next from `stream`: 30 bits of a
/// 32-bit draw, drawn again while they exceed 999,999,999.
std::uint32_t next_low_rank_seed(Generator& stream);

/// Approximates each matrix M of the bucket (a parameter's gradient, its dimensions after the first
/// flattened) by P Q' of rank r and averages P and Q instead of M.
///
/// Per bucket from iteration start_iter on: add the remembered error; sort gradients into those
/// worth compressing and the rest; make or take over Q and orthonormalize it; P = M Q; average the
/// rest; sum P over the ranks and orthonormalize it; Q = M' P, averaged; M := P Q'; remember what
/// is lost. Compressed gradients are treated in the order in which their shapes first appear in the
/// bucket.
///
/// Lossy: the result is a matrix of rank r. With error feedback nothing is lost for good: what was
/// sent plus the new error is the gradient plus the old error. Replicas stay bit-equal even if a
/// rank starts from another Q, because the result is made of summed P and averaged Q alone; the
/// approximation then suffers. A rank with other options, or in another iteration (restored from a
/// checkpoint without this state), posts collectives of other sizes: a mismatch or a hang.
/// Memory is kept by bucket index, so start_iter must come after the rebuild of the buckets. A hook
/// that continues from a saved state in a new wrapper gets the buckets of its construction first.
/// It fails where they have other sizes, and adds errors to other gradients where only the order
/// differs. None of that happens where a wrapper does not rebuild.
///
/// All-zero matrices give NaN unless orthogonalization_epsilon is positive. f32 and f64 only: the
/// CPU has no 16-bit products, in PyTorch neither, so a CompressWrapper cannot be put around it.
///
/// Collectives: before start_iter AR(bucket). From then on, one after the other within run():
///     AR(the rest, even when empty), AR(all P), AR(all Q). PyTorch starts the second and third
///     from threads of the backend, where those of several buckets may overtake each other.
/// Source: Vogels, Karimireddy and Jaggi, "PowerSGD", NeurIPS 2019; torch
///     ddp_comm_hooks.powerSGD_hook.
class PowerSgdHook final : public CommHook {
 public:
  /// Requires: `group` outlives the hook; rank > 0; start_iter > 1 with error feedback or warm
  ///     start (PyTorch's text otherwise).
  PowerSgdHook(ProcessGroup& group, const PowerSgdOptions& options);

  HookEffect effect() const override { return HookEffect::kRounded; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

  HookState save(Runtime& runtime) const override;
  void load(const HookState& state) override;

  const PowerSgdState& state() const { return state_; }

  /// Continues from a saved state. Its tensors are shared, so hand in clones.
  void set_state(PowerSgdState state) { state_ = std::move(state); }

 private:
  struct Stack;
  struct Plan;

  Plan make_plan(const GradBucket& bucket);
  void bind_factors(Plan& plan, const GradBucket& bucket);
  void fill_or_reuse(const Plan& plan, bool random);
  void compress(const Plan& plan, std::size_t bucket_index, const OpOptions& options);
  Tensor feed_back(const GradBucket& bucket);

  ProcessGroup* group_;
  PowerSgdOptions options_;
  PowerSgdState state_;
};

}  // namespace lockstep
