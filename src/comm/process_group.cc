#include "lockstep/comm/process_group.h"

#include <fmt/core.h>
#include <string>
#include <string_view>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

namespace {

std::string kind_of(const Memory& memory) {
  return fmt::format(
      "{} on {}", name_of(memory.dtype), memory.device == Device::kCpu ? "cpu" : "cuda");
}

/// Who calls what, from where.
struct Call {
  CollectiveOp op = CollectiveOp::kBarrier;
  const CallSite& site;
  const ProcessGroup& group;
};

/// "train.cc:30: rank 2: root 7 of broadcast: the group has 4 ranks"
[[noreturn]] void refuse(const Call& call, std::string_view message) {
  const std::int32_t id = call.group.id();
  const std::string group = id == 0 ? "" : fmt::format(" of group {}", id);
  throw ContractViolation(fmt::format("rank {}{}: {}", call.group.rank(), group, message),
                          call.site);
}

void check_memory(const Call& call, const Memory& memory) {
  if (memory.count < 0) {
    refuse(call, fmt::format("{} got a buffer of {} elements", name_of(call.op), memory.count));
  }
  if (memory.data == nullptr && memory.count != 0) {
    refuse(call,
           fmt::format("{} got a null buffer of {} {}",
                       name_of(call.op),
                       memory.count,
                       name_of(memory.dtype)));
  }
}

/// That all are memories and of the kind of `first`.
void check_memories(const Call& call, const Memory& first, std::span<const Memory> memories) {
  for (const Memory& memory : memories) {
    check_memory(call, memory);
    if (memory.dtype == first.dtype && memory.device == first.device) continue;
    refuse(call,
           fmt::format("{} got buffers of {} and of {}: they share dtype and device",
                       name_of(call.op),
                       kind_of(first),
                       kind_of(memory)));
  }
}

void check_one_per_rank(const Call& call, std::span<const Memory> memories) {
  if (memories.size() == static_cast<std::size_t>(call.group.size())) return;
  refuse(call,
         fmt::format("{} got {} buffers: it takes one for each rank of the group, which has {}",
                     name_of(call.op),
                     memories.size(),
                     call.group.size()));
}

/// `what`: "root" or "peer".
void check_rank(const Call& call, std::string_view what, std::int32_t rank) {
  if (rank >= 0 && rank < call.group.size()) return;
  refuse(
      call,
      fmt::format(
          "{} {} of {}: the group has {} ranks", what, rank, name_of(call.op), call.group.size()));
}

/// That both sides of what a rank keeps, or of what it gives and gets, agree.
void check_count(const Call& call, std::string_view what, std::int64_t count, std::int64_t wanted) {
  if (count == wanted) return;
  refuse(call,
         fmt::format("{} of {} has {} elements, not {}", what, name_of(call.op), count, wanted));
}

void check_reduce_op(const Call& call, ReduceOp op, DType dtype) {
  const bool bitwise = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  if (bitwise && is_floating(dtype)) {
    refuse(call,
           fmt::format("cannot use {} with non-integral dtype {}", name_of(op), name_of(dtype)));
  }
  if (op == ReduceOp::kAvg && dtype == DType::kBool) {
    refuse(call, "cannot use avg with boolean inputs");
  }
  if (op == ReduceOp::kPremulSum && !is_floating(dtype)) {
    refuse(call,
           fmt::format("cannot use premul_sum with {}: only floats are scaled", name_of(dtype)));
  }
}

std::int64_t total(std::span<const Memory> memories) {
  std::int64_t n = 0;
  for (const Memory& memory : memories) n += memory.count;
  return n;
}

bool is_even(std::span<const Memory> memories) {
  for (const Memory& memory : memories) {
    if (memory.count != memories.front().count) return false;
  }
  return true;
}

void fold(std::uint64_t& digest, std::span<const Memory> memories) {
  for (const Memory& memory : memories) {
    digest = mix64(digest + kGolden64 + static_cast<std::uint64_t>(memory.count));
  }
}

// 0 stands for even sizes; an uneven list that hashed to 0 would pass for one, hence the bit.
std::uint64_t splits_of(std::span<const Memory> memories) {
  if (is_even(memories)) return 0;
  std::uint64_t digest = 0;
  fold(digest, memories);
  return digest | 1U;
}

Signature signature_of(const Call& call, const Memory& memory, const OpOptions& options) {
  check_memory(call, memory);
  Signature signature;
  signature.op = call.op;
  signature.dtype = memory.dtype;
  signature.device = memory.device;
  signature.async = options.async;
  signature.count = memory.count;
  signature.layout = options.layout;
  signature.site = options.site;
  return signature;
}

void set_reduce(Signature& signature, const Call& call, ReduceOp op, const OpOptions& options) {
  check_reduce_op(call, op, signature.dtype);
  signature.reduce = op;
  if (op == ReduceOp::kPremulSum) signature.premul = options.premul;
}

std::string wrong_splits(std::span<const std::int64_t> splits, const Memory& memory) {
  return fmt::format("Split sizes doesn't match total dim 0 size: [{}] of {} elements",
                     join(splits),
                     memory.count);
}

// Source: c10d Utils.hpp, checkSplitSizes.
std::vector<Memory> cut(const Call& call,
                        const Memory& memory,
                        std::span<const std::int64_t> splits) {
  const std::int32_t n_ranks = call.group.size();
  std::vector<Memory> parts;
  std::int64_t first = 0;
  if (splits.empty()) {
    if (memory.count % n_ranks != 0) {
      refuse(call,
             fmt::format("Tensor's dim 0 does not divide equally across group size: {} elements, "
                         "{} ranks",
                         memory.count,
                         n_ranks));
    }
    const std::int64_t n = memory.count / n_ranks;
    for (std::int32_t r = 0; r < n_ranks; ++r) parts.push_back(memory.slice(r * n, n));
    return parts;
  }
  if (splits.size() != static_cast<std::size_t>(n_ranks)) {
    refuse(call,
           fmt::format("Number of tensor splits not equal to group size: {} splits, {} ranks",
                       splits.size(),
                       n_ranks));
  }
  for (const std::int64_t n : splits) {
    if (n < 0 || n > memory.count - first) refuse(call, wrong_splits(splits, memory));
    parts.push_back(memory.slice(first, n));
    first += n;
  }
  if (first != memory.count) refuse(call, wrong_splits(splits, memory));
  return parts;
}

std::uint64_t digest_of(std::span<const Memory> memories) {
  std::uint64_t digest = 0;
  std::uint64_t base = 0;
  for (const Memory& memory : memories) {
    if (memory.device != Device::kCpu) return 0;
    digest += sm64(memory.data, memory.count, memory.dtype, base);
    base += static_cast<std::uint64_t>(memory.count);
  }
  return digest;
}

}  // namespace

