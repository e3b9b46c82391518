#include "lockstep/ddp/ddp.h"

#include <algorithm>
#include <limits>
#include <memory_resource>
#include <optional>
#include <utility>

#include "lockstep/autograd/pass_through.h"
#include "lockstep/base/check.h"
#include "lockstep/collectives/join_signals.h"
#include "lockstep/ddp/ddp_arguments.h"
#include "lockstep/ddp/parameter_names.h"
#include "lockstep/ddp/replica_check.h"
#include "lockstep/ddp/wrapper_trace.h"
#include "lockstep/functional/cast.h"
#include "lockstep/reducer/coalesced_broadcast.h"
#include "lockstep/reducer/delayed_all_reduce.h"
#include "lockstep/reducer/gradient_trace.h"
#include "lockstep/reducer/reducer.h"
#include "lockstep/reducer/reducer_error.h"

namespace lockstep {

namespace {

constexpr double kBytesPerMiB = 1024.0 * 1024.0;
constexpr std::int64_t kDefaultCapBytes = 26'214'400;
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// What is delayed is ignored, too: by the name that was given, whatever the reducer spells.
DdpOptions with_delayed_ignored(DdpOptions options) {
  for (const NamedVariable& delayed : options.delay_all_reduce_named_params) {
    if (!lists(options.ignored, delayed.name)) options.ignored.push_back(delayed.name);
  }
  return options;
}

// The first backward of a static graph is reduced after it: this starts that, from inside.
class DelayedReduction final : public PassThroughListener, public BackwardCallback {
 public:
  DelayedReduction(Reducer& reducer, bool is_compat_113)
      : reducer_(&reducer), is_compat_113_(is_compat_113) {}

  // A graph may outlive the wrapper.
  void forget_reducer() { reducer_ = nullptr; }

  // Version 1.13 decides at the forward, by its number; later ones remember that it was done.
  bool is_due() const {
    return reducer_->static_graph() && (is_compat_113_ ? reducer_->n_iterations() == 1 : !queued_);
  }

  void on_backward_reached() override {
    if (reducer_ == nullptr || !reducer_->static_graph() || (queued_ && !is_compat_113_)) return;
    queued_ = true;
    queue_callback(reducer_->runtime(), *this);
  }

  void on_backward_end() override {
    if (reducer_ != nullptr) reducer_->delay_all_reduce();
  }

 private:
  Reducer* reducer_;
  bool is_compat_113_;
  bool queued_ = false;
};

}  // namespace

class Ddp::Impl {
 public:
  Impl(ReplicatedState state, ProcessGroup& group, DdpOptions options);

  ~Impl() { delayed_->forget_reducer(); }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Impl(Impl&&) = delete;
  Impl& operator=(Impl&&) = delete;

  void begin_forward();
  /// `notice`: this forward's announcement under a join context, sent between begin_forward and
  /// this.
  void before_forward(bool training, bool joining, const JoinNotice& notice);
  void after_forward(std::span<const Variable> outputs);

  /// Whether outputs go through an extra node. Asked after after_forward.
  bool wants_pass_through() const { return reducer_->is_searching() || delayed_->is_due(); }

  /// The last thing of a forward.
  void lend_views() const {
    if (delayed_params_) delayed_params_->lend_views();
  }

  /// One iteration of a rank without inputs, and what follows the last one.
  void shadow_iteration();
  void synchronize_final_state(bool is_last_joiner);

  OpOptions op_options(const char* scope) const;
  std::int64_t cap_bytes() const;

  bool is_synchronizing() const { return group_->runtime().grad_enabled() && require_sync_; }

