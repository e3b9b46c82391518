#include "tests/gpu/nccl/emulation/machine.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace lockstep::testing {

using nccl::Comm;
using nccl::RedOp;
using nccl::Status;

namespace {

std::size_t bytes_of(const nccl::Transfer& data) { return data.count * size_of(data.type); }

void* at_bytes(void* data, std::size_t n_bytes) { return static_cast<std::byte*>(data) + n_bytes; }

// NCCL transfers bytes: only kind, place and size decide whether the members' steps fit together.
bool fits(const Piece& a, const Piece& b) {
  return a.kind == b.kind && a.other == b.other && bytes_of(a.data) == bytes_of(b.data);
}

RingJob job_of(const std::vector<std::optional<Members::Arrived>>& slot,
               const std::vector<std::int32_t>& ring) {
  RingJob job;
  job.ring = ring;
  job.count = slot.front()->piece.data.count;
  job.type = slot.front()->piece.data.type;
  for (const auto& arrived : slot) {
    const Piece& piece = arrived->piece;
    job.ranks.push_back(
        {piece.data.send, piece.data.recv, piece.op, piece.factor, piece.premultiplies});
  }
  return job;
}

void copy(void* to, const void* from, std::size_t n_bytes) {
  if (n_bytes > 0 && to != from) std::memmove(to, from, n_bytes);
}

}  // namespace

bool Members::complete() const {
  return std::find(comms.begin(), comms.end(), nullptr) == comms.end();
}

Machine::Machine(EmulationOptions given) : options(std::move(given)), thread_([this] { loop(); }) {}

Machine::~Machine() {
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  thread_.join();
}

std::vector<std::int32_t> Machine::ring_of(std::size_t n_ranks) const {
  if (options.ring.size() == n_ranks) return options.ring;
  std::vector<std::int32_t> ring(n_ranks);
  std::iota(ring.begin(), ring.end(), 0);
  return ring;
}

void Machine::join(Comm comm, std::int32_t size, const nccl::UniqueId& id) {
  std::shared_ptr<Members>& members = waiting_[std::string(id.bytes.data(), id.bytes.size())];
  if (!members) {
    members = std::make_shared<Members>();
    members->comms.resize(static_cast<std::size_t>(size));
    members->ring = ring_of(members->comms.size());
  }
  members->comms[static_cast<std::size_t>(comm->rank)] = comm;
  comm->members = members;
}

void Machine::split(Comm parent, std::int32_t color, std::int32_t key, Comm comm) {
  Members& members = *parent->members;
  const auto number = static_cast<std::size_t>(parent->n_split++);
  if (members.splits.size() <= number) {
    members.splits.resize(number + 1);
    members.split_comms.resize(number + 1, std::vector<Comm>(members.comms.size()));
  }
  members.splits[number][parent->rank] = {color, key};
  members.split_comms[number][static_cast<std::size_t>(parent->rank)] = comm;
  if (members.splits[number].size() == members.comms.size()) make_splits(members, number);
}

