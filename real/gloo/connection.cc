#include "lockstep/real/gloo/detail/connection.h"

#include <array>
#include <csignal>
#include <cstring>
#include <exception>
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <limits>

#include "lockstep/comm/detail/scaled_sum.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/real/gloo/detail/exchange.h"
#include "lockstep/real/group/agreement.h"

namespace lockstep::gloo {

namespace {

using peers::Completion;
using peers::Connection;
using peers::Membership;
using peers::Operation;

std::size_t bytes_of(const Memory& memory) {
  return static_cast<std::size_t>(memory.count * size_of(memory.dtype));
}

std::byte* start_of(const Memory& memory) { return static_cast<std::byte*>(memory.data); }

// Gloo reports a deadline and a lost peer as one type of exception with different words.
Completion completion_of(const std::exception& error) {
  const std::string text = error.what();
  const bool late = text.find("imed out") != std::string::npos;
  return {late ? CommStatus::kTimedOut : CommStatus::kPeerLost, text};
}

class GlooMessage final : public Connection::Message {
 public:
  GlooMessage(std::shared_ptr<::gloo::Context> context,
              const Operation& operation,
              std::chrono::milliseconds timeout)
      : context_(std::move(context)),
        sends_(operation.signature.op == CollectiveOp::kSend),
        from_any_source_(!sends_ && operation.signature.peer < 0),
        timeout_(timeout) {
    const Memory& memory = sends_ ? operation.inputs.front() : operation.outputs.front();
    buffer_ = context_->createUnboundBuffer(memory.data, bytes_of(memory));
    const std::uint64_t slot = message_slot(operation.signature.tag);
    try {
      if (sends_) {
        buffer_->send(operation.signature.peer, slot);
      } else if (from_any_source_) {
        buffer_->recv(others(), slot);
      } else {
        buffer_->recv(operation.signature.peer, slot);
      }
    } catch (const std::exception& error) {
      failed_ = completion_of(error);
    }
  }

  Completion wait() override {
    if (failed_.status != CommStatus::kOk) return failed_;
    int peer = -1;
    try {
      const bool whole =
          sends_ ? buffer_->waitSend(nullptr, timeout_) : buffer_->waitRecv(&peer, timeout_);
      if (!whole) return {CommStatus::kAborted, "the message was given up"};
    } catch (const std::exception& error) {
      return completion_of(error);
    }
    return {CommStatus::kOk, {}, from_any_source_ ? peer : -1};
  }

 private:
  std::vector<int> others() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < context_->size; ++rank) {
      if (rank != context_->rank) ranks.push_back(rank);
    }
    return ranks;
  }

  std::shared_ptr<::gloo::Context> context_;
  std::unique_ptr<::gloo::transport::UnboundBuffer> buffer_;
  bool sends_;
  bool from_any_source_;
  std::chrono::milliseconds timeout_;
  Completion failed_;
};

class GlooConnection final : public Connection {
 public:
  GlooConnection(Membership member, std::string host_name, std::shared_ptr<::gloo::Context> context)
      : options_(std::move(member)),
        host_name_(std::move(host_name)),
        context_(std::move(context)),
        kernels_(make_cpu_kernels()) {}

  Completion run(const Operation& operation) override {
    if (broken_.status != CommStatus::kOk) {
      return {CommStatus::kPeerLost, "the group failed earlier: " + broken_.detail};
    }
    try {
      if (options_.check_signatures) {
        if (std::string text = disagreement(operation); !text.empty()) {
          return {CommStatus::kMismatch, std::move(text)};
        }
      }
      perform(operation);
    } catch (const std::exception& error) {
      broken_ = completion_of(error);
      return broken_;
    }
    return {};
  }

  std::unique_ptr<Message> start(const Operation& operation) override {
    return std::make_unique<GlooMessage>(context_, operation, timeout_of(operation));
  }

  Result<std::int64_t> all_reduce_max(std::int64_t number, std::uint32_t tag) override {
    try {
      ::gloo::AllreduceOptions options(context_);
      options.setOutput(&number, 1);
      options.setTag(tag);
      options.setReduceFunction(function(ReduceOp::kMax, DType::kI64));
      ::gloo::allreduce(options);
    } catch (const std::exception& error) {
      return Error{error.what(), options_.name};
    }
    return number;
  }

