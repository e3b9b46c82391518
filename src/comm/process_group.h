// The one interface distributed code talks to; a loopback, the simulator, Gloo, NCCL implement it.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/check.h"
#include "lockstep/comm/work.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// A variable, which comm knows nothing else of.
template <typename V>
concept HoldsTensor = requires(const V& variable) {
  { variable.data() } -> std::same_as<const Tensor&>;
};

/// Raw contiguous memory with an element type: what a collective works on, whatever owns it.
struct Memory {
  void* data = nullptr;
  std::int64_t count = 0;  ///< Elements.
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  /// Nothing but the library's own operations on tensors touches it, and those are watched. Other
  /// memory is watched by its contents (docs/laws.md, 15).
  bool by_operations_only = false;
  /// Of a tensor that may belong to the program's graph; else null.
  Storage* storage = nullptr;

  /// `n` elements from element `first` on. Requires: they lie inside.
  Memory slice(std::int64_t first, std::int64_t n) const {
    LOCKSTEP_CHECK(first >= 0 && n >= 0 && first <= count && n <= count - first,
                   "elements " + std::to_string(first) + " to " + std::to_string(first + n) +
                       " of a buffer that has " + std::to_string(count));
    return {static_cast<std::byte*>(data) + first * size_of(dtype),
            n,
            dtype,
            device,
            by_operations_only,
            storage};
  }

  /// All of a tensor. Requires: it is contiguous, and outlives what is posted.
  static Memory of(const Tensor& tensor) {
    Storage* const storage =
        tensor.defined() && !tensor.is_detached() ? tensor.storage().get() : nullptr;
    return {tensor.raw(), tensor.n_elems(), tensor.dtype(), tensor.device(), false, storage};
  }

  /// All of a parameter, or of what a graph has computed.
  /// Requires: as of its tensor.
  template <HoldsTensor V>
  static Memory of(const V& variable) {
    return of(variable.data());
  }

  /// Numbers of the program's own, on the host. Requires: they outlive what is posted.
  template <typename T>
  static Memory of(std::span<T> values) {
    return {values.data(),
            static_cast<std::int64_t>(values.size()),
            DTypeOf<std::remove_const_t<T>>::kValue,
            Device::kCpu};
  }

  /// A vector, or an array.
  template <typename R>

  requires requires(R& values) { std::span(values); }

  static Memory of(R& values) {
    const std::span all(values);
    return of(std::span<typename decltype(all)::element_type>(all));
  }

  /// One number. There is no type of truth values that ranks could add: send an std::int32_t.
  template <typename T>
  requires std::is_arithmetic_v<T>

  static Memory of(T& number) { return of(std::span<T>(&number, 1)); }
};

/// One operation as a backend receives it. What it refers to is valid during post() only.
///
/// Signature::count is what members compare: this rank's buffer, or the sum over all buffers where
/// the operation takes one per rank (all_gather: where the outputs are uneven). Signature::splits
/// digests uneven buffer sizes; those of all_to_all differ between ranks, so its counts and splits
/// are evidence and a backend compares the matrix of counts with its transpose instead.
///
/// all_gather_into_tensor and reduce_scatter_tensor hand in one buffer that holds all ranks' parts
/// one after another; members may mix them with the list forms. An all_reduce of several buffers
/// (coalesced) has as many inputs as outputs and a digest of their sizes.
struct CollectiveCall {
  const Signature& signature;
  std::span<const Memory>
      inputs;  ///< One, or one per rank for scatter / all_to_all / reduce_scatter.
  std::span<const Memory> outputs;  ///< One, or one per rank for gather / all_gather / all_to_all.
  std::int32_t wrapper = -1;        ///< At whose position it is recorded, see OpOptions.
  Duration timeout{};               ///< See OpOptions.
};

/// Options every operation takes, with c10d's meaning.
struct OpOptions {
  bool async = true;         ///< Evidence for traces; every call returns a Work.
  std::uint64_t layout = 0;  ///< Digest of what the elements mean, 0 = raw.
  CallSite site{};
  std::int32_t wrapper = -1;  ///< The DDP wrapper that issues it, -1 = user code.
  double premul = 1.0;        ///< Factor of ReduceOp::kPremulSum, else ignored.
  /// After this long a work ends with kTimedOut, 0 = never. In the simulator virtual time; the
  /// first deadline that passes ends the operation for all members.
  Duration timeout{};
};

