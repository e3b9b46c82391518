// What a rank's tensors run on: memory, kernels, host, recorder. Passed down, never ambient.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/call_site.h"
#include "lockstep/base/host.h"
#include "lockstep/tensor/accelerator.h"
#include "lockstep/tensor/pool.h"

namespace lockstep {

class Kernels;
class Recorder;          // trace/recorder.h
class OwnReductions;     // trace/recorder.h
class InFlight;          // tensor/in_flight.h
class ExchangeWatch;     // tensor/in_flight.h
class Contents;          // tensor/contents.h
class GraphTask;         // autograd/engine.h
class SavedTensorHooks;  // autograd/saved_tensor.h
class AutocastRegion;    // autograd/autocast.h
class ListedModule;      // autograd/listed_module.h

/// One rank's execution context. Storage points to its runtime, operations take it from their
/// operands, modules, tensors and generators are made with it.
///
/// Requires: outlives everything made with it.
class Runtime {
 public:
  /// `accelerator`: where elements of tensors live instead of the pool; null: in the pool.
  Runtime(Pool& pool, Kernels& kernels, Host& host, Accelerator* accelerator = nullptr)
      : pool_(&pool),
        kernels_(&kernels),
        watched_kernels_(&kernels),
        host_(&host),
        accelerator_(accelerator) {}

  Pool& pool() const { return *pool_; }

  /// Requires: asked for each operation anew, since others serve after a collective begins or ends.
  Kernels& kernels() const { return n_watched_ == 0 ? *kernels_ : *watched_kernels_; }

  /// The kernels that serve while operations are watched; the constructor's in the absence of a call.
  /// Requires: they compute the same, and report to in_flight() and exchanges().
  void set_watched_kernels(Kernels& kernels) { watched_kernels_ = &kernels; }

  /// Operations are watched for this many more things, or fewer: loans of memory, open exchanges.
  void add_watched(std::int64_t n) { n_watched_ += n; }

  Host& host() const { return *host_; }

  Accelerator* accelerator() const { return accelerator_; }

  /// What kernels have queued on a device has ended when this returns.
  void settle() const {
    if (accelerator_ != nullptr) accelerator_->settle();
  }

  /// The rank's event recorder, or null when nothing is recorded.
  Recorder* recorder() const { return recorder_; }

  void set_recorder(Recorder* recorder) { recorder_ = recorder; }

  /// Follows gradients that the program reduces by itself, or null when nothing is recorded.
  OwnReductions* own_reductions() const { return own_reductions_; }

  void set_own_reductions(OwnReductions* follower) { own_reductions_ = follower; }

  /// Memory that pending works own, or null when memory is not watched.
  InFlight* in_flight() const { return in_flight_; }

  void set_in_flight(InFlight* in_flight) { in_flight_ = in_flight; }

  /// Collectives that send what graphs computed, or null when they are not watched.
  ExchangeWatch* exchanges() const { return exchanges_; }

  void set_exchanges(ExchangeWatch* exchanges) { exchanges_ = exchanges; }

  /// What tensors have been found to contain, or null: then they are looked at each time.
  /// Requires: pending works' memory is watched (in_flight); no accelerator.
  Contents* contents() const { return contents_; }

  void set_contents(Contents* contents) { contents_ = contents; }

  /// The backward pass that is running on this rank, or null.
  GraphTask* graph_task() const { return graph_task_; }

  void set_graph_task(GraphTask* task) { graph_task_ = task; }

  /// Where the program made the call that this rank serves (user_call.h), or null: not known.
  const CallSite* call_site() const { return call_site_; }

  /// The same, or `otherwise`.
  const CallSite& call_site_or(const CallSite& otherwise) const {
    return call_site_ == nullptr ? otherwise : *call_site_;
  }

  void set_call_site(const CallSite* site) { call_site_ = site; }

  /// Takes what operations would save for their backward, or null: they keep it themselves.
  SavedTensorHooks* saved_tensor_hooks() const { return saved_tensor_hooks_; }

  void set_saved_tensor_hooks(SavedTensorHooks* hooks) { saved_tensor_hooks_ = hooks; }

  /// The outermost autocast region that this rank is in, or null: operations compute in the dtypes
  /// of their operands.
  AutocastRegion* autocast() const { return autocast_; }

  void set_autocast(AutocastRegion* region) { autocast_ = region; }

  /// The youngest module that was made with it and is alive, or null.
  ListedModule* modules() const { return modules_; }

  void set_modules(ListedModule* youngest) { modules_ = youngest; }

  bool grad_enabled() const { return grad_enabled_; }

  void set_grad_enabled(bool enabled) { grad_enabled_ = enabled; }

  /// Leaf variables get their ids here, so ids depend on the order of construction alone.
  std::uint32_t next_variable_id() { return n_variables_++; }

  /// Storages and works that were made with it and are alive: none may outlive its rank.
  std::int64_t n_alive() const { return n_alive_; }

  void note_made() { ++n_alive_; }

  void note_gone() { --n_alive_; }

  /// The rank has ended, though something of it is alive: nothing watches that any more.
  void stop_watching() {
    recorder_ = nullptr;
    own_reductions_ = nullptr;
    in_flight_ = nullptr;
    exchanges_ = nullptr;
    n_watched_ = 0;
    contents_ = nullptr;
    graph_task_ = nullptr;
    saved_tensor_hooks_ = nullptr;
    autocast_ = nullptr;
  }

  /// Autograd nodes carry their creation order, as PyTorch's sequence numbers do.
  std::uint64_t next_sequence_number() { return n_nodes_++; }

 private:
  Pool* pool_;
  Kernels* kernels_;
  Kernels* watched_kernels_;
  Host* host_;
  Accelerator* accelerator_;
  Recorder* recorder_ = nullptr;
  OwnReductions* own_reductions_ = nullptr;
  InFlight* in_flight_ = nullptr;
  ExchangeWatch* exchanges_ = nullptr;
  Contents* contents_ = nullptr;
  GraphTask* graph_task_ = nullptr;
  const CallSite* call_site_ = nullptr;
  SavedTensorHooks* saved_tensor_hooks_ = nullptr;
  AutocastRegion* autocast_ = nullptr;
  ListedModule* modules_ = nullptr;
  std::int64_t n_watched_ = 0;
  std::int64_t n_alive_ = 0;
  std::uint64_t n_nodes_ = 0;
  std::uint32_t n_variables_ = 0;
  bool grad_enabled_ = true;
};

}  // namespace lockstep
