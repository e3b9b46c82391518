// DistributedDataParallel: the wrapper that keeps replicas equal and gradients averaged.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/autograd/user_call.h"
#include "lockstep/autograd/variable.h"
#include "lockstep/collectives/join.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/ddp_logging.h"
#include "lockstep/ddp/ddp_outputs.h"
#include "lockstep/ddp/mixed_precision.h"
#include "lockstep/memory/placed.h"
#include "lockstep/reducer/comm_hook.h"
#include "lockstep/reducer/reducer_error.h"

namespace lockstep {

/// PyTorch's constructor arguments, by their names.
struct DdpOptions {
  bool broadcast_buffers = true;
  bool init_sync = true;        ///< Check shapes and broadcast rank 0's state in the constructor.
  double bucket_cap_mb = -1.0;  ///< < 0: the default of 25 MiB with a first bucket of 1 MiB.
  std::int64_t first_bucket_bytes = 1'048'576;  ///< dist._DEFAULT_FIRST_BUCKET_BYTES
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  /// Every backward uses the same parameters equally often. Overrides find_unused_parameters, which
  /// then only decides the first buckets' sizes if the graph is declared static after construction.
  bool static_graph = false;
  /// For PyTorch's checks alone: models of one device take none.
  std::vector<std::int32_t> device_ids = {};
  std::optional<std::int32_t> output_device = std::nullopt;
  /// Qualified names of parameters and buffers that stay local; a shared parameter stays in the
  /// reduction until all its names are here. As in PyTorch the reducer spells a
  /// parameter of the root module with a leading dot: "w" keeps it out of broadcasts, ".w" out of
  /// the reduction.
  std::vector<std::string> ignored = {};
  /// Parameters that the reducer leaves alone: they are averaged together as soon as the gradient
  /// of `param_to_hook_all_reduce` has been computed (delayed_all_reduce.h). Both or none.
  std::vector<NamedVariable> delay_all_reduce_named_params = {};
  Variable param_to_hook_all_reduce = {};
  /// Forwards and backwards in narrow copies of parameters and inputs (mixed_precision.h).
  std::optional<MixedPrecision> mixed_precision = std::nullopt;
  std::string module_name = {};      ///< What logging data call the model.
  Compat compat = Compat::kTorch2;   ///< Where the versions differ.
  CallSite site = CallSite::here();  ///< Where the model was wrapped.
};

/// What DDP needs to know of a model.
struct ReplicatedState {
  std::vector<NamedVariable>
      parameters;  ///< Registration order, duplicates removed, frozen included.
  std::vector<NamedVariable> buffers;
  /// Every name of every parameter, in order of registration; empty: each has one.
  std::vector<NamedVariable> all_names = {};
  /// What it computes with beside its tensors (nn::Module::descriptions), or empty: not known.
  std::string modules = {};

  /// Of a model that says all names of its parameters, in order of registration.
  static ReplicatedState of(std::vector<NamedVariable> all_names,
                            std::vector<NamedVariable> buffers);
};

/// Everything of DDP that does not depend on the model's type.
///
/// Source: torch.nn.parallel.DistributedDataParallel and c10d's Reducer (docs/contract.md).
/// Errors: CommError when a collective fails; ReducerError with PyTorch's text for misuse.
/// Deterministic: collectives are issued in the order of docs/contract.md's grammar.
class Ddp : public Joinable {
 public:
  Ddp(ReplicatedState state, ProcessGroup& group, DdpOptions options);
  ~Ddp() override;
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;
  Ddp(Ddp&&) = delete;
  Ddp& operator=(Ddp&&) = delete;

  /// Runs before the inner forward: rebuilds buckets, broadcasts buffers, records the forward.
  void before_forward(bool training);
  /// Runs after it: arms the reducer. `output` is where find_unused_parameters starts its search.
  /// Returns: what the forward returns; through an extra node with find_unused_parameters, and
  ///     until the first reduction of a static graph.
  Variable after_forward(Variable output);
  /// The same for a forward with several outputs, which are replaced in place.
  void after_forward(std::span<Variable* const> outputs);

  /// What the model's forward gets for a variable that it is called with: under mixed precision
  /// floating-point ones become narrow.
  Variable cast_input(const Variable& input) const;
  /// The next argument of the forward that has begun, for traces.
  void record_input(const Variable& input);

  /// Communicates buckets by `hook` instead of averaging them. Once in a wrapper's lifetime.
  /// Requires: the hook outlives the wrapper.
  /// Errors: ReducerError the second time.
  void register_comm_hook(CommHook& hook);
  /// Synchronises buffers by `hook` instead of the broadcast.
  /// Requires: the hook outlives the wrapper.
  void register_buffer_comm_hook(BufferHook& hook,
                                 BufferHookLocation location = BufferHookLocation::kPostForward);
  /// Declares the graph static. Errors: ReducerError after the first synchronising forward.
  void set_static_graph();

  /// PyTorch's require_backward_grad_sync: false inside no_sync. Read at forward time.
  bool require_sync() const;
  void set_require_sync(bool sync);  ///< Counts from the next forward on.

  /// Shadows forwards and backwards of a rank without inputs; at the end every rank takes the
  /// parameters and buffers of the last one to run out.
  std::unique_ptr<JoinHook> join_hook(const JoinOptions& options) override;
  ProcessGroup& join_process_group() const override;

