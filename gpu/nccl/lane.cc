#include "lockstep/gpu/nccl/detail/lane.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/gpu/nccl/detail/schedule.h"

namespace lockstep::nccl {

namespace {

using peers::Bytes;
using peers::Completion;
using peers::Membership;
using peers::Operation;

/// What both ends must agree on. Copied as bytes between processes of one build.
struct Offer {
  std::int64_t count = 0;
  std::int32_t dtype = 0;
};

const Memory& memory_of(const Operation& operation) {
  return operation.signature.op == CollectiveOp::kSend ? operation.inputs.front()
                                                       : operation.outputs.front();
}

Offer offer_of(const Operation& operation) {
  const Memory& memory = memory_of(operation);
  return {memory.count, static_cast<std::int32_t>(memory.dtype)};
}

std::string text_of(const Offer& offer) {
  return std::to_string(offer.count) + " " + std::string(name_of(static_cast<DType>(offer.dtype)));
}

std::string text_of(const Bytes& bytes) {
  std::string text(bytes.size(), '\0');
  if (!bytes.empty()) std::memcpy(text.data(), bytes.data(), bytes.size());
  return text;
}

Membership pair_of(const Membership& group, std::int32_t from, std::int32_t to) {
  Membership pair = group;
  pair.size = 2;
  pair.world_ranks = {group.world_ranks[static_cast<std::size_t>(from)],
                      group.world_ranks[static_cast<std::size_t>(to)]};
  pair.rank = group.rank == from ? 0 : 1;
  return pair;
}

std::string lane_name(const Membership& pair) {
  return pair.name + ".from-" + std::to_string(pair.world_ranks[0]) + "-to-" +
         std::to_string(pair.world_ranks[1]);
}

}  // namespace

Lane::Lane(const DeviceContext& context,
           const Membership& group,
           std::int32_t from,
           std::int32_t to)
    : context_(context),
      pair_(pair_of(group, from, to)),
      sends_(group.rank == from),
      monitor_(pair_),
      store_(pair_.folder, lane_name(pair_), pair_.world_ranks[sends_ ? 0 : 1]),
      staging_(context.api),
      thread_([this] { loop(); }) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

std::shared_ptr<peers::Task> Lane::post(const Operation& operation, std::int64_t number) {
  const auto timeout = operation.timeout.count() > 0 ? operation.timeout : pair_.timeout;
  Message message = {.operation = operation,
                     .name = std::to_string(operation.signature.tag) + "-" + std::to_string(number),
                     .timeout = timeout,
                     .deadline = Clock::now() + timeout,
                     .task = std::make_shared<peers::Task>(nullptr)};
  std::shared_ptr<peers::Task> task = message.task;
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(message));
  }
  posted_.notify_one();
  return task;
}

void Lane::loop() {
  (void)context_.api->set_device(context_.device);
  std::deque<Message> waiting;
  peers::Backoff backoff;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (waiting.empty()) posted_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
      if (stopping_) break;
      for (Message& message : inbox_) waiting.push_back(std::move(message));
      inbox_.clear();
    }
    if (serve(waiting)) {
      backoff = {};
    } else {
      backoff.pause();
    }
  }
  for (std::deque<Message>* list : {&waiting, &inbox_}) {
    for (Message& message : *list) {
      message.task->finish({CommStatus::kAborted, "its group is gone"});
    }
  }
  communicator_.reset();
}

// Returns: whether anything happened.
bool Lane::serve(std::deque<Message>& waiting) {
  if (!is_ok(broken_)) {
    for (Message& message : waiting) message.task->finish(broken_);
    waiting.clear();
    return true;
  }
  for (Message& message : waiting) {
    if (sends_ && !message.offered) offer(message);
  }
  const bool moved = sends_ ? serve_accepted(waiting) : accept_offer(waiting);
  if (!moved) expire(waiting);
  return moved;
}

void Lane::offer(Message& message) {
  message.offered = true;
  const Offer offer = offer_of(message.operation);
  const Outcome pinned = store_.set("offer-" + message.name, std::as_bytes(std::span(&offer, 1)));
  if (!pinned.ok()) broken_ = {CommStatus::kAborted, pinned.error().text()};
}

// The receiver's side: the first message it waits for that was offered.
bool Lane::accept_offer(std::deque<Message>& waiting) {
  for (auto at = waiting.begin(); at != waiting.end(); ++at) {
    const std::string name = "offer-" + at->name;
    const std::optional<Bytes> bytes = store_.read(name);
    if (!bytes || bytes->size() != sizeof(Offer) || !store_.remove(name)) continue;
    Offer offered;
    std::memcpy(&offered, bytes->data(), sizeof offered);
    const Offer wanted = offer_of(at->operation);
    std::string verdict;
    if (offered.count != wanted.count || offered.dtype != wanted.dtype) {
      verdict = "rank " + std::to_string(pair_.world_ranks[0]) + " sends " + text_of(offered) +
                ", rank " + std::to_string(pair_.world_ranks[1]) + " receives " + text_of(wanted);
    }
    const Outcome taken = store_.set("taken-" + std::to_string(n_taken_++),
                                     peers::bytes_of(at->name + " " + verdict));
    Message message = std::move(*at);
    waiting.erase(at);
    if (!taken.ok()) broken_ = {CommStatus::kAborted, taken.error().text()};
    finish(message, verdict.empty() ? broken_ : Completion{CommStatus::kMismatch, verdict});
    return true;
  }
  return false;
}

