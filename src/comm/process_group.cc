#include "lockstep/comm/process_group.h"

#include <fmt/core.h>

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

void check_memory(CollectiveOp op, const Memory& memory) {
  LOCKSTEP_CHECK(memory.count >= 0,
                 fmt::format("{} got a buffer of {} elements", name_of(op), memory.count));
  LOCKSTEP_CHECK(
      memory.data != nullptr || memory.count == 0,
      fmt::format(
          "{} got a null buffer of {} {}", name_of(op), memory.count, name_of(memory.dtype)));
}

/// That all are memories and of the kind of `first`.
void check_memories(CollectiveOp op, const Memory& first, std::span<const Memory> memories) {
  for (const Memory& memory : memories) {
    check_memory(op, memory);
    LOCKSTEP_CHECK(memory.dtype == first.dtype && memory.device == first.device,
                   fmt::format("{} got buffers of {} and of {}: they share dtype and device",
                               name_of(op),
                               kind_of(first),
                               kind_of(memory)));
  }
}

void check_one_per_rank(CollectiveOp op, std::span<const Memory> memories, std::int32_t n_ranks) {
  LOCKSTEP_CHECK(memories.size() == static_cast<std::size_t>(n_ranks),
                 fmt::format("{} got {} buffers: it takes one for each rank of the group, which "
                             "has {}",
                             name_of(op),
                             memories.size(),
                             n_ranks));
}

/// `what`: "root" or "peer".
void check_rank(CollectiveOp op, std::string_view what, std::int32_t rank, std::int32_t n_ranks) {
  LOCKSTEP_CHECK(
      rank >= 0 && rank < n_ranks,
      fmt::format("{} {} of {}: the group has {} ranks", what, rank, name_of(op), n_ranks));
}

/// That both sides of what a rank keeps, or of what it gives and gets, agree.
void check_count(CollectiveOp op, std::string_view what, std::int64_t count, std::int64_t wanted) {
  LOCKSTEP_CHECK(count == wanted,
                 fmt::format("{} of {} has {} elements, not {}", what, name_of(op), count, wanted));
}

void check_reduce_op(ReduceOp op, DType dtype) {
  const bool bitwise = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  LOCKSTEP_CHECK(
      !bitwise || !is_floating(dtype),
      fmt::format("cannot use {} with non-integral dtype {}", name_of(op), name_of(dtype)));
  LOCKSTEP_CHECK(op != ReduceOp::kAvg || dtype != DType::kBool,
                 "cannot use avg with boolean inputs");
  LOCKSTEP_CHECK(
      op != ReduceOp::kPremulSum || is_floating(dtype),
      fmt::format("cannot use premul_sum with {}: only floats are scaled", name_of(dtype)));
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

Signature signature_of(CollectiveOp op, const Memory& memory, const OpOptions& options) {
  check_memory(op, memory);
  Signature signature;
  signature.op = op;
  signature.dtype = memory.dtype;
  signature.device = memory.device;
  signature.async = options.async;
  signature.count = memory.count;
  signature.layout = options.layout;
  signature.site = options.site;
  return signature;
}

void set_reduce(Signature& signature, ReduceOp op, const OpOptions& options) {
  check_reduce_op(op, signature.dtype);
  signature.reduce = op;
  if (op == ReduceOp::kPremulSum) signature.premul = options.premul;
}

std::string wrong_splits(std::span<const std::int64_t> splits, const Memory& memory) {
  return fmt::format("Split sizes doesn't match total dim 0 size: [{}] of {} elements",
                     join(splits),
                     memory.count);
}

// Source: c10d Utils.hpp, checkSplitSizes.
std::vector<Memory> cut(const Memory& memory,
                        std::span<const std::int64_t> splits,
                        std::int32_t n_ranks) {
  std::vector<Memory> parts;
  std::int64_t first = 0;
  if (splits.empty()) {
    LOCKSTEP_CHECK(
        memory.count % n_ranks == 0,
        fmt::format(
            "Tensor's dim 0 does not divide equally across group size: {} elements, {} ranks",
            memory.count,
            n_ranks));
    const std::int64_t n = memory.count / n_ranks;
    for (std::int32_t r = 0; r < n_ranks; ++r) parts.push_back(memory.slice(r * n, n));
    return parts;
  }
  LOCKSTEP_CHECK(splits.size() == static_cast<std::size_t>(n_ranks),
                 fmt::format("Number of tensor splits not equal to group size: {} splits, {} ranks",
                             splits.size(),
                             n_ranks));
  for (const std::int64_t n : splits) {
    LOCKSTEP_CHECK(n >= 0 && n <= memory.count - first, wrong_splits(splits, memory));
    parts.push_back(memory.slice(first, n));
    first += n;
  }
  LOCKSTEP_CHECK(first == memory.count, wrong_splits(splits, memory));
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
  return post({signature, inputs, outputs, options.wrapper, options.timeout});
}

Work ProcessGroup::all_reduce(const Memory& data, ReduceOp op, const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kAllReduce, data, options);
  set_reduce(signature, op, options);
  const std::span<const Memory> buffer(&data, 1);
  return issue(signature, buffer, buffer, options);
}

