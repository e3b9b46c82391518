// The memory in which gradients are averaged: parameters' places in buckets, and buckets on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/autograd/variable.h"
#include "lockstep/comm/lent_memory.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/reducer/comm_hook.h"
#include "lockstep/reducer/use_tracker.h"

namespace lockstep {

struct ReducerOptions {
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool is_compat_113 = false;  ///< What counts as a static graph's first backward, see Reducer.
  /// Of gradients, where parameters have another dtype when they are computed (mixed_precision.h).
  std::optional<DType> grad_dtype = std::nullopt;
  std::vector<std::int64_t> initial_limits_bytes;  ///< Of the buckets before the rebuild.
  std::vector<std::int64_t> rebuilt_limits_bytes;
  CallSite site;
  std::int32_t wrapper = -1;
  /// What messages call a parameter if they name any; empty: by its own name.
  std::function<std::string(const NamedVariable&)> debug_name;
};

/// The buckets of one reducer. Knows where gradients lie and how they travel, not when.
///
///   .grad ──fill──► its place in a bucket ──launch──► all_reduce, or a communication hook
///   .grad ◄──────────── publish ◄──── take_results ◄──────┘
///
/// A parameter that expects sparse gradients has its own bucket without memory: its rows are
/// gathered (sparse_all_reduce.h), which waits at the launch.
class Buckets {
 public:
  /// Requires: `parameters`, `group` and `options` outlive it.
  Buckets(const std::vector<NamedVariable>& parameters,
          ProcessGroup& group,
          const ReducerOptions& options);

  /// Makes new buckets, each a list of indices of parameters.
  void assign(std::vector<std::vector<std::int32_t>> assignment);

  const std::vector<std::vector<std::int32_t>>& members() const { return members_; }

  /// From now on it takes full buckets, and divides. Requires: no sparse gradients.
  void set_hook(CommHook& hook) { hook_ = &hook; }

  bool has_hook() const { return hook_ != nullptr; }

  bool is_sparse(std::size_t index) const { return buckets_[slots_[index].bucket].is_sparse; }

  /// A backward begins: every parameter is pending.
  void begin();
  /// The gradient of a parameter, divided, comes to its place; zeros if there is none.
  /// Errors: ReducerError for a gradient of another dtype, or a dense one in a sparse bucket.
  void fill(std::size_t index, double divisor);
  /// One pending parameter less; launches what is full, strictly in the order of indices. Returns
  /// whether that was the last bucket.
  bool note_ready(std::size_t index);
  void launch_all();

  bool all_launched() const { return next_ == buckets_.size(); }

  bool is_under_way() const;
  /// Waits for what is under way, and publishes nothing.
  void settle();
  /// Waits for each bucket in order and publishes it to `.grad`.
  void take_results(UseTracker& use);
  /// Takes part in one backward of the others with zeros.
  void shadow();

  OpOptions op_options(const char* scope, std::uint64_t layout) const;

 private:
  struct Bucket {
    Tensor flat;
    std::span<const std::int32_t> members;
    std::size_t n_pending = 0;
    std::uint64_t layout = 0;
    Work work;
    LentMemory lent;
    std::unique_ptr<PendingBucket> pending;  // With a communication hook.
    bool is_sparse = false;                  // One table's gradient, which has no flat memory,
    Ref<SparseRows> rows;                    // and what became of it.
  };

  // Where a parameter's gradient lives.
  struct Slot {
    Tensor view;
    std::size_t bucket = 0;
  };

  const Variable& leaf(std::size_t index) const { return (*parameters_)[index].variable; }

  void assign(Bucket& bucket, std::size_t number);
  void adopt_gradient(std::size_t index);
  void fill_rows(std::size_t index, double divisor);
  void launch(Bucket& bucket);
  void launch_rows(Bucket& bucket);
  // A bucket's number is how many were launched before it, which a delayed reduction does not count.
  std::unique_ptr<PendingBucket> run_hook(const Bucket& bucket,
                                          std::size_t number,
                                          const Tensor& flat);
  void shadow_rows(const Bucket& bucket);
  void take_result(Bucket& bucket, UseTracker& use);
  void publish(std::size_t index, const Tensor& result, UseTracker& use);

  const std::vector<NamedVariable>* parameters_;
  ProcessGroup* group_;
  Runtime* runtime_;
  const ReducerOptions* options_;
  CommHook* hook_ = nullptr;
  std::vector<std::vector<std::int32_t>> members_;  // By bucket.
  std::pmr::vector<Bucket> buckets_;
  std::pmr::vector<Slot> slots_;  // By parameter.
  std::size_t next_ = 0;          // The first that was not launched.
};

}  // namespace lockstep
