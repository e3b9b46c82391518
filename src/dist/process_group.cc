#include "lockstep/dist/process_group.h"

#include "lockstep/base/check.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

namespace {

void check_memory(const Memory& memory, DType dtype, Device device) {
  LOCKSTEP_CHECK(memory.count >= 0, "a buffer never has a negative count");
  LOCKSTEP_CHECK(memory.data != nullptr || memory.count == 0,
                 "a buffer with elements is never null");
  LOCKSTEP_CHECK(memory.dtype == dtype && memory.device == device,
                 "all buffers of one operation share dtype and device");
}

void check_memories(std::span<const Memory> memories, DType dtype, Device device) {
  for (const Memory& memory : memories) check_memory(memory, dtype, device);
}

void check_one_per_rank(std::span<const Memory> memories, std::int32_t n_ranks) {
  LOCKSTEP_CHECK(memories.size() == static_cast<std::size_t>(n_ranks),
                 "the operation takes one buffer for each rank of the group");
}

void check_rank(std::int32_t rank, std::int32_t n_ranks) {
  LOCKSTEP_CHECK(rank >= 0 && rank < n_ranks, "a root or peer is a rank of the group");
}

void check_reduce_op(ReduceOp op, DType dtype) {
  const bool bitwise = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  LOCKSTEP_CHECK(!bitwise || !is_floating(dtype), "bitwise reductions take integers");
  LOCKSTEP_CHECK(op != ReduceOp::kAvg || dtype != DType::kBool, "booleans have no average");
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
  check_memory(memory, memory.dtype, memory.device);
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

Work ProcessGroup::all_reduce(const Memory& data, ReduceOp op, const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kAllReduce, data, options);
  check_reduce_op(op, data.dtype);
  signature.reduce = op;
  const std::span<const Memory> buffer(&data, 1);
  return post({signature, buffer, buffer, options.wrapper});
}

Work ProcessGroup::broadcast(const Memory& data, std::int32_t root, const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kBroadcast, data, options);
  check_rank(root, size());
  signature.root = root;
  const std::span<const Memory> buffer(&data, 1);
  return post({signature, buffer, buffer, options.wrapper});
}

Work ProcessGroup::reduce(const Memory& data,
                          std::int32_t root,
                          ReduceOp op,
                          const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kReduce, data, options);
  check_rank(root, size());
  check_reduce_op(op, data.dtype);
  signature.root = root;
  signature.reduce = op;
  const std::span<const Memory> buffer(&data, 1);
  return post({signature, buffer, buffer, options.wrapper});
}

Work ProcessGroup::all_gather(std::span<const Memory> outputs,
                              const Memory& input,
                              const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kAllGather, input, options);
  check_one_per_rank(outputs, size());
  check_memories(outputs, input.dtype, input.device);
  LOCKSTEP_CHECK(outputs[static_cast<std::size_t>(rank())].count == input.count,
                 "this rank's output has room for its own input");
  signature.splits = splits_of(outputs);
  if (signature.splits != 0) signature.count = total(outputs);
  return post({signature, std::span<const Memory>(&input, 1), outputs, options.wrapper});
}

Work ProcessGroup::reduce_scatter(const Memory& output,
                                  std::span<const Memory> inputs,
                                  ReduceOp op,
                                  const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kReduceScatter, output, options);
  check_one_per_rank(inputs, size());
  check_memories(inputs, output.dtype, output.device);
  check_reduce_op(op, output.dtype);
  LOCKSTEP_CHECK(inputs[static_cast<std::size_t>(rank())].count == output.count,
                 "this rank's output has the size of its own part");
  signature.reduce = op;
  signature.splits = splits_of(inputs);
  signature.count = total(inputs);
  return post({signature, inputs, std::span<const Memory>(&output, 1), options.wrapper});
}

Work ProcessGroup::gather(std::span<const Memory> outputs,
                          const Memory& input,
                          std::int32_t root,
                          const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kGather, input, options);
  check_rank(root, size());
  if (rank() == root) check_one_per_rank(outputs, size());
  LOCKSTEP_CHECK(rank() == root || outputs.empty(), "only the root receives");
  check_memories(outputs, input.dtype, input.device);
  for (const Memory& output : outputs) {
    LOCKSTEP_CHECK(output.count == input.count, "all ranks gather the same number of elements");
  }
  signature.root = root;
  return post({signature, std::span<const Memory>(&input, 1), outputs, options.wrapper});
}

Work ProcessGroup::scatter(const Memory& output,
                           std::span<const Memory> inputs,
                           std::int32_t root,
                           const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kScatter, output, options);
  check_rank(root, size());
  if (rank() == root) check_one_per_rank(inputs, size());
  LOCKSTEP_CHECK(rank() == root || inputs.empty(), "only the root sends");
  check_memories(inputs, output.dtype, output.device);
  for (const Memory& input : inputs) {
    LOCKSTEP_CHECK(input.count == output.count, "all ranks receive the same number of elements");
  }
  signature.root = root;
  return post({signature, inputs, std::span<const Memory>(&output, 1), options.wrapper});
}

Work ProcessGroup::all_to_all(std::span<const Memory> outputs,
                              std::span<const Memory> inputs,
                              const OpOptions& options) {
  check_one_per_rank(outputs, size());
  check_one_per_rank(inputs, size());
  const Memory& first = inputs.front();
  Signature signature = signature_of(CollectiveOp::kAllToAll, first, options);
  check_memories(inputs, first.dtype, first.device);
  check_memories(outputs, first.dtype, first.device);
  const auto self = static_cast<std::size_t>(rank());
  LOCKSTEP_CHECK(outputs[self].count == inputs[self].count,
                 "what a rank keeps has the same size on both sides");
  const bool even = is_even(inputs) && is_even(outputs);
  if (!even) {
    fold(signature.splits, inputs);
    fold(signature.splits, outputs);
    signature.splits |= 1U;
  }
  signature.count = total(inputs);
  return post({signature, inputs, outputs, options.wrapper});
}

Work ProcessGroup::barrier(const OpOptions& options) {
  const Memory nothing;
  return post({signature_of(CollectiveOp::kBarrier, nothing, options), {}, {}, options.wrapper});
}

Work ProcessGroup::send(const Memory& data,
                        std::int32_t to,
                        std::int32_t tag,
                        const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kSend, data, options);
  check_rank(to, size());
  LOCKSTEP_CHECK(to != rank(), "a rank never sends to itself");
  signature.peer = to;
  signature.tag = tag;
  return post({signature, std::span<const Memory>(&data, 1), {}, options.wrapper});
}

Work ProcessGroup::recv(const Memory& data,
                        std::int32_t from,
                        std::int32_t tag,
                        const OpOptions& options) {
  Signature signature = signature_of(CollectiveOp::kRecv, data, options);
  check_rank(from, size());
  LOCKSTEP_CHECK(from != rank(), "a rank never receives from itself");
  signature.peer = from;
  signature.tag = tag;
  return post({signature, {}, std::span<const Memory>(&data, 1), options.wrapper});
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