Work ProcessGroup::all_reduce_coalesced(std::span<const Memory> data,
                                        ReduceOp op,
                                        const OpOptions& options) {
  LOCKSTEP_CHECK(!data.empty(), "a coalesced all_reduce got no buffers: it has at least one");
  Signature signature = signature_of(CollectiveOp::kAllReduce, data.front(), options);
  check_memories(signature.op, data.front(), data);
  set_reduce(signature, op, options);
  signature.count = total(data);
  if (data.size() > 1) {
    fold(signature.splits, data);
    signature.splits |= 1U;
  }
  return issue(signature, data, data, options);
}

Work ProcessGroup::broadcast(const Memory& data, std::int32_t root, const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kBroadcast, data, options);
  check_rank(signature.op, "root", root, size());
  signature.root = root;
  const std::span<const Memory> buffer(&data, 1);
  return issue(signature, buffer, buffer, options);
}

Work ProcessGroup::reduce(const Memory& data,
                          std::int32_t root,
                          ReduceOp op,
                          const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kReduce, data, options);
  check_rank(signature.op, "root", root, size());
  signature.root = root;
  set_reduce(signature, op, options);
  const std::span<const Memory> buffer(&data, 1);
  return issue(signature, buffer, buffer, options);
}

Work ProcessGroup::all_gather(std::span<const Memory> outputs,
                              const Memory& input,
                              const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kAllGather, input, options);
  check_one_per_rank(signature.op, outputs, size());
  check_memories(signature.op, input, outputs);
  check_count(signature.op,
              "this rank's own output",
              outputs[static_cast<std::size_t>(rank())].count,
              input.count);
  signature.splits = splits_of(outputs);
  if (signature.splits != 0) signature.count = total(outputs);
  return issue(signature, std::span<const Memory>(&input, 1), outputs, options);
}

Work ProcessGroup::all_gather_into_tensor(const Memory& output,
                                          const Memory& input,
                                          const OpOptions& options) {
  const Signature signature = signature_of(CollectiveOp::kAllGather, input, options);
  check_memories(signature.op, input, std::span<const Memory>(&output, 1));
  check_count(signature.op, "the output for all ranks", output.count, size() * input.count);
  return issue(
      signature, std::span<const Memory>(&input, 1), std::span<const Memory>(&output, 1), options);
}

Work ProcessGroup::reduce_scatter(const Memory& output,
                                  std::span<const Memory> inputs,
                                  ReduceOp op,
                                  const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kReduceScatter, output, options);
  check_one_per_rank(signature.op, inputs, size());
  check_memories(signature.op, output, inputs);
  check_count(signature.op,
              "the input for this rank's own output",
              inputs[static_cast<std::size_t>(rank())].count,
              output.count);
  set_reduce(signature, op, options);
  signature.splits = splits_of(inputs);
  signature.count = total(inputs);
  return issue(signature, inputs, std::span<const Memory>(&output, 1), options);
}

Work ProcessGroup::reduce_scatter_tensor(const Memory& output,
                                         const Memory& input,
                                         ReduceOp op,
                                         const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kReduceScatter, input, options);
  check_memories(signature.op, input, std::span<const Memory>(&output, 1));
  set_reduce(signature, op, options);
  check_count(signature.op, "the input for all ranks", input.count, size() * output.count);
  return issue(
      signature, std::span<const Memory>(&input, 1), std::span<const Memory>(&output, 1), options);
}