  ProcessGroup* group_;
  DdpOptions options_;
  ReplicatedState state_;                      // As it was given.
  std::vector<NamedVariable> unignored_;       // Of its parameters, if any are ignored.
  std::span<const NamedVariable> parameters_;  // Not ignored, frozen included.
  CoalescedBroadcast buffers_;                 // Not ignored.
  std::optional<WrapperTrace> trace_;
  std::optional<GradientTrace> gradient_trace_;
  std::unique_ptr<MixedPrecisionHook> mixed_;         // Null: everything in full precision.
  std::unique_ptr<DelayedAllReduce> delayed_params_;  // Null: nothing is delayed.
  std::optional<Reducer> reducer_;
  DdpLogger logger_;
  std::shared_ptr<DelayedReduction> delayed_;
  BufferHook* buffer_hook_ = nullptr;
  BufferHookLocation buffer_hook_location_ = BufferHookLocation::kPostForward;
  bool require_sync_ = true;         // require_backward_grad_sync
  bool require_buffer_sync_ = true;  // require_forward_param_sync
  bool state_due_ = true;            // The next synchronising forward records its state.
  JoinSignals join_signals_;
  bool divide_by_initial_ = true;  // Under a join context.

 private:
  bool is_compat_113() const { return options_.compat == Compat::kTorch1; }