Work ProcessGroup::issue(const Signature& signature,
                         std::span<const Memory> inputs,
                         std::span<const Memory> outputs,
                         const OpOptions& options) {
  const bool message = signature.op == CollectiveOp::kSend || signature.op == CollectiveOp::kRecv;
  ++(message ? n_messages_ : n_collectives_);
  const CollectiveCall call{signature, inputs, outputs, options.wrapper, options.timeout};
  if (options.wrapper < 0 && runtime().exchanges() != nullptr) watch_exchange(call);
  if (options.wrapper < 0 && runtime().own_reductions() != nullptr) follow_own(call, false);
  return post(call);
}

void ProcessGroup::follow_own(const CollectiveCall& call, bool has_ended) {
  const CollectiveOp op = call.signature.op;
  const ReduceOp reduce = call.signature.reduce;
  const bool is_sum = reduce == ReduceOp::kSum || reduce == ReduceOp::kAvg;
  const bool adds = op == CollectiveOp::kAllReduce && is_sum;
  const bool adds_shards = op == CollectiveOp::kReduceScatter && is_sum && has_ended;
  if (id() != 0 || !(adds || adds_shards || op == CollectiveOp::kBroadcast)) return;
  OwnReductions& follower = *runtime().own_reductions();
  for (const Memory& memory : has_ended ? call.outputs : call.inputs) {
    if (!is_floating(memory.dtype)) continue;
    const OwnReductions::Sent sent{.data = memory.data,
                                   .n_elems = memory.count,
                                   .dtype = memory.dtype,
                                   .on_host = memory.device == Device::kCpu,
                                   .adds = adds,
                                   .site = call.signature.site};
    if (!has_ended) {
      follower.on_sent(sent);
    } else if (adds_shards) {
      follower.on_shard_received(sent);
    } else {
      follower.on_received(sent);
    }
  }
}

Work ProcessGroup::all_reduce(const Memory& data, ReduceOp op, const OpOptions& options) {
  const Call call{CollectiveOp::kAllReduce, options.site, *this};
  Signature signature = signature_of(call, data, options);
  set_reduce(signature, call, op, options);
  const std::span<const Memory> buffer(&data, 1);
  return issue(signature, buffer, buffer, options);
}

Work ProcessGroup::all_reduce_coalesced(std::span<const Memory> data,
                                        ReduceOp op,
                                        const OpOptions& options) {
  const Call call{CollectiveOp::kAllReduce, options.site, *this};
  if (data.empty()) refuse(call, "a coalesced all_reduce got no buffers: it has at least one");
  Signature signature = signature_of(call, data.front(), options);
  check_memories(call, data.front(), data);
  set_reduce(signature, call, op, options);
  signature.count = total(data);
  if (data.size() > 1) {
    fold(signature.splits, data);
    signature.splits |= 1U;
  }
  return issue(signature, data, data, options);
}