Work ProcessGroup::gather(std::span<const Memory> outputs,
                          const Memory& input,
                          std::int32_t root,
                          const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kGather, input, options);
  check_rank(signature.op, "root", root, size());
  if (rank() == root) check_one_per_rank(signature.op, outputs, size());
  LOCKSTEP_CHECK(rank() == root || outputs.empty(),
                 fmt::format("gather got {} outputs on rank {}: only the root, rank {}, receives",
                             outputs.size(),
                             rank(),
                             root));
  check_memories(signature.op, input, outputs);
  for (const Memory& output : outputs) {
    check_count(signature.op, "an output", output.count, input.count);
  }
  signature.root = root;
  return issue(signature, std::span<const Memory>(&input, 1), outputs, options);
}

Work ProcessGroup::scatter(const Memory& output,
                           std::span<const Memory> inputs,
                           std::int32_t root,
                           const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kScatter, output, options);
  check_rank(signature.op, "root", root, size());
  if (rank() == root) check_one_per_rank(signature.op, inputs, size());
  LOCKSTEP_CHECK(rank() == root || inputs.empty(),
                 fmt::format("scatter got {} inputs on rank {}: only the root, rank {}, sends",
                             inputs.size(),
                             rank(),
                             root));
  check_memories(signature.op, output, inputs);
  for (const Memory& input : inputs) {
    check_count(signature.op, "an input", input.count, output.count);
  }
  signature.root = root;
  return issue(signature, inputs, std::span<const Memory>(&output, 1), options);
}

Work ProcessGroup::all_to_all(std::span<const Memory> outputs,
                              std::span<const Memory> inputs,
                              const OpOptions& options) {
  check_one_per_rank(CollectiveOp::kAllToAll, outputs, size());
  check_one_per_rank(CollectiveOp::kAllToAll, inputs, size());
  const Memory& first = inputs.front();
  Signature signature = signature_of(CollectiveOp::kAllToAll, first, options);
  check_memories(signature.op, first, inputs);
  check_memories(signature.op, first, outputs);
  const auto self = static_cast<std::size_t>(rank());
  check_count(
      signature.op, "this rank's output for itself", outputs[self].count, inputs[self].count);
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
  return all_to_all(cut(output, output_splits, size()), cut(input, input_splits, size()), options);
}

Work ProcessGroup::barrier(const OpOptions& options) {
  const Memory nothing;
  return issue(signature_of(CollectiveOp::kBarrier, nothing, options), {}, {}, options);
}

Work ProcessGroup::send(const Memory& data,
                        std::int32_t to,
                        std::int32_t tag,
                        const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kSend, data, options);
  check_rank(signature.op, "peer", to, size());
  LOCKSTEP_CHECK(to != rank(), fmt::format("rank {} sends to itself", to));
  signature.peer = to;
  signature.tag = tag;
  return issue(signature, std::span<const Memory>(&data, 1), {}, options);
}

Work ProcessGroup::recv(const Memory& data,
                        std::int32_t from,
                        std::int32_t tag,
                        const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kRecv, data, options);
  check_rank(signature.op, "peer", from, size());
  LOCKSTEP_CHECK(from != rank(), fmt::format("rank {} receives from itself", from));
  signature.peer = from;
  signature.tag = tag;
  return issue(signature, {}, std::span<const Memory>(&data, 1), options);
}

Work ProcessGroup::recv_any_source(const Memory& data, std::int32_t tag, const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kRecv, data, options);
  LOCKSTEP_CHECK(size() > 1, "recv from any rank in a group of one rank: there is no sender");
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
  Recorder* recorder = runtime().recorder();
  if (recorder == nullptr || !recorder->options().collectives) return;
  NameId& name = status_names_[static_cast<std::size_t>(status)];
  if (name == kNoName) name = recorder->names().intern(name_of(status));
  const bool ok = status == CommStatus::kOk;
  CollectiveEvent event;
  event.phase = ok ? CollectivePhase::kCompleted : CollectivePhase::kFailed;
  event.group = id();
  event.seq = seq;
  event.signature = call.signature;
  event.status = name;
  if (ok && recorder->options().collective_digests) event.digest = digest_of(call.outputs);
  recorder->record(event, call.wrapper);
}

}  // namespace lockstep
