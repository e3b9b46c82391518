#include "lockstep/nccl/detail/lane.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/nccl/detail/schedule.h"

namespace lockstep::nccl {

namespace {

using peers::Bytes;
using peers::Ending;
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

Lane::Lane(const Place& place, const Membership& group, std::int32_t from, std::int32_t to)
    : place_(place),
      pair_(pair_of(group, from, to)),
      sends_(group.rank == from),
      watch_(pair_),
      board_(pair_.folder, lane_name(pair_), pair_.world_ranks[sends_ ? 0 : 1]),
      staging_(place.api),
      thread_([this] { loop(); }) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
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
  (void)place_.api->set_device(place_.device);
  std::deque<Message> waiting;
  peers::Patience patience;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (waiting.empty()) posted_.wait(lock, [this] { return ending_ || !inbox_.empty(); });
      if (ending_) break;
      for (Message& message : inbox_) waiting.push_back(std::move(message));
      inbox_.clear();
    }
    if (serve(waiting)) {
      patience = {};
    } else {
      patience.pause();
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
  const bool moved = sends_ ? serve_taken(waiting) : take_offer(waiting);
  if (!moved) expire(waiting);
  return moved;
}

void Lane::offer(Message& message) {
  message.offered = true;
  const Offer offer = offer_of(message.operation);
  const Outcome pinned = board_.pin("offer-" + message.name, std::as_bytes(std::span(&offer, 1)));
  if (!pinned.ok()) broken_ = {CommStatus::kAborted, pinned.error().text()};
}

// The receiver's side: the first message it waits for that was offered.
bool Lane::take_offer(std::deque<Message>& waiting) {
  for (auto at = waiting.begin(); at != waiting.end(); ++at) {
    const std::string name = "offer-" + at->name;
    const std::optional<Bytes> bytes = board_.read(name);
    if (!bytes || bytes->size() != sizeof(Offer) || !board_.take_down(name)) continue;
    Offer offered;
    std::memcpy(&offered, bytes->data(), sizeof offered);
    const Offer wanted = offer_of(at->operation);
    std::string verdict;
    if (offered.count != wanted.count || offered.dtype != wanted.dtype) {
      verdict = "rank " + std::to_string(pair_.world_ranks[0]) + " sends " + text_of(offered) +
                ", rank " + std::to_string(pair_.world_ranks[1]) + " receives " + text_of(wanted);
    }
    const Outcome told = board_.pin("taken-" + std::to_string(n_taken_++),
                                    peers::bytes_of(at->name + " " + verdict));
    Message message = std::move(*at);
    waiting.erase(at);
    if (!told.ok()) broken_ = {CommStatus::kAborted, told.error().text()};
    finish(message, verdict.empty() ? broken_ : Ending{CommStatus::kMismatch, verdict});
    return true;
  }
  return false;
}

// The sender's side: what the receiver took next.
bool Lane::serve_taken(std::deque<Message>& waiting) {
  const std::string notice = "taken-" + std::to_string(n_taken_);
  const std::optional<Bytes> bytes = board_.read(notice);
  if (!bytes) return false;
  (void)board_.take_down(notice);
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
  finish(message, verdict.empty() ? Ending{} : Ending{CommStatus::kMismatch, verdict});
  return true;
}

// Matched: both ends do this for the same message.
void Lane::finish(Message& message, const Ending& ending) {
  Ending result = ending;
  if (is_ok(result) && memory_of(message.operation).count > 0) {
    result = transfer(message.operation);
    if (!is_ok(result)) {
      if (communicator_) communicator_->abort();
      broken_ = result;
    }
  }
  message.task->finish(std::move(result));
}

// Who left did so after its last word, so that is looked for now.
bool Lane::may_give_up(const Message& message, const Ending& ending) const {
  const std::string offer = "offer-" + message.name;
  if (!sends_) return ending.status != CommStatus::kPeerLost || !board_.read(offer);
  // What the receiver has taken meanwhile is no longer ours alone to give up.
  if (board_.take_down(offer)) return true;
  return ending.status == CommStatus::kPeerLost &&
         !board_.read("taken-" + std::to_string(n_taken_));
}

// Why a message that has met no partner yet never will, or kOk.
Ending Lane::end_of(const Message& message, const Ending& trouble, bool left) const {
  if (!is_ok(trouble)) return trouble;
  const std::string peer = "rank " + std::to_string(pair_.world_ranks[sends_ ? 1 : 0]);
  if (left) return {CommStatus::kPeerLost, peer + " has left the group"};
  if (Clock::now() < message.deadline) return {};
  return {CommStatus::kTimedOut,
          peer + (sends_ ? " did not receive" : " did not send") + " within " +
              std::to_string(message.timeout.count()) + " ms"};
}

void Lane::expire(std::deque<Message>& waiting) {
  const Ending trouble = watch_.trouble();
  const bool left = watch_.has_left(pair_.world_ranks[sends_ ? 1 : 0]);
  std::erase_if(waiting, [&](Message& message) {
    Ending ending = end_of(message, trouble, left);
    if (is_ok(ending) || !may_give_up(message, ending)) return false;
    message.task->finish(std::move(ending));
    return true;
  });
}

Ending Lane::connect(Vigil& vigil) {
  if (communicator_) return {};
  UniqueId id;
  if (sends_) {
    if (place_.api->get_unique_id(id) != Status::kSuccess) {
      return {CommStatus::kAborted, "ncclGetUniqueId: " + place_.api->last_error(nullptr)};
    }
    (void)board_.pin("id", std::as_bytes(std::span(id.bytes)));
  } else {
    std::optional<Bytes> bytes;
    while (!(bytes = board_.read("id"))) {
      if (Ending over = vigil.pause(); !is_ok(over)) return over;
    }
    std::memcpy(id.bytes.data(), bytes->data(), std::min(bytes->size(), id.bytes.size()));
  }
  auto joined = Communicator::join(place_.api, 2, id, pair_.rank, vigil);
  if (!joined.ok()) return {CommStatus::kPeerLost, joined.error().text()};
  communicator_ = std::move(joined).value();
  return {};
}

Ending Lane::transfer(const Operation& operation) {
  Vigil vigil(watch_, operation.timeout.count() > 0 ? operation.timeout : pair_.timeout);
  if (Ending connected = connect(vigil); !is_ok(connected)) return connected;
  Operation between = operation;
  between.signature.peer = sends_ ? 1 : 0;  // In the communicator of two.
  if (Ending begun = staging_.begin(between.inputs, between.outputs); !is_ok(begun)) return begun;
  return run_schedule(
      *communicator_, schedule_of(between, pair_, RedOp::kSum, staging_), between, vigil);
}

}  // namespace lockstep::nccl
