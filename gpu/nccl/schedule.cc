#include "lockstep/gpu/nccl/detail/schedule.h"

#include "lockstep/base/check.h"

namespace lockstep::nccl {

namespace {

using peers::Membership;
using peers::Operation;

bool all_equal(std::span<const Memory> parts) {
  for (const Memory& part : parts) {
    if (part.count != parts.front().count) return false;
  }
  return true;
}

/// Writes one schedule.
class Writer {
 public:
  Writer(const Operation& operation, RedOp op, Staging& staging)
      : operation_(&operation), op_(op), staging_(&staging) {}

  void all_reduce() {
    const RedOp op = op_;
    for (std::size_t i = 0; i < operation_->outputs.size(); ++i) {
      const Memory& out = operation_->outputs[i];
      if (out.count == 0) continue;
      void* data = bring(operation_->inputs[i]);
      call("ncclAllReduce", [=](Api& api, Comm comm, Stream stream) {
        return api.all_reduce(transfer(data, data, out), op, comm, stream);
      });
      fetch(out, data);
    }
  }

  void reduce(std::int32_t rank) {
    const RedOp op = op_;
    const Memory& in = operation_->inputs.front();
    if (in.count == 0) return;
    const std::int32_t root = operation_->signature.root;
    void* data = bring(in);
    call("ncclReduce", [=](Api& api, Comm comm, Stream stream) {
      return api.reduce(transfer(data, data, in), op, root, comm, stream);
    });
    if (rank == root) fetch(operation_->outputs.front(), data);
  }

  void broadcast(std::int32_t rank) {
    const Memory& out = operation_->outputs.front();
    if (out.count == 0) return;
    const std::int32_t root = operation_->signature.root;
    void* data = rank == root ? bring(operation_->inputs.front()) : room(out);
    call("ncclBroadcast", [=](Api& api, Comm comm, Stream stream) {
      return api.broadcast(transfer(data, data, out), root, comm, stream);
    });
    fetch(out, data);
  }

  void all_gather() {
    const Memory& in = operation_->inputs.front();
    const auto& parts = operation_->outputs;
    void* own = bring(in);
    if (!all_equal(parts)) return broadcast_each(own);
    if (in.count == 0) return;
    std::byte* all = staging_->take(bytes_of(in) * parts.size());
    call("ncclAllGather", [=](Api& api, Comm comm, Stream stream) {
      return api.all_gather(transfer(own, all, in), comm, stream);
    });
    for (std::size_t r = 0; r < parts.size(); ++r) fetch(parts[r], all + r * bytes_of(in));
  }

  void reduce_scatter(std::int32_t rank) {
    const RedOp op = op_;
    const Memory& out = operation_->outputs.front();
    const auto& parts = operation_->inputs;
    if (!all_equal(parts)) return reduce_each(rank);
    if (out.count == 0) return;
    std::byte* all = staging_->take(bytes_of(out) * parts.size());
    for (std::size_t r = 0; r < parts.size(); ++r) {
      schedule_.before.push_back({all + r * bytes_of(out), parts[r].data, bytes_of(out)});
    }
    void* own = room(out);
    call("ncclReduceScatter", [=](Api& api, Comm comm, Stream stream) {
      return api.reduce_scatter(transfer(all, own, out), op, comm, stream);
    });
    fetch(out, own);
  }

  // gather, scatter and all_to_all. A rank's part for itself takes no detour.
  void trade(std::int32_t rank) {
    schedule_.grouped = true;
    const auto& inputs = operation_->inputs;
    const auto& outputs = operation_->outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::int32_t to = peer_of(i, CollectiveOp::kGather);
      if (to != rank) send(inputs[i], to);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::int32_t from = peer_of(i, CollectiveOp::kScatter);
      if (from != rank) recv(outputs[i], from);
    }
    keep_own_part(rank);
  }

  // One element that is never read.
  void barrier() {
    std::byte* data = staging_->take(sizeof(std::int32_t));
    static constexpr std::int32_t kNothing = 0;
    schedule_.before.push_back({data, &kNothing, sizeof kNothing});
    call("ncclAllReduce", [=](Api& api, Comm comm, Stream stream) {
      return api.all_reduce({data, data, 1, Type::kI32}, RedOp::kSum, comm, stream);
    });
  }

  void send(const Memory& in, std::int32_t peer) {
    if (in.count == 0) return;
    void* data = bring(in);
    call("ncclSend", [=](Api& api, Comm comm, Stream stream) {
      return api.send(transfer(data, nullptr, in), peer, comm, stream);
    });
  }

  void recv(const Memory& out, std::int32_t peer) {
    if (out.count == 0) return;
    void* data = room(out);
    call("ncclRecv", [=](Api& api, Comm comm, Stream stream) {
      return api.recv(transfer(nullptr, data, out), peer, comm, stream);
    });
    fetch(out, data);
  }

  Schedule take() { return std::move(schedule_); }

 private:
  void broadcast_each(void* own) {
    schedule_.grouped = true;
    for (std::size_t r = 0; r < operation_->outputs.size(); ++r) {
      const Memory& part = operation_->outputs[r];
      if (part.count == 0) continue;
      void* data = room(part);
      const auto root = static_cast<std::int32_t>(r);
      call("ncclBroadcast", [=](Api& api, Comm comm, Stream stream) {
        return api.broadcast(transfer(own, data, part), root, comm, stream);
      });
      fetch(part, data);
    }
  }

