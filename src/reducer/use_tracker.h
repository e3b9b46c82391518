// Which parameters backwards use, and how often: with find_unused_parameters or a static graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Unused parameters are found in two ways: by searching the graph at each forward, or, in a static
/// graph, by counting in its first backward how often each parameter receives a gradient.
///
/// Source: c10d reducer.cpp: unused_parameters_, local_used_map_, numGradHooksTriggeredMap_.
class UseTracker {
 public:
  UseTracker(std::vector<Variable> leaves, bool searches, bool is_compat_113);

  /// Once in a lifetime, before the first forward.
  void set_static_graph();

  bool is_static() const { return static_graph_; }

  /// Unused parameters are searched again in each iteration.
  bool is_searching() const { return searches_ && !static_graph_; }

  /// A synchronising forward ended in `outputs`.
  void begin(std::span<const Variable> outputs);
  /// A parameter received a gradient, with or without synchronisation: what one micro-step used is
  /// used by the whole iteration. `n_forwards`: synchronising ones so far. Returns whether that is
  /// all there is to do: in the first backward of a static graph.
  bool count(std::size_t index, std::int64_t n_forwards);
  /// In a static graph: whether it has received as many as in the first backward.
  /// Errors: ReducerError beyond that.
  bool is_last_firing(std::size_t index);
  /// Used without synchronisation before, and its gradient thrown away since.
  bool is_use_promised(std::size_t index, std::int64_t n_forwards) const;
  /// What the first backward of a static graph did not use is unused from now on.
  void end_first_static();

  /// In the last forward, by parameter: the search, or the first backward, reached it. Empty unless
  /// use is tracked.
  std::span<const std::uint8_t> reachable() const { return reachable_; }

  /// Of the parameters that are not reachable.
  std::int64_t unused_bytes() const;

  // -- the used map: on how many ranks each parameter was used
  void launch(ProcessGroup& group, const OpOptions& options);
  void settle();

  bool is_under_way() const { return work_.valid(); }

  /// A rank without inputs takes part: not with zeros but with the counts of the last reduction, as
  /// PyTorch's joined ranks do (D67).
  void shadow(ProcessGroup& group, const OpOptions& options);
  /// Waits for the map only when a parameter needs it.
  bool is_globally_unused(std::size_t index);

  std::span<const std::int32_t> used_map() const { return global_used_; }

  /// The backward is over; the next one counts anew.
  void end_backward() { backward_counted_ = false; }

  /// Its results have been published.
  void end_iteration();

 private:
  void track();
  bool is_first_static(std::int64_t n_forwards) const;

  bool is_tracking() const { return searches_ || static_graph_; }

  std::vector<Variable> leaves_;
  bool searches_;
  bool is_compat_113_;
  std::vector<std::uint8_t> reachable_;
  std::vector<std::int32_t> local_used_;
  std::vector<std::int32_t> global_used_;
  Work work_;

  // With a static graph only.
  bool static_graph_ = false;
  bool backward_counted_ = false;  // Since the last end_backward.
  std::int64_t n_backwards_ = 0;
  std::vector<std::int32_t> firings_;       // By parameter: in the first backward.
  std::vector<std::int32_t> firings_left_;  // In this one.
};

}  // namespace lockstep
