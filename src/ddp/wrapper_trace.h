// What a wrapper itself leaves in the trace: its birth, its forwards, its state.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/ddp/input_rows.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// The tensors of a wrapped model as traces describe them.
struct WrappedState {
  std::span<const NamedVariable> reduced;     ///< Reducer parameters, in index order.
  std::span<const NamedVariable> replicated;  ///< All parameters kept equal, frozen included.
  std::span<const NamedVariable> buffers;     ///< Those that are not ignored.
  std::span<const std::string> ignored;
  /// Ignored parameters; others may stand here too. They get names, or laws could not tell an
  /// optimizer's steps on them from steps on replicated ones.
  std::span<const NamedVariable> left_alone;
  std::string_view modules = {};  ///< ReplicatedState::modules.
};

/// Gives the wrapper its place in the trace and its tensors their names. Its end is recorded, unless
/// an exception ends it.
class WrapperTrace final : public StateSource {
 public:
  /// Requires: the runtime has a recorder, which outlives the trace.
  WrapperTrace(Runtime& runtime, const WrappedState& state);
  ~WrapperTrace() override;
  WrapperTrace(const WrapperTrace&) = delete;
  WrapperTrace& operator=(const WrapperTrace&) = delete;
  WrapperTrace(WrapperTrace&&) = delete;
  WrapperTrace& operator=(WrapperTrace&&) = delete;

  std::int32_t wrapper() const { return wrapper_; }

  /// Its end is not recorded: nothing keeps these replicas equal any more.
  void end_silently() { is_silent_ = true; }

  /// `event` with its layouts filled in. Of a model that the whole world shares, a digest of its
  /// names, shapes and types follows, as configuration "model", with what its modules are in words.
  void record_wrap(WrapEvent event, BufferPolicy buffer_policy);
  /// Counts the forward in the position: what it records or communicates belongs to it. One without
  /// a graph (`grad` off) never counts as a micro-step.
  void begin_forward(bool synchronizing, bool grad);

  /// A synchronising forward of other ranks, under a join context: positions stay comparable.
  void count_shadowed_forward() { ++recorder_->position(wrapper_).sync; }

  /// `event` with the type that autocast of this rank is in.
  void record_forward(ForwardEvent event, const Runtime& runtime);

  /// The next argument of the forward that was recorded last.
  void record_input(const Variable& input) { inputs_.record(input); }

  void record_hook(const CommHookEvent& event);
  /// Parameters that something has written since they were last recorded, if any.
  void record_found();
  /// Just before rank 0's buffers are broadcast: remembers what this rank has in their place.
  void look_at_buffers();
  /// Just after it: buffers of this rank that held something else than what was broadcast, if any.
  /// Running means and variances are left out: each rank's come from its own batches.
  void record_replaced();
  void record_state(StatePoint point) override;
  void record_frozen(StatePoint point) override;
  void record_lone(LonePoint point) override;

  bool record_used() override { return false; }

  std::size_t n_parameters() const override { return params_.size(); }

  bool is_like(std::span<const NameId> names,
               std::span<const Tensor* const> tensors) const override;

  bool is_apart() const override { return alone_; }

  void record_target(const Tensor& target) override { inputs_.record_target(target); }

  /// Whether a load was recorded since this was asked last.
  bool take_loaded() { return std::exchange(is_loaded_, false); }

 private:
  /// Names them, too.
  LayoutId layout_of(std::span<const NamedVariable> variables);
  LayoutId frozen_layout(std::span<const NamedVariable> replicated);
  void record_state(StateKind kind,
                    StatePoint point,
                    LayoutId layout,
                    std::span<const Variable> variables);

  Recorder* recorder_;
  std::int32_t wrapper_;
  std::pmr::vector<NameId> names_;  // Scratch.
  WrapEvent layouts_;
  LayoutId params_layout_;  // Of all replicated parameters.
  std::pmr::vector<Variable> params_;
  std::pmr::vector<const Tensor*> params_data_;
  std::pmr::vector<Variable> buffers_;
  std::pmr::vector<Variable> shared_;       // Those that ranks do not write apart.
  std::pmr::vector<std::uint64_t> before_;  // Their digests before a broadcast.
  InputRows inputs_;
  std::uint64_t schema_;
  NameId modules_;
  int n_exceptions_;  // In flight when it began.
  bool is_of_world_ = false;
  bool is_loaded_ = false;
  bool is_silent_ = false;                   // Its end is not recorded.
  bool alone_ = false;                       // A step was taken that no reduction precedes.
  std::pmr::vector<const Tensor*> tensors_;  // Scratch.
};

}  // namespace lockstep
