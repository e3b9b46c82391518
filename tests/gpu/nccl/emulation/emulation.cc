#include "tests/gpu/nccl/emulation/emulation.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/half.h"

#include "tests/gpu/nccl/emulation/machine.h"

namespace lockstep::testing {

namespace {

using nccl::Comm;
using nccl::CudaStatus;
using nccl::Event;
using nccl::RedOp;
using nccl::Status;
using nccl::Stream;
using nccl::Transfer;
using nccl::Type;

constexpr std::int32_t kVersion = 22809;
constexpr std::int32_t kFirstCustomOp = 5;

double scalar_at(const void* data, Type type) {
  const auto as = [data](auto value) {
    std::memcpy(&value, data, sizeof value);
    return value;
  };
  switch (type) {
    case Type::kF64:
      return as(0.0);
    case Type::kF16:
      return from_f16(as(std::uint16_t{0}));
    case Type::kBF16:
      return from_bf16(as(std::uint16_t{0}));
    default:
      return as(0.0F);
  }
}

class Gpu final : public nccl::Api {
 public:
  Gpu(std::shared_ptr<Machine> machine, std::int32_t rank)
      : machine_(std::move(machine)), rank_(rank) {}

  std::string version_mismatch() override { return machine_->options.version_mismatch; }

  std::int32_t library_version() override {
    const auto found = machine_->options.versions.find(rank_);
    return found == machine_->options.versions.end() ? kVersion : found->second;
  }

  Status get_unique_id(nccl::UniqueId& id) override {
    const auto held = machine_->lock();
    const std::string text = "id " + std::to_string(++machine_->n_ids);
    std::memcpy(id.bytes.data(), text.data(), text.size());
    return Status::kSuccess;
  }

  Status comm_init(Comm& comm,
                   std::int32_t size,
                   const nccl::UniqueId& id,
                   std::int32_t rank) override {
    const auto held = machine_->lock();
    comm = make_comm(rank);
    const auto failing = machine_->options.failing_init.find(rank_);
    if (failing != machine_->options.failing_init.end()) {
      comm->error = failing->second;
    } else {
      machine_->join(comm, size, id);
    }
    return Status::kInProgress;
  }

  Status comm_split(Comm parent, std::int32_t color, std::int32_t key, Comm& comm) override {
    const auto held = machine_->lock();
    if (is_busy(parent)) return Status::kInvalidArgument;
    parent->split_into = &comm;  // Written when it is done, as 2.28.9 does.
    parent->split_made = color < 0 ? nullptr : make_comm(-1);
    machine_->split(parent, color, key, parent->split_made);
    parent->polls_left = machine_->options.polls;
    return Status::kSuccess;  // Although it has only begun: so does 2.28.9.
  }

  Status async_error(Comm comm, Status& state) override {
    const auto held = machine_->lock();
    state = machine_->settle(comm);
    return Status::kSuccess;
  }

  Status comm_finalize(Comm comm) override {
    const auto held = machine_->lock();
    comm->polls_left = machine_->options.polls;
    return Status::kInProgress;
  }

  Status comm_destroy(Comm comm) override {
    const auto held = machine_->lock();
    ++machine_->n_destroyed[rank_];
    machine_->comms.erase(comm);
    return Status::kSuccess;
  }

  Status comm_abort(Comm comm) override {
    const auto held = machine_->lock();
    machine_->abort(comm);
    return Status::kSuccess;
  }

  std::string last_error(Comm /*comm*/) override {
    const auto held = machine_->lock();
    return machine_->errors.count(rank_) > 0 ? "emulated failure" : "";
  }

  Status group_start() override {
    const auto held = machine_->lock();
    ++machine_->depths[std::this_thread::get_id()];
    return Status::kSuccess;
  }

  Status group_end() override {
    const auto held = machine_->lock();
    const auto thread = std::this_thread::get_id();
    if (--machine_->depths[thread] > 0) return Status::kSuccess;
    auto calls = std::exchange(machine_->groups[thread], {});
    if (calls.empty()) return Status::kSuccess;
    auto launch = std::make_shared<Launch>();
    launch->comm = std::get<0>(calls.front());
    for (auto& [comm, stream, piece] : calls) launch->pieces.push_back(piece);
    return post(std::move(launch), std::get<1>(calls.front()));
  }

  Status all_reduce(const Transfer& data, RedOp op, Comm comm, Stream stream) override {
    return queue({.kind = Kind::kAllReduce, .data = data, .op = op}, comm, stream);
  }

  Status reduce(
      const Transfer& data, RedOp op, std::int32_t root, Comm comm, Stream stream) override {
    return queue({.kind = Kind::kReduce, .data = data, .op = op, .other = root}, comm, stream);
  }