Work ProcessGroup::broadcast(const Memory& data, std::int32_t root, const OpOptions& options) {
  const Call call{CollectiveOp::kBroadcast, options.site, *this};
  Signature signature = signature_of(call, data, options);
  check_rank(call, "root", root);
  signature.root = root;
  const std::span<const Memory> buffer(&data, 1);
  return issue(signature, buffer, buffer, options);
}

Work ProcessGroup::reduce(const Memory& data,
                          std::int32_t root,
                          ReduceOp op,
                          const OpOptions& options) {
  const Call call{CollectiveOp::kReduce, options.site, *this};
  Signature signature = signature_of(call, data, options);
  check_rank(call, "root", root);
  signature.root = root;
  set_reduce(signature, call, op, options);
  const std::span<const Memory> buffer(&data, 1);
  return issue(signature, buffer, buffer, options);
}

Work ProcessGroup::all_gather(std::span<const Memory> outputs,
                              const Memory& input,
                              const OpOptions& options) {
  const Call call{CollectiveOp::kAllGather, options.site, *this};
  Signature signature = signature_of(call, input, options);
  check_one_per_rank(call, outputs);
  check_memories(call, input, outputs);
  check_count(
      call, "this rank's own output", outputs[static_cast<std::size_t>(rank())].count, input.count);
  signature.splits = splits_of(outputs);
  if (signature.splits != 0) signature.count = total(outputs);
  return issue(signature, std::span<const Memory>(&input, 1), outputs, options);
}

Work ProcessGroup::all_gather_into_tensor(const Memory& output,
                                          const Memory& input,
                                          const OpOptions& options) {
  const Call call{CollectiveOp::kAllGather, options.site, *this};
  const Signature signature = signature_of(call, input, options);
  check_memories(call, input, std::span<const Memory>(&output, 1));
  check_count(call, "the output for all ranks", output.count, size() * input.count);
  return issue(
      signature, std::span<const Memory>(&input, 1), std::span<const Memory>(&output, 1), options);
}

Work ProcessGroup::reduce_scatter(const Memory& output,
                                  std::span<const Memory> inputs,
                                  ReduceOp op,
                                  const OpOptions& options) {
  const Call call{CollectiveOp::kReduceScatter, options.site, *this};
  Signature signature = signature_of(call, output, options);
  check_one_per_rank(call, inputs);
  check_memories(call, output, inputs);
  check_count(call,
              "the input for this rank's own output",
              inputs[static_cast<std::size_t>(rank())].count,
              output.count);
  set_reduce(signature, call, op, options);
  signature.splits = splits_of(inputs);
  signature.count = total(inputs);
  return issue(signature, inputs, std::span<const Memory>(&output, 1), options);
}

Work ProcessGroup::reduce_scatter_tensor(const Memory& output,
                                         const Memory& input,
                                         ReduceOp op,
                                         const OpOptions& options) {
  const Call call{CollectiveOp::kReduceScatter, options.site, *this};
  Signature signature = signature_of(call, input, options);
  check_memories(call, input, std::span<const Memory>(&output, 1));
  set_reduce(signature, call, op, options);
  check_count(call, "the input for all ranks", input.count, size() * output.count);
  return issue(
      signature, std::span<const Memory>(&input, 1), std::span<const Memory>(&output, 1), options);
}

Work ProcessGroup::gather(std::span<const Memory> outputs,
                          const Memory& input,
                          std::int32_t root,
                          const OpOptions& options) {
  const Call call{CollectiveOp::kGather, options.site, *this};
  Signature signature = signature_of(call, input, options);
  check_rank(call, "root", root);
  if (rank() == root) check_one_per_rank(call, outputs);
  if (rank() != root && !outputs.empty()) {
    refuse(call,
           fmt::format("gather got {} outputs on rank {}: only the root, rank {}, receives",
                       outputs.size(),
                       rank(),
                       root));
  }
  check_memories(call, input, outputs);
  for (const Memory& output : outputs) {
    check_count(call, "an output", output.count, input.count);
  }
  signature.root = root;
  return issue(signature, std::span<const Memory>(&input, 1), outputs, options);
}