  std::int32_t wrapper() const;  ///< Index of this wrapper on this rank, as traces count it.
  ProcessGroup& group() const;
  /// A checkpoint was loaded: the replicated state is recorded again as the next synchronising
  /// forward begins.
  void note_loaded();

  /// Reducer parameters in index order, and the bucket layout as indices in launch order.
  const std::vector<NamedVariable>& parameters() const;
  std::vector<std::vector<std::int32_t>> buckets() const;
  /// By parameter: on how many ranks it was used in the last reduced backward
  /// (_get_local_used_map). All zero without find_unused_parameters.
  std::vector<std::int32_t> used_map() const;
  /// Source: _get_ddp_logging_data.
  DdpLoggingData logging_data() const;

 private:
  class Impl;
  Placed<Impl> impl_;
};

/// Skips gradient synchronisation for forwards that begin inside its lifetime (ddp.no_sync()).
class NoSync {
 public:
  explicit NoSync(Ddp& ddp) : ddp_(&ddp), previous_(ddp.require_sync()) {
    ddp.set_require_sync(false);
  }

  ~NoSync() { ddp_->set_require_sync(previous_); }

  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;
  NoSync(NoSync&&) = delete;
  NoSync& operator=(NoSync&&) = delete;

 private:
  Ddp* ddp_;
  bool previous_;
};

/// A model that can be wrapped: nn::Module is one, any class with these members is.
template <typename M>
concept Wrappable = requires(M& model) {
  { model.named_parameters() } -> std::convertible_to<std::vector<NamedVariable>>;
  { model.named_buffers() } -> std::convertible_to<std::vector<NamedVariable>>;
  { model.is_training() } -> std::convertible_to<bool>;
};

/// An argument of a forward, which a place in the program is not.
template <typename T>
concept NotAPlace = !std::same_as<std::remove_cvref_t<T>, CallSite>;

/// Wraps `model`, which must outlive the wrapper. `ddp(x)` forwards through the wrapper,
/// `ddp.module()` is the inner model: calling that one directly skips synchronisation, as in
/// PyTorch.
template <Wrappable M>
class DistributedDataParallel : public Ddp {
 public:
  DistributedDataParallel(M& model, ProcessGroup& group, DdpOptions options = {})
      : Ddp(state_of(model), group, std::move(options)),
        model_(&model),
        runtime_(&group.runtime()) {}

  /// Returns what the model's forward returns: a variable, or a structure of variables (see
  /// ddp_outputs.h). Arguments that are variables go through cast_input; what they are inside of
  /// structures does not, where PyTorch descends. Findings about what the forward communicates have
  /// the line of this call, unless it has more than three arguments.
  auto operator()(const CallSite& site = CallSite::here()) { return called_at(site); }

  template <typename A>
  auto operator()(A&& a, const CallSite& site = CallSite::here()) {
    return called_at(site, std::forward<A>(a));
  }

  template <typename A, NotAPlace B>
  auto operator()(A&& a, B&& b, const CallSite& site = CallSite::here()) {
    return called_at(site, std::forward<A>(a), std::forward<B>(b));
  }

  template <typename A, typename B, NotAPlace C>
  auto operator()(A&& a, B&& b, C&& c, const CallSite& site = CallSite::here()) {
    return called_at(site, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }

  template <typename A, typename B, typename C, NotAPlace D, typename... Rest>
  auto operator()(A&& a, B&& b, C&& c, D&& d, Rest&&... rest) {
    return called_at({},
                     std::forward<A>(a),
                     std::forward<B>(b),
                     std::forward<C>(c),
                     std::forward<D>(d),
                     std::forward<Rest>(rest)...);
  }

  M& module() const { return *model_; }

 private:
  template <typename... Args>
  auto called_at(const CallSite& site, Args&&... args) {
    return user_call(*runtime_, site, [&] { return serve(std::forward<Args>(args)...); });
  }

  template <typename... Args>
  auto serve(Args&&... args) {
    before_forward(model_->is_training());
    (note(args), ...);  // In their order, in which arguments of a call need not be made.
    auto result = model_->forward(argument(std::forward<Args>(args))...);
    if constexpr (std::is_same_v<decltype(result), Variable>) {
      return after_forward(std::move(result));
    } else {
      std::vector<Variable*> outputs;
      each_output(result, [&outputs](Variable& output) { outputs.push_back(&output); });
      after_forward(std::span<Variable* const>(outputs));
      return result;
    }
  }

  static ReplicatedState state_of(M& model) {
    ReplicatedState state;
    if constexpr (requires { model.named_parameters(false); }) {
      state = ReplicatedState::of(model.named_parameters(false), model.named_buffers());
    } else {
      state = {model.named_parameters(), model.named_buffers()};
    }
    if constexpr (requires { state.modules = model.descriptions(); }) {
      state.modules = model.descriptions();
    }
    return state;
  }

  template <typename T>
  void note(const T& value) {
    if constexpr (std::is_same_v<T, Variable>) record_input(value);
  }

  template <typename T>
  decltype(auto) argument(T&& value) const {
    if constexpr (std::is_same_v<std::remove_cvref_t<T>, Variable>) {
      return cast_input(value);
    } else {
      return std::forward<T>(value);
    }
  }

  M* model_;
  Runtime* runtime_;
};

}  // namespace lockstep
