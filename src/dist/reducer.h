// Averages gradients over ranks while the backward pass still runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/dist/gradient_trace.h"
#include "lockstep/dist/join.h"
#include "lockstep/dist/process_group.h"

namespace lockstep {

struct ReducerOptions {
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  std::vector<std::int64_t> initial_limits_bytes;  ///< Of the buckets before the rebuild.
  std::vector<std::int64_t> rebuilt_limits_bytes;
  CallSite site;
  std::int32_t wrapper = -1;
};

/// The state machine between gradient hooks and collectives.
///
/// A synchronising forward arms it (prepare_for_backward). In the backward that follows, each
/// parameter that becomes ready is scaled by 1/N into its bucket, and buckets are all-reduced
/// strictly in the order of their indices, each as soon as it and all before it are full. When the
/// graph is done, results are waited for in the same order and published to `.grad`. Unarmed, it
/// listens and does nothing: gradients accumulate locally.
///
/// Errors:        ReducerError for misuse, CommError when a collective fails.
/// Deterministic: collectives follow the grammar of docs/contract.md; the arithmetic is the
/// group's. Source:        c10d reducer.cpp. Not built: static graph, communication hooks, sparse
/// gradients.
class Reducer final : public GradHook, public BackwardCallback {
 public:
  /// Requires: at least one parameter, all requiring grad; group and trace outlive the reducer.
  /// `trace` may be null.
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
  void on_forward() { in_backward_ = false; }

  /// Errors: ReducerError when the last synchronising backward left parameters without a gradient.
  void ensure_prior_reduction_finished() const;
  /// Once in a lifetime, after the first reduced backward: buckets in the order in which gradients
  /// became ready on rank 0. Collective. Returns whether it happened.
  bool rebuild_buckets();
  /// Arms the reducer. `output` is where the search for unused parameters starts.
  void prepare_for_backward(const Variable& output);

  /// Under a join context: the next backward divides by the number of active ranks.
  void divide_by(const JoinNotice& active);
  /// A rank without inputs takes part in one backward of the others: zeros for each bucket, in the
  /// order of launches, then the used map. Source: _match_all_reduce_for_bwd_pass.
  void shadow_backward();
  /// A rank without inputs records the order of registration for the rebuild, unless it recorded
  /// another before. Source: push_rebuilt_params_for_all_indices.
  void push_all_rebuilt_parameters();

  const std::vector<NamedVariable>& parameters() const { return parameters_; }

  std::vector<std::vector<std::int32_t>> buckets() const;

  /// By parameter: on how many ranks it was used in the last reduced backward. Filled with
  /// find_unused_parameters only.
  std::span<const std::int32_t> used_map() const { return global_used_; }

  void on_grad_ready(std::size_t index) override;
  void on_grad_increment(std::size_t index, const Tensor& increment) override;
  void on_backward_end() override;

 private:
  struct Bucket {
    Tensor flat;
    std::vector<std::int32_t> members;
    std::size_t n_pending = 0;
    std::uint64_t layout = 0;
    Work work;
  };

  // Where a parameter's gradient lives in the buckets.
  struct Slot {
    Tensor view;
    std::size_t bucket = 0;
  };

  void initialize_buckets(const std::vector<std::vector<std::int32_t>>& assignment);
  void adopt_gradient(std::size_t index);

  bool should_rebuild() const { return !options_.find_unused_parameters && !rebuilt_; }

  bool is_debugging() const;
  OpOptions op_options(const char* scope, std::uint64_t layout) const;

  void enter_backward();
  void mark_unused();
  void mark_ready(std::size_t index);
  void fix_divisor();
  void fill_slot(std::size_t index);
  void launch_full_buckets();
  void launch_used_map();
  void finalize();
  void publish(std::size_t index);
  bool is_globally_unused(std::size_t index);

  std::vector<NamedVariable> parameters_;
  std::vector<Variable> leaves_;  // The same variables, as the graph search takes them.
  ProcessGroup* group_;
  Runtime* runtime_;
  ReducerOptions options_;
  GradientTrace* trace_;
  double divisor_;
  JoinNotice active_ranks_;  // Valid: what the next backward divides by.

  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;  // By parameter.
  std::size_t next_bucket_ = 0;

  bool expect_hooks_ = false;
  bool require_finalize_ = false;
  bool in_backward_ = false;  // The callback at this backward's end is queued.
  bool unused_marked_ = false;
  bool rebuilt_ = false;
  std::vector<std::uint8_t> ready_;        // By parameter: in this iteration.
  std::vector<std::int32_t> ready_order_;  // Until the rebuild.

  // With find_unused_parameters only.
  std::vector<std::uint8_t> reachable_;
  std::vector<std::int32_t> local_used_;
  std::vector<std::int32_t> global_used_;
  Work used_map_work_;
};

}  // namespace lockstep
