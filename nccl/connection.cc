#include "lockstep/nccl/detail/connection.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "lockstep/dist/detail/scaled_sum.h"
#include "lockstep/nccl/detail/lane.h"
#include "lockstep/nccl/detail/schedule.h"
#include "lockstep/nccl/detail/staging.h"
#include "lockstep/nccl/result_text.h"
#include "lockstep/peers/agreement.h"
#include "lockstep/tensor/half.h"

namespace lockstep::nccl {

namespace {

using peers::Connection;
using peers::Ending;
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

  Ending wait() override { return task_->wait(); }

 private:
  std::shared_ptr<peers::Task> task_;
};

class NcclConnection final : public Connection {
 public:
  NcclConnection(const Place& place,
                 const Membership& member,
                 std::unique_ptr<Communicator> communicator)
      : place_(place),
        member_(member),
        watch_(member_),
        communicator_(std::move(communicator)),
        staging_(place.api) {}

  ~NcclConnection() override {
    watch_.sign_out();
    (void)place_.api->set_device(place_.device);
  }

  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;
  NcclConnection(NcclConnection&&) = delete;
  NcclConnection& operator=(NcclConnection&&) = delete;

  std::string refusal(const Signature& signature) const override { return refusal_of(signature); }

  std::shared_ptr<peers::Token> mark() override;
  Ending run(const Operation& operation) override;
  std::unique_ptr<Message> start(const Operation& operation) override;
  Result<std::int64_t> largest(std::int64_t number, std::uint32_t tag) override;
  Result<std::shared_ptr<Connection>> split(const Membership& member) override;

 private:
  std::chrono::milliseconds timeout_of(const Operation& operation) const {
    return operation.timeout.count() > 0 ? operation.timeout : member_.timeout;
  }

  Ending agree(const Operation& operation);
  Ending perform(const Operation& operation);
  Ending perform_premul(const Operation& operation, Vigil& vigil);
  Ending perform_with(RedOp op, const Operation& operation, Vigil& vigil);
  Ending break_off(const std::string& what, Ending ending);

  Place place_;
  Membership member_;
  peers::Watch watch_;
  std::unique_ptr<Communicator> communicator_;
  Staging staging_;
  std::int64_t round_ = 0;
  Ending broken_;

