// Training on uneven inputs: ranks that ran out of them shadow the collectives of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Some rank exhausted its inputs and the job asked to stop then. The text is PyTorch's.
class JoinError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// PyTorch's arguments of the context, by their names.
struct JoinOptions {
  bool enable = true;  ///< false: the context does nothing, and no rank may run out early.
  bool throw_on_early_termination = false;  ///< Stop everywhere as soon as one rank runs out.
  /// Ddp alone: divide gradients by the size of the group, not by the number of active ranks.
  /// Communication hooks divide by what they like.
  bool divide_by_initial_world_size = true;
  CallSite site = CallSite::here();
};

/// What a joinable does on a rank that has run out of inputs.
class JoinHook {
 public:
  JoinHook() = default;
  virtual ~JoinHook() = default;
  JoinHook(const JoinHook&) = delete;
  JoinHook& operator=(const JoinHook&) = delete;
  JoinHook(JoinHook&&) = delete;
  JoinHook& operator=(JoinHook&&) = delete;

  /// Shadows the collectives of one iteration. Called as long as some rank is active.
  virtual void main_hook() {}

  /// Called once on every rank when all have run out. `is_last_joiner`: no iteration was shadowed
  /// here.
  virtual void post_hook(bool /*is_last_joiner*/) {}
};

/// What a context has passed to a joinable. It stays after the context ended, as in PyTorch.
struct JoinConfig {
  bool enable = false;
  bool throw_on_early_termination = false;
  bool is_first_joinable = false;
};

/// An active rank's announcement of one more iteration: a 1 on its way into a sum over all ranks.
class JoinNotice {
 public:
  JoinNotice() = default;

  JoinNotice(Work work, Tensor count) : work_(std::move(work)), count_(std::move(count)) {}

  bool valid() const { return work_.valid(); }

  /// On how many ranks inputs are left. Waits. Requires: valid().
  double n_active() const {
    work_.wait_or_throw();
    return count_.at(0);
  }

 private:
  Work work_;
  Tensor count_;  // The work's memory.
};

/// Something whose collectives can be shadowed: Ddp, ZeroRedundancyOptimizer, or a user's class.
///
/// It calls notify_join_context before the collectives of each iteration.
class Joinable {
 public:
  virtual ~Joinable() = default;
  Joinable(const Joinable&) = delete;
  Joinable& operator=(const Joinable&) = delete;
  Joinable(Joinable&&) = delete;
  Joinable& operator=(Joinable&&) = delete;

  /// The hook must not outlive the joinable.
  virtual std::unique_ptr<JoinHook> join_hook(const JoinOptions& options) = 0;
  /// Whose members announce their iterations. Requires: the same of all joinables.
  virtual ProcessGroup& join_process_group() const = 0;

  const JoinConfig& join_config() const { return join_config_; }

  /// False where notify_join_context would do nothing.
  bool notifies() const { return join_config_.enable || last_notice_.valid(); }

 protected:
  Joinable() = default;

  /// AR f32[1] of 1 and, if the context throws early, AR f32[1] of 0. Sends nothing and returns an
  /// invalid notice outside of contexts and where another joinable comes first. The notice before
  /// this one is waited for: works need their memory.
  /// Errors: JoinError when the context throws early and a rank has run out.
  JoinNotice notify_join_context(const OpOptions& options);

 private:
  friend class Join;
  void settle_notice();

  JoinConfig join_config_;
  JoinNotice last_notice_;
};

/// The context of a loop over uneven inputs.
///
///   Join join({&ddp, &optimizer}, options);
///   join.run([&] { for (const Batch& batch : inputs) train(batch); });
///
/// A rank whose body ended shadows the others, iteration by iteration, hooks in the order of the
/// joinables; when all have ended, the post hooks run. A body that throws leaves at once and sends
/// nothing.
///
/// Requires: the joinables outlive the context.
/// Errors: std::invalid_argument with PyTorch's text for no joinable or several groups; JoinError
///     on every rank when a rank ran out and the options say so; CommError.
/// Deterministic: collectives follow the grammar of docs/contract.md.
/// Source: torch.distributed.algorithms.join.
class Join {
 public:
  /// From here on the joinables announce their iterations, also after the context has ended.
  explicit Join(std::vector<Joinable*> joinables, JoinOptions options = {});

  /// Calls `body`, this rank's loop; then shadows the others' until the last of them has ended.
  template <typename Body>
  void run(Body&& body) {
    std::forward<Body>(body)();
    finish();
  }

  /// This rank has no inputs left: what run() does after the body.
  void finish();

 private:
  OpOptions op_options() const;
  bool any_rank_active() const;
  [[noreturn]] void terminate() const;
  void warn_of_skew() const;

  JoinOptions options_;
  std::vector<Joinable*> joinables_;
  ProcessGroup* group_ = nullptr;
  std::vector<std::unique_ptr<JoinHook>> hooks_;
};

}  // namespace lockstep