/// A fixed set of ranks that issue the same collectives in the same order.
///
/// Every operation returns at once with a Work; buffers belong to the operation until it was waited
/// for.
/// Deterministic: the same bits on every rank; the order of summation is the group's named
///     reduction order, never the order of arrival.
/// Errors: broken contracts (wrong number of buffers, root out of range, a null buffer) throw
///     ContractViolation; misfortunes are the Work's CommStatus.
/// Source: torch.distributed (c10d) semantics of the operation with the same name.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual std::int32_t rank() const = 0;  ///< This rank's place in the group.
  virtual std::int32_t size() const = 0;  ///< Its members.
  virtual std::int32_t id() const = 0;    ///< 0 = the world; equal on all members.
  virtual Rank world_rank(std::int32_t group_rank) const = 0;  ///< Of a member.
  virtual std::string_view backend() const = 0;          ///< "sim", "loopback", "gloo", "nccl"
  virtual std::string_view reduction_order() const = 0;  ///< "rank", "gloo-ring", ...
  virtual Runtime& runtime() = 0;                        ///< This rank's.

  /// Operations alone write to the memory they were given, before they have been waited for, and
  /// their works name what they have left there (lent_memory.h).
  virtual bool names_results() const { return false; }

  /// data := op over ranks of data, element by element. Requires: the same count on every rank.
  Work all_reduce(const Memory& data,
                  ReduceOp op = ReduceOp::kSum,
                  const OpOptions& options = {.site = CallSite::here()});
  /// As all_reduce of each buffer, as one operation. Requires: the same sizes on every rank.
  Work all_reduce_coalesced(std::span<const Memory> data,
                            ReduceOp op = ReduceOp::kSum,
                            const OpOptions& options = {.site = CallSite::here()});
  /// data := data of group rank `root`.
  Work broadcast(const Memory& data,
                 std::int32_t root,
                 const OpOptions& options = {.site = CallSite::here()});
  /// On `root` data := op over ranks; elsewhere data keeps its value (c10d leaves it unspecified).
  Work reduce(const Memory& data,
              std::int32_t root,
              ReduceOp op = ReduceOp::kSum,
              const OpOptions& options = {.site = CallSite::here()});
  /// outputs[r] := input of rank r. Requires: size() outputs, preallocated on every rank.
  Work all_gather(std::span<const Memory> outputs,
                  const Memory& input,
                  const OpOptions& options = {.site = CallSite::here()});
  /// Part r of output := input of rank r. Requires: output has size() times as many elements.
  Work all_gather_into_tensor(const Memory& output,
                              const Memory& input,
                              const OpOptions& options = {.site = CallSite::here()});
  /// output := op over ranks r of inputs[rank()] of r. Requires: size() inputs.
  Work reduce_scatter(const Memory& output,
                      std::span<const Memory> inputs,
                      ReduceOp op = ReduceOp::kSum,
                      const OpOptions& options = {.site = CallSite::here()});
  /// output := op over ranks of part rank() of input. Requires: input has size() times as many.
  Work reduce_scatter_tensor(const Memory& output,
                             const Memory& input,
                             ReduceOp op = ReduceOp::kSum,
                             const OpOptions& options = {.site = CallSite::here()});
  /// On `root` outputs[r] := input of r. Requires: size() outputs on root, none elsewhere.
  Work gather(std::span<const Memory> outputs,
              const Memory& input,
              std::int32_t root,
              const OpOptions& options = {.site = CallSite::here()});
  /// output := inputs[rank()] of `root`. Requires: size() inputs on root, none elsewhere.
  Work scatter(const Memory& output,
               std::span<const Memory> inputs,
               std::int32_t root,
               const OpOptions& options = {.site = CallSite::here()});
  /// outputs[r] := inputs[rank()] of r. Requires: size() of both.
  Work all_to_all(std::span<const Memory> outputs,
                  std::span<const Memory> inputs,
                  const OpOptions& options = {.site = CallSite::here()});
  /// Part r of output := part rank() of the input of r. Empty splits cut evenly; others give the
  /// elements of each part.
  /// Errors: c10d's texts for splits that do not fit.
  Work all_to_all_single(const Memory& output,
                         const Memory& input,
                         std::span<const std::int64_t> output_splits = {},
                         std::span<const std::int64_t> input_splits = {},
                         const OpOptions& options = {.site = CallSite::here()});
  /// Completes when every member has entered.
  Work barrier(const OpOptions& options = {.site = CallSite::here()});
  /// To group rank `to`, for its recv from this rank with this tag.
  /// Requires: another rank of the group than this one.
  Work send(const Memory& data,
            std::int32_t to,
            std::int32_t tag = 0,
            const OpOptions& options = {.site = CallSite::here()});
  /// From group rank `from`, by its send to this rank with this tag.
  /// Requires: another rank of the group than this one.
  Work recv(const Memory& data,
            std::int32_t from,
            std::int32_t tag = 0,
            const OpOptions& options = {.site = CallSite::here()});

  /// Takes the first message of `tag` that arrives, from any sender: a recv of that rank which was
  /// posted goes first, among waiting messages the lowest sender's. The sender is the peer in
  /// Work::signature() once it is done. Recorded as a recv when the sender is known.
  Work recv_any_source(const Memory& data,
                       std::int32_t tag = 0,
                       const OpOptions& options = {.site = CallSite::here()});

  /// Collectives and messages that this rank has issued: the collectives' sequence number.
  std::int64_t n_collectives() const { return n_collectives_; }

  std::int64_t n_messages() const { return n_messages_; }

  /// A new group of the listed group ranks (ascending order not required; their order is the new
  /// numbering). Collective over this group: every member calls it with the same list, members of
  /// the new group or not; those outside get null.
  /// Source: c10d new_group.
  virtual std::unique_ptr<ProcessGroup> split(std::span<const std::int32_t> group_ranks,
                                              CallSite site = CallSite::here()) = 0;

  /// The memory of what this wrapper has posted here is about to go: an operation that all members have posted ends
  /// now. Any other writes nothing into that memory later, and may never end for the other members.
  virtual void abandon(std::int32_t /*wrapper*/) {}

 protected:
  /// Starts one validated operation. The only thing a backend implements; it records the posted and
  /// the completed event through `record_posted` / `record_completed`.
  virtual Work post(const CollectiveCall& call) = 0;

  /// The event of a call that was posted with this number of the group.
  void record_posted(const CollectiveCall& call, std::int64_t seq);
  /// The event of its end.
  void record_completed(const CollectiveCall& call, std::int64_t seq, CommStatus status);

 private:
  friend class CheckedGroup;  // Posts through the group that it wraps.

  Work issue(const Signature& signature,
             std::span<const Memory> inputs,
             std::span<const Memory> outputs,
             const OpOptions& options);
  /// For those who watch what losses are made of.
  void watch_exchange(const CollectiveCall& call);
  /// Of the program's own calls: gradients may be among what they send.
  void follow_own(const CollectiveCall& call, bool has_ended);

  std::int64_t n_collectives_ = 0;
  std::int64_t n_messages_ = 0;
};

}  // namespace lockstep
