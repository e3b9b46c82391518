// Communication hooks: what a user may put in the place of the reducer's all-reduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/trace/event.h"

namespace lockstep {

/// One full bucket of local, unscaled gradients, as a hook sees it.
///
/// Source: c10d GradBucket (index, buffer, gradients, parameters, is_last, set_buffer).
class GradBucket {
 public:
  GradBucket(std::size_t index,  // NOLINT(readability-function-size): what c10d's holds.
             bool is_last,
             Tensor buffer,
             std::vector<Variable> parameters,
             std::vector<Tensor> gradients,
             const OpOptions& op_options = {})
      : index_(index),
        is_last_(is_last),
        buffer_(std::move(buffer)),
        parameters_(std::move(parameters)),
        gradients_(std::move(gradients)),
        op_options_(op_options) {}

  /// Place in the order of launches. Always 0 in the first backward of a static graph.
  std::size_t index() const { return index_; }

  /// index() is the last one: in the first backward of a static graph true only of an only bucket.
  bool is_last() const { return is_last_; }

  /// The flat memory of the bucket: writing it writes what gradients() show.
  const Tensor& buffer() const { return buffer_; }

  /// Replaces the buffer, for wrapping hooks that compress. From then on gradients() show the new
  /// one.
  /// Requires: the same number of elements.
  void set_buffer(Tensor buffer) {
    buffer_ = std::move(buffer);
    std::int64_t first = 0;
    for (Tensor& gradient : gradients_) {
      gradient = buffer_.slice(first, gradient.shape());
      first += gradient.n_elems();
    }
  }

  /// In the bucket's order, with each parameter's shape.
  const std::vector<Tensor>& gradients() const { return gradients_; }

  const std::vector<Variable>& parameters() const { return parameters_; }

  /// What to pass to collectives on the buffer, so that they are recorded at the wrapper's position
  /// and their signature carries the bucket's layout. A hook that sends something else than
  /// the buffer's elements in their order sets `layout` to 0.
  const OpOptions& op_options() const { return op_options_; }

 private:
  std::size_t index_;
  bool is_last_;
  Tensor buffer_;
  std::vector<Variable> parameters_;
  std::vector<Tensor> gradients_;
  OpOptions op_options_;
};

/// What a hook has started: the future of one tensor.
class PendingBucket {
 public:
  PendingBucket() = default;
  virtual ~PendingBucket() = default;
  PendingBucket(const PendingBucket&) = delete;
  PendingBucket& operator=(const PendingBucket&) = delete;
  PendingBucket(PendingBucket&&) = delete;
  PendingBucket& operator=(PendingBucket&&) = delete;

  /// The bucket's final gradients, flat, as many elements as the buffer had. Called once, after the
  /// graph, in the order of buckets.
  /// Errors: CommError when a collective failed.
  virtual Tensor wait() = 0;
};

/// What a hook remembers from step to step, by name.
struct HookState {
  std::vector<std::pair<std::string, std::int64_t>> counts{};
  std::vector<std::pair<std::string, Tensor>> tensors{};  ///< The hook's own memory, or copies.

  bool empty() const { return counts.empty() && tensors.empty(); }
};

/// Communicates buckets instead of the reducer, which then neither divides nor reduces.
///
/// Called once per bucket, strictly in launch order, inside the backward. A hook that needs the
/// result of one collective to start the next one waits inside run(): its collectives then stay in
/// program order on every rank.
///
/// Source: torch DistributedDataParallel.register_comm_hook.
class CommHook {
 public:
  CommHook() = default;
  virtual ~CommHook() = default;
  CommHook(const CommHook&) = delete;
  CommHook& operator=(const CommHook&) = delete;
  CommHook(CommHook&&) = delete;
  CommHook& operator=(CommHook&&) = delete;

  /// Starts what is to become of a bucket. Returns: what the reducer waits for, never null.
  virtual std::unique_ptr<PendingBucket> run(GradBucket& bucket) = 0;

  /// What it makes of gradients, for traces: laws hold it to that. A hook of a user's own is meant
  /// to average unless it says otherwise.
  virtual HookEffect effect() const { return HookEffect::kMean; }

  /// All that a hook of the same options needs to continue in the place of this one, between two
  /// steps. Empty: it remembers nothing. `runtime` is where new tensors come from.
  virtual HookState save(Runtime& /*runtime*/) const { return {}; }

  /// Continues from what save() returned, whose tensors it takes over.
  /// Errors: std::invalid_argument for the state of a different kind of hook.
  virtual void load(const HookState& /*state*/) {}
};

/// When a buffer hook runs, if buffers are due to be synchronised in this forward at all.
enum class BufferHookLocation : std::uint8_t { kPreForward, kPostForward };

/// Synchronises a model's buffers in the place of the broadcast from rank 0.
///
/// Source: torch DistributedDataParallel._register_buffer_comm_hook.
class BufferHook {
 public:
  BufferHook() = default;
  virtual ~BufferHook() = default;
  BufferHook(const BufferHook&) = delete;
  BufferHook& operator=(const BufferHook&) = delete;
  BufferHook(BufferHook&&) = delete;
  BufferHook& operator=(BufferHook&&) = delete;

  /// Returns what the end of the next synchronising backward waits for; may be empty.
  virtual std::vector<Work> run(std::span<const NamedVariable> buffers,
                                const OpOptions& options) = 0;
};

}  // namespace lockstep
