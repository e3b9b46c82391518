// The pen of one rank: fills in rank, time and position, computes only what is read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/trace/event.h"

namespace lockstep {

class Tensor;

/// Receives events. Laws, files, memory traces and digests are sinks.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// Spans inside the event are valid during the call only.
  virtual void on_event(const Event& event, const NameTable& names) = 0;
};

/// Which costly fields the readers need. The recorder computes nothing else.
struct RecordOptions {
  bool grad_local = true;  ///< grad events at inc and pre
  bool grad_post = true;
  bool grad_used = true;
  bool grad_base = false;
  bool sketches = true;  ///< On inc, pre and post: gradient-mean needs them.
  bool states = true;    ///< param/buffer/optimizer digests
  bool collectives = true;
  bool collective_digests = false;
  bool samples = true;
  bool losses = true;
  bool zero_grads = false;  ///< What was cleared, and when: accumulated-once needs it.
  bool touches = false;     ///< Memory that transfers own is watched, where the backend can.
  bool values = false;      ///< Every gradient's and parameter's values (large).
  /// Only what a step starts from, uses and ends with: parameters and used gradients.
  bool step_values = false;
  std::int64_t step_value_bytes = std::int64_t{1} << 62U;  ///< step_values stops after that many.
  /// Gradients and what a step leaves behind are digested and sketched for 1/coverage of each large
  /// tensor a step, the parts taking turns: a difference that lasts shows within `coverage` steps.
  std::int32_t coverage = 1;
};

/// Writes one rank's events to a sink.
///
/// Deterministic: indices count this rank's events; times come from the host.
class Recorder {
 public:
  Recorder(Rank rank, Host& host, NameTable& names, EventSink& sink, const RecordOptions& options)
      : rank_(rank), host_(&host), names_(&names), sink_(&sink), options_(options) {}

  const RecordOptions& options() const { return options_; }

  NameTable& names() const { return *names_; }

  Rank rank() const { return rank_; }

  // -- positions: one per wrapper, and one for what happens outside any wrapper (index -1)
  /// Announces a new wrapper and returns its index.
  std::int32_t open_wrapper();
  Position& position(std::int32_t wrapper);
  void set_attempt(std::int32_t attempt);
  /// Restart `attempt` of a run in which this rank has recorded `n_events` before.
  void continue_run(std::int32_t attempt, std::uint64_t n_events);
  void set_epoch(std::int32_t epoch);  ///< Of all wrappers.

  std::int32_t n_wrappers() const { return static_cast<std::int32_t>(positions_.size()) - 1; }

  /// Records `body`, one of EventBody's alternatives, at the wrapper's current position.
  template <typename Body>
  void record(const Body& body, std::int32_t wrapper = -1);

  // -- the costly ones, from live tensors; they do nothing when the option is off. With
  //    `options().values` each tensor's values follow as ValueEvents at "grad.post", "step", ...
  using TensorList = std::span<const Tensor* const>;  ///< None is null.
  void record_grads(GradPoint point, LayoutId layout, TensorList grads, std::int32_t wrapper);
  void record_grads(GradPoint point,
                    LayoutId layout,
                    std::span<const Tensor> grads,
                    std::int32_t wrapper);
  void record_states(
      StateKind kind, StatePoint point, LayoutId layout, TensorList tensors, std::int32_t wrapper);
  void record_states(StateKind kind,
                     StatePoint point,
                     LayoutId layout,
                     std::span<const Tensor> tensors,
                     std::int32_t wrapper);
  /// What this step's digests cover of a tensor: all of it, or the part whose turn it is, which is
  /// put into `part`. Tensors of up to kAlwaysWhole elements are covered whole. Ranks at one place
  /// take the same part.
  const Tensor& covered(const Tensor& tensor, std::int32_t wrapper, Tensor& part) const;
  static constexpr std::int64_t kAlwaysWhole = 4096;
  /// One tensor's values, for readers that ask for more than the events above carry.
  void record_values(NameId tensor, NameId point, const Tensor& values, std::int32_t wrapper);

 private:
  bool wants(GradPoint point) const;
  bool wants_values(bool of_step) const;
  static TensorFingerprint sketch(const Tensor& grad);
  TensorList list_of(std::span<const Tensor> tensors);
  void record_values_of(TensorList tensors,
                        LayoutId layout,
                        std::string_view point,
                        std::int32_t wrapper);

  Rank rank_;
  Host* host_;
  NameTable* names_;
  EventSink* sink_;
  RecordOptions options_;
  std::uint64_t next_index_ = 0;
  std::vector<Position> positions_ = std::vector<Position>(1);
  // Scratch that keeps its capacity: a warm recorder allocates nothing.
  std::vector<std::uint64_t> digests_;
  std::vector<Sketch> sketches_;
  std::vector<std::int64_t> n_elems_;
  std::vector<std::uint8_t> undefined_;
  std::vector<const Tensor*> list_;
  std::vector<double> values_;
  std::int64_t value_bytes_ = 0;
  std::int32_t n_steps_outside_ = 0;  // Optimizer steps that no synchronising forward precedes.
};

}  // namespace lockstep