Work ProcessGroup::scatter(const Memory& output,
                           std::span<const Memory> inputs,
                           std::int32_t root,
                           const OpOptions& options) {
  const Call call{CollectiveOp::kScatter, options.site, *this};
  Signature signature = signature_of(call, output, options);
  check_rank(call, "root", root);
  if (rank() == root) check_one_per_rank(call, inputs);
  if (rank() != root && !inputs.empty()) {
    refuse(call,
           fmt::format("scatter got {} inputs on rank {}: only the root, rank {}, sends",
                       inputs.size(),
                       rank(),
                       root));
  }
  check_memories(call, output, inputs);
  for (const Memory& input : inputs) {
    check_count(call, "an input", input.count, output.count);
  }
  signature.root = root;
  return issue(signature, inputs, std::span<const Memory>(&output, 1), options);
}

Work ProcessGroup::all_to_all(std::span<const Memory> outputs,
                              std::span<const Memory> inputs,
                              const OpOptions& options) {
  const Call call{CollectiveOp::kAllToAll, options.site, *this};
  check_one_per_rank(call, outputs);
  check_one_per_rank(call, inputs);
  const Memory& first = inputs.front();
  Signature signature = signature_of(call, first, options);
  check_memories(call, first, inputs);
  check_memories(call, first, outputs);
  const auto self = static_cast<std::size_t>(rank());
  check_count(call, "this rank's output for itself", outputs[self].count, inputs[self].count);
  const bool even = is_even(inputs) && is_even(outputs);
  if (!even) {
    fold(signature.splits, inputs);
    fold(signature.splits, outputs);
    signature.splits |= 1U;
  }
  signature.count = total(inputs);
  return issue(signature, inputs, outputs, options);
}

Work ProcessGroup::all_to_all_single(const Memory& output,
                                     const Memory& input,
                                     std::span<const std::int64_t> output_splits,
                                     std::span<const std::int64_t> input_splits,
                                     const OpOptions& options) {
  const Call call{CollectiveOp::kAllToAll, options.site, *this};
  return all_to_all(cut(call, output, output_splits), cut(call, input, input_splits), options);
}

Work ProcessGroup::barrier(const OpOptions& options) {
  const Memory nothing;
  const Call call{CollectiveOp::kBarrier, options.site, *this};
  return issue(signature_of(call, nothing, options), {}, {}, options);
}

Work ProcessGroup::send(const Memory& data,
                        std::int32_t to,
                        std::int32_t tag,
                        const OpOptions& options) {
  const Call call{CollectiveOp::kSend, options.site, *this};
  Signature signature = signature_of(call, data, options);
  check_rank(call, "peer", to);
  if (to == rank()) refuse(call, "it is itself the peer of a send");
  signature.peer = to;
  signature.tag = tag;
  return issue(signature, std::span<const Memory>(&data, 1), {}, options);
}

Work ProcessGroup::recv(const Memory& data,
                        std::int32_t from,
                        std::int32_t tag,
                        const OpOptions& options) {
  const Call call{CollectiveOp::kRecv, options.site, *this};
  Signature signature = signature_of(call, data, options);
  check_rank(call, "peer", from);
  if (from == rank()) refuse(call, "it is itself the peer of a recv");
  signature.peer = from;
  signature.tag = tag;
  return issue(signature, {}, std::span<const Memory>(&data, 1), options);
}

Work ProcessGroup::recv_any_source(const Memory& data, std::int32_t tag, const OpOptions& options) {
  const Call call{CollectiveOp::kRecv, options.site, *this};
  Signature signature = signature_of(call, data, options);
  if (size() == 1) refuse(call, "recv from any rank in a group of one rank: there is no sender");
  signature.tag = tag;
  return issue(signature, {}, std::span<const Memory>(&data, 1), options);
}

void ProcessGroup::record_posted(const CollectiveCall& call, std::int64_t seq) {
  Recorder* recorder = runtime().recorder();
  if (recorder == nullptr || !recorder->options().collectives) return;
  CollectiveEvent event;
  event.group = id();
  event.seq = seq;
  event.signature = call.signature;
  if (recorder->options().collective_digests) event.digest = digest_of(call.inputs);
  recorder->record(event, call.wrapper);
}

void ProcessGroup::record_completed(const CollectiveCall& call,
                                    std::int64_t seq,
                                    CommStatus status) {
  if (call.wrapper < 0 && status == CommStatus::kOk && runtime().own_reductions() != nullptr) {
    follow_own(call, true);
  }
  Recorder* recorder = runtime().recorder();
  if (recorder == nullptr || !recorder->options().collectives) return;
  const bool ok = status == CommStatus::kOk;
  CollectiveEvent event;
  event.phase = ok ? CollectivePhase::kCompleted : CollectivePhase::kFailed;
  event.group = id();
  event.seq = seq;
  event.signature = call.signature;
  event.status = call_status(status);
  if (ok && recorder->options().collective_digests) event.digest = digest_of(call.outputs);
  recorder->record(event, call.wrapper);
}

}  // namespace lockstep