  Status broadcast(const Transfer& data, std::int32_t root, Comm comm, Stream stream) override {
    return queue({.kind = Kind::kBroadcast, .data = data, .other = root}, comm, stream);
  }

  Status all_gather(const Transfer& data, Comm comm, Stream stream) override {
    return queue({.kind = Kind::kAllGather, .data = data}, comm, stream);
  }

  Status reduce_scatter(const Transfer& data, RedOp op, Comm comm, Stream stream) override {
    return queue({.kind = Kind::kReduceScatter, .data = data, .op = op}, comm, stream);
  }

  Status send(const Transfer& data, std::int32_t peer, Comm comm, Stream stream) override {
    return queue({.kind = Kind::kSend, .data = data, .other = peer}, comm, stream);
  }

  Status recv(const Transfer& data, std::int32_t peer, Comm comm, Stream stream) override {
    return queue({.kind = Kind::kRecv, .data = data, .other = peer}, comm, stream);
  }

  Status create_premul_sum(RedOp& op, const void* scalar, Type type, Comm comm) override {
    const auto held = machine_->lock();
    op = static_cast<RedOp>(kFirstCustomOp + static_cast<std::int32_t>(comm->factors.size()));
    comm->factors[op] = scalar_at(scalar, type);
    return Status::kSuccess;
  }

  Status destroy_op(RedOp op, Comm comm) override {
    const auto held = machine_->lock();
    return comm->factors.erase(op) == 1 ? Status::kSuccess : Status::kInvalidArgument;
  }

  CudaStatus set_device(std::int32_t /*device*/) override { return CudaStatus::kSuccess; }

  CudaStatus create_stream(Stream& stream) override {
    const auto held = machine_->lock();
    auto made = std::make_unique<nccl::StreamHandle>();
    made->gpu = rank_;
    stream = made.get();
    machine_->streams[stream] = std::move(made);
    return CudaStatus::kSuccess;
  }

  CudaStatus destroy_stream(Stream stream) override {
    const auto held = machine_->lock();
    machine_->streams.erase(stream);
    return CudaStatus::kSuccess;
  }

  CudaStatus create_event(Event& event) override {
    const auto held = machine_->lock();
    auto made = std::make_shared<nccl::EventHandle>();
    event = made.get();
    machine_->events[event] = std::move(made);
    return CudaStatus::kSuccess;
  }

  CudaStatus destroy_event(Event event) override {
    const auto held = machine_->lock();
    machine_->events.erase(event);
    return CudaStatus::kSuccess;
  }

  CudaStatus record_event(Event event, Stream stream) override {
    const auto held = machine_->lock();
    push(stream,
         {.what = nccl::StreamHandle::Item::What::kRecord,
          .event = machine_->shared(event),
          .number = ++event->n_recorded,
          .launch = nullptr});
    return CudaStatus::kSuccess;
  }

  CudaStatus query_event(Event event) override {
    const auto held = machine_->lock();
    return event->n_happened == event->n_recorded ? CudaStatus::kSuccess : CudaStatus::kNotReady;
  }

  CudaStatus wait_event(Stream stream, Event event) override {
    const auto held = machine_->lock();
    push(stream,
         {.what = nccl::StreamHandle::Item::What::kWait,
          .event = machine_->shared(event),
          .number = event->n_recorded,
          .launch = nullptr});
    return CudaStatus::kSuccess;
  }

  CudaStatus allocate(void*& data, std::size_t n_bytes) override {
    const auto held = machine_->lock();
    std::vector<std::byte> block(n_bytes, std::byte{0xA5});
    data = block.data();
    machine_->memory[data] = std::move(block);
    return CudaStatus::kSuccess;
  }

  CudaStatus release(void* data) override {
    const auto held = machine_->lock();
    machine_->memory.erase(data);
    return CudaStatus::kSuccess;
  }

  CudaStatus copy(void* to, const void* from, std::size_t n_bytes, Stream stream) override {
    const auto held = machine_->lock();
    push(stream,
         {.what = nccl::StreamHandle::Item::What::kCopy,
          .to = to,
          .from = from,
          .n_bytes = n_bytes,
          .event = nullptr,
          .launch = nullptr});
    return CudaStatus::kSuccess;
  }

  std::string cuda_text(CudaStatus status) override {
    return "emulated CUDA error " + std::to_string(static_cast<std::int32_t>(status));
  }

 private:
  Comm make_comm(std::int32_t rank) {
    auto made = std::make_unique<nccl::CommHandle>();
    made->rank = rank;
    made->gpu = rank_;
    made->polls_left = machine_->options.polls;
    Comm comm = made.get();
    machine_->comms[comm] = std::move(made);
    return comm;
  }

