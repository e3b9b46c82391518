#include "lockstep/nccl/detail/communicator.h"

#include <utility>

#include "lockstep/nccl/result_text.h"

namespace lockstep::nccl {

namespace {

using peers::Ending;

// A lost peer is the others' misfortune; everything else happened to this rank.
Ending failure(Api& api, std::string_view call, Status status, Comm comm) {
  const CommStatus kind =
      status == Status::kRemoteError ? CommStatus::kPeerLost : CommStatus::kAborted;
  return {kind, describe(api, call, status, comm)};
}

}  // namespace

Ending Communicator::cuda_ending(std::string_view call, CudaStatus status) const {
  if (status == CudaStatus::kSuccess) return {};
  return {CommStatus::kAborted, std::string(call) + ": " + api_->cuda_text(status)};
}

Ending Communicator::prepare() {
  Ending made = cuda_ending("cudaStreamCreateWithFlags", api_->create_stream(stream_));
  return is_ok(made) ? cuda_ending("cudaEventCreateWithFlags", api_->create_event(end_)) : made;
}

Ending Communicator::settle(std::string_view call, Status status, Comm comm, Vigil& vigil) {
  while (status == Status::kInProgress) {
    Status state = Status::kSuccess;
    const Status asked = api_->async_error(comm, state);
    status = asked == Status::kSuccess ? state : asked;
    if (status != Status::kInProgress) break;
    if (Ending over = vigil.pause(); !is_ok(over)) return over;
  }
  if (status == Status::kSuccess) return {};
  return failure(*api_, call, status, comm);
}

Result<std::unique_ptr<Communicator>> Communicator::join(std::shared_ptr<Api> api,
                                                         std::int32_t size,
                                                         const UniqueId& id,
                                                         std::int32_t rank,
                                                         Vigil& vigil) {
  std::unique_ptr<Communicator> self(new Communicator(std::move(api)));
  Ending ending = self->prepare();
  if (!is_ok(ending)) return Error{ending.detail, {}};
  const Status status = self->api_->comm_init(self->comm_, size, id, rank);
  ending = self->settle("ncclCommInitRankConfig", status, self->comm_, vigil);
  if (is_ok(ending)) return self;
  self->abort();
  return Error{ending.detail, {}};
}

Result<std::unique_ptr<Communicator>> Communicator::split(std::int32_t color,
                                                          std::int32_t key,
                                                          Vigil& vigil) {
  std::unique_ptr<Communicator> part(new Communicator(api_));
  Ending ending = part->prepare();
  if (!is_ok(ending)) return Error{ending.detail, {}};
  const Status status = api_->comm_split(comm_, color, key, part->comm_);
  ending = settle("ncclCommSplit", status, comm_, vigil);
  if (is_ok(ending) && part->comm_ != nullptr) {
    ending = part->settle("ncclCommSplit", Status::kInProgress, part->comm_, vigil);
  }
  if (!is_ok(ending)) {
    part->abort();
    return Error{ending.detail, {}};
  }
  if (color < 0) return std::unique_ptr<Communicator>();
  return part;
}

Communicator::~Communicator() {
  if (comm_ != nullptr) {
    // Nothing is under way: every operation was waited for or aborted.
    Status state = api_->comm_finalize(comm_);
    peers::Patience patience;
    constexpr std::int32_t kTurns = 5000;
    for (std::int32_t i = 0; i < kTurns && state == Status::kInProgress; ++i) {
      const Status asked = api_->async_error(comm_, state);
      if (asked != Status::kSuccess) state = asked;
      patience.pause();
    }
    if (state == Status::kSuccess) {
      (void)api_->comm_destroy(comm_);
    } else {
      (void)api_->comm_abort(comm_);
    }
  }
  if (end_ != nullptr) (void)api_->destroy_event(end_);
  if (stream_ != nullptr) (void)api_->destroy_stream(stream_);
}

Ending Communicator::begin_after(Event event) {
  if (event == nullptr) return {};
  return cuda_ending("cudaStreamWaitEvent", api_->wait_event(stream_, event));
}

Ending Communicator::queue(const Call& call, Vigil& vigil) {
  return settle(call.name, call.run(*api_, comm_, stream_), comm_, vigil);
}

Ending Communicator::queue_group(const std::vector<Call>& calls, Vigil& vigil) {
  if (calls.empty()) return {};
  if (const Status status = api_->group_start(); status != Status::kSuccess) {
    return failure(*api_, "ncclGroupStart", status, comm_);
  }
  Ending refused;
  for (const Call& call : calls) {
    const Status status = call.run(*api_, comm_, stream_);
    const bool taken = status == Status::kSuccess || status == Status::kInProgress;
    if (!taken && is_ok(refused)) refused = failure(*api_, call.name, status, comm_);
  }
  Ending ended = settle("ncclGroupEnd", api_->group_end(), comm_, vigil);
  return is_ok(refused) ? ended : refused;
}

Ending Communicator::queue(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    if (copy.n_bytes == 0 || copy.to == copy.from) continue;
    Ending queued =
        cuda_ending("cudaMemcpyAsync", api_->copy(copy.to, copy.from, copy.n_bytes, stream_));
    if (!is_ok(queued)) return queued;
  }
  return {};
}

Ending Communicator::finish(Vigil& vigil) {
  Ending recorded = cuda_ending("cudaEventRecord", api_->record_event(end_, stream_));
  if (!is_ok(recorded)) return recorded;
  while (true) {
    const CudaStatus done = api_->query_event(end_);
    if (done != CudaStatus::kNotReady) return cuda_ending("cudaEventQuery", done);
    Status state = Status::kSuccess;
    const Status asked = api_->async_error(comm_, state);
    const Status status = asked == Status::kSuccess ? state : asked;
    if (status != Status::kSuccess && status != Status::kInProgress) {
      return failure(*api_, "ncclCommGetAsyncError", status, comm_);
    }
    if (Ending over = vigil.pause(); !is_ok(over)) return over;
  }
}

void Communicator::abort() {
  if (comm_ == nullptr) return;
  (void)api_->comm_abort(std::exchange(comm_, nullptr));
}

}  // namespace lockstep::nccl