  std::mutex lanes_mutex_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::unique_ptr<Lane>> lanes_;
};

/// An event on the compute stream, at the moment of posting.
class ComputeMark final : public peers::Token {
 public:
  explicit ComputeMark(const Place& place) : api_(place.api) {
    (void)api_->set_device(place.device);
    if (api_->create_event(event_) != CudaStatus::kSuccess) event_ = nullptr;
    if (event_ != nullptr) (void)api_->record_event(event_, place.compute);
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
  return std::make_shared<ComputeMark>(place_);
}

std::string operation_text(const Operation& operation, const Membership& member) {
  const Signature& signature = operation.signature;
  std::string text(name_of(signature.op));
  if (signature.op != CollectiveOp::kBarrier) {
    text += " of " + std::to_string(signature.count) + " " + std::string(name_of(signature.dtype));
  }
  return text + " on " + peers::listed_ranks(member.world_ranks);
}

// Whoever gives up takes its communicator down and says so: the others would wait for ever.
Ending NcclConnection::break_off(const std::string& what, Ending ending) {
  ending.detail = what + ": " + ending.detail;
  watch_.give_up(ending.detail);
  communicator_->abort();
  ending.detail += "; its communicator was aborted";
  broken_ = ending;
  return ending;
}

Ending NcclConnection::run(const Operation& operation) {
  if (!is_ok(broken_)) {
    return {CommStatus::kPeerLost, "the group is broken since: " + broken_.detail};
  }
  (void)place_.api->set_device(place_.device);
  const std::string what = operation_text(operation, member_);
  Ending trouble = watch_.trouble();
  if (is_ok(trouble) && member_.check_signatures) trouble = agree(operation);
  if (trouble.status == CommStatus::kMismatch) return trouble;  // Nothing was begun.
  if (is_ok(trouble)) trouble = perform(operation);
  return is_ok(trouble) ? trouble : break_off(what, std::move(trouble));
}

Ending NcclConnection::agree(const Operation& operation) {
  const std::vector<std::byte> own = peers::declare(operation.signature,
                                                    operation.inputs,
                                                    operation.outputs,
                                                    static_cast<std::size_t>(member_.size));
  peers::RollCall roll = peers::call_roll(watch_, member_, round_++, own, timeout_of(operation));
  if (!is_ok(roll.ending)) return std::move(roll.ending);
  std::string text = peers::disagreement_between(roll.all, member_.world_ranks);
  if (text.empty()) return {};
  return {CommStatus::kMismatch, std::move(text)};
}

Ending NcclConnection::perform(const Operation& operation) {
  Vigil vigil(watch_, timeout_of(operation));
  if (Ending begun = staging_.begin(operation.inputs, operation.outputs); !is_ok(begun)) {
    return begun;
  }
  const Signature& signature = operation.signature;
  if (signature.reduce == ReduceOp::kPremulSum) return perform_premul(operation, vigil);
  // Alone, an average is a sum, and NCCL 2.28 leaves elements out when it averages alone.
  const bool alone = member_.size == 1 && signature.reduce == ReduceOp::kAvg;
  const ReduceOp reduce = alone ? ReduceOp::kSum : signature.reduce;
  return perform_with(red_op_of(reduce, signature.dtype), operation, vigil);
}

Ending NcclConnection::perform_premul(const Operation& operation, Vigil& vigil) {
  const Signature& signature = operation.signature;
  const peers::Bytes scalar = scalar_of(signature.premul, signature.dtype);
  RedOp op = RedOp::kSum;
  const Status made = place_.api->create_premul_sum(
      op, scalar.data(), type_of(signature.dtype), communicator_->handle());
  if (made != Status::kSuccess) {
    return {CommStatus::kAborted,
            describe(*place_.api, "ncclRedOpCreatePreMulSum", made, communicator_->handle())};
  }
  Ending ending = perform_with(op, operation, vigil);
  if (is_ok(ending)) (void)place_.api->destroy_op(op, communicator_->handle());
  return ending;
}

Ending NcclConnection::perform_with(RedOp op, const Operation& operation, Vigil& vigil) {
  return run_schedule(
      *communicator_, schedule_of(operation, member_, op, staging_), operation, vigil);
}

std::unique_ptr<Connection::Message> NcclConnection::start(const Operation& operation) {
  const std::int32_t peer = operation.signature.peer;
  const bool sends = operation.signature.op == CollectiveOp::kSend;
  const auto ends = sends ? std::pair(member_.rank, peer) : std::pair(peer, member_.rank);
  const std::lock_guard lock(lanes_mutex_);
  std::unique_ptr<Lane>& lane = lanes_[ends];
  if (!lane) lane = std::make_unique<Lane>(place_, member_, ends.first, ends.second);
  return std::make_unique<MessageOnLane>(lane->post(operation, operation.tag));
}

Result<std::int64_t> NcclConnection::largest(std::int64_t number, std::uint32_t /*tag*/) {
  if (!is_ok(broken_)) return Error{"the group is broken since: " + broken_.detail, {}};
  const peers::RollCall roll =
      peers::call_roll(watch_, member_, round_++, raw(number), member_.timeout);
  if (!is_ok(roll.ending)) {
    return Error{break_off("making a group", roll.ending).detail, {}};
  }
  std::int64_t largest = number;
  for (std::size_t at = 0; at < roll.all.size(); at += sizeof number) {
    std::int64_t other = 0;
    std::memcpy(&other, roll.all.data() + at, sizeof other);
    largest = std::max(largest, other);
  }
  return largest;
}

Result<std::shared_ptr<Connection>> NcclConnection::split(const Membership& member) {
  (void)place_.api->set_device(place_.device);
  Vigil vigil(watch_, member_.timeout);
  constexpr std::int32_t kLeftOut = -1;
  auto part = communicator_->split(member.rank < 0 ? kLeftOut : 0, std::max(member.rank, 0), vigil);
  if (!part.ok()) {
    return Error{break_off("making a group", {CommStatus::kAborted, part.error().text()}).detail,
                 {}};
  }
  if (member.rank < 0) return std::shared_ptr<Connection>();
  return make_connection(place_, member, std::move(part).value());
}

}  // namespace

std::shared_ptr<Connection> make_connection(const Place& place,
                                            const Membership& member,
                                            std::unique_ptr<Communicator> communicator) {
  return std::make_shared<NcclConnection>(place, member, std::move(communicator));
}

// What comes back is queued when the operation has ended, not before: a copy to memory of the host
// may wait inside CUDA, where nobody watches the clock.
Ending run_schedule(Communicator& communicator,
                    const Schedule& schedule,
                    const Operation& operation,
                    Vigil& vigil) {
  const auto* mark = static_cast<const ComputeMark*>(operation.token.get());
  Ending ending = communicator.begin_after(mark == nullptr ? nullptr : mark->event());
  if (is_ok(ending)) ending = communicator.queue(schedule.before);
  if (is_ok(ending) && schedule.grouped) ending = communicator.queue_group(schedule.calls, vigil);
  for (std::size_t i = 0; i < schedule.calls.size() && is_ok(ending) && !schedule.grouped; ++i) {
    ending = communicator.queue(schedule.calls[i], vigil);
  }
  if (is_ok(ending)) ending = communicator.finish(vigil);
  if (is_ok(ending) && !schedule.after.empty()) {
    ending = communicator.queue(schedule.after);
    if (is_ok(ending)) ending = communicator.finish(vigil);
  }
  return ending;
}

}  // namespace lockstep::nccl