  void reduce_each(std::int32_t rank) {
    const RedOp op = op_;
    schedule_.grouped = true;
    const Memory& out = operation_->outputs.front();
    void* own = room(out);
    for (std::size_t r = 0; r < operation_->inputs.size(); ++r) {
      const Memory& part = operation_->inputs[r];
      if (part.count == 0) continue;
      void* data = bring(part);
      const auto root = static_cast<std::int32_t>(r);
      void* result = root == rank ? own : data;
      call("ncclReduce", [=](Api& api, Comm comm, Stream stream) {
        return api.reduce(transfer(data, result, part), op, root, comm, stream);
      });
    }
    fetch(out, own);
  }

  // Whom the i-th part is traded with: in `rooted` the root, else rank i.
  std::int32_t peer_of(std::size_t i, CollectiveOp rooted) const {
    return operation_->signature.op == rooted ? operation_->signature.root
                                              : static_cast<std::int32_t>(i);
  }

  // Copies what a rank trades with itself.
  void keep_own_part(std::int32_t rank) {
    const CollectiveOp kind = operation_->signature.op;
    if (kind != CollectiveOp::kAllToAll && rank != operation_->signature.root) return;
    const Memory* from = part_of(operation_->inputs, rank, kind == CollectiveOp::kGather);
    const Memory* to = part_of(operation_->outputs, rank, kind == CollectiveOp::kScatter);
    if (from == nullptr || to == nullptr) return;
    schedule_.after.push_back({to->data, from->data, bytes_of(*to)});
  }

  // The part for `rank`, or the only one of all; null: there is none.
  static const Memory* part_of(std::span<const Memory> parts, std::int32_t rank, bool is_whole) {
    const auto r = static_cast<std::size_t>(rank);
    if (r < parts.size() && !is_whole) return &parts[r];
    return parts.size() == 1 ? parts.data() : nullptr;
  }

  void* room(const Memory& memory) { return staging_->take(bytes_of(memory)); }

  void* bring(const Memory& memory) {
    void* data = room(memory);
    schedule_.before.push_back({data, memory.data, bytes_of(memory)});
    return data;
  }

  void fetch(const Memory& memory, const void* data) {
    schedule_.after.push_back({memory.data, data, bytes_of(memory)});
  }

  void call(std::string_view name, EnqueueFn run) {
    schedule_.calls.push_back({name, std::move(run)});
  }

  static Transfer transfer(const void* send, void* recv, const Memory& memory) {
    return {send, recv, static_cast<std::size_t>(memory.count), type_of(memory.dtype)};
  }

  const Operation* operation_;
  RedOp op_;
  Staging* staging_;
  Schedule schedule_;
};

void write(Writer& writer, const Operation& operation, std::int32_t rank) {
  switch (operation.signature.op) {
    case CollectiveOp::kAllReduce:
      return writer.all_reduce();
    case CollectiveOp::kReduce:
      return writer.reduce(rank);
    case CollectiveOp::kBroadcast:
      return writer.broadcast(rank);
    case CollectiveOp::kAllGather:
      return writer.all_gather();
    case CollectiveOp::kReduceScatter:
      return writer.reduce_scatter(rank);
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
    case CollectiveOp::kAllToAll:
      return writer.trade(rank);
    case CollectiveOp::kBarrier:
      return writer.barrier();
    case CollectiveOp::kSend:
      return writer.send(operation.inputs.front(), operation.signature.peer);
    case CollectiveOp::kRecv:
      return writer.recv(operation.outputs.front(), operation.signature.peer);
  }
}

}  // namespace

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Type::kF32;
    case DType::kF64:
      return Type::kF64;
    case DType::kF16:
      return Type::kF16;
    case DType::kBF16:
      return Type::kBF16;
    case DType::kI8:
      return Type::kI8;
    case DType::kI32:
      return Type::kI32;
    case DType::kI64:
      return Type::kI64;
    case DType::kU8:
    case DType::kBool:
      return Type::kU8;
  }
  return Type::kU8;
}

RedOp red_op_of(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kProduct:
      return RedOp::kProd;
    case ReduceOp::kMin:
      return RedOp::kMin;
    case ReduceOp::kMax:
      return RedOp::kMax;
    case ReduceOp::kAvg:
      return RedOp::kAvg;
    default:
      // As u8, a sum of booleans could be 2; their maximum says the same and cannot.
      return dtype == DType::kBool ? RedOp::kMax : RedOp::kSum;
  }
}

std::string refusal_of(const Signature& signature) {
  if (signature.op == CollectiveOp::kRecv && signature.peer < 0) {
    return "ProcessGroupNCCL does not support recvAnysource: NCCL's receives name their sender";
  }
  switch (signature.reduce) {
    case ReduceOp::kBand:
      return "Cannot use ReduceOp.BAND with NCCL";
    case ReduceOp::kBor:
      return "Cannot use ReduceOp.BOR with NCCL";
    case ReduceOp::kBxor:
      return "Cannot use ReduceOp.BXOR with NCCL";
    default:
      return {};
  }
}

Schedule schedule_of(const Operation& operation,
                     const Membership& member,
                     RedOp op,
                     Staging& staging) {
  Writer writer(operation, op, staging);
  write(writer, operation, member.rank);
  return writer.take();
}

}  // namespace lockstep::nccl
