#include "lockstep/gpu/nccl/detail/communicator.h"

#include <utility>

#include "lockstep/gpu/nccl/result_text.h"

namespace lockstep::nccl {

namespace {

using peers::Completion;

// A lost peer failed elsewhere; every other error is this rank's.
Completion failure(Api& api, std::string_view call, Status status, Comm comm) {
  const CommStatus kind =
      status == Status::kRemoteError ? CommStatus::kPeerLost : CommStatus::kAborted;
  return {kind, describe(api, call, status, comm)};
}

}  // namespace

Completion Communicator::cuda_completion(std::string_view call, CudaStatus status) const {
  if (status == CudaStatus::kSuccess) return {};
  return {CommStatus::kAborted, std::string(call) + ": " + api_->cuda_text(status)};
}

Completion Communicator::prepare() {
  Completion made = cuda_completion("cudaStreamCreateWithFlags", api_->create_stream(stream_));
  return is_ok(made) ? cuda_completion("cudaEventCreateWithFlags", api_->create_event(end_)) : made;
}

Completion Communicator::settle(std::string_view call,
                                Status status,
                                Comm comm,
                                Deadline& deadline) {
  while (status == Status::kInProgress) {
    Status state = Status::kSuccess;
    const Status asked = api_->async_error(comm, state);
    status = asked == Status::kSuccess ? state : asked;
    if (status != Status::kInProgress) break;
    if (Completion over = deadline.pause(); !is_ok(over)) return over;
  }
  if (status == Status::kSuccess) return {};
  return failure(*api_, call, status, comm);
}

Result<std::unique_ptr<Communicator>> Communicator::join(std::shared_ptr<Api> api,
                                                         std::int32_t size,
                                                         const UniqueId& id,
                                                         std::int32_t rank,
                                                         Deadline& deadline) {
  std::unique_ptr<Communicator> self(new Communicator(std::move(api)));
  Completion completion = self->prepare();
  if (!is_ok(completion)) return Error{completion.detail, {}};
  const Status status = self->api_->comm_init(self->comm_, size, id, rank);
  completion = self->settle("ncclCommInitRankConfig", status, self->comm_, deadline);
  if (is_ok(completion)) return self;
  self->abort();
  return Error{completion.detail, {}};
}

Result<std::unique_ptr<Communicator>> Communicator::split(std::int32_t color,
                                                          std::int32_t key,
                                                          Deadline& deadline) {
  std::unique_ptr<Communicator> part(new Communicator(api_));
  Completion completion = part->prepare();
  if (!is_ok(completion)) return Error{completion.detail, {}};
  const Status status = api_->comm_split(comm_, color, key, part->comm_);
  // It answers ncclSuccess when it has only begun; the parent knows when it is done.
  const Status begun = status == Status::kSuccess ? Status::kInProgress : status;
  completion = settle("ncclCommSplit", begun, comm_, deadline);
  if (is_ok(completion) && part->comm_ != nullptr) {
    completion = part->settle("ncclCommSplit", Status::kInProgress, part->comm_, deadline);
  }
  if (!is_ok(completion)) {
    abort();  // First: what still runs of the split writes into the part.
    part->abort();
    return Error{completion.detail, {}};
  }
  if (color < 0) return std::unique_ptr<Communicator>();
  return part;
}

Communicator::~Communicator() {
  if (comm_ != nullptr) {
    // Nothing is under way: every operation was waited for or aborted.
    Status state = api_->comm_finalize(comm_);
    peers::Backoff backoff;
    constexpr std::int32_t kTurns = 5000;
    for (std::int32_t i = 0; i < kTurns && state == Status::kInProgress; ++i) {
      const Status asked = api_->async_error(comm_, state);
      if (asked != Status::kSuccess) state = asked;
      backoff.pause();
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

Completion Communicator::begin_after(Event event) {
  if (event == nullptr) return {};
  return cuda_completion("cudaStreamWaitEvent", api_->wait_event(stream_, event));
}

Completion Communicator::queue(const Call& call, Deadline& deadline) {
  return settle(call.name, call.run(*api_, comm_, stream_), comm_, deadline);
}

Completion Communicator::queue_group(const std::vector<Call>& calls, Deadline& deadline) {
  if (calls.empty()) return {};
  if (const Status status = api_->group_start(); status != Status::kSuccess) {
    return failure(*api_, "ncclGroupStart", status, comm_);
  }
  Completion refused;
  for (const Call& call : calls) {
    const Status status = call.run(*api_, comm_, stream_);
    const bool taken = status == Status::kSuccess || status == Status::kInProgress;
    if (!taken && is_ok(refused)) refused = failure(*api_, call.name, status, comm_);
  }
  Completion ended = settle("ncclGroupEnd", api_->group_end(), comm_, deadline);
  return is_ok(refused) ? ended : refused;
}

Completion Communicator::queue(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    if (copy.n_bytes == 0 || copy.to == copy.from) continue;
    Completion queued =
        cuda_completion("cudaMemcpyAsync", api_->copy(copy.to, copy.from, copy.n_bytes, stream_));
    if (!is_ok(queued)) return queued;
  }
  return {};
}

Completion Communicator::finish(Deadline& deadline) {
  Completion recorded = cuda_completion("cudaEventRecord", api_->record_event(end_, stream_));
  if (!is_ok(recorded)) return recorded;
  while (true) {
    const CudaStatus done = api_->query_event(end_);
    if (done != CudaStatus::kNotReady) return cuda_completion("cudaEventQuery", done);
    Status state = Status::kSuccess;
    const Status asked = api_->async_error(comm_, state);
    const Status status = asked == Status::kSuccess ? state : asked;
    if (status != Status::kSuccess && status != Status::kInProgress) {
      return failure(*api_, "ncclCommGetAsyncError", status, comm_);
    }
    if (Completion over = deadline.pause(); !is_ok(over)) return over;
  }
}

void Communicator::abort() {
  if (comm_ == nullptr) return;
  (void)api_->comm_abort(std::exchange(comm_, nullptr));
}

}  // namespace lockstep::nccl