  Result<std::shared_ptr<Connection>> split(const Membership& member) override {
    if (member.rank < 0) return std::shared_ptr<Connection>();
    return open_connection(member, host_name_);
  }

 private:
  using Function = ::gloo::AllreduceOptions::Func;

  std::string disagreement(const Operation& operation);
  void perform(const Operation& operation);
  void all_reduce(const Memory& data, const Operation& operation);
  void reduce(const Operation& operation);
  void broadcast(const Operation& operation);
  void all_gather(const Operation& operation);
  void reduce_scatter(const Operation& operation);
  void trade(const Operation& operation);
  void divide(const Memory& data);

  void exchange_parts(const std::vector<Part>& sends,
                      const std::vector<Part>& recvs,
                      const Operation& operation) {
    exchange(*context_, sends, recvs, operation.tag, timeout_of(operation));
  }

  std::chrono::milliseconds timeout_of(const Operation& operation) const {
    return operation.timeout.count() > 0 ? operation.timeout : options_.timeout;
  }

  // Gloo hands over whole segments; the arithmetic is the kernels', as on virtual ranks.
  Function function(ReduceOp op, DType dtype) {
    return [this, op, dtype](void* out, const void* a, const void* b, std::size_t n) {
      const std::array<void*, 1> outputs = {out};
      const std::array<const void*, 2> inputs = {a, b};
      kernels_->reduce(outputs, inputs, static_cast<std::int64_t>(n), dtype, op);
    };
  }

  Membership options_;
  std::string host_name_;
  std::shared_ptr<::gloo::Context> context_;
  std::unique_ptr<Kernels> kernels_;
  Completion broken_;
};

std::string GlooConnection::disagreement(const Operation& operation) {
  const auto n_ranks = static_cast<std::size_t>(options_.size);
  std::vector<std::byte> own =
      peers::encode_signature(operation.signature, operation.inputs, operation.outputs, n_ranks);
  std::vector<std::byte> all(own.size() * n_ranks);
  ::gloo::AllgatherOptions options(context_);
  options.setInput(reinterpret_cast<char*>(own.data()), own.size());
  options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
  options.setTag(operation.tag);
  options.setTimeout(timeout_of(operation));
  ::gloo::allgather(options);
  return peers::find_mismatch(all, options_.world_ranks);
}

void GlooConnection::perform(const Operation& operation) {
  switch (operation.signature.op) {
    case CollectiveOp::kAllReduce:
      // Several buffers are one operation: one after another, under one tag, since each ends on all
      // ranks' say before the next begins.
      for (std::size_t i = 0; i < operation.outputs.size(); ++i) {
        const Memory& out = operation.outputs[i];
        const Memory& in = operation.inputs[i];
        if (in.data != out.data && in.count > 0) std::memcpy(out.data, in.data, bytes_of(in));
        all_reduce(out, operation);
      }
      return;
    case CollectiveOp::kReduce:
      return reduce(operation);
    case CollectiveOp::kBroadcast:
      return broadcast(operation);
    case CollectiveOp::kAllGather:
      return all_gather(operation);
    case CollectiveOp::kReduceScatter:
      return reduce_scatter(operation);
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
    case CollectiveOp::kAllToAll:
      return trade(operation);
    case CollectiveOp::kBarrier: {
      ::gloo::BarrierOptions options(context_);
      options.setTag(operation.tag);
      options.setTimeout(timeout_of(operation));
      ::gloo::barrier(options);
      return;
    }
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return;
  }
}

// As on virtual ranks: the product rounds before the sum does.
void scale(const Memory& data, double premul) {
  const double factor = lockstep::detail::rounded_factor(premul, data.dtype);
  lockstep::detail::scale(data.data, data.data, factor, data.count, data.dtype);
}

