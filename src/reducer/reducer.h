// Averages gradients over ranks while the backward pass still runs.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/collectives/join.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/reducer/buckets.h"
#include "lockstep/reducer/comm_hook.h"
#include "lockstep/reducer/gradient_trace.h"
#include "lockstep/reducer/use_tracker.h"

namespace lockstep {

/// The state machine between gradient hooks and collectives. What moves gradients is in Buckets; what
/// knows which of them to expect, in UseTracker.
///
/// A synchronising forward arms it (prepare_for_backward). In the backward that follows, each
/// parameter that becomes ready is scaled by 1/N into its bucket, and buckets are all-reduced
/// strictly in the order of their indices, each as soon as it and all before it are full. When the
/// graph is done, results are waited for in the same order and published to `.grad`. Unarmed, it
/// listens and does nothing: gradients accumulate locally.
///
/// A static graph is one whose backwards are all the same. Its first backward only counts how often
/// each parameter receives a gradient; everything is reduced after it (delay_all_reduce). From
/// then on a parameter is ready when it has received that many.
///
/// A communication hook takes the place of scaling and all-reduce: it is given full buckets.
///
/// A parameter that expects sparse gradients has its own bucket, and its rows are gathered
/// instead of summed (sparse_all_reduce.h), which waits inside the backward. Communication hooks
/// take flat buckets alone.
///
/// Errors: ReducerError for misuse, CommError when a collective fails.
/// Deterministic: collectives follow the grammar of docs/contract.md; the arithmetic is the
///     group's.
/// Source: c10d reducer.cpp.
class Reducer final : public GradHook, public BackwardCallback {
 public:
  /// Requires: at least one parameter, all requiring grad; group and trace outlive the reducer.
  ///     `trace` may be null.
  Reducer(std::vector<NamedVariable> parameters,
          ProcessGroup& group,
          ReducerOptions options,
          GradientTrace* trace);
  ~Reducer() override;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  Reducer(Reducer&&) = delete;
  Reducer& operator=(Reducer&&) = delete;

  /// A forward begins: whatever a failed backward left queued is forgotten.
  void on_forward(bool synchronizing) {
    backward_.running = false;
    if (synchronizing) ++n_iterations_;
  }

  /// Once in a lifetime; the hook must outlive the reducer.
  /// Errors: ReducerError the second time, or if a parameter expects sparse gradients.
  void register_comm_hook(CommHook& hook);
  /// Errors: ReducerError after the first synchronising forward.
  void set_static_graph();
  /// Listens to each parameter once more, so that it becomes ready twice in one backward.
  void rearm_hooks();

  Runtime& runtime() const { return *runtime_; }

  bool static_graph() const { return use_.is_static(); }

  /// Synchronising forwards so far.
  std::int64_t n_iterations() const { return n_iterations_; }

  bool has_rebuilt_buckets() const { return order_.rebuilt; }

  /// Indices in the order in which gradients became ready in the last synchronising backward.
  std::span<const std::int32_t> last_ready_order() const { return order_.last; }

  /// Of the parameters that the last search, or a static graph's first backward, found unused.
  std::int64_t unused_bytes() const { return use_.unused_bytes(); }

  /// Reduces all parameters at once, after the first backward of a static graph: the used map,
  /// then the buckets.
  /// Errors: ReducerError when that backward was not a synchronising one.
  void delay_all_reduce();
  /// The next finalize waits for these works too.
  void await_after_backward(std::vector<Work> works);

  /// Errors: ReducerError when the last synchronising backward left parameters without a gradient.
  void ensure_prior_reduction_finished() const;
  /// Once in a lifetime, after the first reduced backward: buckets in the order in which gradients
  /// became ready on rank 0. Collective. Returns whether it happened.
  bool rebuild_buckets();
  /// Arms the reducer. `outputs` is where the search for unused parameters starts.
  void prepare_for_backward(std::span<const Variable> outputs);

  /// Unused parameters are searched again in each iteration.
  bool is_searching() const { return use_.is_searching(); }

  /// Under a join context: the next backward divides by the number of active ranks.
  void divide_by(const JoinNotice& active) { active_ranks_ = active; }

  /// A rank without inputs takes part in one backward of the others: zeros for each bucket, in the
  /// order of launches, then the used map.
  /// Source: _match_all_reduce_for_bwd_pass.
  void shadow_backward();
  /// A rank without inputs records the order of registration for the rebuild, unless it recorded
  /// another before.
  /// Source: push_rebuilt_params_for_all_indices.
  void push_all_rebuilt_parameters();

  const std::vector<NamedVariable>& parameters() const { return parameters_; }

  const std::vector<std::vector<std::int32_t>>& buckets() const { return buckets_.members(); }

  /// By parameter: on how many ranks it was used in the last reduced backward (of a static graph:
  /// in the first one). Empty unless use is tracked.
  std::span<const std::int32_t> used_map() const { return use_.used_map(); }

  void on_grad_ready(std::size_t index) override;
  void on_grad_increment(std::size_t index, const Tensor& increment) override;
  void on_backward_end() override;

 private:
  /// How far the backward of this iteration has come.
  struct Backward {
    bool expects_hooks = false;      ///< A forward has armed the reducer.
    bool requires_finalize = false;  ///< A gradient has become ready, and no reduction ended since.
    bool running = false;            ///< The callback at its end is queued.
    bool unused_marked = false;
    std::pmr::vector<std::uint8_t> ready;  ///< By parameter.
  };

  /// Indices in the order in which gradients became ready.
  struct ReadyOrder {
    bool rebuilt = false;
    std::pmr::vector<std::int32_t> until_rebuild;
    std::pmr::vector<std::int32_t> last;  ///< In the last synchronising backward.
  };

  void assign_buckets(std::vector<std::vector<std::int32_t>> assignment);

  bool should_rebuild() const { return !order_.rebuilt && !is_searching(); }

  bool is_debugging() const;
  std::string debug_name(std::size_t index) const;

  void enter_backward();
  void mark_unused();
  void mark_ready(std::size_t index);
  void fix_divisor();
  void fill(std::size_t index);
  void on_all_launched();
  void finalize();
  void push_unused();

  std::vector<NamedVariable> parameters_;
  ProcessGroup* group_;
  Runtime* runtime_;
  ReducerOptions options_;
  GradientTrace* trace_;
  UseTracker use_;
  Buckets buckets_;
  double divisor_;
  JoinNotice active_ranks_;        // Valid: what the next backward divides by.
  std::vector<Work> extra_works_;  // What finalize waits for besides the buckets.
  std::int64_t n_iterations_ = 0;

  Backward backward_;
  ReadyOrder order_;
};

}  // namespace lockstep
