// The pen of one rank: fills in rank, time and position, computes only what is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"
#include "lockstep/trace/detail/body_kind.h"
#include "lockstep/trace/detail/last_digests.h"
#include "lockstep/trace/detail/positions.h"
#include "lockstep/trace/event.h"

namespace lockstep {

class Cohort;
class Variable;  // autograd/variable.h

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
  bool sketches = true;  ///< On inc, pre, post and used: gradient-mean needs them.
  bool states = true;    ///< param/buffer/optimizer digests
  bool collectives = true;
  bool collective_digests = false;
  bool samples = true;
  bool losses = true;
  bool lone_steps = true;   ///< Parameters around steps that no reduction precedes.
  bool zero_grads = false;  ///< What was cleared, and when: accumulated-once needs it.
  bool touches = false;     ///< Memory that transfers own is watched, where the backend can,
  bool exchanges = false;   ///< and so are collectives inside losses.
  bool values = false;      ///< Every gradient's and parameter's values (large).
  /// Only what a step starts from, uses and ends with: parameters and used gradients.
  bool step_values = false;
  std::int64_t step_value_bytes = std::int64_t{1} << 62U;  ///< step_values stops after that many.
  /// Gradients and what a step leaves behind are digested and sketched for 1/coverage of each large
  /// tensor a step, the parts taking turns: a difference that lasts shows within `coverage` steps.
  std::int32_t coverage = 1;
};

/// What a wrapper keeps equal on its ranks, for those who know when it is worth a look.
class StateSource {
 public:
  virtual ~StateSource() = default;
  /// Records all of it.
  virtual void record_state(StatePoint point) = 0;
  /// Records the parameters that need no gradient at present: an optimizer records the others.
  virtual void record_frozen(StatePoint point) = 0;
  /// Records the gradients of all its parameters, if the ranks' optimizers share these out.
  /// Returns: whether it did; else an optimizer records those of its own.
  virtual bool record_used() = 0;
  /// Records the parameters: those that a step without a reduction has left, or what became of them.
  virtual void record_lone(LonePoint point) = 0;
  virtual std::size_t n_parameters() const = 0;
  /// Whether these are the names and shapes of all its parameters, which the whole world shares.
  virtual bool is_like(std::span<const NameId> names,
                       std::span<const Tensor* const> tensors) const = 0;
  /// Whether the last step was one that a rank takes alone.
  virtual bool is_apart() const = 0;

  /// A loss from which a backward may start compares what the last forward made with this.
  virtual void record_target(const Tensor& /*target*/) {}
};

/// Follows what a program does by itself with gradients that no wrapper reduces.
class OwnReductions {
 public:
  virtual ~OwnReductions() = default;

  struct Sent {
    const void* data = nullptr;
    std::int64_t n_elems = 0;
    DType dtype = DType::kF32;
    bool on_host = true;
    bool adds = false;  ///< Their sum or mean comes back in their place.
    CallSite site = {};
  };

  /// The program sends these elements to all ranks.
  virtual void on_sent(const Sent& sent) = 0;
  /// What has come back of them, in the place of what was sent or elsewhere.
  virtual void on_received(const Sent& received) = 0;
  /// A reduce-scatter has returned this rank's shard of a sum or mean over all ranks.
  virtual void on_shard_received(const Sent& received) = 0;
  /// An optimizer is about to step with these parameters.
  virtual void before_step(std::span<const Variable> parameters) = 0;
  /// It has, and the step is recorded.
  virtual void after_step(std::span<const Variable> parameters) = 0;
};

/// Writes one rank's events to a sink.
///
/// Deterministic: indices count this rank's events; times come from the host.
class Recorder {
 public:
  Recorder(Rank rank, Host& host, NameTable& names, EventSink& sink, const RecordOptions& options)
      : rank_(rank), host_(&host), names_(&names), sink_(&sink), options_(options) {}

  /// Ranks in step record less than an event each.
  Recorder(Rank rank, Host& host, NameTable& names, Cohort& cohort, const RecordOptions& options);

  const RecordOptions& options() const { return options_; }

  NameTable& names() const { return *names_; }

  Rank rank() const { return rank_; }

  // -- positions: one per wrapper, and one for what happens outside any wrapper (index -1)
  /// Announces a new wrapper and returns its index.
  std::int32_t open_wrapper();

  Position& position(std::int32_t wrapper) { return positions_.of(wrapper); }

  void set_attempt(std::int32_t attempt) { positions_.set_attempt(attempt); }

  /// Restart `attempt` of a run in which this rank has recorded `n_events` before.
  void continue_run(std::int32_t attempt, std::uint64_t n_events);

  /// Of all wrappers.
  void set_epoch(std::int32_t epoch) { positions_.set_epoch(epoch); }

  std::int32_t n_wrappers() const { return positions_.n_wrappers(); }

  /// The wrapper that the program is at work with: that of the last forward, before the first one
  /// the youngest, -1 without any. What belongs to no wrapper by itself, such as a loss or a batch,
  /// is recorded there.
  std::int32_t current_wrapper() const { return positions_.current(); }