  std::int64_t first_bytes() const;
  ReducerOptions reducer_options() const;
  void start_delayed(const std::vector<NamedVariable>& reduced);
  void start_mixed_precision();
  void lower_precision();
  void start_trace(const std::vector<NamedVariable>& reduced);
  void synchronize_state(std::span<const NamedVariable> reduced);
  void broadcast_state(std::int32_t root, const OpOptions& options) const;
  void trace_forward(bool training);
  void synchronize_buffers(bool joining, bool is_candidate);
  void run_buffer_hook();
};

Ddp::Impl::Impl(ReplicatedState state, ProcessGroup& group, DdpOptions options)
    : group_(&group),
      options_(with_delayed_ignored(std::move(options))),
      state_(std::move(state)),
      parameters_(state_.parameters),
      buffers_(without_ignored(std::move(state_.buffers), options_.ignored)),
      join_signals_(group) {
  if (!options_.ignored.empty()) {
    unignored_ = without_ignored(state_.parameters, options_.ignored);
    parameters_ = unignored_;
  }
  check_ddp_arguments(parameters_, options_);
  check_one_rank(parameters_, group);
  std::vector<NamedVariable> reduced = reducer_parameters(state_, options_.ignored);
  if (group.runtime().recorder() != nullptr) start_trace(reduced);
  if (!options_.delay_all_reduce_named_params.empty()) start_delayed(reduced);
  if (options_.init_sync) synchronize_state(reduced);
  if (trace_) trace_->record_state(StatePoint::kWrap);
  ReducerOptions reducer = reducer_options();
  reducer.debug_name = [this](const NamedVariable& one) {
    return lockstep::debug_name(one, state_, options_.ignored);
  };
  reducer_.emplace(
      std::move(reduced), group, std::move(reducer), gradient_trace_ ? &*gradient_trace_ : nullptr);
  if (options_.mixed_precision) start_mixed_precision();
  delayed_ = std::allocate_shared<DelayedReduction>(
      std::pmr::polymorphic_allocator<DelayedReduction>(&group.runtime().pool()),
      *reducer_,
      is_compat_113());
  if (options_.static_graph) reducer_->set_static_graph();
  logger_ = DdpLogger(*reducer_, is_compat_113());
}

// Whatever init_sync says. PyTorch hands the cap in MiB to a function that takes bytes.
void Ddp::Impl::start_delayed(const std::vector<NamedVariable>& reduced) {
  LOCKSTEP_CHECK(!is_compat_113(), "compat 1.13 has no delay_all_reduce_named_params");
  delayed_params_ = std::make_unique<DelayedAllReduce>(options_.delay_all_reduce_named_params,
                                                       options_.param_to_hook_all_reduce,
                                                       *group_,
                                                       op_options("ddp.delayed"));
  const auto cap_mib = static_cast<std::int64_t>(static_cast<double>(cap_bytes()) / kBytesPerMiB);
  delayed_params_->broadcast(cap_mib, op_options("ddp.delayed"));
  if (reduced.empty()) {
    throw ReducerError(
        "every parameter that requires a gradient is delayed, and nothing is left to the reducer: "
        "PyTorch fails at the first forward, since 'DistributedDataParallel' object has no "
        "attribute '_lazy_init_ran'.");
  }
}

// Integer buffers become floats too, as in PyTorch.
void Ddp::Impl::start_mixed_precision() {
  const MixedPrecision& chosen = *options_.mixed_precision;
  LOCKSTEP_CHECK(!is_compat_113(), "compat 1.13 has no mixed_precision");
  LOCKSTEP_CHECK(!options_.gradient_as_bucket_view,
                 "mixed_precision and gradient_as_bucket_view are not supported together");
  mixed_ = std::make_unique<MixedPrecisionHook>(
      std::vector<NamedVariable>(parameters_.begin(), parameters_.end()), *group_, chosen);
  reducer_->register_comm_hook(*mixed_);
  if (gradient_trace_) {
    gradient_trace_->allow_for(chosen.param_dtype);
    gradient_trace_->allow_for(chosen.reduce_dtype.value_or(chosen.param_dtype));
  }
  if (!chosen.buffer_dtype) return;
  const std::span<const NamedVariable> buffers = buffers_.variables();
  std::vector<NamedVariable> narrow(buffers.begin(), buffers.end());
  for (const NamedVariable& buffer : narrow) {
    buffer.variable.state().data = buffer.variable.data().to(*chosen.buffer_dtype);
  }
  buffers_ = CoalescedBroadcast(std::move(narrow));
}

// A narrow copy without a graph has no place for PyTorch's hook; one that was never reduced keeps
// the hook that it has, and gets another.
void Ddp::Impl::lower_precision() {
  if (!group_->runtime().grad_enabled()) {
    throw ReducerError("'NoneType' object has no attribute 'next_functions'");
  }
  if (mixed_->lower()) reducer_->rearm_hooks();
}

void Ddp::Impl::start_trace(const std::vector<NamedVariable>& reduced) {
  Runtime& runtime = group_->runtime();
  WrappedState state;
  state.reduced = reduced;
  state.replicated = parameters_;
  state.buffers = buffers_.variables();
  state.ignored = options_.ignored;
  state.left_alone = state_.parameters;
  state.modules = state_.modules;
  trace_.emplace(runtime, state);
  gradient_trace_.emplace(runtime, trace_->wrapper(), reduced);
  WrapEvent event;
  event.bucket_cap_bytes = cap_bytes();
  event.group = group_->id();
  event.n_ranks = group_->size();
  trace_->record_wrap(
      event, options_.broadcast_buffers ? BufferPolicy::kBroadcast0 : BufferPolicy::kLocal);
}

void Ddp::Impl::synchronize_state(std::span<const NamedVariable> reduced) {
  const OpOptions options = op_options("ddp.init");
  verify_replicas(*group_, reduced, options);
  broadcast_state(0, options);
}

void Ddp::Impl::broadcast_state(std::int32_t root, const OpOptions& options) const {
  const std::span<const NamedVariable> buffers = buffers_.variables();
  std::vector<NamedVariable> all;
  all.reserve(parameters_.size() + buffers.size());
  all.assign(parameters_.begin(), parameters_.end());
  if (options_.broadcast_buffers || is_compat_113()) {
    all.insert(all.end(), buffers.begin(), buffers.end());
  }
  CoalescedBroadcast(std::move(all)).run(*group_, root, options);
}

std::int64_t Ddp::Impl::cap_bytes() const {
  if (options_.bucket_cap_mb < 0.0) return kDefaultCapBytes;
  return static_cast<std::int64_t>(options_.bucket_cap_mb * kBytesPerMiB);
}

// An explicit cap is the first one too, from version 2 on.
std::int64_t Ddp::Impl::first_bytes() const {
  const bool is_explicit = options_.bucket_cap_mb >= 0.0;
  return is_explicit && !is_compat_113() ? cap_bytes() : options_.first_bucket_bytes;
}

ReducerOptions Ddp::Impl::reducer_options() const {
  ReducerOptions options;
  options.find_unused_parameters = options_.find_unused_parameters;
  options.gradient_as_bucket_view = options_.gradient_as_bucket_view;
  options.is_compat_113 = is_compat_113();
  if (options_.mixed_precision) options.grad_dtype = options_.mixed_precision->param_dtype;
  options.rebuilt_limits_bytes = {first_bytes(), cap_bytes()};
  // Buckets that will be rebuilt anyway start as one per dtype.
  options.initial_limits_bytes = options_.find_unused_parameters && !options_.static_graph
                                     ? options.rebuilt_limits_bytes
                                     : std::vector<std::int64_t>{kUnlimited};
  options.site = options_.site;
  options.wrapper = trace_ ? trace_->wrapper() : -1;
  return options;
}

OpOptions Ddp::Impl::op_options(const char* scope) const {
  OpOptions options;
  options.site = group_->runtime().call_site_or(options_.site);
  options.site.scope = scope;
  options.wrapper = trace_ ? trace_->wrapper() : -1;
  return options;
}

void Ddp::Impl::begin_forward() {
  if (trace_) trace_->begin_forward(is_synchronizing(), group_->runtime().grad_enabled());
  if (is_synchronizing()) logger_.on_forward(*reducer_);
  reducer_->on_forward(is_synchronizing());
  join_signals_.settle();
}

void Ddp::Impl::before_forward(bool training, bool joining, const JoinNotice& notice) {
  const bool grad = group_->runtime().grad_enabled();
  if (notice.valid()) {
    reducer_->divide_by(divide_by_initial_ ? JoinNotice() : notice);
  }
  if (grad) reducer_->rebuild_buckets();
  if (buffer_hook_ == nullptr) {
    synchronize_buffers(joining, true);
  } else if (buffer_hook_location_ == BufferHookLocation::kPreForward) {
    run_buffer_hook();
  }
  if (joining) join_signals_.announce_sync(require_sync_, op_options("ddp.join"));
  trace_forward(training);
  if (mixed_) lower_precision();
}

void Ddp::Impl::trace_forward(bool training) {
  if (!trace_) return;
  const bool grad = group_->runtime().grad_enabled();
  const bool synchronizing = is_synchronizing();
  trace_->record_lone(LonePoint::kFound);
  if (synchronizing && trace_->take_loaded()) state_due_ = true;
  if (synchronizing && state_due_) {
    trace_->record_state(StatePoint::kForward);
    state_due_ = false;
  } else if (synchronizing) {
    trace_->record_found();
  }
  trace_->record_forward({.synchronizing = synchronizing, .training = training, .grad = grad},
                         group_->runtime());
}

void Ddp::Impl::synchronize_buffers(bool joining, bool is_candidate) {
  if (!require_buffer_sync_ || !options_.broadcast_buffers || buffers_.empty()) return;
  const OpOptions options = op_options("ddp.buffers");
  // Rank 0 may have no inputs left, and with them no fresh buffers.
  const std::int32_t root = joining ? join_signals_.common_rank(is_candidate, options) : 0;
  if (trace_) trace_->look_at_buffers();
  buffers_.run(*group_, root, options);
  if (trace_) trace_->record_replaced();
}

void Ddp::Impl::run_buffer_hook() {
  if (!require_buffer_sync_ || !options_.broadcast_buffers || buffers_.empty()) return;
  reducer_->await_after_backward(
      buffer_hook_->run(buffers_.variables(), op_options("ddp.buffers")));
}

void Ddp::Impl::shadow_iteration() {
  join_signals_.settle();
  reducer_->rebuild_buckets();
  synchronize_buffers(true, false);
  require_buffer_sync_ = join_signals_.any_rank_syncs(op_options("ddp.join"));
  if (!require_buffer_sync_) return;
  if (trace_) trace_->count_shadowed_forward();
  reducer_->shadow_backward();
  reducer_->push_all_rebuilt_parameters();
}

void Ddp::Impl::synchronize_final_state(bool is_last_joiner) {
  join_signals_.settle();
  const OpOptions options = op_options("ddp.join");
  broadcast_state(join_signals_.common_rank(is_last_joiner, options), options);
  state_due_ = true;
}

void Ddp::Impl::after_forward(std::span<const Variable> outputs) {
  if (buffer_hook_ != nullptr && buffer_hook_location_ == BufferHookLocation::kPostForward) {
    run_buffer_hook();
  }
  // What the next forward does about buffers is decided here, one forward early.
  require_buffer_sync_ = is_synchronizing();
  if (require_buffer_sync_) reducer_->prepare_for_backward(outputs);
}

// They are moved where clang-tidy does not look.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Ddp::Ddp(ReplicatedState state, ProcessGroup& group, DdpOptions options)
    : impl_(
          make_placed<Impl>(group.runtime().pool(), std::move(state), group, std::move(options))) {}

Ddp::~Ddp() = default;

void Ddp::before_forward(bool training) {
  impl_->begin_forward();
  const JoinNotice notice =
      notifies() ? notify_join_context(impl_->op_options("ddp.join")) : JoinNotice();
  impl_->before_forward(training, join_config().enable, notice);
}

Variable Ddp::after_forward(Variable output) {
  impl_->after_forward(std::span<const Variable>(&output, output.defined() ? 1 : 0));
  if (impl_->wants_pass_through() && output.defined()) {
    Variable* const outputs[] = {&output};
    pass_through(outputs, impl_->delayed_);
  }
  impl_->lend_views();
  return output;
}

void Ddp::after_forward(std::span<Variable* const> outputs) {
  std::vector<Variable> found;
  for (const Variable* output : outputs) found.push_back(*output);
  impl_->after_forward(found);
  if (impl_->wants_pass_through()) pass_through(outputs, impl_->delayed_);
  impl_->lend_views();
}

void Ddp::record_input(const Variable& input) {
  if (impl_->trace_) impl_->trace_->record_input(input);
}

Variable Ddp::cast_input(const Variable& input) const {
  if (!impl_->mixed_ || !is_floating(input.data().dtype())) return input;
  return cast(input, impl_->mixed_->options().param_dtype);
}

void Ddp::register_comm_hook(CommHook& hook) {
  impl_->reducer_->register_comm_hook(hook);
  if (impl_->trace_) impl_->trace_->record_hook({.effect = hook.effect()});
}

void Ddp::register_buffer_comm_hook(BufferHook& hook, BufferHookLocation location) {
  impl_->buffer_hook_ = &hook;
  impl_->buffer_hook_location_ = location;
}

void Ddp::set_static_graph() {
  if (!impl_->reducer_->static_graph()) impl_->reducer_->set_static_graph();
}

std::unique_ptr<JoinHook> Ddp::join_hook(const JoinOptions& options) {
  class Hook final : public JoinHook {
   public:
    explicit Hook(Impl& ddp) : ddp_(&ddp) {}

    void main_hook() override { ddp_->shadow_iteration(); }

    void post_hook(bool is_last_joiner) override { ddp_->synchronize_final_state(is_last_joiner); }

   private:
    Impl* ddp_;
  };

  impl_->divide_by_initial_ = options.divide_by_initial_world_size;
  return std::make_unique<Hook>(*impl_);
}

ProcessGroup& Ddp::join_process_group() const { return *impl_->group_; }

bool Ddp::require_sync() const { return impl_->require_sync_; }

void Ddp::set_require_sync(bool sync) { impl_->require_sync_ = sync; }

std::int32_t Ddp::wrapper() const { return impl_->trace_ ? impl_->trace_->wrapper() : -1; }

ProcessGroup& Ddp::group() const { return *impl_->group_; }

void Ddp::note_loaded() {
  if (impl_->trace_) impl_->trace_->record_state(StatePoint::kLoad);
}

const std::vector<NamedVariable>& Ddp::parameters() const { return impl_->reducer_->parameters(); }

std::vector<std::vector<std::int32_t>> Ddp::buckets() const { return impl_->reducer_->buckets(); }

DdpLoggingData Ddp::logging_data() const {
  return impl_->logger_.data(*impl_->reducer_, impl_->options_, *impl_->group_, impl_->cap_bytes());
}

std::vector<std::int32_t> Ddp::used_map() const {
  const std::span<const std::int32_t> used = impl_->reducer_->used_map();
  if (used.empty()) return std::vector<std::int32_t>(parameters().size());
  return {used.begin(), used.end()};
}

}  // namespace lockstep