void GlooConnection::all_reduce(const Memory& data, const Operation& operation) {
  const ReduceOp op = operation.signature.reduce;
  if (data.count == 0) return;
  ::gloo::AllreduceOptions options(context_);
  const auto size = static_cast<std::size_t>(size_of(data.dtype));
  std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>> buffers;
  buffers.push_back(context_->createUnboundBuffer(data.data, bytes_of(data)));
  // Gloo needs the size of an element alone; any type of that size says it.
  switch (size) {
    case 1:
      options.setOutputs<std::uint8_t>(std::move(buffers));
      break;
    case 2:
      options.setOutputs<std::uint16_t>(std::move(buffers));
      break;
    case 4:
      options.setOutputs<std::uint32_t>(std::move(buffers));
      break;
    default:
      options.setOutputs<std::uint64_t>(std::move(buffers));
      break;
  }
  const bool scales = op == ReduceOp::kPremulSum;
  if (scales) scale(data, operation.signature.premul);
  const ReduceOp pairwise = op == ReduceOp::kAvg || scales ? ReduceOp::kSum : op;
  options.setReduceFunction(function(pairwise, data.dtype));
  options.setAlgorithm(::gloo::AllreduceOptions::Algorithm::RING);
  options.setTag(operation.tag);
  options.setTimeout(timeout_of(operation));
  ::gloo::allreduce(options);
  if (op == ReduceOp::kAvg) divide(data);
}

// The sum divided by the number of ranks, in the kernels' own arithmetic: adding -0 (or an integer
// 0) changes nothing, so one input is the sum and the others are neutral.
void GlooConnection::divide(const Memory& data) {
  std::vector<std::byte> neutral(bytes_of(data));
  if (is_floating(data.dtype)) {
    const auto size = static_cast<std::size_t>(size_of(data.dtype));
    for (std::size_t i = size - 1; i < neutral.size(); i += size) neutral[i] = std::byte{0x80};
  }
  std::vector<const void*> inputs(static_cast<std::size_t>(options_.size), neutral.data());
  inputs.front() = data.data;
  const std::array<void*, 1> outputs = {data.data};
  kernels_->reduce(outputs, inputs, data.count, data.dtype, ReduceOp::kAvg);
}

// Gloo leaves partial sums with the others; a copy keeps their data as it was.
void GlooConnection::reduce(const Operation& operation) {
  const Memory& in = operation.inputs.front();
  std::vector<std::byte> scratch(bytes_of(in));
  if (!scratch.empty()) std::memcpy(scratch.data(), in.data, scratch.size());
  const Memory copy{scratch.data(), in.count, in.dtype, in.device};
  all_reduce(copy, operation);
  if (options_.rank != operation.signature.root || scratch.empty()) return;
  std::memcpy(operation.outputs.front().data, scratch.data(), scratch.size());
}

void GlooConnection::broadcast(const Operation& operation) {
  const Memory& out = operation.outputs.front();
  if (out.count == 0) return;
  const Memory& in = operation.inputs.front();
  if (in.data != out.data && options_.rank == operation.signature.root) {
    std::memcpy(out.data, in.data, bytes_of(out));
  }
  ::gloo::BroadcastOptions options(context_);
  options.setOutput(static_cast<char*>(out.data), bytes_of(out));
  options.setRoot(operation.signature.root);
  options.setTag(operation.tag);
  options.setTimeout(timeout_of(operation));
  ::gloo::broadcast(options);
}

void GlooConnection::all_gather(const Operation& operation) {
  const Memory& in = operation.inputs.front();
  std::vector<std::size_t> sizes;
  std::size_t total = 0;
  for (const Memory& out : operation.outputs) {
    sizes.push_back(bytes_of(out));
    total += sizes.back();
  }
  if (total == 0) return;
  std::vector<char> input(bytes_of(in));
  if (!input.empty()) std::memcpy(input.data(), in.data, input.size());
  std::vector<char> gathered(total);
  ::gloo::AllgathervOptions options(context_);
  options.setInput(input.data(), input.size());
  options.setOutput(gathered.data(), sizes);
  options.setTag(operation.tag);
  options.setTimeout(timeout_of(operation));
  ::gloo::allgatherv(options);
  std::size_t offset = 0;
  for (const Memory& out : operation.outputs) {
    if (out.count == 0) continue;
    std::memcpy(out.data, gathered.data() + offset, bytes_of(out));
    offset += bytes_of(out);
  }
}