  /// Says what knows the state of `wrapper`; null: nothing any more.
  void set_source(std::int32_t wrapper, StateSource* source);
  /// Null: nothing.
  StateSource* source(std::int32_t wrapper) const;

  /// A split of data that this rank reads: its place among them, from 0. While another of this name
  /// is open it becomes "NAME/2" and so on.
  std::int32_t open_split(const std::string& name);
  void close_split(std::int32_t place);

  const std::string& split(std::int32_t place) const {
    return splits_[static_cast<std::size_t>(place)].name;
  }

  /// The id of a text that lives as long as the recorder; cheap from the second time on.
  NameId literal(const char* text);

  /// Records `body`, one of EventBody's alternatives, at the wrapper's current position.
  template <typename Body>
  void record(const Body& body, std::int32_t wrapper = -1) {
    write(detail::BodyRef::of(body), wrapper);
    if constexpr (std::is_same_v<Body, StepEvent>) positions_.note_step(position(wrapper));
    if constexpr (std::is_same_v<Body, ForwardEvent>) positions_.note_forward(wrapper);
  }

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
  /// Those of a wrapper's parameters that are not what was last recorded of them, if any.
  void record_found(LayoutId layout, TensorList parameters, std::int32_t wrapper);
  void record_lone(LonePoint point, LayoutId layout, TensorList tensors, std::int32_t wrapper);
  /// Whether gradients of `wrapper` were reduced since this was last asked.
  bool take_reduced(std::int32_t wrapper);

  /// What this step's digests cover of a tensor: all of it, or the part whose turn it is, which is
  /// put into `part`. Tensors of up to kAlwaysWhole elements are covered whole. Ranks at one place
  /// take the same part.
  const Tensor& covered(const Tensor& tensor, std::int32_t wrapper, Tensor& part) const;

  bool covers_whole(const Tensor& tensor) const {
    return options_.coverage <= 1 || tensor.n_elems() <= kAlwaysWhole;
  }

  static constexpr std::int64_t kAlwaysWhole = 4096;

  /// Reports a gradient whose sketch holds a value that was read before a transfer had ended.
  static void find_early_read(const Tensor& grad, const Sketch& sketch);
  /// Tensors that a program keeps equal by itself: recorded now and by record_auxiliary() from now
  /// on. The same name again replaces them.
  void keep_auxiliary(std::string_view name, std::span<const Tensor> tensors, std::int32_t wrapper);
  /// All of them that belong to `wrapper`.
  void record_auxiliary(StatePoint point, std::int32_t wrapper);
  /// One tensor's values, for readers that ask for more than the events above carry.
  void record_values(NameId tensor, ValuePoint point, const Tensor& values, std::int32_t wrapper);

 private:
  struct Auxiliary {
    std::string name;
    LayoutId layout;
    std::int32_t wrapper;
    std::vector<Tensor> tensors;
  };

  struct Split {
    std::string name;
    bool is_open = false;
  };

  struct OfWrapper {
    StateSource* source = nullptr;
    bool reduced = false;  ///< Since take_reduced().
    detail::LastDigests parameters;
    detail::GradPrints reduced_grads;  ///< What the last reduction left, without a cohort.
  };

  /// The only way in which events leave the recorder, but for those of values.
  void write(detail::BodyRef body, std::int32_t wrapper);
  void read_prints(detail::GradPrints& prints,
                   const detail::GradPrints::Scope& scope,
                   TensorList grads,
                   std::int32_t wrapper) const;
  bool wants_values(bool of_step) const;
  TensorList list_of(std::span<const Tensor> tensors);
  detail::GradPrints* reduced_prints(std::int32_t wrapper);
  /// Into `digests_`.
  void digest_states(StatePoint point, LayoutId layout, TensorList tensors, std::int32_t wrapper);
  void record_prints(GradPoint point, LayoutId layout, TensorList grads, std::int32_t wrapper);
  void record_values_of(TensorList tensors,
                        LayoutId layout,
                        ValuePoint point,
                        std::int32_t wrapper);

  Rank rank_;
  Host* host_;
  NameTable* names_;
  EventSink* sink_;
  Cohort* cohort_ = nullptr;  // Null, or the sink.
  RecordOptions options_;
  std::uint64_t next_index_ = 0;
  detail::Positions positions_;
  // Scratch that keeps its capacity: a warm recorder allocates nothing.
  std::vector<std::uint64_t> digests_;
  detail::GradPrints prints_;
  std::vector<const Tensor*> list_;
  std::vector<double> values_;
  std::int64_t value_bytes_ = 0;
  std::vector<OfWrapper> of_wrappers_;  // By wrapper.
  std::vector<Split> splits_;
  std::vector<Auxiliary> auxiliaries_;
  std::vector<std::pair<const char*, NameId>> literals_;  // By address: a handful.
};

}  // namespace lockstep
