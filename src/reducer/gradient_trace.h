// What a wrapper's backward passes leave in the trace.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/autograd/variable.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// Digests gradients as they pass and records one event per backward and point.
///
/// Contributions and pre-reduction gradients are digested at once, since their memory is reused
/// before the backward ends. A warm trace allocates nothing.
class GradientTrace {
 public:
  /// `parameters` in the reducer's index order.
  /// Requires: the runtime has a recorder, which outlives the trace.
  GradientTrace(Runtime& runtime, std::int32_t wrapper, std::span<const NamedVariable> parameters);

  /// Gradients are computed or communicated in `dtype`, too: bounds have to allow for it.
  void allow_for(DType dtype);
  /// A contribution, just before it is added to the parameter's gradient.
  void on_increment(std::size_t index, const Tensor& increment);
  /// The whole `.grad` as the reduction takes it; undefined if there is none. `untouched`: it
  /// cannot have been written to since its last contribution.
  void on_reduce(std::size_t index, const Tensor& grad, bool untouched);
  /// After the graph, before the reducer waits: base, inc and pre.
  void record_local();
  /// After the reducer has finished, or at once when it did not reduce: post and backward.
  void record_outcome(bool reduced);
  void record_buckets(const std::vector<std::vector<std::int32_t>>& buckets);

 private:
  // One gradient event in the making.
  struct Draft {
    GradPoint point = GradPoint::kInc;
    bool wanted = false;
    bool sketched = false;
    bool started = false;
    std::span<std::uint64_t> digests;
    std::span<Sketch> sketches;
    std::span<std::int64_t> n_elems;
    std::span<std::uint8_t> undefined;
  };

  Draft make_draft(GradPoint point);
  template <typename T>
  std::span<T> make_list(std::size_t n);
  /// `twin`: a draft whose entry may describe the same values; null = none.
  void add(Draft& draft, std::size_t index, const Tensor& grad, const Draft* twin);
  /// `is_new`: nothing has read these values before, and nothing is expected to come back to them.
  [[gnu::always_inline]] static inline void add_part(
      Draft& draft, std::size_t index, const Tensor& part, const Draft* twin, bool is_new);
  static TensorFingerprint read_again(std::size_t index, const Tensor& part, const Draft* twin);
  static void define(Draft& draft, std::size_t index);
  static bool defines(const Draft& draft, std::size_t index);
  void flush(Draft& draft);
  static void clear(Draft& draft);
  static void clear_undefined(Draft& draft);

  Recorder* recorder_;
  std::int32_t wrapper_;
  std::pmr::vector<Variable> parameters_;
  std::pmr::vector<NameId> names_;
  LayoutId layout_ = kNoLayout;
  /// The coarsest of all parameters: bounds derived from it hold for all.
  DType dtype_ = DType::kF32;
  /// A contribution that became the gradient as it was has the same digest: it is not read again.
  bool is_last_contribution(std::size_t index, const Tensor& grad) const;

  std::pmr::monotonic_buffer_resource lists_;  ///< Of drafts.
  Draft base_;
  Draft inc_;
  Draft pre_;
  std::pmr::vector<const void*> taken_over_;  ///< Memory of contributions to empty gradients.
  WholeGradients grads_;                      ///< Scratch.
  std::pmr::vector<std::int32_t> indices_;    ///< Scratch.
  std::pmr::vector<std::int32_t> lengths_;    ///< Scratch.
};

}  // namespace lockstep
