#include "lockstep/gpu/nccl/detail/connection.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "lockstep/base/half.h"
#include "lockstep/comm/detail/scaled_sum.h"
#include "lockstep/gpu/nccl/detail/lane.h"
#include "lockstep/gpu/nccl/detail/schedule.h"
#include "lockstep/gpu/nccl/detail/staging.h"
#include "lockstep/gpu/nccl/result_text.h"
#include "lockstep/real/group/agreement.h"

namespace lockstep::nccl {

namespace {

using peers::Completion;
using peers::Connection;
using peers::Membership;
using peers::Operation;

template <typename T>
peers::Bytes raw(T value) {
  peers::Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// The factor of a premultiplied sum as one element.
peers::Bytes scalar_of(double premul, DType dtype) {
  const double factor = lockstep::detail::rounded_factor(premul, dtype);
  switch (dtype) {
    case DType::kF64:
      return raw(factor);
    case DType::kF16:
      return raw(to_f16(static_cast<float>(factor)));
    case DType::kBF16:
      return raw(to_bf16(static_cast<float>(factor)));
    default:
      return raw(static_cast<float>(factor));
  }
}

class MessageOnLane final : public Connection::Message {
 public:
  explicit MessageOnLane(std::shared_ptr<peers::Task> task) : task_(std::move(task)) {}

  Completion wait() override { return task_->wait(); }

 private:
  std::shared_ptr<peers::Task> task_;
};

class NcclConnection final : public Connection {
 public:
  NcclConnection(const DeviceContext& context,
                 const Membership& member,
                 std::unique_ptr<Communicator> communicator)
      : context_(context),
        member_(member),
        monitor_(member_),
        communicator_(std::move(communicator)),
        staging_(context.api) {}

  ~NcclConnection() override {
    monitor_.announce_leaving();
    (void)context_.api->set_device(context_.device);
  }

  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;
  NcclConnection(NcclConnection&&) = delete;
  NcclConnection& operator=(NcclConnection&&) = delete;

  std::string refusal(const Signature& signature) const override { return refusal_of(signature); }

  std::shared_ptr<peers::Token> mark() override;
  Completion run(const Operation& operation) override;
  std::unique_ptr<Message> start(const Operation& operation) override;
  Result<std::int64_t> all_reduce_max(std::int64_t number, std::uint32_t tag) override;
  Result<std::shared_ptr<Connection>> split(const Membership& member) override;

 private:
  std::chrono::milliseconds timeout_of(const Operation& operation) const {
    return operation.timeout.count() > 0 ? operation.timeout : member_.timeout;
  }

  Completion agree(const Operation& operation);
  Completion perform(const Operation& operation);
  Completion perform_premul(const Operation& operation, Deadline& deadline);
  Completion perform_with(RedOp op, const Operation& operation, Deadline& deadline);
  Completion break_off(const std::string& what, Completion completion);

  DeviceContext context_;
  Membership member_;
  peers::PeerMonitor monitor_;
  std::unique_ptr<Communicator> communicator_;
  Staging staging_;
  std::int64_t round_ = 0;
  Completion broken_;

  std::mutex lanes_mutex_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::unique_ptr<Lane>> lanes_;
};

/// An event on the compute stream, at the moment of posting.
class ComputeMark final : public peers::Token {
 public:
  explicit ComputeMark(const DeviceContext& context) : api_(context.api) {
    (void)api_->set_device(context.device);
    if (api_->create_event(event_) != CudaStatus::kSuccess) event_ = nullptr;
    if (event_ != nullptr) (void)api_->record_event(event_, context.compute);
  }

  ~ComputeMark() override {
    if (event_ != nullptr) (void)api_->destroy_event(event_);
  }

  ComputeMark(const ComputeMark&) = delete;
  ComputeMark& operator=(const ComputeMark&) = delete;
  ComputeMark(ComputeMark&&) = delete;
  ComputeMark& operator=(ComputeMark&&) = delete;

  Event event() const { return event_; }

 private:
  std::shared_ptr<Api> api_;
  Event event_ = nullptr;
};

std::shared_ptr<peers::Token> NcclConnection::mark() {
  return std::make_shared<ComputeMark>(context_);
}

std::string operation_text(const Operation& operation, const Membership& member) {
  const Signature& signature = operation.signature;
  std::string text(name_of(signature.op));
  if (signature.op != CollectiveOp::kBarrier) {
    text += " of " + std::to_string(signature.count) + " " + std::string(name_of(signature.dtype));
  }
  return text + " on " + peers::listed_ranks(member.world_ranks);
}

// A rank that gives up aborts its communicator and announces it: the others would wait forever.
Completion NcclConnection::break_off(const std::string& what, Completion completion) {
  completion.detail = what + ": " + completion.detail;
  monitor_.report_failure(completion.detail);
  communicator_->abort();
  completion.detail += "; its communicator was aborted";
  broken_ = completion;
  return completion;
}

Completion NcclConnection::run(const Operation& operation) {
  if (!is_ok(broken_)) {
    return {CommStatus::kPeerLost, "the group failed earlier: " + broken_.detail};
  }
  (void)context_.api->set_device(context_.device);
  const std::string what = operation_text(operation, member_);
  Completion failure = monitor_.failure();
  if (is_ok(failure) && member_.check_signatures) failure = agree(operation);
  if (failure.status == CommStatus::kMismatch) return failure;  // Nothing was begun.
  if (is_ok(failure)) failure = perform(operation);
  return is_ok(failure) ? failure : break_off(what, std::move(failure));
}

Completion NcclConnection::agree(const Operation& operation) {
  const std::vector<std::byte> own =
      peers::encode_signature(operation.signature,
                              operation.inputs,
                              operation.outputs,
                              static_cast<std::size_t>(member_.size));
  peers::GatheredBytes roll =
      peers::all_gather_bytes(monitor_, member_, round_++, own, timeout_of(operation));
  if (!is_ok(roll.completion)) return std::move(roll.completion);
  std::string text = peers::find_mismatch(roll.all, member_.world_ranks);
  if (text.empty()) return {};
  return {CommStatus::kMismatch, std::move(text)};
}

Completion NcclConnection::perform(const Operation& operation) {
  Deadline deadline(monitor_, timeout_of(operation));
  if (Completion begun = staging_.begin(operation.inputs, operation.outputs); !is_ok(begun)) {
    return begun;
  }
  const Signature& signature = operation.signature;
  if (signature.reduce == ReduceOp::kPremulSum) return perform_premul(operation, deadline);
  // Alone, an average is a sum, and NCCL 2.28 leaves elements out when it averages alone.
  const bool alone = member_.size == 1 && signature.reduce == ReduceOp::kAvg;
  const ReduceOp reduce = alone ? ReduceOp::kSum : signature.reduce;
  return perform_with(red_op_of(reduce, signature.dtype), operation, deadline);
}

Completion NcclConnection::perform_premul(const Operation& operation, Deadline& deadline) {
  const Signature& signature = operation.signature;
  const peers::Bytes scalar = scalar_of(signature.premul, signature.dtype);
  RedOp op = RedOp::kSum;
  const Status made = context_.api->create_premul_sum(
      op, scalar.data(), type_of(signature.dtype), communicator_->handle());
  if (made != Status::kSuccess) {
    return {CommStatus::kAborted,
            describe(*context_.api, "ncclRedOpCreatePreMulSum", made, communicator_->handle())};
  }
  Completion completion = perform_with(op, operation, deadline);
  if (is_ok(completion)) (void)context_.api->destroy_op(op, communicator_->handle());
  return completion;
}

Completion NcclConnection::perform_with(RedOp op, const Operation& operation, Deadline& deadline) {
  return run_schedule(
      *communicator_, schedule_of(operation, member_, op, staging_), operation, deadline);
}

std::unique_ptr<Connection::Message> NcclConnection::start(const Operation& operation) {
  const std::int32_t peer = operation.signature.peer;
  const bool sends = operation.signature.op == CollectiveOp::kSend;
  const auto ends = sends ? std::pair(member_.rank, peer) : std::pair(peer, member_.rank);
  const std::lock_guard lock(lanes_mutex_);
  std::unique_ptr<Lane>& lane = lanes_[ends];
  if (!lane) lane = std::make_unique<Lane>(context_, member_, ends.first, ends.second);
  return std::make_unique<MessageOnLane>(lane->post(operation, operation.tag));
}

Result<std::int64_t> NcclConnection::all_reduce_max(std::int64_t number, std::uint32_t /*tag*/) {
  if (!is_ok(broken_)) return Error{"the group failed earlier: " + broken_.detail, {}};
  const peers::GatheredBytes roll =
      peers::all_gather_bytes(monitor_, member_, round_++, raw(number), member_.timeout);
  if (!is_ok(roll.completion)) {
    return Error{break_off("making a group", roll.completion).detail, {}};
  }
  std::int64_t all_reduce_max = number;
  for (std::size_t at = 0; at < roll.all.size(); at += sizeof number) {
    std::int64_t other = 0;
    std::memcpy(&other, roll.all.data() + at, sizeof other);
    all_reduce_max = std::max(all_reduce_max, other);
  }
  return all_reduce_max;
}

Result<std::shared_ptr<Connection>> NcclConnection::split(const Membership& member) {
  (void)context_.api->set_device(context_.device);
  Deadline deadline(monitor_, member_.timeout);
  constexpr std::int32_t kLeftOut = -1;
  auto part =
      communicator_->split(member.rank < 0 ? kLeftOut : 0, std::max(member.rank, 0), deadline);
  if (!part.ok()) {
    return Error{break_off("making a group", {CommStatus::kAborted, part.error().text()}).detail,
                 {}};
  }
  if (member.rank < 0) return std::shared_ptr<Connection>();
  return make_connection(context_, member, std::move(part).value());
}

}  // namespace

std::shared_ptr<Connection> make_connection(const DeviceContext& context,
                                            const Membership& member,
                                            std::unique_ptr<Communicator> communicator) {
  return std::make_shared<NcclConnection>(context, member, std::move(communicator));
}

// What comes back is queued when the operation has ended, not before: a copy to memory of the host
// may wait inside CUDA, where no deadline is checked.
Completion run_schedule(Communicator& communicator,
                        const Schedule& schedule,
                        const Operation& operation,
                        Deadline& deadline) {
  const auto* mark = static_cast<const ComputeMark*>(operation.token.get());
  Completion completion = communicator.begin_after(mark == nullptr ? nullptr : mark->event());
  if (is_ok(completion)) completion = communicator.queue(schedule.before);
  if (is_ok(completion) && schedule.grouped)
    completion = communicator.queue_group(schedule.calls, deadline);
  for (std::size_t i = 0; i < schedule.calls.size() && is_ok(completion) && !schedule.grouped;
       ++i) {
    completion = communicator.queue(schedule.calls[i], deadline);
  }
  if (is_ok(completion)) completion = communicator.finish(deadline);
  if (is_ok(completion) && !schedule.after.empty()) {
    completion = communicator.queue(schedule.after);
    if (is_ok(completion)) completion = communicator.finish(deadline);
  }
  return completion;
}

}  // namespace lockstep::nccl