// The sender's side: what the receiver took next.
bool Lane::serve_accepted(std::deque<Message>& waiting) {
  const std::string notice = "taken-" + std::to_string(n_taken_);
  const std::optional<Bytes> bytes = store_.read(notice);
  if (!bytes) return false;
  (void)store_.remove(notice);
  ++n_taken_;
  const std::string text = text_of(*bytes);
  const std::size_t cut = text.find(' ');
  const auto at = std::find_if(waiting.begin(), waiting.end(), [&](const Message& message) {
    return message.name == text.substr(0, cut);
  });
  if (at == waiting.end()) return false;
  Message message = std::move(*at);
  waiting.erase(at);
  const std::string verdict = text.substr(cut + 1);
  finish(message, verdict.empty() ? Completion{} : Completion{CommStatus::kMismatch, verdict});
  return true;
}

// Matched: both ends do this for the same message.
void Lane::finish(Message& message, const Completion& completion) {
  Completion result = completion;
  if (is_ok(result) && memory_of(message.operation).count > 0) {
    result = transfer(message.operation);
    if (!is_ok(result)) {
      if (communicator_) communicator_->abort();
      broken_ = result;
    }
  }
  message.task->finish(std::move(result));
}

// A peer leaves only after its last message, so look for that now.
bool Lane::may_withdraw(const Message& message, const Completion& completion) const {
  const std::string offer = "offer-" + message.name;
  if (!sends_) return completion.status != CommStatus::kPeerLost || !store_.read(offer);
  // What the receiver has taken meanwhile is no longer ours alone to give up.
  if (store_.remove(offer)) return true;
  return completion.status == CommStatus::kPeerLost &&
         !store_.read("taken-" + std::to_string(n_taken_));
}

// Why a message that has met no partner yet never will, or kOk.
Completion Lane::end_of(const Message& message, const Completion& failure, bool left) const {
  if (!is_ok(failure)) return failure;
  const std::string peer = "rank " + std::to_string(pair_.world_ranks[sends_ ? 1 : 0]);
  if (left) return {CommStatus::kPeerLost, peer + " has left the group"};
  if (Clock::now() < message.deadline) return {};
  return {CommStatus::kTimedOut,
          peer + (sends_ ? " did not receive" : " did not send") + " within " +
              std::to_string(message.timeout.count()) + " ms"};
}

void Lane::expire(std::deque<Message>& waiting) {
  const Completion failure = monitor_.failure();
  const bool left = monitor_.has_left(pair_.world_ranks[sends_ ? 1 : 0]);
  std::erase_if(waiting, [&](Message& message) {
    Completion completion = end_of(message, failure, left);
    if (is_ok(completion) || !may_withdraw(message, completion)) return false;
    message.task->finish(std::move(completion));
    return true;
  });
}

Completion Lane::connect(Deadline& deadline) {
  if (communicator_) return {};
  UniqueId id;
  if (sends_) {
    if (context_.api->get_unique_id(id) != Status::kSuccess) {
      return {CommStatus::kAborted, "ncclGetUniqueId: " + context_.api->last_error(nullptr)};
    }
    (void)store_.set("id", std::as_bytes(std::span(id.bytes)));
  } else {
    std::optional<Bytes> bytes;
    while (!(bytes = store_.read("id"))) {
      if (Completion over = deadline.pause(); !is_ok(over)) return over;
    }
    std::memcpy(id.bytes.data(), bytes->data(), std::min(bytes->size(), id.bytes.size()));
  }
  auto joined = Communicator::join(context_.api, 2, id, pair_.rank, deadline);
  if (!joined.ok()) return {CommStatus::kPeerLost, joined.error().text()};
  communicator_ = std::move(joined).value();
  return {};
}

Completion Lane::transfer(const Operation& operation) {
  Deadline deadline(monitor_, operation.timeout.count() > 0 ? operation.timeout : pair_.timeout);
  if (Completion connected = connect(deadline); !is_ok(connected)) return connected;
  Operation between = operation;
  between.signature.peer = sends_ ? 1 : 0;  // In the communicator of two.
  if (Completion begun = staging_.begin(between.inputs, between.outputs); !is_ok(begun))
    return begun;
  return run_schedule(
      *communicator_, schedule_of(between, pair_, RedOp::kSum, staging_), between, deadline);
}

}  // namespace lockstep::nccl