  // "Attempt to use communicator before the previous operation returned ncclSuccess"
  static bool is_busy(Comm comm) { return comm->polls_left > 0; }

  void push(Stream stream, nccl::StreamHandle::Item item) {
    Stream target = stream == nullptr ? machine_->default_stream(rank_) : stream;
    target->items.push_back(std::move(item));
    machine_->wake();
  }

  Status queue(Piece piece, Comm comm, Stream stream) {
    const auto held = machine_->lock();
    if (comm == nullptr || is_busy(comm)) return Status::kInvalidArgument;
    if (static_cast<std::int32_t>(piece.op) >= kFirstCustomOp) {
      const auto found = comm->factors.find(piece.op);
      if (found == comm->factors.end()) return Status::kInvalidArgument;
      piece.premultiplies = true;
      piece.factor = found->second;
    }
    const auto thread = std::this_thread::get_id();
    if (machine_->depths[thread] > 0) {
      machine_->groups[thread].emplace_back(comm, stream, piece);
      return Status::kSuccess;
    }
    auto launch = std::make_shared<Launch>();
    launch->comm = comm;
    launch->pieces.push_back(piece);
    return post(std::move(launch), stream);
  }

  Status post(LaunchRef launch, Stream stream) {
    Comm comm = launch->comm;
    comm->polls_left = machine_->options.polls;
    comm->pending.emplace_back(stream, std::move(launch));
    return Status::kInProgress;
  }

  std::shared_ptr<Machine> machine_;
  std::int32_t rank_;
};

std::int32_t count_at(const std::map<std::int32_t, std::int32_t>& counts, std::int32_t rank) {
  const auto found = counts.find(rank);
  return found == counts.end() ? 0 : found->second;
}

}  // namespace

Emulation::Emulation(EmulationOptions options)
    : machine_(std::make_shared<Machine>(std::move(options))) {}

Emulation::~Emulation() = default;

std::shared_ptr<nccl::Api> Emulation::gpu(std::int32_t rank) const {
  return std::make_shared<Gpu>(machine_, rank);
}

void Emulation::hang() {
  const auto held = machine_->lock();
  machine_->hangs = true;
}

void Emulation::fail(std::int32_t rank, Status error) {
  const auto held = machine_->lock();
  machine_->errors[rank] = error;
}

void Emulation::hold_compute(std::int32_t rank, bool held) {
  const auto locked = machine_->lock();
  if (held) {
    machine_->held.insert(rank);
  } else {
    machine_->held.erase(rank);
  }
  machine_->wake();
}

std::int32_t Emulation::n_aborted(std::int32_t rank) const {
  const auto held = machine_->lock();
  return count_at(machine_->n_aborted, rank);
}

std::int32_t Emulation::n_destroyed(std::int32_t rank) const {
  const auto held = machine_->lock();
  return count_at(machine_->n_destroyed, rank);
}

std::int32_t Emulation::n_collectives() const {
  const auto held = machine_->lock();
  return machine_->n_collectives;
}

std::int32_t Emulation::n_waiting(std::int32_t rank) const {
  using What = nccl::StreamHandle::Item::What;
  const auto held = machine_->lock();
  std::int32_t n = 0;
  for (const auto& [handle, stream] : machine_->streams) {
    if (stream->gpu != rank || stream->items.empty()) continue;
    const What what = stream->items.front().what;
    if (what == What::kWait || what == What::kLaunch) ++n;
  }
  return n;
}

bool Emulation::is_under_way(std::int32_t rank) const {
  using Item = nccl::StreamHandle::Item;
  const auto held = machine_->lock();
  return std::any_of(machine_->streams.begin(), machine_->streams.end(), [rank](const auto& entry) {
    const auto& [handle, stream] = entry;
    const auto& items = stream->items;
    const auto is = [](Item::What what) {
      return [what](const Item& item) { return item.what == what; };
    };
    const auto launch = std::find_if(items.begin(), items.end(), is(Item::What::kLaunch));
    return stream->gpu == rank &&
           std::find_if(launch, items.end(), is(Item::What::kRecord)) != items.end();
  });
}

std::int64_t Emulation::bytes_allocated() const {
  const auto held = machine_->lock();
  std::int64_t n_bytes = 0;
  for (const auto& [data, block] : machine_->memory) {
    n_bytes += static_cast<std::int64_t>(block.size());
  }
  return n_bytes;
}

std::int32_t Emulation::n_handles() const {
  const auto held = machine_->lock();
  return static_cast<std::int32_t>(machine_->streams.size() + machine_->events.size());
}

}  // namespace lockstep::testing