void Machine::make_splits(Members& members, std::size_t number) {
  std::map<std::int32_t, std::vector<std::pair<std::int32_t, Comm>>> parts;  // By color.
  for (const auto& [rank, choice] : members.splits[number]) {
    if (choice.first < 0) continue;
    parts[choice.first].emplace_back(choice.second,
                                     members.split_comms[number][static_cast<std::size_t>(rank)]);
  }
  for (auto& [color, part] : parts) {
    std::stable_sort(
        part.begin(), part.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    auto made = std::make_shared<Members>();
    made->ring = ring_of(part.size());
    for (const auto& [key, comm] : part) {
      comm->rank = static_cast<std::int32_t>(made->comms.size());
      comm->members = made;
      made->comms.push_back(comm);
    }
  }
}

Status Machine::settle(Comm comm) {
  if (comm->error != Status::kSuccess) return comm->error;
  const auto failing = errors.find(comm->gpu);
  if (failing != errors.end()) return failing->second;
  if (comm->members == nullptr || !comm->members->complete()) return Status::kInProgress;
  for (std::int32_t i = 0; i < comm->n_split; ++i) {
    const auto& split = comm->members->splits[static_cast<std::size_t>(i)];
    if (split.size() != comm->members->comms.size()) return Status::kInProgress;
  }
  if (comm->polls_left > 0) {
    --comm->polls_left;
    return Status::kInProgress;
  }
  if (comm->split_into != nullptr) *std::exchange(comm->split_into, nullptr) = comm->split_made;
  for (auto& [stream, launch] : comm->pending) {
    stream->items.push_back({.what = nccl::StreamHandle::Item::What::kLaunch,
                             .event = nullptr,
                             .launch = std::move(launch)});
  }
  if (!comm->pending.empty()) wake();
  comm->pending.clear();
  return Status::kSuccess;
}

// What it had begun ends here; the others keep waiting.
void Machine::abort(Comm comm) {
  comm->aborted = true;
  comm->split_into = nullptr;
  ++n_aborted[comm->gpu];
  comm->pending.clear();
  if (comm->members) {
    Members& members = *comm->members;
    for (auto& slot : members.slots) slot[static_cast<std::size_t>(comm->rank)].reset();
    for (auto* queues : {&members.sends, &members.recvs}) {
      for (auto& [ends, queue] : *queues) {
        std::erase_if(queue, [&](const Members::Arrived& one) { return one.launch->comm == comm; });
      }
    }
  }
  wake();
}

nccl::Stream Machine::default_stream(std::int32_t gpu) {
  auto& stream = defaults_[gpu];
  if (!stream) stream = std::make_unique<nccl::StreamHandle>();
  return stream.get();
}

std::shared_ptr<nccl::EventHandle> Machine::shared(nccl::Event event) const {
  return events.at(event);
}

void Machine::loop() {
  Lock locked = lock();
  while (!ending_) {
    bool moved = false;
    for (auto& [handle, stream] : streams) moved = progress(*stream) || moved;
    for (auto& [gpu, stream] : defaults_) {
      moved = (held.count(gpu) == 0 && progress(*stream)) || moved;
    }
    if (!moved) work_.wait(locked);
  }
}

// Does what is at the stream's head. Returns: whether that is done.
bool Machine::progress(nccl::StreamHandle& stream) {
  using What = nccl::StreamHandle::Item::What;
  if (stream.items.empty()) return false;
  const nccl::StreamHandle::Item& item = stream.items.front();
  switch (item.what) {
    case What::kCopy:
      copy(item.to, item.from, item.n_bytes);
      break;
    case What::kRecord:
      item.event->n_happened = item.number;
      break;
    case What::kWait:
      if (item.event->n_happened < item.number) return false;
      break;
    case What::kLaunch:
      if (!launch(item.launch)) return false;
      break;
  }
  stream.items.pop_front();
  return true;
}

bool Machine::launch(const LaunchRef& launch) {
  const auto found = comms.find(launch->comm);
  if (found == comms.end() || found->second->aborted) return true;
  if (hangs) return false;
  if (!launch->started) {
    launch->started = true;
    launch->n_left = launch->pieces.size();
    for (const Piece& piece : launch->pieces) arrive(launch->comm, piece, launch);
  }
  return launch->n_left == 0;
}

void Machine::arrive(Comm comm, const Piece& piece, const LaunchRef& launch) {
  Members& members = *comm->members;
  if (piece.kind == Kind::kSend) {
    members.sends[{comm->rank, piece.other}].push_back({piece, launch});
    return meet(members, comm->rank, piece.other);
  }
  if (piece.kind == Kind::kRecv) {
    members.recvs[{piece.other, comm->rank}].push_back({piece, launch});
    return meet(members, piece.other, comm->rank);
  }
  const std::size_t number = comm->next_slot++;
  if (members.slots.size() <= number) {
    members.slots.resize(number + 1);
    members.slots[number].resize(members.comms.size());
  }
  auto& slot = members.slots[number];
  slot[static_cast<std::size_t>(comm->rank)] = Members::Arrived{piece, launch};
  for (const auto& arrived : slot) {
    if (!arrived || !fits(arrived->piece, slot.front()->piece)) return;
  }
  run(members, number);
  ++n_collectives;
  for (auto& arrived : slot) --arrived->launch->n_left;
  slot.assign(slot.size(), std::nullopt);
}

void Machine::meet(Members& members, std::int32_t from, std::int32_t to) {
  auto& sends = members.sends[{from, to}];
  auto& recvs = members.recvs[{from, to}];
  while (!sends.empty() && !recvs.empty()) {
    const nccl::Transfer& in = sends.front().piece.data;
    const nccl::Transfer& out = recvs.front().piece.data;
    if (bytes_of(in) != bytes_of(out)) return;
    copy(out.recv, in.send, bytes_of(in));
    --sends.front().launch->n_left;
    --recvs.front().launch->n_left;
    sends.pop_front();
    recvs.pop_front();
  }
}

void Machine::run(Members& members, std::size_t number) {
  const auto& slot = members.slots[number];
  const Piece& first = slot.front()->piece;
  switch (first.kind) {
    case Kind::kAllReduce:
      return ring_all_reduce(job_of(slot, members.ring));
    case Kind::kReduce:
      return ring_reduce(job_of(slot, members.ring), first.other);
    case Kind::kReduceScatter:
      return ring_reduce_scatter(job_of(slot, members.ring));
    case Kind::kBroadcast:
      for (const auto& arrived : slot) {
        copy(arrived->piece.data.recv,
             slot[static_cast<std::size_t>(first.other)]->piece.data.send,
             bytes_of(first.data));
      }
      return;
    case Kind::kAllGather:
      for (const auto& arrived : slot) {
        for (std::size_t r = 0; r < slot.size(); ++r) {
          copy(at_bytes(arrived->piece.data.recv, r * bytes_of(first.data)),
               slot[r]->piece.data.send,
               bytes_of(first.data));
        }
      }
      return;
    case Kind::kSend:
    case Kind::kRecv:
      return;
  }
}

}  // namespace lockstep::testing