// All of it is reduced everywhere and each rank keeps its part: Gloo of this age has nothing
// better.
void GlooConnection::reduce_scatter(const Operation& operation) {
  std::int64_t count = 0;
  std::size_t before = 0;
  for (std::size_t r = 0; r < operation.inputs.size(); ++r) {
    count += operation.inputs[r].count;
    if (r < static_cast<std::size_t>(options_.rank)) before += bytes_of(operation.inputs[r]);
  }
  const Memory& out = operation.outputs.front();
  std::vector<std::byte> flat(static_cast<std::size_t>(count * size_of(out.dtype)));
  std::size_t offset = 0;
  for (const Memory& in : operation.inputs) {
    if (in.count > 0) std::memcpy(flat.data() + offset, in.data, bytes_of(in));
    offset += bytes_of(in);
  }
  all_reduce({flat.data(), count, out.dtype, out.device}, operation);
  if (out.count > 0) std::memcpy(out.data, flat.data() + before, bytes_of(out));
}

// gather, scatter and all_to_all: all ranks send and receives parts.
void GlooConnection::trade(const Operation& operation) {
  const CollectiveOp op = operation.signature.op;
  const std::int32_t root = operation.signature.root;
  const auto part = [](std::int32_t peer, const Memory& memory) {
    return Part{peer, start_of(memory), bytes_of(memory)};
  };
  std::vector<Part> sends;
  std::vector<Part> recvs;
  if (op == CollectiveOp::kGather) {
    sends.push_back(part(root, operation.inputs.front()));
  } else {
    for (std::size_t r = 0; r < operation.inputs.size(); ++r) {
      sends.push_back(part(static_cast<std::int32_t>(r), operation.inputs[r]));
    }
  }
  if (op == CollectiveOp::kScatter) {
    recvs.push_back(part(root, operation.outputs.front()));
  } else {
    for (std::size_t r = 0; r < operation.outputs.size(); ++r) {
      recvs.push_back(part(static_cast<std::int32_t>(r), operation.outputs[r]));
    }
  }
  exchange_parts(sends, recvs, operation);
}

// No rank continues before all are connected: Gloo takes it for a lost peer when one that needed
// nothing of the others has left while a slow one still connects. c10d synchronises through its
// store instead.
void meet(const std::shared_ptr<::gloo::Context>& context, std::chrono::milliseconds timeout) {
  ::gloo::BarrierOptions options(context);
  options.setTag(std::numeric_limits<std::uint32_t>::max());
  options.setTimeout(timeout);
  ::gloo::barrier(options);
}

// Writing to a connection whose peer is gone raises SIGPIPE, which ends the process before it can
// say what happened. Python ignores it; a C++ program has to ask for that. Its own handler stays.
void outlive_lost_peers() {
  const auto previous = std::signal(SIGPIPE, SIG_IGN);
  if (previous != SIG_DFL && previous != SIG_ERR) std::signal(SIGPIPE, previous);
}

}  // namespace

Result<std::shared_ptr<Connection>> open_connection(const Membership& member,
                                                    const std::string& host_name) {
  outlive_lost_peers();
  try {
    ::gloo::transport::tcp::attr address;
    address.hostname = host_name;
    std::shared_ptr<::gloo::transport::Device> device =
        ::gloo::transport::tcp::CreateDevice(address);
    auto context = std::make_shared<::gloo::rendezvous::Context>(member.rank, member.size);
    context->setTimeout(member.timeout);
    ::gloo::rendezvous::FileStore files(member.folder);
    ::gloo::rendezvous::PrefixStore store(member.name, files);
    context->connectFullMesh(store, device);
    meet(context, member.timeout);
    return std::shared_ptr<Connection>(
        std::make_shared<GlooConnection>(member, host_name, std::move(context)));
  } catch (const std::exception& error) {
    return Error{std::string("the ranks did not connect: ") + error.what(), member.folder};
  }
}

}  // namespace lockstep::gloo
